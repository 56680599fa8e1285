package state

import (
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/zeebo/xxh3"

	"weir/state/agg"
	"weir/state/codec"
	"weir/state/plan"
	"weir/state/sqltype"
)

// maxKey bounds the encoded key of a group.
const maxKey = 1<<24 - 2

// A shape is what the bytes of a view's groups look like. It is immutable.
//
// The stored key has the time key first, that is the first key column that is
// a point in time, and the others in the plan's order.
type shape struct {
	id       ViewID
	columns  []sqltype.Field // of the plan's state: keys, then accumulators
	order    []int           // key columns of the plan in stored order
	timed    bool            // the first of them is the time key
	encoders []codec.KeyEncoder
	decoders []codec.Decoder // in stored order, too
	layout   *agg.Layout
}

func newShape(id ViewID, p *plan.View) (*shape, error) {
	s := &shape{id: id, columns: p.StateColumns()}
	for i, k := range p.Keys {
		if !s.timed && k.Type.Temporal() {
			s.timed = true
			s.order = append([]int{i}, s.order...)
		} else {
			s.order = append(s.order, i)
		}
	}
	for _, i := range s.order {
		s.encoders = append(s.encoders, codec.NewKeyEncoder(p.Keys[i].Type))
		s.decoders = append(s.decoders, codec.NewKeyDecoder(p.Keys[i].Type))
	}
	accs := make([]agg.Acc, len(p.Accs))
	for i, a := range p.Accs {
		accs[i] = a.Acc
	}
	var err error
	if s.layout, err = agg.NewLayout(accs); err != nil {
		return nil, fmt.Errorf("view %s: %w", p.Name, err)
	}
	return s, nil
}

// slotOf is the slot of the encoding of the key columns that are not time: the
// top byte of their XXH3.
func slotOf(rest []byte) byte { return byte(xxh3.Hash(rest) >> 56) }

// prefix is the first bytes of all groups of the view.
func (s *shape) prefix() []byte { return binary.BigEndian.AppendUint32(nil, uint32(s.id)) }

// span is the key range of slots from up to but not including to.
func (s *shape) span(from, to int) (lower, upper []byte) { return viewSpan(s.id, from, to) }

func viewSpan(id ViewID, from, to int) (lower, upper []byte) {
	lower = append(binary.BigEndian.AppendUint32(nil, uint32(id)), byte(from))
	if to >= Slots {
		return lower, binary.BigEndian.AppendUint32(nil, uint32(id)+1)
	}
	return lower, append(binary.BigEndian.AppendUint32(nil, uint32(id)), byte(to))
}

// A keyed batch is a batch of partials with its keys encoded: key i, slot first,
// lies in keys from ends[i-1] to ends[i]. merges has one entry per accumulator.
type keyed struct {
	rows   int
	keys   []byte
	ends   []uint32
	hashes []uint64
	at     []uint32 // the resident row of each
	guess  []uint64 // for table.resolve
	merges []agg.Merge
}

func (k *keyed) key(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = k.ends[i-1]
	}
	return k.keys[start:k.ends[i]:k.ends[i]]
}

// encode checks the columns of a batch and encodes its keys into k, which it
// overwrites. The batch must outlive the merges.
func (s *shape) encode(b arrow.RecordBatch, k *keyed) error {
	k.rows, k.keys, k.ends, k.hashes, k.merges = 0, k.keys[:0], k.ends[:0], k.hashes[:0], k.merges[:0]
	if b == nil {
		return nil
	}
	if int(b.NumCols()) != len(s.columns) {
		return fmt.Errorf("partials have %d columns, the plan %d", b.NumCols(), len(s.columns))
	}
	k.rows = int(b.NumRows())
	parts := make([]codec.Appender, len(s.order))
	for j, i := range s.order {
		var err error
		if parts[j], err = s.encoders[j].Bind(b.Column(i)); err != nil {
			return fmt.Errorf("key %s: %w", s.columns[i].Name, err)
		}
	}
	for i := range len(s.columns) - len(s.order) {
		m, err := s.layout.Bind(i, b.Column(len(s.order)+i))
		if err != nil {
			return err
		}
		k.merges = append(k.merges, m)
	}
	buf := k.keys
	for row := range k.rows {
		start := len(buf)
		buf = append(buf, 0)
		rest := len(buf)
		for j, p := range parts {
			if buf = p(buf, row); j == 0 && s.timed {
				rest = len(buf)
			}
		}
		if len(buf)-start > maxKey {
			return fmt.Errorf("a group's key has %d bytes, more than %d", len(buf)-start, maxKey)
		}
		if len(buf) > 1<<32-1 {
			return fmt.Errorf("the keys of one batch have more than 4 GiB: fold smaller batches")
		}
		h := xxh3.Hash(buf[start+1:])
		buf[start] = byte(h >> 56)
		if s.timed {
			buf[start] = slotOf(buf[rest:])
		}
		k.ends = append(k.ends, uint32(len(buf)))
		k.hashes = append(k.hashes, h)
	}
	k.keys = buf
	return nil
}
