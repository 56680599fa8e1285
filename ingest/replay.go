package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"weir/ingest/decode"
	"weir/ingest/kafka"
	"weir/state"
	"weir/state/sqltype"
)

// Replay reads a source's topic once more, from some positions up to others,
// and gives its records, batch by batch, to f. Records at the offsets of
// without are left out. It is an error when the log no longer holds the first
// position, when the topic is another one, or when a record does not decode
// that is not left out.
func (p *Pipeline) Replay(ctx context.Context, src *state.Source, from, to []state.Position, columns []sqltype.Field,
	without map[int32]map[int64]bool, f func(arrow.RecordBatch) error,
) (records, left int64, err error) {
	c, err := p.Cluster(src)
	if err != nil {
		return 0, 0, err
	}
	r := &replay{without: without, f: f, columns: columns, ends: map[int32]int64{}, at: map[int32]int64{}}
	o := kafka.ReaderOptions{Topic: src.Options["topic"], Positions: map[int32]kafka.Position{}}
	for _, at := range to {
		o.ID = at.TopicID
		r.ends[at.Partition] = at.Next
		o.Positions[at.Partition] = kafka.Position{Offset: 0, LeaderEpoch: -1}
	}
	for _, at := range from {
		o.Positions[at.Partition] = kafka.Position{Offset: at.Next, LeaderEpoch: -1}
	}
	for part, end := range r.ends {
		start := o.Positions[part].Offset
		if start >= end {
			o.Positions[part] = kafka.Position{Offset: end, LeaderEpoch: -1}
		}
		r.at[part] = min(start, end)
	}
	if r.done() {
		return 0, 0, nil
	}
	pool := decode.NewPool(p.o.Mem)
	defer pool.Close()
	if r.b, err = newBuilder(src, columns, pool); err != nil {
		return 0, 0, err
	}
	defer r.b.close()
	r.b.strict = true
	r.b.begin()
	rd := c.NewReader(o)
	defer rd.Close()
	for !r.done() {
		got, err := nextSoon(ctx, rd)
		if err != nil {
			return 0, 0, err
		}
		err = r.take(got)
		got.Release()
		if err != nil {
			return 0, 0, err
		}
	}
	return r.records, r.left, r.flush()
}

// replayPatience is how long a replay waits for records while something is wrong.
const replayPatience = 5 * time.Second

// nextSoon is Next, but for a reader that is in trouble all the while: then that is
// the error. What is replayed has been there, so nothing need be waited for.
func nextSoon(ctx context.Context, rd *kafka.Reader) (*kafka.Fetched, error) {
	for {
		soon, cancel := context.WithTimeout(ctx, replayPatience)
		got, err := rd.Next(soon)
		cancel()
		if err = waited(ctx, err); !errors.Is(err, errGathered) {
			return got, err
		}
		if st := rd.Status(); st.Err != nil {
			return nil, st.Err
		}
	}
}

type replay struct {
	b             *builder
	columns       []sqltype.Field
	without       map[int32]map[int64]bool
	f             func(arrow.RecordBatch) error
	ends, at      map[int32]int64
	records, left int64
}

func (r *replay) done() bool {
	for p, end := range r.ends {
		if r.at[p] < end {
			return false
		}
	}
	return true
}

func (r *replay) take(f *kafka.Fetched) error {
	end, ok := r.ends[f.Partition]
	if !ok || r.at[f.Partition] >= end {
		return nil
	}
	for {
		b, err := f.Batch()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for i := range b.Records {
			rec := &b.Records[i]
			if rec.Offset >= end {
				break
			}
			r.records++
			if r.without[f.Partition][rec.Offset] {
				r.left++
				continue
			}
			if err := r.b.add(f.Partition, rec); err != nil {
				return err
			}
			if bad := r.b.batch.refused; len(bad) > 0 {
				return fmt.Errorf("topic %s partition %d offset %d does not decode now: %s", f.Topic, f.Partition, rec.Offset, bad[0].Reason)
			}
			if r.b.full() {
				if err := r.flush(); err != nil {
					return err
				}
			}
		}
	}
	r.at[f.Partition] = max(r.at[f.Partition], min(f.Next, end))
	return nil
}

func (r *replay) flush() error {
	t := r.b.take()
	defer t.release()
	if len(t.rows) == 0 {
		return nil
	}
	rec := t.project(r.columns)
	defer rec.Release()
	return r.f(rec)
}
