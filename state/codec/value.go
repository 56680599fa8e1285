package codec

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"weir/state/sqltype"
)

func newDecimal(hi, lo uint64) decimal128.Num { return decimal128.New(int64(hi), lo) }
func float32frombits(w uint64) float32        { return math.Float32frombits(uint32(w)) }
func float64frombits(w uint64) float64        { return math.Float64frombits(w) }

// BindValue resolves the value form for one column; the column must outlive the
// appender.
func BindValue(t sqltype.Type, a arrow.Array) (Appender, error) {
	a = unwrap(a)
	body, err := valueBody(t, a)
	if err != nil {
		return nil, err
	}
	return nullable(a, body), nil
}

func valueBody(t sqltype.Type, a arrow.Array) (Appender, error) {
	switch ShapeOf(t) {
	case Word:
		get, err := Words(t, a)
		put := WordAppender(t)
		return func(dst []byte, row int) []byte { return put(dst, get(row)) }, err
	case Wide:
		get, err := WideWords(t, a)
		return func(dst []byte, row int) []byte {
			hi, lo := get(row)
			return AppendWide(dst, hi, lo)
		}, err
	case Bytes:
		get, err := Strings(t, a)
		return func(dst []byte, row int) []byte { return AppendBytes(dst, get(row)) }, err
	}
	switch a := a.(type) {
	case *array.MonthDayNanoInterval:
		if t.ID == sqltype.Interval {
			return func(dst []byte, row int) []byte {
				v := a.Value(row)
				dst = binary.AppendVarint(binary.AppendVarint(dst, int64(v.Months)), int64(v.Days))
				return binary.AppendVarint(dst, v.Nanoseconds)
			}, nil
		}
	case *array.Struct:
		if t.ID == sqltype.Struct && a.NumField() == len(t.Fields) {
			return structOf(t.Fields, a.Field, BindValue)
		}
	case *array.Map:
		if t.ID == sqltype.Map {
			entry, err := structOf(t.Fields, func(i int) arrow.Array { return []arrow.Array{a.Keys(), a.Items()}[i] }, BindValue)
			return counted(a, entry), err
		}
	case *array.List:
		if t.ID == sqltype.List {
			elem, err := BindValue(*t.Elem, a.ListValues())
			return counted(a, elem), err
		}
	case *array.FixedSizeList:
		if t.ID == sqltype.Array && int(a.DataType().(*arrow.FixedSizeListType).Len()) == t.Size {
			elem, err := BindValue(*t.Elem, a.ListValues())
			return elements(a, elem), err
		}
	}
	return nil, mismatch(t, a)
}

func counted(a lister, elem Appender) Appender {
	all := elements(a, elem)
	return func(dst []byte, row int) []byte {
		start, end := a.ValueOffsets(row)
		return all(binary.AppendUvarint(dst, uint64(end-start)), row)
	}
}

// NewValueDecoder reads the value form of values of t.
func NewValueDecoder(t sqltype.Type) Decoder {
	body := valueReader(t)
	return func(b array.Builder, src []byte) ([]byte, error) {
		if len(src) == 0 {
			return nil, ErrCorrupt
		}
		switch src[0] {
		case tagValue:
			return body(b, src[1:])
		case tagNull:
			if b != nil {
				b.AppendNull()
			}
			return src[1:], nil
		}
		return nil, ErrCorrupt
	}
}

func valueReader(t sqltype.Type) Decoder {
	switch ShapeOf(t) {
	case Word:
		get, put := WordReader(t), WordWriter(t)
		return func(b array.Builder, src []byte) ([]byte, error) {
			w, rest, err := get(src)
			if err == nil && b != nil {
				put(b, w)
			}
			return rest, err
		}
	case Wide:
		put := WideWriter(t)
		return func(b array.Builder, src []byte) ([]byte, error) {
			hi, lo, rest, err := ReadWide(src)
			if err == nil && b != nil {
				put(b, hi, lo)
			}
			return rest, err
		}
	case Bytes:
		return func(b array.Builder, src []byte) ([]byte, error) {
			v, rest, err := ReadBytes(src)
			if err == nil && b != nil {
				AppendToBuilder(b, v)
			}
			return rest, err
		}
	}
	switch t.ID {
	case sqltype.Interval:
		return readExactInterval
	case sqltype.Struct:
		return structReader(t.Fields, NewValueDecoder)
	case sqltype.Array:
		elem := NewValueDecoder(*t.Elem)
		return func(b array.Builder, src []byte) ([]byte, error) { return readArray(b, src, t.Size, elem) }
	case sqltype.List:
		elem := NewValueDecoder(*t.Elem)
		return countedReader(func(b array.Builder) func([]byte) ([]byte, error) {
			var values array.Builder
			if b != nil {
				l := b.(*array.ListBuilder)
				l.Append(true)
				values = l.ValueBuilder()
			}
			return func(src []byte) ([]byte, error) { return elem(values, src) }
		})
	case sqltype.Map:
		key, value := notNull(NewValueDecoder(t.Fields[0].Type)), NewValueDecoder(t.Fields[1].Type)
		return countedReader(func(b array.Builder) func([]byte) ([]byte, error) {
			var keys, values array.Builder
			if b != nil {
				m := b.(*array.MapBuilder)
				m.Append(true)
				keys, values = m.KeyBuilder(), m.ItemBuilder()
			}
			return func(src []byte) ([]byte, error) {
				src, err := key(keys, src)
				if err != nil {
					return nil, err
				}
				return value(values, src)
			}
		})
	}
	return func(array.Builder, []byte) ([]byte, error) { return nil, ErrCorrupt }
}

// countedReader reads a count and so many elements, of a byte at least each.
func countedReader(open func(array.Builder) func([]byte) ([]byte, error)) Decoder {
	return func(b array.Builder, src []byte) ([]byte, error) {
		n, w := binary.Uvarint(src)
		if w <= 0 || n > uint64(len(src)-w) {
			return nil, ErrCorrupt
		}
		elem := open(b)
		src = src[w:]
		for range n {
			var err error
			if src, err = elem(src); err != nil {
				return nil, err
			}
		}
		return src, nil
	}
}

func readExactInterval(b array.Builder, src []byte) ([]byte, error) {
	var part [3]int64
	for i := range part {
		v, n := binary.Varint(src)
		if n <= 0 || i < 2 && v != int64(int32(v)) {
			return nil, ErrCorrupt
		}
		part[i], src = v, src[n:]
	}
	if b != nil {
		b.(*array.MonthDayNanoIntervalBuilder).Append(arrow.MonthDayNanoInterval{
			Months: int32(part[0]), Days: int32(part[1]), Nanoseconds: part[2],
		})
	}
	return src, nil
}

// WordAppender writes words of t in the value form, without a tag: integers as
// varints, floats as their bytes.
func WordAppender(t sqltype.Type) func(dst []byte, w uint64) []byte {
	switch {
	case t.ID == sqltype.Double:
		return AppendDouble
	case t.ID == sqltype.Float:
		return func(dst []byte, w uint64) []byte { return binary.LittleEndian.AppendUint32(dst, uint32(w)) }
	case unsigned(t):
		return binary.AppendUvarint
	}
	return func(dst []byte, w uint64) []byte { return binary.AppendVarint(dst, int64(w)) }
}

// WordReader reads what WordAppender of t wrote.
func WordReader(t sqltype.Type) func(src []byte) (w uint64, rest []byte, err error) {
	switch {
	case t.ID == sqltype.Double:
		return ReadDouble
	case t.ID == sqltype.Float:
		return func(src []byte) (uint64, []byte, error) {
			if len(src) < 4 {
				return 0, nil, ErrCorrupt
			}
			return uint64(binary.LittleEndian.Uint32(src)), src[4:], nil
		}
	case unsigned(t):
		return func(src []byte) (uint64, []byte, error) {
			w, n := binary.Uvarint(src)
			if n <= 0 {
				return 0, nil, ErrCorrupt
			}
			return w, src[n:], nil
		}
	}
	return func(src []byte) (uint64, []byte, error) {
		w, n := binary.Varint(src)
		if n <= 0 {
			return 0, nil, ErrCorrupt
		}
		return uint64(w), src[n:], nil
	}
}

// AppendDouble writes the bits of a double, last byte first, as a uvarint: a
// value with few digits takes few bytes.
func AppendDouble(dst []byte, w uint64) []byte {
	return binary.AppendUvarint(dst, bits.ReverseBytes64(w))
}

// ReadDouble reads what AppendDouble wrote.
func ReadDouble(src []byte) (w uint64, rest []byte, err error) {
	u, n := binary.Uvarint(src)
	if n <= 0 {
		return 0, nil, ErrCorrupt
	}
	return bits.ReverseBytes64(u), src[n:], nil
}

// AppendWide writes a 128-bit word as a zigzag varint of 19 bytes at most.
func AppendWide(dst []byte, hi, lo uint64) []byte {
	sign := uint64(int64(hi) >> 63)
	hi, lo = (hi<<1|lo>>63)^sign, lo<<1^sign
	for hi != 0 || lo >= 0x80 {
		dst = append(dst, byte(lo)|0x80)
		lo = lo>>7 | hi<<57
		hi >>= 7
	}
	return append(dst, byte(lo))
}

// ReadWide reads what AppendWide wrote.
func ReadWide(src []byte) (hi, lo uint64, rest []byte, err error) {
	for i, c := range src {
		if i == 19 || i == 18 && c > 3 {
			break
		}
		v, shift := uint64(c&0x7f), 7*uint(i)
		switch {
		case shift < 64:
			lo |= v << shift
			if shift > 57 {
				hi |= v >> (64 - shift)
			}
		default:
			hi |= v << (shift - 64)
		}
		if c < 0x80 {
			sign := -(lo & 1)
			return hi>>1 ^ sign, (lo>>1 | hi<<63) ^ sign, src[i+1:], nil
		}
	}
	return 0, 0, nil, ErrCorrupt
}

// AppendBytes writes a length and the bytes.
func AppendBytes(dst, v []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
}

// ReadBytes reads what AppendBytes wrote. The bytes alias src.
func ReadBytes(src []byte) (v, rest []byte, err error) {
	n, w := binary.Uvarint(src)
	if w <= 0 || n > uint64(len(src)-w) {
		return nil, nil, ErrCorrupt
	}
	return src[w : w+int(n)], src[w+int(n):], nil
}
