package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
)

// maxPoints bounds the keys that equality filters may expand to; beyond it they
// are compared row by row.
const maxPoints = 1 << 16

// A path is the way to the rows of a scan: points, if they are known, or spans;
// then tests on the parts of each key.
type path struct {
	points [][]byte    // whole keys, sorted
	spans  [][2][]byte // ranges of keys, sorted
	tests  []test      // one per key column in stored order, up to the last with a filter
	exact  bool        // points is to be used, even if empty
}

// A test allows encodings of one key column.
type test struct {
	set      map[string]struct{} // nil: any
	min, max []byte              // nil: open
}

func (t *test) allows(part []byte) bool {
	if t.set != nil {
		if _, ok := t.set[string(part)]; !ok {
			return false
		}
	}
	return (t.min == nil || bytes.Compare(part, t.min) >= 0) && (t.max == nil || bytes.Compare(part, t.max) <= 0)
}

// values are the allowed encodings in order, nil when they are not listed.
func (t *test) values() [][]byte {
	if t.set == nil {
		return nil
	}
	vs := make([][]byte, 0, len(t.set))
	for v := range t.set {
		if t.allows([]byte(v)) {
			vs = append(vs, []byte(v))
		}
	}
	slices.SortFunc(vs, bytes.Compare)
	return vs
}

// bounds are the least and greatest allowed encodings.
func (t *test) bounds() (lo, hi []byte) {
	lo, hi = t.min, t.max
	if vs := t.values(); len(vs) > 0 {
		lo, hi = vs[0], vs[len(vs)-1]
	}
	return lo, hi
}

// skip leaves out keys up to and with one.
func (p *path) skip(after []byte) {
	p.points = slices.DeleteFunc(p.points, func(k []byte) bool { return bytes.Compare(k, after) <= 0 })
	next := append(after, 0) // the first key behind it
	p.spans = slices.DeleteFunc(p.spans, func(s [2][]byte) bool { return bytes.Compare(s[1], next) <= 0 })
	for i, s := range p.spans {
		if bytes.Compare(s[0], next) < 0 {
			p.spans[i][0] = next
		}
	}
}

// plan turns filters into a path. All keys equal is point reads; all keys but
// the time equal is one slot for each combination; a range of the time key
// narrows every slot, because it comes first in the key.
func (s *shape) plan(r *ScanRequest) (path, error) {
	var p path
	from, to := r.FromSlot, r.ToSlot
	if to == 0 {
		to = Slots
	}
	if from < 0 || from > to || to > Slots {
		return p, fmt.Errorf("slots %d to %d are not within 0 to %d", from, to, Slots)
	}
	tests := make([]test, len(s.order))
	last, err := s.tests(tests, r.Filters)
	if err != nil {
		return p, err
	}
	p.tests = tests[:last]
	if keys, ok := expand(tests); ok && (len(tests) == 0 || last > 0) {
		p.exact = true
		p.points = s.points(keys, from, to)
		return p, nil
	}
	rest, slots := tests, [Slots]bool{}
	if s.timed {
		rest = tests[1:]
	}
	keys, narrow := expand(rest)
	narrow = narrow && s.timed
	for _, k := range keys {
		slots[slotOf(bytes.Join(k, nil))] = true
	}
	var lo, hi []byte
	if s.timed {
		lo, hi = tests[0].bounds()
	}
	if !narrow && lo == nil && hi == nil {
		lower, upper := s.span(from, to)
		p.spans = [][2][]byte{{lower, upper}}
		return p, nil
	}
	for slot := from; slot < to; slot++ {
		if narrow && !slots[slot] {
			continue
		}
		lower, upper := s.span(slot, slot+1)
		if hi != nil {
			upper = append(append(slices.Clone(lower), hi...), 0xff) // above every tag
		}
		p.spans = append(p.spans, [2][]byte{append(lower, lo...), upper})
	}
	return p, nil
}

// tests fills in one test per key column and returns one more than the last
// column with a filter.
func (s *shape) tests(tests []test, filters []Filter) (last int, err error) {
	for _, f := range filters {
		j := slices.Index(s.order, f.Column)
		if j < 0 {
			return 0, fmt.Errorf("filter on column %d, which is not a key of the view", f.Column)
		}
		t := &tests[j]
		last = max(last, j+1)
		if f.In != nil {
			set := map[string]struct{}{}
			if err := s.each(j, f.In, func(v []byte) { set[string(v)] = struct{}{} }); err != nil {
				return 0, err
			}
			if t.set != nil { // both filters must allow
				for v := range set {
					if _, ok := t.set[v]; !ok {
						delete(set, v)
					}
				}
			}
			t.set = set
		}
		if f.Min != nil {
			if err := s.each(j, f.Min, func(v []byte) {
				if bytes.Compare(v, t.min) > 0 {
					t.min = slices.Clone(v)
				}
			}); err != nil {
				return 0, err
			}
		}
		if f.Max != nil {
			if err := s.each(j, f.Max, func(v []byte) {
				if t.max == nil || bytes.Compare(v, t.max) < 0 {
					t.max = slices.Clone(v)
				}
			}); err != nil {
				return 0, err
			}
		}
	}
	return last, nil
}

func (s *shape) each(j int, a arrow.Array, f func([]byte)) error {
	enc, err := s.encoders[j].Bind(a)
	if err != nil {
		return fmt.Errorf("filter on %s: %w", s.columns[s.order[j]].Name, err)
	}
	var buf []byte
	for row := range a.Len() {
		buf = enc(buf[:0], row)
		f(buf)
	}
	return nil
}

// expand lists the combinations of allowed values, if all columns list theirs
// and there are not too many.
func expand(tests []test) (keys [][][]byte, ok bool) {
	keys = [][][]byte{nil}
	for i := range tests {
		vs := tests[i].values()
		if vs == nil || len(vs)*len(keys) > maxPoints {
			return nil, false
		}
		next := make([][][]byte, 0, len(vs)*len(keys))
		for _, k := range keys {
			for _, v := range vs {
				next = append(next, append(slices.Clip(k), v))
			}
		}
		keys = next
	}
	return keys, true
}

// points are the stored keys of combinations that lie in the slots.
func (s *shape) points(keys [][][]byte, from, to int) [][]byte {
	var points [][]byte
	for _, k := range keys {
		rest := k
		if s.timed {
			rest = k[1:]
		}
		slot := slotOf(bytes.Join(rest, nil))
		if int(slot) < from || int(slot) >= to {
			continue
		}
		p := append(binary.BigEndian.AppendUint32(nil, uint32(s.id)), slot)
		points = append(points, append(p, bytes.Join(k, nil)...))
	}
	slices.SortFunc(points, bytes.Compare)
	return points
}

// allows tests the parts of a key, slot not included.
func (p *path) allows(s *shape, key []byte) (bool, error) {
	for j := range p.tests {
		rest, err := s.decoders[j](nil, key)
		if err != nil {
			return false, err
		}
		if !p.tests[j].allows(key[:len(key)-len(rest)]) {
			return false, nil
		}
		key = rest
	}
	return true, nil
}
