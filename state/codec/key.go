package codec

import (
	"bytes"
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/state/sqltype"
)

// The byte in front of each value of the key form. It ends a list, says that a
// value follows, or is NULL, which sorts last.
const (
	tagEnd   = 0x00
	tagValue = 0x01
	tagNull  = 0x02
)

// Bytes of VARCHAR and BLOB end with 00 01; a 00 among them is written 00 ff.
const (
	escape     = 0x00
	terminator = 0x01
	escaped00  = 0xff
)

// An Appender appends the encoding of a row of the column it is bound to.
type Appender func(dst []byte, row int) []byte

// A KeyEncoder writes values of one type in the key form.
type KeyEncoder struct{ t sqltype.Type }

// NewKeyEncoder returns the encoder of t.
func NewKeyEncoder(t sqltype.Type) KeyEncoder { return KeyEncoder{t} }

// Bind resolves the encoder for one column of a batch, so that rows are cheap.
// The error says that the column is not of the type. The column must outlive
// the appender.
func (e KeyEncoder) Bind(a arrow.Array) (Appender, error) {
	a = unwrap(a)
	body, err := keyBody(e.t, a)
	if err != nil {
		return nil, err
	}
	return nullable(a, body), nil
}

// AppendKey appends one value in the key form.
func AppendKey(dst []byte, t sqltype.Type, a arrow.Array, row int) ([]byte, error) {
	f, err := NewKeyEncoder(t).Bind(a)
	if err != nil {
		return dst, err
	}
	return f(dst, row), nil
}

// NullKey is the key form of NULL of any type.
func NullKey() []byte { return []byte{tagNull} }

// nullable puts the tag in front.
func nullable(a arrow.Array, body Appender) Appender {
	if a.NullN() == 0 {
		return func(dst []byte, row int) []byte { return body(append(dst, tagValue), row) }
	}
	return func(dst []byte, row int) []byte {
		if a.IsNull(row) {
			return append(dst, tagNull)
		}
		return body(append(dst, tagValue), row)
	}
}

func keyBody(t sqltype.Type, a arrow.Array) (Appender, error) {
	switch ShapeOf(t) {
	case Word:
		return keyWord(t, a)
	case Wide:
		get, err := WideWords(t, a)
		flip := WideFlip(t)
		return func(dst []byte, row int) []byte {
			hi, lo := get(row)
			return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, hi^flip), lo)
		}, err
	case Bytes:
		get, err := Strings(t, a)
		return func(dst []byte, row int) []byte { return appendEscaped(dst, get(row)) }, err
	}
	switch a := a.(type) {
	case *array.MonthDayNanoInterval:
		if t.ID == sqltype.Interval {
			return func(dst []byte, row int) []byte { return appendInterval(dst, a.Value(row)) }, nil
		}
	case *array.Struct:
		if t.ID == sqltype.Struct && a.NumField() == len(t.Fields) {
			return structOf(t.Fields, a.Field, bindKey)
		}
	case *array.Map:
		if t.ID == sqltype.Map {
			entry, err := structOf(t.Fields, func(i int) arrow.Array { return []arrow.Array{a.Keys(), a.Items()}[i] }, bindKey)
			return keyList(a, func(dst []byte, row int) []byte { return entry(append(dst, tagValue), row) }), err
		}
	case *array.List:
		if t.ID == sqltype.List {
			elem, err := bindKey(*t.Elem, a.ListValues())
			return keyList(a, elem), err
		}
	case *array.FixedSizeList:
		if t.ID == sqltype.Array && int(a.DataType().(*arrow.FixedSizeListType).Len()) == t.Size {
			elem, err := bindKey(*t.Elem, a.ListValues())
			return elements(a, elem), err
		}
	}
	return nil, mismatch(t, a)
}

func bindKey(t sqltype.Type, a arrow.Array) (Appender, error) { return NewKeyEncoder(t).Bind(a) }

func keyWord(t sqltype.Type, a arrow.Array) (Appender, error) {
	if a, ok := a.(*array.Int64); ok && t.ID == sqltype.BigInt {
		v := a.Int64Values()
		return func(dst []byte, row int) []byte {
			return binary.BigEndian.AppendUint64(dst, uint64(v[row])^1<<63)
		}, nil
	}
	get, err := Words(t, a)
	if err != nil {
		return nil, err
	}
	order, n := Order(t), size(t)
	shift := 64 - 8*n
	return func(dst []byte, row int) []byte {
		dst = binary.BigEndian.AppendUint64(dst, order(get(row))<<shift)
		return dst[:len(dst)-8+n]
	}, nil
}

func appendEscaped(dst, b []byte) []byte {
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			return append(append(dst, b...), escape, terminator)
		}
		dst = append(append(dst, b[:i]...), escape, escaped00)
		b = b[i+1:]
	}
}

func appendInterval(dst []byte, v arrow.MonthDayNanoInterval) []byte {
	months, days, micros := carry(v)
	dst = binary.BigEndian.AppendUint64(dst, uint64(months)^1<<63)
	dst = append(dst, byte(days+128))
	return binary.BigEndian.AppendUint64(dst, uint64(micros)^1<<63)
}

type lister interface {
	ValueOffsets(row int) (start, end int64)
}

// elements appends the elements of a list one after the other.
func elements(a lister, elem Appender) Appender {
	return func(dst []byte, row int) []byte {
		start, end := a.ValueOffsets(row)
		for i := start; i < end; i++ {
			dst = elem(dst, int(i))
		}
		return dst
	}
}

func keyList(a lister, elem Appender) Appender {
	all := elements(a, elem)
	return func(dst []byte, row int) []byte { return append(all(dst, row), tagEnd) }
}

// structOf appends the fields of a struct one after the other.
func structOf(fields []sqltype.Field, column func(int) arrow.Array, bind func(sqltype.Type, arrow.Array) (Appender, error)) (Appender, error) {
	parts := make([]Appender, len(fields))
	for i, f := range fields {
		var err error
		if parts[i], err = bind(f.Type, column(i)); err != nil {
			return nil, err
		}
	}
	return func(dst []byte, row int) []byte {
		for _, p := range parts {
			dst = p(dst, row)
		}
		return dst
	}, nil
}
