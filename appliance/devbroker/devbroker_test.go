package devbroker

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func start(t *testing.T, o Options) *Broker {
	t.Helper()
	b, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func send(t *testing.T, b *Broker, o ProducerOptions, n int, topic string, value []byte) {
	t.Helper()
	o.Brokers = []string{b.Addr()}
	p, err := NewProducer(o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	recs := make([]*Record, n)
	for i := range recs {
		recs[i] = &Record{Topic: topic, Key: fmt.Append(nil, i), Value: value}
	}
	if err := p.Send(t.Context(), recs...); err != nil {
		t.Fatal(err)
	}
}

func count(b *Broker, topic string) (n int64) {
	for _, p := range b.Cluster().PartitionInfos(topic) {
		n += p.HighWatermark
	}
	return n
}

func TestTopicsAndRecordsSurviveRestart(t *testing.T) {
	dir := t.TempDir()
	b := start(t, Options{Dir: dir})
	if err := b.CreateTopic(t.Context(), "orders", 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := b.CreateTopic(t.Context(), "orders", 0, nil); err != nil {
		t.Fatal("creating it again:", err)
	}
	if n := len(b.Cluster().PartitionInfos("orders")); n != 4 {
		t.Fatalf("%d partitions", n)
	}
	id := b.Cluster().TopicInfo("orders").TopicID
	send(t, b, ProducerOptions{Codec: "zstd"}, 100, "orders", []byte("x"))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err == nil {
		t.Error("a second Close succeeds")
	}

	b = start(t, Options{Dir: dir})
	if n := count(b, "orders"); n != 100 {
		t.Errorf("%d records after a restart", n)
	}
	if b.Cluster().TopicInfo("orders").TopicID != id {
		t.Error("another topic id after a restart")
	}
}

func TestRetentionFreesDisk(t *testing.T) {
	dir := t.TempDir()
	b := start(t, Options{Dir: dir, Partitions: 1, RetentionBytes: 4 << 20})
	if err := b.CreateTopic(t.Context(), "t", 1, nil); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		send(t, b, ProducerOptions{Client: []kgo.Opt{kgo.ProducerBatchMaxBytes(1 << 20)}}, 10, "t", make([]byte, 100<<10))
	}
	b.Cluster().ApplyRetention()
	p := b.Cluster().PartitionInfo("t", 0)
	if p.HighWatermark != 200 || p.LogStartOffset == 0 || p.NumBytes > 4<<20 {
		t.Errorf("after 20 MB: %+v", p)
	}
	size := int64(0)
	err := filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			size += info.Size()
		}
		return err
	})
	if err != nil || size > 8<<20 {
		t.Errorf("%d bytes on disk, %v", size, err)
	}
}

func TestAdvertise(t *testing.T) {
	b := start(t, Options{Advertise: "broker.example:9092"})
	if b.Addr() != "broker.example:9092" {
		t.Error(b.Addr())
	}
}

func TestAddrInUse(t *testing.T) {
	b := start(t, Options{})
	if other, err := Start(Options{Addr: b.Addr()}); err == nil {
		other.Close()
		t.Error("two brokers on one port")
	}
}

func TestTransactions(t *testing.T) {
	b := start(t, Options{Partitions: 1})
	if err := b.CreateTopic(t.Context(), "t", 1, nil); err != nil {
		t.Fatal(err)
	}
	p, err := NewProducer(ProducerOptions{Brokers: []string{b.Addr()}, TransactionID: "x", Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, end := range []func() error{
		func() error { return p.Commit(t.Context()) },
		func() error { return p.Abort(t.Context()) },
	} {
		if err := p.Begin(); err != nil {
			t.Fatal(err)
		}
		if err := p.Send(t.Context(), &Record{Topic: "t", Value: []byte("v")}); err != nil {
			t.Fatal(err)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	if info := b.Cluster().PartitionInfo("t", 0); info.HighWatermark != 4 || info.LastStableOffset != 4 {
		t.Errorf("%+v", info) // two records, two markers
	}
	if _, err := NewProducer(ProducerOptions{Codec: "brotli"}); err == nil {
		t.Error("codec brotli accepted")
	}
}
