package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/state/sqltype"
)

// ErrCorrupt says that bytes are not the encoding of a value of the type.
var ErrCorrupt = errors.New("damaged encoding")

// A Shape is how a value of a type is held between Arrow and bytes.
type Shape uint8

// The shapes.
const (
	Word  Shape = iota // 64 bits: integers extended, floats as their bits
	Wide               // 128 bits: HUGEINT, UHUGEINT, DECIMAL, UUID
	Bytes              // VARCHAR, JSON, BLOB
	Other              // INTERVAL and nested types, which have no shape of their own
)

// ShapeOf is the shape of values of t.
func ShapeOf(t sqltype.Type) Shape {
	switch t.ID {
	case sqltype.HugeInt, sqltype.UHugeInt, sqltype.Decimal, sqltype.UUID:
		return Wide
	case sqltype.Varchar, sqltype.JSON, sqltype.Blob:
		return Bytes
	case sqltype.Interval, sqltype.List, sqltype.Array, sqltype.Struct, sqltype.Map, sqltype.Invalid:
		return Other
	}
	return Word
}

// unwrap removes the extension types that some dependency may have registered.
func unwrap(a arrow.Array) arrow.Array {
	for {
		e, ok := a.(array.ExtensionArray)
		if !ok {
			return a
		}
		a = e.Storage()
	}
}

func mismatch(t sqltype.Type, a arrow.Array) error {
	return fmt.Errorf("column of type %s came as Arrow %s, not %s", t, a.DataType(), t.Inside())
}

// Words reads the words of a column. The function takes a row that is not NULL.
func Words(t sqltype.Type, a arrow.Array) (func(row int) uint64, error) {
	a = unwrap(a)
	switch a := a.(type) {
	case *array.Boolean:
		if t.ID == sqltype.Boolean {
			return func(row int) uint64 {
				if a.Value(row) {
					return 1
				}
				return 0
			}, nil
		}
	case *array.Int8:
		if t.ID == sqltype.Boolean {
			v := a.Int8Values()
			return func(row int) uint64 {
				if v[row] != 0 {
					return 1
				}
				return 0
			}, nil
		}
	}
	if ShapeOf(t) != Word || !arrow.TypeEqual(t.Inside(), a.DataType()) {
		return nil, mismatch(t, a)
	}
	switch a := a.(type) {
	case *array.Int8:
		return extend(a.Int8Values()), nil
	case *array.Int16:
		return extend(a.Int16Values()), nil
	case *array.Int32:
		return extend(a.Int32Values()), nil
	case *array.Int64:
		return extend(a.Int64Values()), nil
	case *array.Uint8:
		return extend(a.Uint8Values()), nil
	case *array.Uint16:
		return extend(a.Uint16Values()), nil
	case *array.Uint32:
		return extend(a.Uint32Values()), nil
	case *array.Uint64:
		return extend(a.Uint64Values()), nil
	case *array.Date32:
		return extend(a.Date32Values()), nil
	case *array.Time64:
		return extend(a.Time64Values()), nil
	case *array.Timestamp:
		return extend(a.TimestampValues()), nil
	case *array.Float32:
		v := a.Float32Values()
		return func(row int) uint64 { return uint64(math.Float32bits(v[row])) }, nil
	case *array.Float64:
		v := a.Float64Values()
		return func(row int) uint64 { return math.Float64bits(v[row]) }, nil
	}
	return nil, mismatch(t, a)
}

type integer interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

func extend[T integer](v []T) func(int) uint64 {
	return func(row int) uint64 { return uint64(v[row]) }
}

// WideWords reads the 128-bit words of a column: two's complement for HUGEINT
// and DECIMAL, the 16 bytes in order for UUID.
func WideWords(t sqltype.Type, a arrow.Array) (func(row int) (hi, lo uint64), error) {
	a = unwrap(a)
	switch a := a.(type) {
	case *array.Decimal128:
		if t.ID == sqltype.Decimal && a.DataType().(*arrow.Decimal128Type).Scale == int32(t.Scale) {
			v := a.Values()
			return func(row int) (hi, lo uint64) { return uint64(v[row].HighBits()), v[row].LowBits() }, nil
		}
	case *array.FixedSizeBinary:
		if t.ID == sqltype.Decimal || ShapeOf(t) != Wide || a.DataType().(*arrow.FixedSizeBinaryType).ByteWidth != 16 {
			break
		}
		if t.ID == sqltype.UUID {
			return func(row int) (hi, lo uint64) {
				b := a.Value(row)
				return binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
			}, nil
		}
		return func(row int) (hi, lo uint64) {
			b := a.Value(row)
			return binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b)
		}, nil
	}
	return nil, mismatch(t, a)
}

// Strings reads the bytes of a VARCHAR, JSON or BLOB column. They alias the
// column.
func Strings(t sqltype.Type, a arrow.Array) (func(row int) []byte, error) {
	a = unwrap(a)
	ok := false
	switch a.(type) {
	case *array.String:
		ok = t.ID == sqltype.Varchar || t.ID == sqltype.JSON
	case *array.Binary:
		ok = t.ID == sqltype.Blob
	}
	if !ok {
		return nil, mismatch(t, a)
	}
	var offsets []int32
	var data []byte
	if b := a.Data().Buffers()[1]; b != nil {
		offsets = arrow.Int32Traits.CastFromBytes(b.Bytes())[a.Data().Offset():]
	}
	if b := a.Data().Buffers()[2]; b != nil {
		data = b.Bytes()
	}
	return func(row int) []byte { return data[offsets[row]:offsets[row+1]] }, nil
}
