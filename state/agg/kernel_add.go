package agg

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/state/codec"
	"weir/state/sqltype"
)

func (a Acc) overflow() string { return a.Name + ": the sum is beyond the range of " + a.Type.String() }

// addInt sums BIGINT in a word.
type addInt struct{ Acc }

func (k addInt) words() int { return 1 }

func (k addInt) bind(p place, col arrow.Array) (Merge, error) {
	if _, err := codec.Words(k.Type, col); err != nil {
		return nil, err
	}
	v := storage(col).(*array.Int64).Int64Values()
	return func(rs *Rows, at []uint32, fail func(int, string)) {
		words, stride, base := rs.Words, rs.Stride, rs.Base
		nulls := col.NullN() > 0
		for i, r := range at {
			if nulls && col.IsNull(i) {
				continue
			}
			o := int(r)*stride + base
			old := int64(words[o+p.at])
			sum := old + v[i]
			if (old^sum)&(v[i]^sum) < 0 {
				fail(i, k.overflow())
				continue
			}
			words[o+p.at] = uint64(sum)
			words[o+p.has] |= p.bit
		}
	}, nil
}

func (k addInt) append(dst []byte, w []uint64, _ *Arena) []byte {
	return binary.AppendVarint(dst, int64(w[0]))
}

func (k addInt) load(src []byte, w []uint64, _ *Arena) (rest []byte, err error) {
	v, n := binary.Varint(src)
	if n <= 0 {
		return nil, codec.ErrCorrupt
	}
	w[0] = uint64(v)
	return src[n:], nil
}

func (k addInt) show(b array.Builder, src []byte) ([]byte, error) {
	v, n := binary.Varint(src)
	if n <= 0 {
		return nil, codec.ErrCorrupt
	}
	if b != nil {
		b.(*array.Int64Builder).Append(v)
	}
	return src[n:], nil
}

// addWide sums HUGEINT, whose limit is 128 bits, and DECIMAL, whose limit is its
// digits.
type addWide struct {
	Acc
	digits       bool
	limHi, limLo uint64 // 10^digits
	put          func(b array.Builder, hi, lo uint64)
}

func newAddWide(a Acc) addWide {
	k := addWide{Acc: a, put: codec.WideWriter(a.Type)}
	if a.Type.ID == sqltype.Decimal {
		lim := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(a.Type.Width)), nil)
		k.digits = true
		k.limLo = new(big.Int).And(lim, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
		k.limHi = new(big.Int).Rsh(lim, 64).Uint64()
	}
	return k
}

func (k addWide) words() int { return 2 }

func (k addWide) bind(p place, col arrow.Array) (Merge, error) {
	get, err := codec.WideWords(k.Type, col)
	if err != nil {
		return nil, err
	}
	return func(rs *Rows, at []uint32, fail func(int, string)) {
		words, stride, base := rs.Words, rs.Stride, rs.Base
		nulls := col.NullN() > 0
		for i, r := range at {
			if nulls && col.IsNull(i) {
				continue
			}
			o := int(r)*stride + base
			w := words[o+p.at : o+p.at+2]
			vhi, vlo := get(i)
			lo, carry := bits.Add64(w[1], vlo, 0)
			hi, _ := bits.Add64(w[0], vhi, carry)
			if int64((w[0]^hi)&(vhi^hi)) < 0 || k.digits && k.beyond(hi, lo) {
				fail(i, k.overflow())
				continue
			}
			w[0], w[1] = hi, lo
			words[o+p.has] |= p.bit
		}
	}, nil
}

// beyond says whether |hi:lo| has more digits than the DECIMAL.
func (k addWide) beyond(hi, lo uint64) bool {
	if int64(hi) < 0 {
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
	}
	return hi > k.limHi || hi == k.limHi && lo >= k.limLo
}

func (k addWide) append(dst []byte, w []uint64, _ *Arena) []byte {
	return codec.AppendWide(dst, w[0], w[1])
}

func (k addWide) load(src []byte, w []uint64, _ *Arena) (rest []byte, err error) {
	w[0], w[1], rest, err = codec.ReadWide(src)
	return rest, err
}

func (k addWide) show(b array.Builder, src []byte) ([]byte, error) {
	hi, lo, rest, err := codec.ReadWide(src)
	if err == nil && b != nil {
		k.put(b, hi, lo)
	}
	return rest, err
}

// addDouble sums floats by Neumaier: a sum, and what it lost so far. They are
// shown as one.
type addDouble struct{ Acc }

func (k addDouble) words() int { return 2 }

func (k addDouble) bind(p place, col arrow.Array) (Merge, error) {
	get, err := codec.Words(k.Type, col)
	if err != nil {
		return nil, err
	}
	value := math.Float64frombits
	if k.Type.ID == sqltype.Float {
		value = func(w uint64) float64 { return float64(math.Float32frombits(uint32(w))) }
	}
	return func(rs *Rows, at []uint32, _ func(int, string)) {
		words, stride, base := rs.Words, rs.Stride, rs.Base
		nulls := col.NullN() > 0
		for i, r := range at {
			if nulls && col.IsNull(i) {
				continue
			}
			o := int(r)*stride + base
			w := words[o+p.at : o+p.at+2]
			v := value(get(i))
			if words[o+p.has]&p.bit == 0 {
				w[0], w[1] = math.Float64bits(v), 0 // so that a lone -0.0 stays
				words[o+p.has] |= p.bit
				continue
			}
			sum, lost := neumaier(math.Float64frombits(w[0]), math.Float64frombits(w[1]), v)
			w[0], w[1] = math.Float64bits(sum), math.Float64bits(lost)
		}
	}, nil
}

// neumaier adds v. Once the sum is infinite or NaN nothing was lost any more.
func neumaier(sum, lost, v float64) (float64, float64) {
	t := sum + v
	switch {
	case math.IsInf(t, 0) || math.IsNaN(t):
		return t, 0
	case math.Abs(sum) >= math.Abs(v):
		return t, lost + ((sum - t) + v)
	default:
		return t, lost + ((v - t) + sum)
	}
}

func (k addDouble) append(dst []byte, w []uint64, _ *Arena) []byte {
	return codec.AppendDouble(codec.AppendDouble(dst, w[0]), w[1])
}

func (k addDouble) load(src []byte, w []uint64, _ *Arena) (rest []byte, err error) {
	if w[0], rest, err = codec.ReadDouble(src); err == nil {
		w[1], rest, err = codec.ReadDouble(rest)
	}
	return rest, err
}

func (k addDouble) show(b array.Builder, src []byte) ([]byte, error) {
	var w [2]uint64
	rest, err := k.load(src, w[:], nil)
	if err != nil || b == nil {
		return rest, err
	}
	v := math.Float64frombits(w[0])
	if lost := math.Float64frombits(w[1]); lost != 0 {
		v += lost
	}
	if f, ok := b.(*array.Float32Builder); ok {
		f.Append(float32(v))
	} else {
		b.(*array.Float64Builder).Append(v)
	}
	return rest, nil
}

func storage(a arrow.Array) arrow.Array {
	if e, ok := a.(array.ExtensionArray); ok {
		return storage(e.Storage())
	}
	return a
}
