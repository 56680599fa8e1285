package agg

import (
	"bytes"
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/state/codec"
)

// The kernels of Min and Max. Of values that DuckDB calls equal, such as -0.0
// and 0.0, the older stays.

// orderWord keeps the least or greatest of values of up to 8 bytes.
type orderWord struct {
	Acc
	order func(uint64) uint64
	flip  uint64 // all ones for Max, so that less is better for both
	put   func(array.Builder, uint64)
	write func([]byte, uint64) []byte
	read  func([]byte) (uint64, []byte, error)
}

func newOrderWord(a Acc) orderWord {
	k := orderWord{
		Acc: a, order: codec.Order(a.Type), put: codec.WordWriter(a.Type),
		write: codec.WordAppender(a.Type), read: codec.WordReader(a.Type),
	}
	if a.Rule == Max {
		k.flip = ^uint64(0)
	}
	return k
}

func (k orderWord) words() int { return 1 }

func (k orderWord) bind(p place, col arrow.Array) (Merge, error) {
	get, err := codec.Words(k.Type, col)
	if err != nil {
		return nil, err
	}
	return func(rs *Rows, at []uint32, _ func(int, string)) {
		words, stride, base := rs.Words, rs.Stride, rs.Base
		nulls := col.NullN() > 0
		for i, r := range at {
			if nulls && col.IsNull(i) {
				continue
			}
			o := int(r)*stride + base
			v := get(i)
			if words[o+p.has]&p.bit == 0 || k.order(v)^k.flip < k.order(words[o+p.at])^k.flip {
				words[o+p.at] = v
				words[o+p.has] |= p.bit
			}
		}
	}, nil
}

func (k orderWord) append(dst []byte, w []uint64, _ *Arena) []byte { return k.write(dst, w[0]) }

func (k orderWord) load(src []byte, w []uint64, _ *Arena) (rest []byte, err error) {
	w[0], rest, err = k.read(src)
	return rest, err
}

func (k orderWord) show(b array.Builder, src []byte) ([]byte, error) {
	w, rest, err := k.read(src)
	if err == nil && b != nil {
		k.put(b, w)
	}
	return rest, err
}

// orderWide does the same for 16 bytes.
type orderWide struct {
	Acc
	flip, sign uint64
	put        func(array.Builder, uint64, uint64)
}

func newOrderWide(a Acc) orderWide {
	k := orderWide{Acc: a, sign: codec.WideFlip(a.Type), put: codec.WideWriter(a.Type)}
	if a.Rule == Max {
		k.flip = ^uint64(0)
	}
	return k
}

func (k orderWide) words() int { return 2 }

func (k orderWide) bind(p place, col arrow.Array) (Merge, error) {
	get, err := codec.WideWords(k.Type, col)
	if err != nil {
		return nil, err
	}
	return func(rs *Rows, at []uint32, _ func(int, string)) {
		words, stride, base := rs.Words, rs.Stride, rs.Base
		flip, sign := k.flip, k.sign^k.flip
		nulls := col.NullN() > 0
		for i, r := range at {
			if nulls && col.IsNull(i) {
				continue
			}
			o := int(r)*stride + base
			w := words[o+p.at : o+p.at+2]
			hi, lo := get(i)
			a, b := hi^sign, w[0]^sign
			if words[o+p.has]&p.bit == 0 || a < b || a == b && lo^flip < w[1]^flip {
				w[0], w[1] = hi, lo
				words[o+p.has] |= p.bit
			}
		}
	}, nil
}

func (k orderWide) append(dst []byte, w []uint64, _ *Arena) []byte {
	return codec.AppendWide(dst, w[0], w[1])
}

func (k orderWide) load(src []byte, w []uint64, _ *Arena) (rest []byte, err error) {
	w[0], w[1], rest, err = codec.ReadWide(src)
	return rest, err
}

func (k orderWide) show(b array.Builder, src []byte) ([]byte, error) {
	hi, lo, rest, err := codec.ReadWide(src)
	if err == nil && b != nil {
		k.put(b, hi, lo)
	}
	return rest, err
}

// orderBytes keeps values of variable width in the arena: VARCHAR, JSON and BLOB
// as they are, INTERVAL and nested types in the key form, by which they are
// compared. Where the key form loses something, the value form follows it:
//
//	┌────────────────┬──────────┬────────────┐
//	│ uvarint: bytes │ key form │ value form │
//	└────────────────┴──────────┴────────────┘
type orderBytes struct {
	Acc
	shape codec.Shape
	exact bool
	key   codec.Decoder
	value codec.Decoder
}

func newOrderBytes(a Acc) orderBytes {
	return orderBytes{
		Acc: a, shape: codec.ShapeOf(a.Type), exact: codec.KeyExact(a.Type),
		key: codec.NewKeyDecoder(a.Type), value: codec.NewValueDecoder(a.Type),
	}
}

func (k orderBytes) words() int { return 2 }

func (k orderBytes) bind(p place, col arrow.Array) (Merge, error) {
	next, err := k.reader(col)
	if err != nil {
		return nil, err
	}
	want := -1
	if k.Rule == Max {
		want = 1
	}
	return func(rs *Rows, at []uint32, _ func(int, string)) {
		nulls := col.NullN() > 0
		for i, r := range at {
			if nulls && col.IsNull(i) {
				continue
			}
			o := int(r)*rs.Stride + rs.Base
			w := rs.Words[o+p.at : o+p.at+2]
			v := next(i)
			if rs.Words[o+p.has]&p.bit == 0 || bytes.Compare(k.sortable(v), k.sortable(rs.Side.get(w))) == want {
				rs.Side.put(w, v)
				rs.Words[o+p.has] |= p.bit
			}
		}
	}, nil
}

// reader gives the arena's form of a row, valid until the next call.
func (k orderBytes) reader(col arrow.Array) (func(row int) []byte, error) {
	if k.shape == codec.Bytes {
		return codec.Strings(k.Type, col)
	}
	key, err := codec.NewKeyEncoder(k.Type).Bind(col)
	if err != nil {
		return nil, err
	}
	var buf, both []byte
	if k.exact {
		return func(row int) []byte {
			buf = key(buf[:0], row)
			return buf
		}, nil
	}
	value, err := codec.BindValue(k.Type, col)
	return func(row int) []byte {
		buf = key(buf[:0], row)
		both = value(codec.AppendBytes(both[:0], buf), row)
		return both
	}, err
}

func (k orderBytes) sortable(v []byte) []byte {
	if k.exact {
		return v
	}
	n, w := binary.Uvarint(v)
	return v[w : w+int(n)]
}

func (k orderBytes) append(dst []byte, w []uint64, side *Arena) []byte {
	return codec.AppendBytes(dst, side.get(w))
}

func (k orderBytes) load(src []byte, w []uint64, side *Arena) ([]byte, error) {
	v, rest, err := codec.ReadBytes(src)
	if err != nil {
		return nil, err
	}
	if !k.exact {
		if _, _, err := codec.ReadBytes(v); err != nil {
			return nil, err
		}
	}
	side.put(w, v)
	return rest, nil
}

func (k orderBytes) show(b array.Builder, src []byte) ([]byte, error) {
	v, rest, err := codec.ReadBytes(src)
	if err != nil || b == nil {
		return rest, err
	}
	switch {
	case k.shape == codec.Bytes:
		codec.AppendToBuilder(b, v)
		return rest, nil
	case k.exact:
		v, err = k.key(b, v)
	default:
		if _, v, err = codec.ReadBytes(v); err == nil {
			v, err = k.value(b, v)
		}
	}
	if err == nil && len(v) != 0 {
		err = codec.ErrCorrupt
	}
	return rest, err
}
