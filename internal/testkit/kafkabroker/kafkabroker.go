// Package kafkabroker runs a real Apache Kafka broker for tests: one node on
// 127.0.0.1, from jars that Maven fetches once into the user's cache directory.
// The demo broker is faster; this one is what Kafka does. kafka.sh does the work and can be
// used by hand; it needs Java 17 or later and installs it on Debian as root.
package kafkabroker

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

//go:embed kafka.sh pom.xml
var files embed.FS

// User and Password log in at SASLAddr with PLAIN or SCRAM.
const (
	User     = "test"
	Password = "test-secret"
)

// Broker is a broker of one test. Its methods fail the test on an error.
type Broker struct {
	t      testing.TB
	script string
	dir    string
	port   int
	args   []string // flags and settings, the same at every start
}

// Start installs Kafka if need be and starts a broker, which ends with the test.
// Args are the flags --sasl and --tls, and settings name=value.
func Start(t testing.TB, args ...string) *Broker {
	t.Helper()
	bin := t.TempDir()
	for _, name := range []string{"kafka.sh", "pom.xml"} {
		b, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bin, name), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b := &Broker{t: t, script: filepath.Join(bin, "kafka.sh"), dir: t.TempDir(), port: freePorts(t, 4), args: args}
	t.Cleanup(func() {
		if t.Failed() {
			if log, err := os.ReadFile(filepath.Join(b.dir, "server.log")); err == nil {
				t.Logf("end of the broker's log:\n%s", log[max(0, len(log)-4000):])
			}
		}
		b.run(context.Background(), nil, "kill", b.dir)
	})
	b.Restart()
	return b
}

// freePorts finds n free ports in a row and gives the first.
func freePorts(t testing.TB, n int) int {
	for try := range 100 {
		first := 20000 + (os.Getpid()*7+try*101)%10000
		free := true
		for p := first; p < first+n && free; p++ {
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
			if free = err == nil; free {
				l.Close()
			}
		}
		if free {
			return first
		}
	}
	t.Fatal("no free ports")
	return 0
}

// Addr is the plain listener.
func (b *Broker) Addr() string { return b.addr(0) }

// SASLAddr is there with --sasl, TLSAddr with --tls.
func (b *Broker) SASLAddr() string { return b.addr(2) }
func (b *Broker) TLSAddr() string  { return b.addr(3) }

func (b *Broker) addr(n int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port+n))
}

// CAFile holds the certificate to trust at TLSAddr.
func (b *Broker) CAFile() string { return filepath.Join(b.dir, "ca.pem") }

// Restart starts the broker after Stop or Kill, with the data it had.
func (b *Broker) Restart() {
	b.t.Helper()
	b.must(nil, append([]string{"start", b.dir, strconv.Itoa(b.port)}, b.args...)...)
}

// Stop shuts the broker down in order.
func (b *Broker) Stop() {
	b.t.Helper()
	b.must(nil, "stop", b.dir)
}

// Kill ends the broker at once.
func (b *Broker) Kill() {
	b.t.Helper()
	b.must(nil, "kill", b.dir)
}

// Tool runs a class of org.apache.kafka.tools on the broker, with stdin.
func (b *Broker) Tool(stdin string, class string, args ...string) string {
	b.t.Helper()
	return b.must([]byte(stdin), append([]string{"tool", b.dir, class}, args...)...)
}

func (b *Broker) must(stdin []byte, args ...string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 5*time.Minute)
	defer cancel()
	out, err := b.run(ctx, stdin, args...)
	if err != nil {
		b.t.Fatalf("kafka.sh %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (b *Broker) run(ctx context.Context, stdin []byte, args ...string) (string, error) {
	// The broker stays behind the script and must not keep its output open, so
	// that goes to a file.
	out, err := os.CreateTemp("", "kafka-sh")
	if err != nil {
		return "", err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	cmd := exec.CommandContext(ctx, "bash", append([]string{b.script}, args...)...)
	cmd.Env = append(os.Environ(), fmt.Sprint("WEIR_KAFKA_OWNER=", os.Getpid())) // a test that crashes leaves no broker
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	text, readErr := os.ReadFile(out.Name())
	if err == nil {
		err = readErr
	}
	return string(text), err
}

// CreateTopic creates a topic and waits until its partitions have leaders.
func (b *Broker) CreateTopic(name string, partitions int, configs map[string]string) {
	b.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 30_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, int32(partitions), 1
	for k, v := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = k, new(v)
		t.Configs = append(t.Configs, c)
	}
	req.Topics = append(req.Topics, t)
	b.request(func(ctx context.Context, cl *kgo.Client) error {
		res, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(res.Topics[0].ErrorCode)
	})
	b.request(func(ctx context.Context, cl *kgo.Client) error { return led(ctx, cl, name, partitions) })
}

func led(ctx context.Context, cl *kgo.Client, name string, partitions int) error {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = new(name)
	req.Topics = append(req.Topics, t)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		res, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		n := 0
		for _, p := range res.Topics[0].Partitions {
			if p.Leader >= 0 {
				n++
			}
		}
		if n == partitions {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d partitions have a leader: %w", n, partitions, ctx.Err())
		}
	}
}

// DeleteTopic deletes a topic.
func (b *Broker) DeleteTopic(name string) {
	b.t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 30_000
	req.TopicNames = []string{name}
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = new(name)
	req.Topics = append(req.Topics, t)
	b.request(func(ctx context.Context, cl *kgo.Client) error {
		res, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(res.Topics[0].ErrorCode)
	})
}

// DeleteRecords removes a partition's records before an offset.
func (b *Broker) DeleteRecords(topic string, partition int32, before int64) {
	b.t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 30_000
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = topic
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = partition, before
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	b.request(func(ctx context.Context, cl *kgo.Client) error {
		res, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(res.Topics[0].Partitions[0].ErrorCode)
	})
}

func (b *Broker) request(f func(context.Context, *kgo.Client) error) {
	b.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
	if err != nil {
		b.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	if err := f(ctx, cl); err != nil {
		b.t.Fatal(err)
	}
}
