package agg

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/state/codec"
	"weir/state/sqltype"
)

// A Layout says how the accumulators of one view lie in memory, and merges,
// stores and shows them. It is immutable.
//
// A group is a row of words: first a bit per accumulator that says whether it
// has a value, then its one or two words. A row of zeros is NULL everywhere,
// the identity of every rule.
type Layout struct {
	accs    []Acc
	kernels []kernel
	places  []place
	side    []int // accumulators whose values lie in the arena
	words   int
}

// A place is where an accumulator lies in a row: from word at, with its bit in
// word has.
type place struct {
	at, has int
	bit     uint64
}

// Rows are the groups that a merge changes: row r begins at Words[r*Stride+Base].
// Values of variable width lie in Side.
type Rows struct {
	Words        []uint64
	Stride, Base int
	Side         *Arena
}

// row returns the words of the accumulators of row r.
func (rs *Rows) row(r uint32, words int) []uint64 {
	i := int(r)*rs.Stride + rs.Base
	return rs.Words[i : i+words : i+words]
}

// A Merge merges row i of the column it is bound to into row at[i], for every i.
// It calls fail when a group can no longer hold its value; the accumulator of
// that group keeps what it had.
type Merge func(rs *Rows, at []uint32, fail func(i int, msg string))

// A kernel is one accumulator's way to merge, store and show its values.
type kernel interface {
	words() int
	// bind checks the type of a column of partials.
	bind(p place, col arrow.Array) (Merge, error)
	// append writes the value in w in the stored form.
	append(dst []byte, w []uint64, side *Arena) []byte
	// load reads the stored form into w.
	load(src []byte, w []uint64, side *Arena) (rest []byte, err error)
	// show reads the stored form into a builder, or past it when that is nil.
	show(b array.Builder, src []byte) (rest []byte, err error)
}

// NewLayout fails when a rule does not merge values of the type.
func NewLayout(accs []Acc) (*Layout, error) {
	has := (len(accs) + 63) / 64
	l := &Layout{accs: accs, words: has}
	for i, a := range accs {
		k, err := newKernel(a)
		if err != nil {
			return nil, err
		}
		l.kernels = append(l.kernels, k)
		l.places = append(l.places, place{at: l.words, has: i / 64, bit: 1 << (i % 64)})
		l.words += k.words()
		if _, ok := k.(orderBytes); ok {
			l.side = append(l.side, i)
		}
	}
	return l, nil
}

func newKernel(a Acc) (kernel, error) {
	shape := codec.ShapeOf(a.Type)
	switch a.Rule {
	case Add:
		switch a.Type.ID {
		case sqltype.BigInt:
			return addInt{a}, nil
		case sqltype.HugeInt, sqltype.Decimal:
			return newAddWide(a), nil
		case sqltype.Double, sqltype.Float:
			return addDouble{a}, nil
		}
	case Min, Max:
		switch {
		case a.Type.ID == sqltype.Invalid:
		case shape == codec.Word:
			return newOrderWord(a), nil
		case shape == codec.Wide:
			return newOrderWide(a), nil
		default:
			return newOrderBytes(a), nil
		}
	case And, Or:
		if a.Type.ID == sqltype.Boolean {
			return logic{a}, nil
		}
	}
	return nil, fmt.Errorf("accumulator %s: rule %q does not merge %s", a.Name, a.Rule, a.Type)
}

// Words is how many words a row takes.
func (l *Layout) Words() int { return l.words }

// Bind checks the column of partials of one accumulator and returns its merge,
// which cannot fail. The column must outlive it.
func (l *Layout) Bind(acc int, col arrow.Array) (Merge, error) {
	m, err := l.kernels[acc].bind(l.places[acc], col)
	if err != nil {
		return nil, fmt.Errorf("accumulator %s: %w", l.accs[acc].Name, err)
	}
	return m, nil
}

// Append writes the accumulators of row r in the stored form: a bit for each
// that has a value, in bytes, then the values.
func (l *Layout) Append(dst []byte, rs *Rows, r uint32) []byte {
	w := rs.row(r, l.words)
	for i := 0; i < len(l.kernels); i += 8 {
		dst = append(dst, byte(w[i/64]>>(i%64)))
	}
	for i, k := range l.kernels {
		if p := l.places[i]; w[p.has]&p.bit != 0 {
			dst = k.append(dst, w[p.at:p.at+k.words()], rs.Side)
		}
	}
	return dst
}

// Load reads the stored form into row r, whose words are zero.
func (l *Layout) Load(src []byte, rs *Rows, r uint32) error {
	bits, src, err := l.bits(src)
	if err != nil {
		return err
	}
	w := rs.row(r, l.words)
	for i, k := range l.kernels {
		if bits[i/8]>>(i%8)&1 == 0 {
			continue
		}
		p := l.places[i]
		if src, err = k.load(src, w[p.at:p.at+k.words()], rs.Side); err != nil {
			return err
		}
		w[p.has] |= p.bit
	}
	if len(src) != 0 {
		return codec.ErrCorrupt
	}
	return nil
}

// Show reads the stored form and appends a value to every builder that is not
// nil; there is one for each accumulator. It stops after the last of them.
func (l *Layout) Show(src []byte, builders []array.Builder) error {
	bits, src, err := l.bits(src)
	if err != nil {
		return err
	}
	for i, b := range builders {
		if bits[i/8]>>(i%8)&1 == 0 {
			if b != nil {
				b.AppendNull()
			}
			continue
		}
		if src, err = l.kernels[i].show(b, src); err != nil {
			return err
		}
	}
	return nil
}

func (l *Layout) bits(src []byte) (bits, rest []byte, err error) {
	n := (len(l.kernels) + 7) / 8
	if len(src) < n {
		return nil, nil, codec.ErrCorrupt
	}
	return src[:n], src[n:], nil
}

// Copy copies row sr of src into row dr of dst, values of variable width too.
func (l *Layout) Copy(dst *Rows, dr uint32, src *Rows, sr uint32) {
	to, from := dst.row(dr, l.words), src.row(sr, l.words)
	copy(to, from)
	for _, i := range l.side {
		if p := l.places[i]; from[p.has]&p.bit != 0 {
			w := to[p.at : p.at+2]
			w[0], w[1] = 0, 0
			dst.Side.put(w, src.Side.get(from[p.at:p.at+2]))
		}
	}
}
