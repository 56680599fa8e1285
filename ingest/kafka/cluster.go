package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/sasl"
)

// requestTimeout bounds every request but a fetch, which adds its own wait.
const requestTimeout = 15 * time.Second

// Options says how to reach a cluster. Only Brokers is needed.
type Options struct {
	Brokers  []string // host or host:port (9092) of one or more brokers; the others are found through them
	TLS      *tls.Config
	SASL     sasl.Mechanism
	ClientID string // as brokers log it, "weir" when empty
	Logger   *slog.Logger

	// Dial opens connections; nil is a net.Dialer with a timeout of 3 s.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Cluster is a pool of connections to the brokers of a Kafka cluster. It is
// safe for concurrent use.
type Cluster struct {
	brokers   []string
	log       *slog.Logger
	addr      net.Addr
	transport *kafkago.Transport
	cancel    context.CancelFunc

	conns struct {
		sync.Mutex
		open   map[*conn]struct{}
		closed bool
	}
}

// Dial returns a Cluster. It connects at the first request, so brokers that
// can't be reached are that request's error.
func Dial(o Options) *Cluster {
	ctx, cancel := context.WithCancel(context.Background())
	c := &Cluster{log: o.Logger, cancel: cancel}
	c.conns.open = map[*conn]struct{}{}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	for _, b := range o.Brokers {
		b = strings.TrimSpace(b)
		if _, _, err := net.SplitHostPort(b); err != nil {
			b = net.JoinHostPort(strings.Trim(b, "[]"), "9092")
		}
		c.brokers = append(c.brokers, b)
	}
	dial := o.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 3 * time.Second}).DialContext
	}
	clientID := o.ClientID
	if clientID == "" {
		clientID = "weir"
	}
	c.addr = kafkago.TCP(c.brokers...)
	c.transport = &kafkago.Transport{
		Dial:        c.track(dial),
		ClientID:    clientID,
		TLS:         o.TLS,
		SASL:        o.SASL,
		Context:     ctx,
		MetadataTTL: 2 * time.Second,
		// The transport needs to know the brokers and no topic: an empty list
		// asks for none, nil would ask for all of them every second.
		MetadataTopics: []string{},
	}
	return c
}

// Close ends every connection. Readers must be closed before.
func (c *Cluster) Close() {
	c.cancel()
	c.transport.CloseIdleConnections()
	c.conns.Lock()
	c.conns.closed = true
	open := c.conns.open
	c.conns.open = nil
	c.conns.Unlock()
	for n := range open {
		n.Conn.Close()
	}
}

// conn is a connection that Close can end while kafka-go waits on it.
type conn struct {
	net.Conn
	cluster *Cluster
}

func (n *conn) Close() error {
	n.cluster.conns.Lock()
	delete(n.cluster.conns.open, n)
	n.cluster.conns.Unlock()
	return n.Conn.Close()
}

func (c *Cluster) track(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		n := &conn{Conn: raw, cluster: c}
		c.conns.Lock()
		defer c.conns.Unlock()
		if c.conns.closed {
			raw.Close()
			return nil, net.ErrClosed
		}
		c.conns.open[n] = struct{}{}
		return n, nil
	}
}

// errNoBrokers is the transport's state before any broker has answered.
var errNoBrokers = errors.New("no broker has answered")

// errUnknownBroker is a leader that the transport has not heard of yet.
var errUnknownBroker = errors.New("the partition's leader is not among the known brokers")

// do sends a request. Errors of the connection become a ConnectError or an
// AuthError.
func (c *Cluster) do(ctx context.Context, timeout time.Duration, req func(context.Context) protocol.Message) (protocol.Message, error) {
	if len(c.brokers) == 0 {
		return nil, &ConnectError{Err: errors.New("no broker is given")}
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	res, err := c.transport.RoundTrip(limited, c.addr, req(limited))
	switch {
	case err == nil:
		return res, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, errNoBrokers):
		// The transport kept the cause from us: it is the answer to a
		// metadata request, which it gives from its cache.
		if _, cause := c.transport.RoundTrip(limited, c.addr, &metadata.Request{TopicNames: []string{}}); cause != nil {
			err = cause
		}
	case errors.Is(err, errUnknownBroker):
		c.transport.CloseIdleConnections() // the next request learns the brokers anew
	}
	if isOurs(err) {
		return nil, err
	}
	if limited.Err() != nil {
		err = fmt.Errorf("no answer in %v", timeout)
	}
	return nil, connectError(c.brokers, err)
}
