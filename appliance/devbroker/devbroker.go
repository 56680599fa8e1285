// Package devbroker runs a Kafka broker inside this process, for the demo and
// for tests. It speaks the real protocol on a real port, keeps its topics in a
// directory if given one, and forgets the oldest records before a disk fills.
//
// It is twmb/franz-go's kfake: a test double, not a place for data that matters.
// It has one node, replicates nothing, and does not sync what it writes.
package devbroker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Options are all optional.
type Options struct {
	// Addr is the host:port to listen on; empty is 127.0.0.1 and a free port.
	Addr string

	// Advertise is the host:port that clients are told to connect to, when it is
	// not Addr: the name of a container, for one.
	Advertise string

	// Dir keeps topics across restarts. Empty keeps all records in memory.
	Dir string

	// Partitions of a topic that is created without a number of its own, 4.
	Partitions int

	// RetentionBytes bounds each partition, 256 MiB: a little more is there
	// until the oldest records are removed, which is tried every two
	// seconds. Records are not removed for their age.
	RetentionBytes int64

	TLS *tls.Config

	// Listen replaces net.Listen, for tests.
	Listen func(network, address string) (net.Listener, error)

	// Kafka are more options of kfake, for tests.
	Kafka []kfake.Opt
}

// retainEvery is how often old records are removed.
const retainEvery = 2 * time.Second

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	addr    string
	stop    context.CancelFunc
	wg      sync.WaitGroup
	close   sync.Once
}

// Start starts a broker. Close it.
func Start(o Options) (*Broker, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if o.Partitions <= 0 {
		o.Partitions = 4
	}
	if o.RetentionBytes <= 0 {
		o.RetentionBytes = 256 << 20
	}
	if o.Listen == nil {
		o.Listen = net.Listen
	}
	listen := func(network, _ string) (net.Listener, error) {
		l, err := o.Listen(network, o.Addr)
		if err != nil || o.Advertise == "" {
			return l, err
		}
		return advertised{l, named(o.Advertise)}, nil
	}
	opts := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.Ports(0), // listen knows better
		kfake.ListenFn(listen),
		kfake.DefaultNumPartitions(o.Partitions),
		kfake.BrokerConfigs(map[string]string{
			"log.retention.bytes": strconv.FormatInt(o.RetentionBytes, 10),
			"log.retention.ms":    "-1",
			// Disk is freed a segment at a time.
			"log.segment.bytes": strconv.FormatInt(min(max(o.RetentionBytes/4, 1<<20), 16<<20), 10),
		}),
	}
	if o.Dir != "" {
		opts = append(opts, kfake.DataDir(o.Dir))
	}
	if o.TLS != nil {
		opts = append(opts, kfake.TLS(o.TLS))
	}
	cluster, err := kfake.NewCluster(append(opts, o.Kafka...)...)
	if err != nil {
		return nil, fmt.Errorf("start the demo broker on %s: %w", o.Addr, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	b := &Broker{cluster: cluster, addr: cluster.ListenAddrs()[0], stop: stop}
	b.wg.Go(func() { b.retain(ctx) })
	return b, nil
}

func (b *Broker) retain(ctx context.Context) {
	t := time.NewTicker(retainEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			b.cluster.ApplyRetention()
		case <-ctx.Done():
			return
		}
	}
}

// Addr is the host:port for clients.
func (b *Broker) Addr() string { return b.addr }

// Cluster is the broker itself, for tests that have it misbehave.
func (b *Broker) Cluster() *kfake.Cluster { return b.cluster }

// CreateTopic creates a topic if it is not there. Configs are Kafka's topic
// settings, such as cleanup.policy; partitions of 0 takes the default.
func (b *Broker) CreateTopic(ctx context.Context, name string, partitions int, configs map[string]string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.cluster.TopicInfo(name) != nil {
		return nil
	}
	if partitions == 0 {
		partitions = -1
	}
	if err := b.cluster.CreateTopic(name, int32(partitions), configs); err != nil {
		return fmt.Errorf("create topic %q: %w", name, err)
	}
	return nil
}

// DeleteTopic deletes a topic and its records.
func (b *Broker) DeleteTopic(name string) error {
	if err := b.cluster.DeleteTopic(name); err != nil {
		return fmt.Errorf("delete topic %q: %w", name, err)
	}
	return nil
}

// Close stops the broker. Topics in Dir are there at the next Start.
func (b *Broker) Close() error {
	err := errors.New("the demo broker is closed already")
	b.close.Do(func() {
		b.stop()
		b.wg.Wait()
		b.cluster.Close()
		err = nil
	})
	return err
}

// advertised is a listener whose address is another's to use.
type advertised struct {
	net.Listener
	addr net.Addr
}

func (l advertised) Addr() net.Addr { return l.addr }

type named string

func (named) Network() string  { return "tcp" }
func (n named) String() string { return string(n) }
