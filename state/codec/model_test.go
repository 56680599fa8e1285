package codec

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/sqltype"
)

// The model: a value is nil (NULL), a word, a wide word, bytes, an interval or a
// list of values (LIST, ARRAY, STRUCT in the order of their parts; a MAP is a
// list of two-value lists). compare is DuckDB's order, written without the codec.

type wide struct{ hi, lo uint64 }

func build(t *testing.T, typ sqltype.Type, values ...any) arrow.Array {
	t.Helper()
	b := array.NewBuilder(memory.DefaultAllocator, typ.Inside())
	defer b.Release()
	for _, v := range values {
		put(b, typ, v)
	}
	return b.NewArray()
}

func put(b array.Builder, t sqltype.Type, v any) {
	switch v := v.(type) {
	case nil:
		b.AppendNull()
	case uint64:
		putWord(b, v)
	case wide:
		putWide(b, t, v)
	case []byte:
		switch b := b.(type) {
		case *array.StringBuilder:
			b.Append(string(v))
		case *array.BinaryBuilder:
			b.Append(v)
		}
	case arrow.MonthDayNanoInterval:
		b.(*array.MonthDayNanoIntervalBuilder).Append(v)
	case []any:
		switch b := b.(type) {
		case *array.ListBuilder:
			b.Append(true)
			for _, e := range v {
				put(b.ValueBuilder(), *t.Elem, e)
			}
		case *array.FixedSizeListBuilder:
			b.Append(true)
			for _, e := range v {
				put(b.ValueBuilder(), *t.Elem, e)
			}
		case *array.StructBuilder:
			b.Append(true)
			for i, e := range v {
				put(b.FieldBuilder(i), t.Fields[i].Type, e)
			}
		case *array.MapBuilder:
			b.Append(true)
			for _, e := range v {
				put(b.KeyBuilder(), t.Fields[0].Type, e.([]any)[0])
				put(b.ItemBuilder(), t.Fields[1].Type, e.([]any)[1])
			}
		}
	}
}

func putWord(b array.Builder, w uint64) {
	switch b := b.(type) {
	case *array.Int8Builder:
		b.Append(int8(w))
	case *array.Int16Builder:
		b.Append(int16(w))
	case *array.Int32Builder:
		b.Append(int32(w))
	case *array.Int64Builder:
		b.Append(int64(w))
	case *array.Uint8Builder:
		b.Append(uint8(w))
	case *array.Uint16Builder:
		b.Append(uint16(w))
	case *array.Uint32Builder:
		b.Append(uint32(w))
	case *array.Uint64Builder:
		b.Append(w)
	case *array.Float32Builder:
		b.Append(math.Float32frombits(uint32(w)))
	case *array.Float64Builder:
		b.Append(math.Float64frombits(w))
	case *array.Date32Builder:
		b.Append(arrow.Date32(w))
	case *array.Time64Builder:
		b.Append(arrow.Time64(w))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(w))
	default:
		panic(fmt.Sprintf("%T", b))
	}
}

func putWide(b array.Builder, t sqltype.Type, w wide) {
	var v [16]byte
	switch {
	case t.ID == sqltype.Decimal:
		b.(*array.Decimal128Builder).Append(newDecimal(w.hi, w.lo))
		return
	case t.ID == sqltype.UUID:
		binary.BigEndian.PutUint64(v[:], w.hi)
		binary.BigEndian.PutUint64(v[8:], w.lo)
	default:
		binary.LittleEndian.PutUint64(v[:], w.lo)
		binary.LittleEndian.PutUint64(v[8:], w.hi)
	}
	b.(*array.FixedSizeBinaryBuilder).Append(v[:])
}

func compare(t sqltype.Type, a, b any) int {
	switch {
	case a == nil || b == nil: // NULL is last
		return cmp.Compare(btoi(a == nil), btoi(b == nil))
	case t.ID == sqltype.Float:
		return compareFloat(float64(math.Float32frombits(uint32(a.(uint64)))), float64(math.Float32frombits(uint32(b.(uint64)))))
	case t.ID == sqltype.Double:
		return compareFloat(math.Float64frombits(a.(uint64)), math.Float64frombits(b.(uint64)))
	case t.ID == sqltype.HugeInt || t.ID == sqltype.Decimal:
		x, y := a.(wide), b.(wide)
		return cmp.Or(cmp.Compare(int64(x.hi), int64(y.hi)), cmp.Compare(x.lo, y.lo))
	}
	switch x := a.(type) {
	case uint64:
		y := b.(uint64)
		switch t.ID {
		case sqltype.UTinyInt, sqltype.USmallInt, sqltype.UInteger, sqltype.UBigInt, sqltype.Boolean:
			return cmp.Compare(x, y)
		}
		return cmp.Compare(int64(x), int64(y))
	case wide:
		y := b.(wide)
		return cmp.Or(cmp.Compare(x.hi, y.hi), cmp.Compare(x.lo, y.lo))
	case []byte:
		return bytes.Compare(x, b.([]byte))
	case arrow.MonthDayNanoInterval:
		xm, xd, xu := model(x)
		ym, yd, yu := model(b.(arrow.MonthDayNanoInterval))
		return cmp.Or(cmp.Compare(xm, ym), cmp.Compare(xd, yd), cmp.Compare(xu, yu))
	}
	x, y := a.([]any), b.([]any)
	for i := range min(len(x), len(y)) {
		var part sqltype.Type
		switch t.ID {
		case sqltype.Struct:
			part = t.Fields[i].Type
		case sqltype.Map:
			part = sqltype.Type{ID: sqltype.Struct, Fields: t.Fields}
		default:
			part = *t.Elem
		}
		if c := compare(part, x[i], y[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y))
}

// model is interval_t::Normalize of DuckDB, in its own units.
func model(v arrow.MonthDayNanoInterval) (months, days, micros int64) {
	micros = v.Nanoseconds / 1000
	carry := micros / 86_400_000_000
	micros -= carry * 86_400_000_000
	days = int64(v.Days) + carry
	months = days / 30
	return int64(v.Months) + months, days - months*30, micros
}

func compareFloat(a, b float64) int {
	switch {
	case a != a || b != b:
		return cmp.Compare(btoi(a != a), btoi(b != b))
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// random makes values that often are equal, neighbours or extremes.
func random(r *rand.Rand, t sqltype.Type, null bool) any {
	if null && r.IntN(6) == 0 {
		return nil
	}
	switch ShapeOf(t) {
	case Word:
		return randomWord(r, t)
	case Wide:
		w := wide{lo: randomInt(r)}
		if w.hi = uint64(int64(w.lo) >> 63); r.IntN(2) == 0 {
			w.hi = randomInt(r)
		}
		return w
	case Bytes:
		b := make([]byte, r.IntN(5))
		for i := range b {
			b[i] = "\x00\x01\x02a\x7f"[r.IntN(5)]
			if t.ID == sqltype.Blob && r.IntN(3) == 0 {
				b[i] = 0xff
			}
		}
		return b
	}
	switch t.ID {
	case sqltype.Interval:
		return arrow.MonthDayNanoInterval{
			Months: int32(r.IntN(5)-2) + int32(r.IntN(2))*math.MaxInt32/2, Days: int32(r.IntN(130) - 60),
			Nanoseconds: int64(r.IntN(7)-3) * 43_200_000_000_000,
		}
	case sqltype.Struct:
		var v []any
		for _, f := range t.Fields {
			v = append(v, random(r, f.Type, true))
		}
		return v
	case sqltype.Map:
		v := []any{}
		for range r.IntN(3) {
			v = append(v, []any{random(r, t.Fields[0].Type, false), random(r, t.Fields[1].Type, true)})
		}
		return v
	}
	n := t.Size
	if t.ID == sqltype.List {
		n = r.IntN(4)
	}
	v := []any{}
	for range n {
		v = append(v, random(r, *t.Elem, true))
	}
	return v
}

func randomInt(r *rand.Rand) uint64 {
	small := []uint64{0, 1, 2, math.MaxUint64, math.MaxInt64, 1 << 63, 255, 256}
	if r.IntN(4) == 0 {
		return r.Uint64() >> r.IntN(64)
	}
	return small[r.IntN(len(small))]
}

func randomWord(r *rand.Rand, t sqltype.Type) uint64 {
	floats := []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), 1e-300, -1e-300, math.MaxFloat64}
	switch t.ID {
	case sqltype.Boolean:
		return uint64(r.IntN(2))
	case sqltype.Double:
		if r.IntN(8) == 0 {
			return 0xfff8<<48 | r.Uint64()>>20 // another NaN
		}
		return math.Float64bits(floats[r.IntN(len(floats))])
	case sqltype.Float:
		if r.IntN(8) == 0 {
			return 0xffc0<<16 | uint64(r.Uint32()>>20)
		}
		return uint64(math.Float32bits(float32(floats[r.IntN(len(floats))])))
	}
	w := randomInt(r)
	shift := 64 - 8*size(t)
	if unsigned(t) {
		return w << shift >> shift
	}
	return uint64(int64(w<<shift) >> shift)
}

var scalars = []string{
	"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
	"UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL(4,2)", "DECIMAL(38,5)", "VARCHAR", "JSON", "BLOB", "UUID", "DATE", "TIME",
	"TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "INTERVAL",
}

func types() []sqltype.Type {
	var ts []sqltype.Type
	for _, s := range scalars {
		ts = append(ts, sqltype.MustParse(s), sqltype.MustParse(s+"[]"))
	}
	for _, s := range []string{
		"INTEGER[2]", "VARCHAR[][]", "STRUCT(a DOUBLE, b VARCHAR)", "STRUCT(a INTERVAL, b STRUCT(c BLOB[], d UUID))[]",
		"MAP(VARCHAR, DOUBLE)", "MAP(INTEGER, VARCHAR[])", "STRUCT(a BOOLEAN)[2]", "FLOAT[3]",
	} {
		ts = append(ts, sqltype.MustParse(s))
	}
	return ts
}
