package state

import (
	"bytes"
	"cmp"
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/internal/recordbatch"
	"weir/state/agg"
	"weir/state/plan"
)

// A Regrouped reads the groups of a view from several readers as if all their
// records had been counted by one: groups of one key are one, its accumulators
// merged by their rules. It checks what it reads: types, order, and that no
// reader has a key twice. A few batches are in memory at a time.
//
// It is an array.RecordReader of the state columns, __slot, __epoch (the latest)
// and __error, in the order of slot and key, with keys in the one spelling that
// the store has.
type Regrouped struct {
	*recordbatch.Reader
	shape  *shape
	from   []*source
	schema *arrow.Schema
	mem    memory.Allocator
	begun  bool
	stats  ViewStats
}

// A source is one of the readers. rows are those of the batch under way, from
// row first on, that go to these rows of the output and were not merged yet.
type source struct {
	walker
	more  bool
	first int
	rows  []uint32
}

var _ array.RecordReader = (*Regrouped)(nil)

// Regroup opens a Regrouped over readers as Scan gives them, and takes them over.
// Where equal values have several spellings the one of the earlier reader stays.
func Regroup(ctx context.Context, p *plan.View, mem memory.Allocator, readers ...array.RecordReader) (*Regrouped, error) {
	sh, err := newShape(0, p)
	if err != nil {
		for _, r := range readers {
			r.Release()
		}
		return nil, err
	}
	g := &Regrouped{shape: sh, mem: cmp.Or[memory.Allocator](mem, memory.DefaultAllocator)}
	for _, r := range readers {
		g.from = append(g.from, &source{walker: walker{ctx: ctx, shape: sh, in: r}})
	}
	var fields []arrow.Field
	for _, c := range sh.columns {
		fields = append(fields, c.Type.InsideField(c.Name))
	}
	g.schema = arrow.NewSchema(append(fields, extraFields(Extra{Slot: true, Epoch: true, Error: true})...), nil)
	g.Reader = recordbatch.NewReader(g.schema, g.next, g.close)
	return g, nil
}

// A grouping is a batch of the output in the making.
type grouping struct {
	rows   agg.Rows
	n      uint32
	keys   []byte
	ends   []int
	epochs []uint64
	errs   map[uint32]string
}

const regroupRows = 8192

// next makes a batch, nil at the end.
func (g *Regrouped) next() (arrow.RecordBatch, error) {
	out := &grouping{rows: agg.Rows{Stride: g.shape.layout.Words(), Side: new(agg.Arena)}, errs: map[uint32]string{}}
	if err := g.gather(out); err != nil || out.n == 0 {
		return nil, err
	}
	return g.build(out)
}

// gather takes up to a batch of groups.
func (g *Regrouped) gather(out *grouping) error {
	if !g.begun {
		g.begun = true
		for _, s := range g.from {
			if err := s.advance(); err != nil {
				return err
			}
		}
	}
	for out.n < regroupRows {
		var least []byte
		for _, s := range g.from {
			if s.more && (least == nil || bytes.Compare(s.key(), least) < 0) {
				least = s.key()
			}
		}
		if least == nil {
			break
		}
		r := out.add(least)
		exhausted := false
		for _, s := range g.from {
			if s.more && bytes.Equal(s.key(), out.key(r)) {
				s.take(out, r)
				exhausted = exhausted || s.at+1 == s.keys.rows
			}
		}
		if exhausted {
			if err := g.merge(out); err != nil {
				return err
			}
		}
		for _, s := range g.from {
			if s.more && bytes.Equal(s.key(), out.key(r)) {
				if err := s.advance(); err != nil {
					return err
				}
			}
		}
	}
	return g.merge(out)
}

func (s *source) advance() (err error) {
	s.more, err = s.next()
	return err
}

// take gives the group that s stands at to row r.
func (s *source) take(out *grouping, r uint32) {
	if len(s.rows) == 0 {
		s.first = s.at
	}
	s.rows = append(s.rows, r)
	out.epochs[r] = max(out.epochs[r], s.epoch())
	if msg, bad := s.failure(); bad {
		if _, known := out.errs[r]; !known {
			out.errs[r] = msg
		}
	}
}

// merge merges what was taken, in the order of the readers.
func (g *Regrouped) merge(out *grouping) error {
	for _, s := range g.from {
		if len(s.rows) == 0 {
			continue
		}
		part := s.state.NewSlice(int64(s.first), int64(s.first+len(s.rows)))
		for i := range s.keys.merges {
			m, err := g.shape.layout.Bind(i, part.Column(len(g.shape.order)+i))
			if err != nil {
				part.Release()
				return err
			}
			m(&out.rows, s.rows, func(i int, msg string) {
				if _, known := out.errs[s.rows[i]]; !known {
					out.errs[s.rows[i]] = msg
				}
			})
		}
		part.Release()
		s.rows = s.rows[:0]
	}
	return nil
}

func (o *grouping) add(key []byte) uint32 {
	r := o.n
	o.n++
	o.keys = append(o.keys, key...)
	o.ends = append(o.ends, len(o.keys))
	o.epochs = append(o.epochs, 0)
	o.rows.Words = append(o.rows.Words, make([]uint64, o.rows.Stride)...)
	return r
}

func (o *grouping) key(r uint32) []byte {
	start := 0
	if r > 0 {
		start = o.ends[r-1]
	}
	return o.keys[start:o.ends[r]]
}

// build shows the groups.
func (g *Regrouped) build(out *grouping) (arrow.RecordBatch, error) {
	b := array.NewRecordBuilder(g.mem, g.schema)
	defer b.Release()
	b.Reserve(int(out.n))
	n := len(g.shape.columns)
	accs := make([]array.Builder, n-len(g.shape.order))
	for i := range accs {
		accs[i] = b.Field(len(g.shape.order) + i)
	}
	slots, epochs := b.Field(n).(*array.Uint16Builder), b.Field(n+1).(*array.Uint64Builder)
	errs := b.Field(n + 2).(*array.StringBuilder)
	var value []byte
	for r := range out.n {
		full := out.key(r)
		key := full[1:]
		var err error
		for j, c := range g.shape.order {
			if key, err = g.shape.decoders[j](b.Field(c), key); err != nil {
				return nil, fmt.Errorf("key %x: %w", full, err)
			}
		}
		msg, bad := out.errs[r]
		head := appendHeader(value[:0], out.epochs[r], bad, msg)
		value = g.shape.layout.Append(head, &out.rows, r)
		if err := g.shape.layout.Show(value[len(head):], accs); err != nil {
			return nil, fmt.Errorf("key %x: %w", full, err)
		}
		slots.Append(uint16(full[0]))
		epochs.Append(out.epochs[r])
		if bad {
			errs.Append(msg)
			g.stats.Errors++
		} else {
			errs.AppendNull()
		}
		g.stats.Bytes += int64(4 + len(full) + min(len(value), sizeMask))
	}
	g.stats.Groups += int64(out.n)
	cols := make([]arrow.Array, len(b.Fields()))
	for i, f := range b.Fields() {
		cols[i] = f.NewArray()
		defer cols[i].Release()
	}
	return array.NewRecordBatch(g.schema, cols, int64(out.n)), nil
}

// Stats count the groups that were read so far, as the store would.
func (g *Regrouped) Stats() ViewStats { return g.stats }

// close releases the readers.
func (g *Regrouped) close() {
	for _, s := range g.from {
		s.close()
		s.in.Release()
	}
}
