package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/sqltype"
)

// allTypes has every type that a view can hold, and nestings that meet each
// conversion at depth.
var allTypes = []string{
	"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
	"FLOAT", "DOUBLE", "DECIMAL(4,1)", "DECIMAL(12,2)", "DECIMAL(18,3)", "DECIMAL(38,10)", "VARCHAR", "JSON", "BLOB", "UUID",
	"DATE", "TIME", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "INTERVAL",
	"INTEGER[]", "BOOLEAN[]", "HUGEINT[]", "UUID[]", "VARCHAR[][]", "INTEGER[3]", "TIMESTAMP_S[2]", "INTERVAL[]",
	"STRUCT(a INTEGER, b VARCHAR, c BOOLEAN)", "STRUCT(h HUGEINT, d DECIMAL(12,2), i INTERVAL)[]", "MAP(VARCHAR, UHUGEINT)",
	"MAP(BOOLEAN, INTERVAL[])", "STRUCT(m MAP(UUID, TIMESTAMP_MS[2]), n STRUCT(x BOOLEAN[]))",
}

// randomArray has n values of t in the inside form: NULLs, extremes and, when
// wide, values that the file form cannot hold.
func randomArray(mem memory.Allocator, r *rand.Rand, t sqltype.Type, n int, wide bool) arrow.Array {
	b := array.NewBuilder(mem, t.Inside())
	defer b.Release()
	for range n {
		appendRandom(b, r, t, wide, true)
	}
	return b.NewArray()
}

func appendRandom(b array.Builder, r *rand.Rand, t sqltype.Type, wide, null bool) {
	if null && r.IntN(6) == 0 {
		b.AppendNull()
		return
	}
	// Small, or any bit pattern.
	num := func() int64 {
		if r.IntN(3) == 0 {
			return int64(r.Uint64())
		}
		return int64(r.IntN(2001) - 1000)
	}
	switch b := b.(type) {
	case *array.Int8Builder:
		if t.ID == sqltype.Boolean {
			b.Append(int8(r.IntN(2)))
		} else {
			b.Append(int8(num()))
		}
	case *array.Int16Builder:
		b.Append(int16(num()))
	case *array.Int32Builder:
		b.Append(int32(num()))
	case *array.Int64Builder:
		b.Append(num())
	case *array.Uint8Builder:
		b.Append(uint8(num()))
	case *array.Uint16Builder:
		b.Append(uint16(num()))
	case *array.Uint32Builder:
		b.Append(uint32(num()))
	case *array.Uint64Builder:
		b.Append(uint64(num()))
	case *array.Float32Builder:
		b.Append([]float32{0, float32(math.Copysign(0, -1)), float32(math.NaN()), float32(math.Inf(-1)), 1e-45, float32(num())}[r.IntN(6)])
	case *array.Float64Builder:
		b.Append([]float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), 5e-324, float64(num()) / 3}[r.IntN(6)])
	case *array.Decimal128Builder:
		v := decimal128.FromI64(num() % 1000)
		if r.IntN(2) == 0 && t.Width == 38 {
			v = decimal128.GetMaxValue(38)
		}
		b.Append(v)
	case *array.StringBuilder:
		b.Append([]string{"", "a", "nul\x00byte", "Zürich", "🦆🦆", strings.Repeat("x", r.IntN(40)), fmt.Sprint(num())}[r.IntN(7)])
	case *array.BinaryBuilder:
		b.Append([][]byte{{}, {0}, {0xff, 0}, []byte("bytes")}[r.IntN(4)])
	case *array.FixedSizeBinaryBuilder:
		b.Append(random16(r, t, wide))
	case *array.Date32Builder:
		b.Append(arrow.Date32(r.IntN(40000) - 20000))
	case *array.Time64Builder:
		b.Append(arrow.Time64(r.Int64N(86_400_000_000 + 1)))
	case *array.TimestampBuilder:
		b.Append(randomTimestamp(r, t, wide))
	case *array.MonthDayNanoIntervalBuilder:
		b.Append(arrow.MonthDayNanoInterval{Months: int32(num()), Days: int32(num()), Nanoseconds: num() / 1000 * 1000})
	case *array.MapBuilder:
		b.Append(true)
		for i := range r.IntN(3) { // keys are distinct, as DuckDB's are
			switch k := b.KeyBuilder().(type) {
			case *array.Int8Builder:
				k.Append(int8(i))
			case *array.StringBuilder:
				k.Append(strings.Repeat("🦆", i) + fmt.Sprint(r.IntN(5)))
			default:
				appendRandom(k, r, t.Fields[0].Type, wide, false)
			}
			appendRandom(b.ItemBuilder(), r, t.Fields[1].Type, wide, true)
		}
	case *array.ListBuilder:
		b.Append(true)
		for range r.IntN(4) {
			appendRandom(b.ValueBuilder(), r, *t.Elem, wide, true)
		}
	case *array.FixedSizeListBuilder:
		b.Append(true)
		for range t.Size {
			appendRandom(b.ValueBuilder(), r, *t.Elem, wide, true)
		}
	case *array.StructBuilder:
		b.Append(true)
		for i, f := range t.Fields {
			appendRandom(b.FieldBuilder(i), r, f.Type, wide, true)
		}
	default:
		panic(fmt.Sprintf("no random %T", b))
	}
}

func random16(r *rand.Rand, t sqltype.Type, wide bool) []byte {
	b := make([]byte, 16)
	put := func(hi, lo uint64) []byte {
		binary.LittleEndian.PutUint64(b, lo)
		binary.LittleEndian.PutUint64(b[8:], hi)
		return b
	}
	switch {
	case t.ID == sqltype.UUID:
		return put(r.Uint64(), r.Uint64())
	case wide && r.IntN(4) == 0:
		return put(r.Uint64()|1<<63, r.Uint64()) // far beyond 38 digits, or negative
	case r.IntN(3) == 0:
		return put(tenTo38Hi, tenTo38Lo-1) // the greatest with 38 digits
	case t.ID == sqltype.HugeInt && r.IntN(2) == 0:
		return put(math.MaxUint64, -uint64(r.IntN(1000)+1))
	}
	return put(0, r.Uint64())
}

func randomTimestamp(r *rand.Rand, t sqltype.Type, wide bool) arrow.Timestamp {
	switch k := r.IntN(6); {
	case k == 0:
		return []arrow.Timestamp{math.MaxInt64, -math.MaxInt64}[r.IntN(2)] // infinity, -infinity
	case k == 1 && (wide || t.ID != sqltype.TimestampS && t.ID != sqltype.TimestampMS):
		return arrow.Timestamp(r.Int64() - math.MaxInt64/2)
	}
	return arrow.Timestamp(r.IntN(4_000_000_000) - 2_000_000_000)
}

// render spells value i of a in a way that tells all values apart, -0.0 and
// 0.0 too.
func render(a arrow.Array, i int) string {
	if e, ok := a.(array.ExtensionArray); ok {
		a = e.Storage()
	}
	if a.IsNull(i) {
		return "NULL"
	}
	elements := func(v arrow.Array, from, to int64) string {
		var parts []string
		for j := from; j < to; j++ {
			parts = append(parts, render(v, int(j)))
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	switch a := a.(type) {
	case *array.Float32:
		return fmt.Sprintf("f%08x", math.Float32bits(a.Value(i)))
	case *array.Float64:
		return fmt.Sprintf("f%016x", math.Float64bits(a.Value(i)))
	case *array.FixedSizeBinary:
		return fmt.Sprintf("%x", a.Value(i))
	case *array.Binary:
		return fmt.Sprintf("%q", a.Value(i))
	case *array.String:
		return fmt.Sprintf("%q", a.Value(i))
	case *array.Decimal128:
		return a.Value(i).BigInt().String()
	case *array.Timestamp:
		return fmt.Sprint(int64(a.Value(i)))
	case *array.Date32:
		return fmt.Sprint(int32(a.Value(i)))
	case *array.Time64:
		return fmt.Sprint(int64(a.Value(i)))
	case *array.MonthDayNanoInterval:
		return fmt.Sprintf("%+v", a.Value(i))
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		return elements(a.ListValues(), from, to)
	case *array.Struct:
		var parts []string
		for f := range a.NumField() {
			parts = append(parts, render(a.Field(f), i))
		}
		return "{" + strings.Join(parts, " ") + "}"
	}
	return a.ValueStr(i)
}

func renderAll(a arrow.Array) []string {
	out := make([]string, a.Len())
	for i := range out {
		out[i] = render(a, i)
	}
	return out
}

// rng is seeded by the test's name, and says so when the test fails.
func rng(t *testing.T) *rand.Rand {
	var seed uint64 = 14695981039346656037
	for _, c := range []byte(t.Name()) {
		seed = (seed ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, 1))
}
