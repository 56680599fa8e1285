package devbroker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Record is a record to produce, an alias so that callers need not import
// kgo for the plain cases. Partition counts only with ProducerOptions.Manual.
type Record = kgo.Record

// ProducerOptions are all optional but Brokers.
type ProducerOptions struct {
	Brokers []string

	// TransactionID makes a transactional producer: records go between Begin and
	// Commit or Abort.
	TransactionID string

	// Plain turns idempotence off, as clients before Kafka 3.0 have it.
	Plain bool

	// Manual sends a record to its Partition; else its key says where.
	Manual bool

	// Codec is "none" (also when empty), "gzip", "snappy", "lz4" or "zstd".
	Codec string

	TLS  *tls.Config
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Client are more options of kgo, for tests.
	Client []kgo.Opt
}

// Producer writes records to any Kafka broker.
type Producer struct {
	client *kgo.Client
}

// NewProducer returns a producer. It connects at the first record.
func NewProducer(o ProducerOptions) (*Producer, error) {
	codecs := map[string]kgo.CompressionCodec{
		"": kgo.NoCompression(), "none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	codec, ok := codecs[o.Codec]
	if !ok {
		return nil, fmt.Errorf("codec %q: use none, gzip, snappy, lz4 or zstd", o.Codec)
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...),
		kgo.ProducerBatchCompression(codec),
		kgo.ProducerLinger(0),
	}
	if o.Manual {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	if o.TransactionID != "" {
		opts = append(opts, kgo.TransactionalID(o.TransactionID))
	}
	if o.Plain {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	if o.TLS != nil {
		opts = append(opts, kgo.DialTLSConfig(o.TLS))
	}
	if o.Dial != nil {
		opts = append(opts, kgo.Dialer(o.Dial))
	}
	client, err := kgo.NewClient(append(opts, o.Client...)...)
	if err != nil {
		return nil, fmt.Errorf("producer: %w", err)
	}
	return &Producer{client: client}, nil
}

// Send writes records and waits until the broker has all of them. They then
// have their Partition and Offset.
func (p *Producer) Send(ctx context.Context, recs ...*Record) error {
	var errs []error
	for _, r := range p.client.ProduceSync(ctx, recs...) {
		if r.Err != nil {
			errs = append(errs, r.Err)
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("produce: %d of %d records failed: %w", len(errs), len(recs), errs[0])
	}
	return nil
}

// Post writes a record and does not wait; done, unless nil, is called on another
// goroutine when the broker has it. It blocks while 10,000 records wait.
func (p *Producer) Post(ctx context.Context, r *Record, done func(error)) {
	p.client.Produce(ctx, r, func(_ *kgo.Record, err error) {
		if done != nil {
			done(err)
		}
	})
}

// Flush waits until everything posted was written or has failed.
func (p *Producer) Flush(ctx context.Context) error {
	if err := p.client.Flush(ctx); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	return nil
}

// Begin begins a transaction.
func (p *Producer) Begin() error {
	if err := p.client.BeginTransaction(); err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	return nil
}

// Commit ends the transaction, making its records visible.
func (p *Producer) Commit(ctx context.Context) error { return p.end(ctx, kgo.TryCommit) }

// Abort ends the transaction; its records are never visible to a reader of
// committed ones.
func (p *Producer) Abort(ctx context.Context) error { return p.end(ctx, kgo.TryAbort) }

func (p *Producer) end(ctx context.Context, try kgo.TransactionEndTry) error {
	err := errors.Join(p.client.Flush(ctx), p.client.EndTransaction(ctx, try))
	if err != nil {
		return fmt.Errorf("end transaction: %w", err)
	}
	return nil
}

// Close ends the producer; what was not flushed is lost.
func (p *Producer) Close() { p.client.Close() }
