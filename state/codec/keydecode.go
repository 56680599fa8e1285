package codec

import (
	"bytes"
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/state/sqltype"
)

// A Decoder reads one value from the front of src, appends it to the builder
// and returns what follows. A nil builder skips the value. The builder is of
// the type's inside form (BOOLEAN may be a bool too). On an error the builder
// may hold part of the value.
type Decoder func(b array.Builder, src []byte) (rest []byte, err error)

// NewKeyDecoder reads the key form of values of t. It gives back the canonical
// value.
func NewKeyDecoder(t sqltype.Type) Decoder {
	body := keyReader(t)
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

func keyReader(t sqltype.Type) Decoder {
	switch ShapeOf(t) {
	case Word:
		return keyWordReader(t)
	case Wide:
		put, flip := WideWriter(t), WideFlip(t)
		return func(b array.Builder, src []byte) ([]byte, error) {
			if len(src) < 16 {
				return nil, ErrCorrupt
			}
			if b != nil {
				put(b, binary.BigEndian.Uint64(src)^flip, binary.BigEndian.Uint64(src[8:]))
			}
			return src[16:], nil
		}
	case Bytes:
		return readEscaped
	}
	switch t.ID {
	case sqltype.Interval:
		return readInterval
	case sqltype.Struct:
		return structReader(t.Fields, NewKeyDecoder)
	case sqltype.Array:
		elem := NewKeyDecoder(*t.Elem)
		return func(b array.Builder, src []byte) (rest []byte, err error) {
			return readArray(b, src, t.Size, elem)
		}
	case sqltype.List:
		return keyListReader(NewKeyDecoder(*t.Elem))
	case sqltype.Map:
		return keyMapReader(notNull(NewKeyDecoder(t.Fields[0].Type)), NewKeyDecoder(t.Fields[1].Type))
	}
	return func(array.Builder, []byte) ([]byte, error) { return nil, ErrCorrupt }
}

func keyWordReader(t sqltype.Type) Decoder {
	put, back, n := WordWriter(t), unorder(t), size(t)
	if n == 8 {
		return func(b array.Builder, src []byte) ([]byte, error) {
			if len(src) < 8 {
				return nil, ErrCorrupt
			}
			if b != nil {
				put(b, back(binary.BigEndian.Uint64(src)))
			}
			return src[8:], nil
		}
	}
	return func(b array.Builder, src []byte) ([]byte, error) {
		if len(src) < n {
			return nil, ErrCorrupt
		}
		if b != nil {
			var u uint64
			for _, c := range src[:n] {
				u = u<<8 | uint64(c)
			}
			put(b, back(u))
		}
		return src[n:], nil
	}
}

func readEscaped(b array.Builder, src []byte) ([]byte, error) {
	i := bytes.IndexByte(src, escape)
	if i >= 0 && i+1 < len(src) && src[i+1] == terminator {
		if b != nil {
			AppendToBuilder(b, src[:i])
		}
		return src[i+2:], nil
	}
	var plain []byte
	for {
		if i < 0 || i+1 == len(src) {
			return nil, ErrCorrupt
		}
		plain = append(plain, src[:i]...)
		next := src[i+1]
		src = src[i+2:]
		switch next {
		case terminator:
			if b != nil {
				AppendToBuilder(b, plain)
			}
			return src, nil
		case escaped00:
			plain = append(plain, 0)
		default:
			return nil, ErrCorrupt
		}
		i = bytes.IndexByte(src, escape)
	}
}

func readInterval(b array.Builder, src []byte) ([]byte, error) {
	if len(src) < 17 {
		return nil, ErrCorrupt
	}
	months := int64(binary.BigEndian.Uint64(src) ^ 1<<63)
	days := int32(src[8]) - 128
	micros := int64(binary.BigEndian.Uint64(src[9:]) ^ 1<<63)
	const most = 1 << 40 // far above what 32 bits of months and days and 292 years can carry
	if months < -most || months > most {
		return nil, ErrCorrupt
	}
	v, ok := borrow(months, days, micros)
	if !ok {
		return nil, ErrCorrupt
	}
	if b != nil {
		b.(*array.MonthDayNanoIntervalBuilder).Append(v)
	}
	return src[17:], nil
}

func keyListReader(elem Decoder) Decoder {
	return func(b array.Builder, src []byte) (rest []byte, err error) {
		var values array.Builder
		if b != nil {
			l := b.(*array.ListBuilder)
			l.Append(true)
			values = l.ValueBuilder()
		}
		for len(src) > 0 && src[0] != tagEnd {
			if src, err = elem(values, src); err != nil {
				return nil, err
			}
		}
		if len(src) == 0 {
			return nil, ErrCorrupt
		}
		return src[1:], nil
	}
}

func keyMapReader(key, value Decoder) Decoder {
	return func(b array.Builder, src []byte) (rest []byte, err error) {
		var keys, values array.Builder
		if b != nil {
			m := b.(*array.MapBuilder)
			m.Append(true)
			keys, values = m.KeyBuilder(), m.ItemBuilder()
		}
		for len(src) > 0 && src[0] == tagValue {
			if src, err = key(keys, src[1:]); err != nil {
				return nil, err
			}
			if src, err = value(values, src); err != nil {
				return nil, err
			}
		}
		if len(src) == 0 || src[0] != tagEnd {
			return nil, ErrCorrupt
		}
		return src[1:], nil
	}
}

// notNull refuses NULL, which a map's key never is.
func notNull(d Decoder) Decoder {
	return func(b array.Builder, src []byte) ([]byte, error) {
		if len(src) > 0 && src[0] == tagNull {
			return nil, ErrCorrupt
		}
		return d(b, src)
	}
}

// structReader reads fields one after the other, each with its decoder.
func structReader(fields []sqltype.Field, decoder func(sqltype.Type) Decoder) Decoder {
	parts := make([]Decoder, len(fields))
	for i, f := range fields {
		parts[i] = decoder(f.Type)
	}
	return func(b array.Builder, src []byte) (rest []byte, err error) {
		s, _ := b.(*array.StructBuilder)
		if s != nil {
			s.Append(true)
		}
		for i, p := range parts {
			var field array.Builder
			if s != nil {
				field = s.FieldBuilder(i)
			}
			if src, err = p(field, src); err != nil {
				return nil, err
			}
		}
		return src, nil
	}
}

func readArray(b array.Builder, src []byte, n int, elem Decoder) (rest []byte, err error) {
	var values array.Builder
	if b != nil {
		l := b.(*array.FixedSizeListBuilder)
		l.Append(true)
		values = l.ValueBuilder()
	}
	for range n {
		if src, err = elem(values, src); err != nil {
			return nil, err
		}
	}
	return src, nil
}

// AppendToBuilder appends to the builder of a VARCHAR, JSON or BLOB column.
func AppendToBuilder(b array.Builder, v []byte) {
	switch b := b.(type) {
	case *array.StringBuilder:
		b.BinaryBuilder.Append(v)
	case *array.BinaryBuilder:
		b.Append(v)
	}
}

// WideWriter appends a wide word to a builder of t's inside form.
func WideWriter(t sqltype.Type) func(b array.Builder, hi, lo uint64) {
	switch t.ID {
	case sqltype.Decimal:
		return func(b array.Builder, hi, lo uint64) {
			b.(*array.Decimal128Builder).Append(newDecimal(hi, lo))
		}
	case sqltype.UUID:
		return func(b array.Builder, hi, lo uint64) {
			var v [16]byte
			binary.BigEndian.PutUint64(v[:], hi)
			binary.BigEndian.PutUint64(v[8:], lo)
			b.(*array.FixedSizeBinaryBuilder).Append(v[:])
		}
	}
	return func(b array.Builder, hi, lo uint64) {
		var v [16]byte
		binary.LittleEndian.PutUint64(v[:], lo)
		binary.LittleEndian.PutUint64(v[8:], hi)
		b.(*array.FixedSizeBinaryBuilder).Append(v[:])
	}
}

// WordWriter appends a word to a builder of t's inside form.
func WordWriter(t sqltype.Type) func(b array.Builder, w uint64) {
	switch t.ID {
	case sqltype.Boolean:
		return func(b array.Builder, w uint64) {
			if b, ok := b.(*array.BooleanBuilder); ok {
				b.Append(w != 0)
				return
			}
			b.(*array.Int8Builder).Append(int8(w & 1))
		}
	case sqltype.TinyInt:
		return func(b array.Builder, w uint64) { b.(*array.Int8Builder).Append(int8(w)) }
	case sqltype.SmallInt:
		return func(b array.Builder, w uint64) { b.(*array.Int16Builder).Append(int16(w)) }
	case sqltype.Integer:
		return func(b array.Builder, w uint64) { b.(*array.Int32Builder).Append(int32(w)) }
	case sqltype.BigInt:
		return func(b array.Builder, w uint64) { b.(*array.Int64Builder).Append(int64(w)) }
	case sqltype.UTinyInt:
		return func(b array.Builder, w uint64) { b.(*array.Uint8Builder).Append(uint8(w)) }
	case sqltype.USmallInt:
		return func(b array.Builder, w uint64) { b.(*array.Uint16Builder).Append(uint16(w)) }
	case sqltype.UInteger:
		return func(b array.Builder, w uint64) { b.(*array.Uint32Builder).Append(uint32(w)) }
	case sqltype.UBigInt:
		return func(b array.Builder, w uint64) { b.(*array.Uint64Builder).Append(w) }
	case sqltype.Float:
		return func(b array.Builder, w uint64) { b.(*array.Float32Builder).Append(float32frombits(w)) }
	case sqltype.Double:
		return func(b array.Builder, w uint64) { b.(*array.Float64Builder).Append(float64frombits(w)) }
	case sqltype.Date:
		return func(b array.Builder, w uint64) { b.(*array.Date32Builder).Append(arrow.Date32(w)) }
	case sqltype.Time:
		return func(b array.Builder, w uint64) { b.(*array.Time64Builder).Append(arrow.Time64(w)) }
	}
	return func(b array.Builder, w uint64) { b.(*array.TimestampBuilder).Append(arrow.Timestamp(w)) }
}
