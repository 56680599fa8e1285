//go:build unix

package queryable

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// peekEvery is how often a connection is looked at. A client's leaving is seen
// within it.
const peekEvery = 50 * time.Millisecond

// watch calls gone once when the peer of the connection has closed or reset it,
// and ends with ctx. fasthttp never tells: it does not read while a handler or
// a stream runs, so the socket is looked at from the side, without taking
// anything from it. A peer that sent another request ahead is not seen to leave
// before that is read.
func watch(ctx context.Context, conn net.Conn, gone func()) {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	tick := time.NewTicker(peekEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if left(raw) {
			gone()
			return
		}
	}
}

// left peeks at the socket. It uses Control, not Read: Read would fail once the
// deadline for reading the request has passed.
func left(raw syscall.RawConn) bool {
	var n int
	var peekErr error
	var buf [1]byte
	err := raw.Control(func(fd uintptr) {
		n, _, peekErr = syscall.Recvfrom(int(fd), buf[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	switch {
	case err != nil: // closed on our side
		return true
	case peekErr == nil:
		return n == 0
	case errors.Is(peekErr, syscall.EAGAIN), errors.Is(peekErr, syscall.EINTR):
		return false
	}
	return true
}
