package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"weir/ingest/decode"
	"weir/ingest/kafka"
	"weir/state"
	"weir/state/sqltype"
)

// held is a record kept from a fetch that was released.
type held struct {
	partition int32
	kafka.Record
}

// Newest reads the newest records of a source's topic, at most limit, with the
// given columns. Records that do not decode are left out; refused is how many of
// the newest did not. Offsets that hold no record (markers, aborted or compacted
// ones) count against the limit, so fewer may come. more says that the topic holds
// records before these.
func (p *Pipeline) Newest(ctx context.Context, src *state.Source, columns []sqltype.Field, limit int) (rec arrow.RecordBatch, refused int, more bool, err error) {
	c, err := p.Cluster(src)
	if err != nil {
		return nil, 0, false, err
	}
	recs, more, err := tail(ctx, c, src.Options["topic"], int64(limit))
	if err != nil {
		return nil, 0, false, fmt.Errorf("read the newest records of source %s: %w", src.Name, err)
	}
	slices.SortFunc(recs, func(a, b held) int {
		return cmp.Or(cmp.Compare(a.Timestamp, b.Timestamp), cmp.Compare(a.partition, b.partition), cmp.Compare(a.Offset, b.Offset))
	})
	if len(recs) > limit {
		recs, more = recs[len(recs)-limit:], true
	}
	pool := decode.NewPool(p.o.Mem)
	defer pool.Close()
	b, err := newBuilder(src, columns, pool)
	if err != nil {
		return nil, 0, false, err
	}
	defer b.close()
	b.strict = true
	b.begin()
	for i := range recs {
		if err := b.add(recs[i].partition, &recs[i].Record); err != nil {
			if errors.Is(err, decode.ErrFull) {
				more = true
				break
			}
			return nil, 0, false, err
		}
	}
	t := b.take()
	defer t.release()
	return t.project(columns), len(t.refused), more, nil
}

// tail reads the last n offsets of every partition. more says that there are
// others before them.
func tail(ctx context.Context, c *kafka.Cluster, topic string, n int64) (recs []held, more bool, err error) {
	t, err := c.Topic(ctx, topic)
	if err != nil {
		return nil, false, err
	}
	first, err := c.Offsets(ctx, t, t.Partitions, kafka.Earliest)
	if err != nil {
		return nil, false, err
	}
	ends, err := c.Offsets(ctx, t, t.Partitions, kafka.LatestStable)
	if err != nil {
		return nil, false, err
	}
	o := kafka.ReaderOptions{Topic: topic, ID: t.ID, Positions: map[int32]kafka.Position{}}
	open := 0
	for _, p := range t.Partitions {
		from := max(first[p], ends[p]-n)
		o.Positions[p] = kafka.Position{Offset: from, LeaderEpoch: -1}
		if from < ends[p] {
			open++
		}
		more = more || from > first[p]
	}
	if open == 0 {
		return nil, more, nil
	}
	r := c.NewReader(o)
	defer r.Close()
	done := map[int32]bool{}
	for len(done) < open {
		f, err := r.Next(ctx)
		if err != nil {
			return nil, false, err
		}
		err = hold(f, ends[f.Partition], &recs)
		if f.Next >= ends[f.Partition] && o.Positions[f.Partition].Offset < ends[f.Partition] {
			done[f.Partition] = true
		}
		f.Release()
		if err != nil {
			return nil, false, err
		}
	}
	return recs, more, nil
}

// hold copies records below an offset. Their headers stay behind.
func hold(f *kafka.Fetched, end int64, recs *[]held) error {
	for {
		b, err := f.Batch()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range b.Records {
			if r := b.Records[i]; r.Offset < end {
				*recs = append(*recs, held{f.Partition, r.Clone()})
			}
		}
	}
}
