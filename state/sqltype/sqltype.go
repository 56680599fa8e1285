// Package sqltype names the column types that Weir understands and how each
// travels as Arrow.
//
// A [Type] is a DuckDB type. It is read from and printed in DuckDB's own
// spelling, as DESCRIBE prints it, so that the text is the identity of a type
// in catalogues, manifests and comparisons. Each type has two Arrow forms:
//
//   - [Type.Inside] travels inside Weir (batches, state scans, the query
//     process) and loses nothing: HUGEINT is 16 bytes, not a decimal.
//   - [Type.File] is what strangers read in files and over HTTP: no extension
//     but arrow.uuid, no interval, HUGEINT as decimal128(38,0).
//
// The package knows nothing of values: their order, equality and encoding live
// in package state.
package sqltype

import (
	"strconv"
	"strings"
)

// ID is the kind of a type.
type ID uint8

// The kinds. Their numbers are stored nowhere; the text of a type is.
const (
	Invalid ID = iota
	Boolean
	TinyInt
	SmallInt
	Integer
	BigInt
	HugeInt
	UTinyInt
	USmallInt
	UInteger
	UBigInt
	UHugeInt
	Float
	Double
	Decimal
	Varchar
	JSON
	Blob
	UUID
	Date
	Time
	TimestampS
	TimestampMS
	Timestamp
	TimestampNS
	TimestampTZ
	Interval
	List
	Array
	Struct
	Map
)

// Type is one DuckDB type. The zero Type is invalid.
type Type struct {
	ID     ID
	Width  uint8   // Decimal: digits, 1 to 38
	Scale  uint8   // Decimal: digits behind the point
	Size   int     // Array: elements
	Elem   *Type   // List, Array
	Fields []Field // Struct: its fields; Map: "key" and "value"
}

// Field is a named part of a struct, or a column.
type Field struct {
	Name string `json:"name"`
	Type Type   `json:"type"`
}

var names = [...]string{
	Boolean: "BOOLEAN", TinyInt: "TINYINT", SmallInt: "SMALLINT", Integer: "INTEGER", BigInt: "BIGINT",
	HugeInt: "HUGEINT", UTinyInt: "UTINYINT", USmallInt: "USMALLINT", UInteger: "UINTEGER", UBigInt: "UBIGINT",
	UHugeInt: "UHUGEINT", Float: "FLOAT", Double: "DOUBLE", Varchar: "VARCHAR", JSON: "JSON", Blob: "BLOB",
	UUID: "UUID", Date: "DATE", Time: "TIME", TimestampS: "TIMESTAMP_S", TimestampMS: "TIMESTAMP_MS",
	Timestamp: "TIMESTAMP", TimestampNS: "TIMESTAMP_NS", TimestampTZ: "TIMESTAMP WITH TIME ZONE", Interval: "INTERVAL",
	Map: "",
}

// String spells the type as DuckDB's DESCRIBE does.
func (t Type) String() string {
	switch t.ID {
	case Decimal:
		return "DECIMAL(" + strconv.Itoa(int(t.Width)) + "," + strconv.Itoa(int(t.Scale)) + ")"
	case List:
		return t.Elem.String() + "[]"
	case Array:
		return t.Elem.String() + "[" + strconv.Itoa(t.Size) + "]"
	case Struct:
		var b strings.Builder
		b.WriteString("STRUCT(")
		for i, f := range t.Fields {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(quoteField(f.Name))
			b.WriteByte(' ')
			b.WriteString(f.Type.String())
		}
		b.WriteByte(')')
		return b.String()
	case Map:
		return "MAP(" + t.Fields[0].Type.String() + ", " + t.Fields[1].Type.String() + ")"
	case Invalid:
		return "INVALID"
	default:
		return names[t.ID]
	}
}

// Equal says whether two types are the same in every part, names of struct
// fields included.
func (t Type) Equal(u Type) bool { return t.String() == u.String() }

// Integral says whether the values of t are whole numbers of a fixed width.
func (t Type) Integral() bool { return t.ID >= TinyInt && t.ID <= UHugeInt }

// Numeric says whether t is an integer, a decimal or a float.
func (t Type) Numeric() bool { return t.ID >= TinyInt && t.ID <= Decimal }

// Nested says whether values of t hold values of other types.
func (t Type) Nested() bool { return t.ID >= List }

// Temporal says whether t is a point in time, by which groups can be bucketed.
func (t Type) Temporal() bool { return t.ID == Date || t.ID >= TimestampS && t.ID <= TimestampTZ }

// Find returns the first type within t, itself included, for which f is true.
func (t Type) Find(f func(Type) bool) (Type, bool) {
	if f(t) {
		return t, true
	}
	if t.Elem != nil {
		return t.Elem.Find(f)
	}
	for _, c := range t.Fields {
		if u, ok := c.Type.Find(f); ok {
			return u, true
		}
	}
	return Type{}, false
}

// quoteField quotes a struct field's name where DuckDB's printer would. DuckDB
// quotes by its keyword list, which is not known here: names are compared after
// Parse, so the two spellings of one type are equal.
func quoteField(s string) string {
	plain := s != ""
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			plain = false
		}
	}
	if plain {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

// MarshalText and UnmarshalText make a type its text in JSON.
func (t Type) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (t *Type) UnmarshalText(b []byte) (err error) {
	*t, err = Parse(string(b))
	return err
}
