package web

import (
	"net"
	"time"
)

// patient gives the connections of a listener a deadline for each write. The
// server's own WriteTimeout is one for a whole answer, which would cut every
// stream; this cuts a client that has stopped reading, and no other.
type patient struct {
	net.Listener
	write time.Duration
}

// Accept waits for a connection.
func (l patient) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if t, ok := c.(*net.TCPConn); ok {
		return &conn{t, l.write}, nil
	}
	return c, nil
}

// conn embeds the TCP connection itself, so that the API can look at its socket.
type conn struct {
	*net.TCPConn
	write time.Duration
}

// Write writes within the deadline or fails.
func (c *conn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.write)); err != nil {
		return 0, err
	}
	return c.TCPConn.Write(p)
}
