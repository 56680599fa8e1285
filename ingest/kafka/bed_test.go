package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/appliance/devbroker"
)

// bed is a demo broker and a Cluster on it. In a bubble they are on a network
// of their own, where waiting takes no time and a goroutine that is left
// behind fails the test.
type bed struct {
	*testing.T
	net    *kfake.VirtualNetwork
	broker *devbroker.Broker
	addr   string
	c      *Cluster
	ctx    context.Context // of a bubble: a reader that never arrives must not turn for ever
}

func (b *bed) Context() context.Context {
	if b.ctx != nil {
		return b.ctx
	}
	return b.T.Context()
}

// bubble runs f with a bed whose time is virtual.
func bubble(t *testing.T, f func(*bed), opts ...kfake.Opt) {
	t.Helper()
	bubbleOn(t, new(kfake.VirtualNetwork), f, opts...)
}

func bubbleOn(t *testing.T, net *kfake.VirtualNetwork, f func(*bed), opts ...kfake.Opt) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		b := &bed{T: t, net: net, ctx: ctx}
		b.start(opts...)
		f(b)
	})
}

func (b *bed) start(opts ...kfake.Opt) {
	b.Helper()
	broker, err := devbroker.Start(devbroker.Options{Addr: "127.0.0.1:9092", Listen: b.net.Listen, Kafka: opts})
	if err != nil {
		b.Fatal(err)
	}
	b.broker, b.addr = broker, broker.Addr()
	b.c = b.dial(Options{})
	b.Cleanup(func() { broker.Close() })
}

func (b *bed) dial(o Options) *Cluster {
	if o.Brokers == nil {
		o.Brokers = []string{b.addr}
	}
	if b.net != nil {
		o.Dial = b.net.DialContext
	}
	o.Logger = slog.New(slog.NewTextHandler(b.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := Dial(o)
	b.Cleanup(c.Close)
	return c
}

func (b *bed) create(topic string, partitions int) TopicInfo {
	b.Helper()
	if err := b.broker.CreateTopic(b.Context(), topic, partitions, nil); err != nil {
		b.Fatal(err)
	}
	return b.topic(topic)
}

func (b *bed) topic(topic string) TopicInfo {
	b.Helper()
	info, err := b.c.Topic(b.Context(), topic)
	if err != nil {
		b.Fatal(err)
	}
	return info
}

func (b *bed) producer(o devbroker.ProducerOptions) *devbroker.Producer {
	b.Helper()
	o.Brokers, o.Manual = []string{b.addr}, true
	if b.net != nil {
		o.Dial = b.net.DialContext
	}
	p, err := devbroker.NewProducer(o)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// send writes values to a partition, each a batch of its own.
func (b *bed) send(topic string, partition int32, values ...string) {
	b.Helper()
	p := b.producer(devbroker.ProducerOptions{})
	defer p.Close()
	for _, v := range values {
		if err := p.Send(b.Context(), &devbroker.Record{Topic: topic, Partition: partition, Value: []byte(v)}); err != nil {
			b.Fatal(err)
		}
	}
}

func (b *bed) read(o ReaderOptions) *Reader {
	if o.Topic == "" {
		o.Topic = "t"
	}
	r := b.c.NewReader(o)
	b.Cleanup(r.Close)
	return r
}

// patience bounds a wait that the test expects to end: half a minute of a bubble, and
// more where time is real.
func (b *bed) patience() time.Duration {
	if b.net != nil {
		return 30 * time.Second
	}
	return 3 * time.Minute
}

// until reads until done says so, or for as long as there is patience, and gives every
// record as "partition/offset=value".
func (b *bed) until(r *Reader, done func(*Fetched) bool) string {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), b.patience())
	defer cancel()
	var s []string
	next := map[int32]int64{}
	for {
		f, err := r.Next(ctx)
		if err != nil {
			return strings.Join(append(s, "error: "+err.Error()), " ")
		}
		if was, ok := next[f.Partition]; ok && was != f.From {
			b.Errorf("partition %d goes on at %d after %d", f.Partition, f.From, was)
		}
		next[f.Partition] = f.Next
		recs, err := records(f)
		s = append(s, recs...)
		if err != nil {
			return strings.Join(append(s, "error: "+err.Error()), " ")
		}
		f.Release()
		if done(f) {
			return strings.Join(s, " ")
		}
	}
}

// to reads partition 0 until its position is end.
func (b *bed) to(r *Reader, end int64) string {
	b.Helper()
	return b.until(r, func(f *Fetched) bool { return f.Partition == 0 && f.Next >= end })
}

func records(f *Fetched) (s []string, err error) {
	at := f.From
	for {
		batch, err := f.Batch()
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		for i := range batch.Records {
			r := &batch.Records[i]
			if r.Offset < at || r.Offset >= batch.Next || batch.Next > f.Next {
				return s, fmt.Errorf("offset %d outside of %d to %d, fetched to %d", r.Offset, at, batch.Next, f.Next)
			}
			at = r.Offset + 1
			s = append(s, fmt.Sprintf("%d/%d=%s", f.Partition, r.Offset, r.Value))
		}
	}
}

// failure reads on until the Reader stops, for as long as there is patience, and gives
// its error.
func (b *bed) failure(r *Reader) error {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), b.patience())
	defer cancel()
	for {
		f, err := r.Next(ctx)
		if err != nil {
			return err
		}
		f.Release()
	}
}

// pass lets the bubble's time pass.
func (b *bed) pass(d time.Duration) {
	b.Helper()
	<-time.After(d)
}

func (b *bed) check(what, got, want string) {
	b.Helper()
	if got != want {
		b.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

// rawBatch builds record batches that no producer would write.
type rawBatch struct {
	base, span int64 // first offset, and how many offsets
	producer   int64
	epoch      int32
	attributes uint16
	baseTime   int64
	maxTime    int64
	count      int // of body
	body       []byte
}

func (r rawBatch) encode() []byte {
	be := binary.BigEndian
	b := make([]byte, batchHeader)
	be.PutUint64(b, uint64(r.base))
	be.PutUint32(b[8:], uint32(batchHeader-batchPrefix+len(r.body)))
	be.PutUint32(b[12:], uint32(r.epoch))
	b[16] = 2
	be.PutUint16(b[21:], r.attributes)
	be.PutUint32(b[23:], uint32(r.span-1))
	be.PutUint64(b[27:], uint64(r.baseTime))
	be.PutUint64(b[35:], uint64(r.maxTime))
	be.PutUint64(b[43:], uint64(r.producer))
	be.PutUint32(b[57:], uint32(r.count))
	b = append(b, r.body...)
	sum(b)
	return b
}

func sum(b []byte) { binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli)) }

// with adds a record at an offset of the batch.
func (r rawBatch) with(delta int64, key, value, headers []byte) rawBatch {
	b := []byte{0}
	b = binary.AppendVarint(b, 7*delta) // time
	b = binary.AppendVarint(b, delta)
	for _, v := range [][]byte{key, value} {
		if v == nil {
			b = binary.AppendVarint(b, -1)
			continue
		}
		b = append(binary.AppendVarint(b, int64(len(v))), v...)
	}
	if headers == nil {
		headers = []byte{0}
	}
	b = append(b, headers...)
	r.body = append(binary.AppendVarint(r.body[:len(r.body):len(r.body)], int64(len(b))), b...)
	r.count++
	return r
}

// data is a batch whose records, at the offsets base+deltas, are "v" and their
// offset.
func data(base, span int64, deltas ...int64) rawBatch {
	r := rawBatch{base: base, span: span, producer: -1}
	for _, d := range deltas {
		r = r.with(d, nil, fmt.Appendf(nil, "v%d", base+d), nil)
	}
	return r
}

func txn(producer, base int64, value string) []byte {
	r := rawBatch{base: base, span: 1, producer: producer, attributes: attrTransactional}
	return r.with(0, nil, []byte(value), nil).encode()
}

// marker ends a transaction: kind 0 aborts, 1 commits.
func marker(producer, base int64, kind byte) []byte {
	r := rawBatch{base: base, span: 1, producer: producer, attributes: attrTransactional | attrControl}
	return r.with(0, []byte{0, 0, 0, kind}, make([]byte, 6), nil).encode()
}

// serve has the broker answer fetches of topic "t", partition 0, with batches:
// those from the asked offset on, at most limit of them, the last one cut if cut.
func (b *bed) serve(batches [][]byte, limit int, cut bool) {
	end := int64(0)
	for _, raw := range batches {
		h, _, err := readHeader(raw)
		if err != nil {
			b.Fatal(err)
		}
		end = h.last + 1
	}
	b.broker.Cluster().ControlKey(int16(kmsg.Fetch), func(kr kmsg.Request) (kmsg.Response, error, bool) {
		b.broker.Cluster().KeepControl()
		req := kr.(*kmsg.FetchRequest)
		res := req.ResponseKind().(*kmsg.FetchResponse)
		asked := req.Topics[0].Partitions[0]
		p := kmsg.NewFetchResponseTopicPartition()
		p.HighWatermark, p.LastStableOffset, p.LogStartOffset = end, end, 0
		n := 0
		for _, raw := range batches {
			h, _, _ := readHeader(raw)
			if h.last < asked.FetchOffset {
				continue
			}
			if n++; n > limit {
				if cut {
					p.RecordBatches = append(p.RecordBatches, raw[:len(raw)-1]...)
				}
				break
			}
			p.RecordBatches = append(p.RecordBatches, raw...)
		}
		if asked.FetchOffset > end {
			p.ErrorCode, p.HighWatermark, p.LastStableOffset, p.LogStartOffset = int16(codeOffsetOutOfRange), -1, -1, -1
		}
		t := kmsg.NewFetchResponseTopic()
		t.Topic, t.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
		t.Partitions = append(t.Partitions, p)
		res.Topics = append(res.Topics, t)
		return res, nil, true
	})
}
