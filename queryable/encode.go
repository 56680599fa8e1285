package queryable

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/state/sqltype"
)

// A cell appends the value of one row of a column.
type cell func(dst []byte, row int) []byte

// Form chooses between the two forms of 64-bit integers in JSON.
type Form struct {
	// IntegersAsStrings makes BIGINT and UBIGINT strings, for readers whose
	// numbers end at 2^53. HUGEINT and DECIMAL are strings always.
	IntegersAsStrings bool
}

// jsonCell gives the JSON encoder of a column of type t in Inside form. It is
// good as long as the array is. The error says that array and type disagree.
func jsonCell(t sqltype.Type, a arrow.Array, f Form) (cell, error) {
	a = plain(a)
	var inner cell
	var err error
	if t.Nested() {
		inner, err = nestedCell(t, a, f)
	} else {
		inner, err = textCell(t, a)
		inner = quoted(t, a, f, inner)
	}
	if err != nil {
		return nil, err
	}
	if a.NullN() == 0 {
		return inner, nil
	}
	return func(dst []byte, row int) []byte {
		if a.IsNull(row) {
			return append(dst, "null"...)
		}
		return inner(dst, row)
	}, nil
}

// plain takes away the extension types that a dependency may have registered.
func plain(a arrow.Array) arrow.Array {
	for {
		e, ok := a.(array.ExtensionArray)
		if !ok {
			return a
		}
		a = e.Storage()
	}
}

// quoted turns the text of a scalar into its JSON.
func quoted(t sqltype.Type, a arrow.Array, f Form, text cell) cell {
	switch t.ID {
	case sqltype.Boolean, sqltype.TinyInt, sqltype.SmallInt, sqltype.Integer,
		sqltype.UTinyInt, sqltype.USmallInt, sqltype.UInteger:
		return text
	case sqltype.BigInt, sqltype.UBigInt:
		if !f.IntegersAsStrings {
			return text
		}
	case sqltype.Float:
		if a, ok := a.(*array.Float32); ok {
			return quotedUnless(text, func(i int) bool { return finite(float64(a.Value(i))) })
		}
	case sqltype.Double:
		if a, ok := a.(*array.Float64); ok {
			return quotedUnless(text, func(i int) bool { return finite(a.Value(i)) })
		}
	case sqltype.Varchar, sqltype.JSON:
		if a, ok := a.(*array.String); ok {
			return func(dst []byte, i int) []byte { return appendString(dst, a.Value(i)) }
		}
	}
	return quotedUnless(text, func(int) bool { return false })
}

func quotedUnless(text cell, bare func(int) bool) cell {
	return func(dst []byte, i int) []byte {
		if bare(i) {
			return text(dst, i)
		}
		dst = append(dst, '"')
		dst = text(dst, i)
		return append(dst, '"')
	}
}

// textCell gives the bare text of a scalar, without a thought for NULL.
func textCell(t sqltype.Type, a arrow.Array) (cell, error) {
	switch a := a.(type) {
	case *array.Int8:
		if t.ID == sqltype.Boolean {
			return func(dst []byte, i int) []byte { return strconv.AppendBool(dst, a.Value(i) != 0) }, nil
		}
		if t.ID == sqltype.TinyInt {
			return func(dst []byte, i int) []byte { return strconv.AppendInt(dst, int64(a.Value(i)), 10) }, nil
		}
	case *array.Boolean:
		if t.ID == sqltype.Boolean {
			return func(dst []byte, i int) []byte { return strconv.AppendBool(dst, a.Value(i)) }, nil
		}
	case *array.Int16:
		if t.ID == sqltype.SmallInt {
			return func(dst []byte, i int) []byte { return strconv.AppendInt(dst, int64(a.Value(i)), 10) }, nil
		}
	case *array.Int32:
		if t.ID == sqltype.Integer {
			return func(dst []byte, i int) []byte { return strconv.AppendInt(dst, int64(a.Value(i)), 10) }, nil
		}
	case *array.Int64:
		if t.ID == sqltype.BigInt {
			return func(dst []byte, i int) []byte { return strconv.AppendInt(dst, a.Value(i), 10) }, nil
		}
	case *array.Uint8:
		if t.ID == sqltype.UTinyInt {
			return func(dst []byte, i int) []byte { return strconv.AppendUint(dst, uint64(a.Value(i)), 10) }, nil
		}
	case *array.Uint16:
		if t.ID == sqltype.USmallInt {
			return func(dst []byte, i int) []byte { return strconv.AppendUint(dst, uint64(a.Value(i)), 10) }, nil
		}
	case *array.Uint32:
		if t.ID == sqltype.UInteger {
			return func(dst []byte, i int) []byte { return strconv.AppendUint(dst, uint64(a.Value(i)), 10) }, nil
		}
	case *array.Uint64:
		if t.ID == sqltype.UBigInt {
			return func(dst []byte, i int) []byte { return strconv.AppendUint(dst, a.Value(i), 10) }, nil
		}
	case *array.Float32:
		if t.ID == sqltype.Float {
			return func(dst []byte, i int) []byte { return appendFloat(dst, float64(a.Value(i)), 32) }, nil
		}
	case *array.Float64:
		if t.ID == sqltype.Double {
			return func(dst []byte, i int) []byte { return appendFloat(dst, a.Value(i), 64) }, nil
		}
	case *array.Decimal128:
		if t.ID == sqltype.Decimal && a.DataType().(*arrow.Decimal128Type).Scale == int32(t.Scale) {
			return func(dst []byte, i int) []byte { return appendDecimal(dst, a.Value(i), int(t.Scale)) }, nil
		}
	case *array.String:
		if t.ID == sqltype.Varchar || t.ID == sqltype.JSON {
			return func(dst []byte, i int) []byte { return append(dst, a.Value(i)...) }, nil
		}
	case *array.Binary:
		if t.ID == sqltype.Blob {
			return func(dst []byte, i int) []byte { return base64.StdEncoding.AppendEncode(dst, a.Value(i)) }, nil
		}
	case *array.FixedSizeBinary:
		return fixedCell(t, a)
	default:
		return temporalCell(t, a)
	}
	return nil, mismatch(t, a)
}

func fixedCell(t sqltype.Type, a *array.FixedSizeBinary) (cell, error) {
	if a.DataType().(*arrow.FixedSizeBinaryType).ByteWidth != 16 {
		return nil, mismatch(t, a)
	}
	switch t.ID {
	case sqltype.HugeInt:
		return func(dst []byte, i int) []byte { return appendHugeInt(dst, a.Value(i), true) }, nil
	case sqltype.UHugeInt:
		return func(dst []byte, i int) []byte { return appendHugeInt(dst, a.Value(i), false) }, nil
	case sqltype.UUID:
		return func(dst []byte, i int) []byte { return appendUUID(dst, a.Value(i)) }, nil
	}
	return nil, mismatch(t, a)
}

func temporalCell(t sqltype.Type, a arrow.Array) (cell, error) {
	switch a := a.(type) {
	case *array.Date32:
		if t.ID == sqltype.Date {
			return func(dst []byte, i int) []byte { return appendDate(dst, int64(a.Value(i))) }, nil
		}
	case *array.Time64:
		if t.ID == sqltype.Time && a.DataType().(*arrow.Time64Type).Unit == arrow.Microsecond {
			return func(dst []byte, i int) []byte { return appendClock(dst, int64(a.Value(i)), 1_000_000) }, nil
		}
	case *array.Timestamp:
		if t.ID < sqltype.TimestampS || t.ID > sqltype.TimestampTZ {
			break
		}
		unit := perSecond(a.DataType().(*arrow.TimestampType).Unit)
		zone := ""
		if t.ID == sqltype.TimestampTZ {
			zone = "Z"
		}
		return func(dst []byte, i int) []byte { return appendTimestamp(dst, int64(a.Value(i)), unit, zone) }, nil
	case *array.MonthDayNanoInterval:
		if t.ID == sqltype.Interval {
			return func(dst []byte, i int) []byte { return appendInterval(dst, a.Value(i)) }, nil
		}
	}
	return nil, mismatch(t, a)
}

func mismatch(t sqltype.Type, a arrow.Array) error {
	return fmt.Errorf("a column of type %s came as Arrow %s", t, a.DataType())
}

func nestedCell(t sqltype.Type, a arrow.Array, f Form) (cell, error) {
	switch a := a.(type) {
	case *array.Map:
		if t.ID == sqltype.Map {
			return mapCell(t, a, f)
		}
	case *array.List:
		if t.ID == sqltype.List {
			return listCell(*t.Elem, a, a.ListValues(), f)
		}
	case *array.FixedSizeList:
		if t.ID == sqltype.Array {
			return listCell(*t.Elem, a, a.ListValues(), f)
		}
	case *array.Struct:
		if t.ID == sqltype.Struct && a.NumField() == len(t.Fields) {
			return structCell(t, a, f)
		}
	}
	return nil, mismatch(t, a)
}

func listCell(elem sqltype.Type, a array.ListLike, values arrow.Array, f Form) (cell, error) {
	value, err := jsonCell(elem, values, f)
	if err != nil {
		return nil, err
	}
	return func(dst []byte, row int) []byte {
		dst = append(dst, '[')
		from, to := a.ValueOffsets(row)
		for i := from; i < to; i++ {
			if i > from {
				dst = append(dst, ',')
			}
			dst = value(dst, int(i))
		}
		return append(dst, ']')
	}, nil
}

func structCell(t sqltype.Type, a *array.Struct, f Form) (cell, error) {
	parts := make([]cell, len(t.Fields))
	names := make([][]byte, len(t.Fields))
	for i, field := range t.Fields {
		var err error
		if parts[i], err = jsonCell(field.Type, a.Field(i), f); err != nil {
			return nil, err
		}
		names[i] = append(appendString(nil, field.Name), ':')
	}
	return func(dst []byte, row int) []byte {
		dst = append(dst, '{')
		for i, part := range parts {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, names[i]...)
			dst = part(dst, row)
		}
		return append(dst, '}')
	}, nil
}

// mapCell writes a MAP as an object. JSON's names are strings, so a key is its
// text, and a nested key its JSON in a string.
func mapCell(t sqltype.Type, a *array.Map, f Form) (cell, error) {
	key, err := plainText(t.Fields[0].Type, a.Keys(), f)
	if err != nil {
		return nil, err
	}
	value, err := jsonCell(t.Fields[1].Type, a.Items(), f)
	if err != nil {
		return nil, err
	}
	return func(dst []byte, row int) []byte {
		var buf [64]byte
		dst = append(dst, '{')
		from, to := a.ValueOffsets(row)
		for i := from; i < to; i++ {
			if i > from {
				dst = append(dst, ',')
			}
			dst = appendString(dst, string(key(buf[:0], int(i))))
			dst = append(dst, ':')
			dst = value(dst, int(i))
		}
		return append(dst, '}')
	}, nil
}

// ValueText shows a value of a column in Inside form to people, as CSV does: a HUGEINT
// is its digits. NULL is a word.
func ValueText(t sqltype.Type, a arrow.Array, row int) string {
	if a.IsNull(row) {
		return "NULL"
	}
	text, err := plainText(t, a, Form{})
	if err != nil { // it is in another form
		return a.ValueStr(row)
	}
	return string(text(nil, row))
}

// plainText is the text of any value: scalars bare, nested ones as JSON.
func plainText(t sqltype.Type, a arrow.Array, f Form) (cell, error) {
	if t.Nested() {
		return jsonCell(t, a, f)
	}
	return textCell(t, plain(a))
}

func appendUUID(dst, b []byte) []byte {
	for i, part := range [][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:16]} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, part)
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Bytes that are not UTF-8 become
// U+FFFD; DuckDB lets none into a VARCHAR.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}
