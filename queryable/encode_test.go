package queryable

import (
	"encoding/binary"
	"encoding/json"
	flags "flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/sqltype"
)

var seedFlag = flags.Uint64("seed", 1, "seed of TestRandomValues; 0 takes the clock's")

// TestJSONOf states the form of each type by hand: a value as it is written, or
// read => written where it is normalised.
func TestJSONOf(t *testing.T) {
	for typ, values := range map[string][]string{
		"BOOLEAN":                                {"true", "false", "null"},
		"TINYINT":                                {"-128", "127"},
		"SMALLINT":                               {"-32768", "32767"},
		"INTEGER":                                {"-2147483648", "2147483647"},
		"BIGINT":                                 {"-9223372036854775808", "9223372036854775807", `"5" => 5`},
		"UTINYINT":                               {"255"},
		"USMALLINT":                              {"65535"},
		"UINTEGER":                               {"4294967295"},
		"UBIGINT":                                {"18446744073709551615"},
		"HUGEINT":                                {`"-170141183460469231731687303715884105728"`, `"170141183460469231731687303715884105727"`, `"0"`, `"-1"`, `"10000000000000000000"`, `7 => "7"`},
		"UHUGEINT":                               {`"340282366920938463463374607431768211455"`, `"0"`},
		"FLOAT":                                  {"0.1", "-0.0", "16777216.0", "1e-07", `"NaN"`, "3.4028235e+38", `"-Infinity"`},
		"DOUBLE":                                 {"0.1", "-0.0", "3.0", "1e+21", "100000000000000000000.0", "5e-324", `"Infinity"`, `"NaN"`, "1 => 1.0"},
		"DECIMAL(12,2)":                          {`"0.00"`, `"-0.05"`, `"9999999999.99"`, `1.5 => "1.50"`, `"1e2" => "100.00"`, `"-.5" => "-0.50"`},
		"DECIMAL(38,0)":                          {`"99999999999999999999999999999999999999"`, `"-1"`},
		"DECIMAL(38,38)":                         {`"0.00000000000000000000000000000000000001"`, `"-0.10000000000000000000000000000000000000"`},
		"VARCHAR":                                {`""`, `"é😀\n\t\"\\\u0000\u001f"`, `"<img>"`},
		"JSON":                                   {`"{\"a\": 1}"`},
		"BLOB":                                   {`""`, `"AP/+"`},
		"UUID":                                   {`"00112233-4455-6677-8899-aabbccddeeff"`, `"FFFFFFFF-0000-0000-0000-000000000000" => "ffffffff-0000-0000-0000-000000000000"`},
		"DATE":                                   {`"1970-01-01"`, `"0000-02-29"`, `"2000-02-29"`, `"9999-12-31"`, `"+010000-01-01"`, `"-000044-03-15"`, `"infinity"`, `"-infinity"`},
		"TIME":                                   {`"00:00:00"`, `"23:59:59.999999"`, `"12:00:00.5"`, `"24:00:00"`, `"12:30" => "12:30:00"`},
		"TIMESTAMP_S":                            {`"1969-12-31T23:59:59"`, `"2026-11-29T18:00:00"`},
		"TIMESTAMP_MS":                           {`"1969-12-31T23:59:59.999"`},
		"TIMESTAMP":                              {`"1969-12-31T23:59:59.999999"`, `"infinity"`, `"+294247-01-10T04:00:54.775806"`, `"2026-01-02 03:04:05Z" => "2026-01-02T03:04:05"`, `"2026-01-02" => "2026-01-02T00:00:00"`},
		"TIMESTAMP_NS":                           {`"1677-09-21T00:12:43.145224194"`, `"2262-04-11T23:47:16.854775806"`, `"1970-01-01T00:00:00.000000001"`},
		"TIMESTAMP WITH TIME ZONE":               {`"2026-11-29T18:00:00Z"`, `"2026-11-29T18:00:00+02:30" => "2026-11-29T15:30:00Z"`, `"2026-11-29 18:00:00-05" => "2026-11-29T23:00:00Z"`},
		"INTERVAL":                               {`"00:00:00"`, `"1 year 2 months 3 days 04:05:06.07"`, `"-1 year -1 month -1 day -00:00:01"`, `"100:00:00"`, `"30 days"`, `"14 months" => "1 year 2 months"`},
		"INTEGER[]":                              {`[]`, `[1,null,3]`, `null`},
		"DECIMAL(3,1)[2]":                        {`["1.0",null]`},
		"STRUCT(a BIGINT, \"b\"\"c\" VARCHAR[])": {`{"a":1,"b\"c":["x"]}`, `{"a":null,"b\"c":null}`},
		"MAP(VARCHAR, DOUBLE)":                   {`{}`, `{"z":1.0,"a":null}`},
		"MAP(INTEGER, STRUCT(x UUID)[])":         {`{"-5":[{"x":"00112233-4455-6677-8899-aabbccddeeff"}],"7":null}`},
		"MAP(INTEGER[], DATE)":                   {`{"[1,null]":"2026-01-01"}`},
	} {
		column := cols("c", typ)
		for _, v := range values {
			in, want, differs := strings.Cut(v, " => ")
			if !differs {
				want = in
			}
			b := record(t, column, "["+in+"]")
			cell, err := jsonCell(column[0].Type, b.Column(0), Form{})
			if err != nil {
				t.Errorf("%s: %v", typ, err)
				continue
			}
			if got := string(cell(nil, 0)); got != want {
				t.Errorf("%s: %s is written %s, want %s", typ, in, got, want)
			}
		}
	}
}

func TestJSONRefuses(t *testing.T) {
	for typ, values := range map[string][]string{
		"BOOLEAN": {"1", `"yes"`, "[]"}, "TINYINT": {"128", "1.5", "true", `"0x1"`, `"1_0"`}, "UBIGINT": {"-1", "18446744073709551616"},
		"HUGEINT": {`"170141183460469231731687303715884105728"`, `"1.0"`, `"1_0"`}, "UHUGEINT": {`"-1"`, `"340282366920938463463374607431768211456"`},
		"DOUBLE": {`"x"`, `"0x1p4"`, `"1_0.0"`, "1e999"}, "DECIMAL(4,2)": {"1.005", "100", `"1e999999999"`, `"--1"`, `""`, `"."`, `"+-1"`},
		"VARCHAR": {"1", "{}"}, "BLOB": {`"!"`}, "UUID": {`"0011"`}, "DATE": {`"2026-02-29"`, `"26-01-01"`, `"2026-13-01"`, `"2026-1-1"`, `"2026-01-01T00:00:00"`},
		"TIME": {`"25:00:00"`, `"1:00"`, `"12:60:00"`, `"12:00:00.0000001"`}, "TIMESTAMP": {`"2026-01-01T24:00:00"`, `"2026-01-01T00:00:00+01"`, `"x"`, `"+999999-01-01T00:00:00"`},
		"INTERVAL": {`""`, `"1"`, `"1 week"`, `"1:00:00 1 day"`}, "INTEGER[]": {"1", `{}`, `["a"]`}, "INTEGER[2]": {"[1]"},
		"STRUCT(a INTEGER)": {`{}`, `{"a":1,"b":2}`, `[1]`}, "MAP(INTEGER, INTEGER)": {`{"x":1}`, `[]`, `{"1":"y"}`},
	} {
		typ := sqltype.MustParse(typ)
		for _, v := range values {
			b := array.NewBuilder(memory.DefaultAllocator, typ.Inside())
			if err := appendJSON(b, typ, json.RawMessage(v)); err == nil {
				t.Errorf("%s reads %s", typ, v)
			}
		}
	}
}

// randomType makes any type, nested up to a depth.
func randomType(r *rand.Rand, depth int) sqltype.Type {
	ids := sqltype.Map
	if depth == 0 {
		ids = sqltype.Interval
	}
	switch id := sqltype.ID(1 + r.IntN(int(ids))); id {
	case sqltype.Decimal:
		w := 1 + r.IntN(38)
		return sqltype.Type{ID: id, Width: uint8(w), Scale: uint8(r.IntN(w + 1))}
	case sqltype.List, sqltype.Array:
		e := randomType(r, depth-1)
		return sqltype.Type{ID: id, Elem: &e, Size: 1 + r.IntN(3)}
	case sqltype.Struct:
		fs := make([]sqltype.Field, 1+r.IntN(3))
		for i := range fs {
			fs[i] = sqltype.Field{Name: fmt.Sprintf("f \"%d", i), Type: randomType(r, depth-1)}
		}
		return sqltype.Type{ID: id, Fields: fs}
	case sqltype.Map:
		return sqltype.Type{ID: id, Fields: []sqltype.Field{{Name: "key", Type: randomType(r, 0)}, {Name: "value", Type: randomType(r, depth-1)}}}
	default:
		return sqltype.Type{ID: id}
	}
}

// oracle appends a random value to a builder, and gives its JSON by means that
// share nothing with the encoder: big.Int, package time, strconv.
func oracle(r *rand.Rand, b array.Builder, t sqltype.Type, nullable bool) string {
	if nullable && r.IntN(5) == 0 {
		b.AppendNull()
		return "null"
	}
	quote := func(s string) string { return strconv.Quote(s) } // ASCII only
	bits := r.Uint64() >> r.IntN(64)
	switch b := b.(type) {
	case *array.Int8Builder:
		if t.ID == sqltype.Boolean {
			b.Append(int8(bits & 1))
			return fmt.Sprint(bits&1 == 1)
		}
		b.Append(int8(bits))
		return fmt.Sprint(int8(bits))
	case *array.Int16Builder:
		b.Append(int16(bits))
		return fmt.Sprint(int16(bits))
	case *array.Int32Builder:
		b.Append(int32(bits))
		return fmt.Sprint(int32(bits))
	case *array.Int64Builder:
		b.Append(int64(bits))
		return fmt.Sprint(int64(bits))
	case *array.Uint8Builder:
		b.Append(uint8(bits))
		return fmt.Sprint(uint8(bits))
	case *array.Uint16Builder:
		b.Append(uint16(bits))
		return fmt.Sprint(uint16(bits))
	case *array.Uint32Builder:
		b.Append(uint32(bits))
		return fmt.Sprint(uint32(bits))
	case *array.Uint64Builder:
		b.Append(bits)
		return fmt.Sprint(bits)
	case *array.Float32Builder:
		f := math.Float32frombits(uint32(bits))
		b.Append(f)
		return floatOracle(float64(f), 32)
	case *array.Float64Builder:
		f := math.Float64frombits(bits)
		b.Append(f)
		return floatOracle(f, 64)
	case *array.Decimal128Builder:
		limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(t.Width)), nil)
		n := new(big.Int).Mod(new(big.Int).SetBits([]big.Word{big.Word(r.Uint64()), big.Word(bits)}), limit)
		if r.IntN(2) == 0 {
			n.Neg(n)
		}
		b.Append(decimal128.FromBigInt(n))
		rat := new(big.Rat).SetFrac(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(t.Scale)), nil))
		return quote(rat.FloatString(int(t.Scale)))
	case *array.StringBuilder:
		var s strings.Builder
		for range r.IntN(6) {
			s.WriteRune([]rune("a\"\\\n\x01é😀,")[r.IntN(8)])
		}
		b.Append(s.String())
		out, _ := json.Marshal(s.String())
		return string(out)
	case *array.BinaryBuilder:
		v := binary.LittleEndian.AppendUint64(nil, bits)[:r.IntN(9)]
		b.Append(v)
		out, _ := json.Marshal(append([]byte{}, v...))
		return string(out)
	case *array.FixedSizeBinaryBuilder:
		lo, hi := r.Uint64(), bits
		v := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, lo), hi)
		b.Append(v)
		if t.ID == sqltype.UUID {
			return quote(fmt.Sprintf("%x-%x-%x-%x-%x", v[:4], v[4:6], v[6:8], v[8:10], v[10:]))
		}
		n := new(big.Int).Or(new(big.Int).Lsh(new(big.Int).SetUint64(hi), 64), new(big.Int).SetUint64(lo))
		if t.ID == sqltype.HugeInt && int64(hi) < 0 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), 128))
		}
		return quote(n.String())
	case *array.Date32Builder:
		day := r.IntN(2*719162) - 719162 // 0001 to 3938
		b.Append(arrow.Date32(day))
		return quote(time.Unix(int64(day)*86400, 0).UTC().Format("2006-01-02"))
	case *array.Time64Builder:
		v := r.Int64N(86_400_000_000)
		b.Append(arrow.Time64(v))
		return quote(time.UnixMicro(v).UTC().Format("15:04:05.999999"))
	case *array.TimestampBuilder:
		d := t.Inside().(*arrow.TimestampType)
		ts := arrow.Timestamp(int64(bits) >> (3 + r.IntN(20)))
		if d.Unit != arrow.Nanosecond {
			ts = arrow.Timestamp((r.Int64N(2*62135596800) - 62135596800) * perSecond(d.Unit)) // years 1 to 3938
			ts += arrow.Timestamp(r.Int64N(perSecond(d.Unit)))
		}
		b.Append(ts)
		layout := "2006-01-02T15:04:05.999999999"
		if t.ID == sqltype.TimestampTZ {
			layout += "Z"
		}
		return quote(ts.ToTime(d.Unit).UTC().Format(layout))
	case *array.MonthDayNanoIntervalBuilder:
		days := int32(r.IntN(20000) - 10000)
		b.Append(arrow.MonthDayNanoInterval{Days: days})
		switch days {
		case 0:
			return quote("00:00:00")
		case 1, -1:
			return quote(fmt.Sprintf("%d day", days))
		}
		return quote(fmt.Sprintf("%d days", days))
	case *array.ListBuilder:
		b.Append(true)
		return listOracle(r, b.ValueBuilder(), *t.Elem, r.IntN(4))
	case *array.FixedSizeListBuilder:
		b.Append(true)
		return listOracle(r, b.ValueBuilder(), *t.Elem, t.Size)
	case *array.StructBuilder:
		b.Append(true)
		var parts []string
		for i, f := range t.Fields {
			name, _ := json.Marshal(f.Name)
			parts = append(parts, string(name)+":"+oracle(r, b.FieldBuilder(i), f.Type, true))
		}
		return "{" + strings.Join(parts, ",") + "}"
	case *array.MapBuilder:
		b.Append(true)
		var parts []string
		seen := map[string]bool{}
		for range r.IntN(3) {
			seed, kt := r.Uint64(), t.Fields[0].Type
			draw := func(b array.Builder) string { return oracle(rand.New(rand.NewPCG(seed, 1)), b, kt, false) }
			key := draw(array.NewBuilder(memory.DefaultAllocator, kt.Inside()))
			if seen[key] {
				continue // a MAP has a key once
			}
			seen[key] = true
			draw(b.KeyBuilder())
			if key[0] != '"' {
				key = quote(key)
			}
			parts = append(parts, key+":"+oracle(r, b.ItemBuilder(), t.Fields[1].Type, true))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	panic(fmt.Sprintf("no oracle for %s", t))
}

func listOracle(r *rand.Rand, b array.Builder, t sqltype.Type, n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = oracle(r, b, t, true)
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func floatOracle(f float64, size int) string {
	switch {
	case math.IsNaN(f):
		return `"NaN"`
	case math.IsInf(f, 0):
		return `"` + strings.TrimPrefix(fmt.Sprintf("%+v", f), "+") + `inity"`
	}
	s := strconv.FormatFloat(f, 'f', -1, size)
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		s = strconv.FormatFloat(f, 'e', -1, size)
	}
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// TestRandomValues writes random values of random types, whole and sliced, and
// reads them back.
func TestRandomValues(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d (-seed)", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 1500 {
		typ := randomType(r, 2)
		b := array.NewBuilder(memory.DefaultAllocator, typ.Inside())
		want := make([]string, 1+r.IntN(20))
		for i := range want {
			want[i] = oracle(r, b, typ, true)
		}
		a := b.NewArray()
		from := r.IntN(len(want))
		part := array.NewSlice(a, int64(from), int64(len(want)))
		again := array.NewBuilder(memory.DefaultAllocator, typ.Inside())
		for i, got := range encodeAll(t, typ, part) {
			if got != want[from+i] {
				t.Fatalf("%s: got %s, want %s", typ, got, want[from+i])
			}
			if !json.Valid([]byte(got)) {
				t.Fatalf("%s: %s is no JSON", typ, got)
			}
			if err := appendJSON(again, typ, json.RawMessage(got)); err != nil {
				t.Fatalf("%s: reading %s: %v", typ, got, err)
			}
		}
		for i, got := range encodeAll(t, typ, again.NewArray()) {
			if got != want[from+i] {
				t.Fatalf("%s: %s reads back as %s", typ, want[from+i], got)
			}
		}
	}
}

func encodeAll(t *testing.T, typ sqltype.Type, a arrow.Array) []string {
	t.Helper()
	cell, err := jsonCell(typ, a, Form{})
	if err != nil {
		t.Fatalf("%s: %v", typ, err)
	}
	out := make([]string, a.Len())
	for i := range out {
		out[i] = string(cell(nil, i))
	}
	return out
}

// TestWrongArrayIsAnError gives every type's array to every other type.
func TestWrongArrayIsAnError(t *testing.T) {
	types := []string{
		"BOOLEAN", "TINYINT", "SMALLINT", "BIGINT", "HUGEINT", "UBIGINT", "DOUBLE", "DECIMAL(4,1)", "DECIMAL(4,2)", "VARCHAR", "BLOB",
		"UUID", "DATE", "TIME", "TIMESTAMP", "INTERVAL", "INTEGER[]", "INTEGER[2]", "STRUCT(a INTEGER)", "STRUCT(a INTEGER, b INTEGER)", "MAP(INTEGER, INTEGER)",
	}
	same := map[[2]string]bool{
		{"BOOLEAN", "TINYINT"}: true, {"TINYINT", "BOOLEAN"}: true, // int8 both; only the field tells
		{"HUGEINT", "UUID"}: true, {"UUID", "HUGEINT"}: true,
	}
	for _, of := range types {
		a := array.NewBuilder(memory.DefaultAllocator, sqltype.MustParse(of).Inside()).NewArray()
		for _, as := range types {
			_, err := jsonCell(sqltype.MustParse(as), a, Form{})
			if ok := of == as || same[[2]string{of, as}]; ok != (err == nil) {
				t.Errorf("%s as %s: %v", of, as, err)
			}
		}
	}
}

func BenchmarkJSON(b *testing.B) {
	columns := cols("city", "VARCHAR", "orders", "BIGINT", "revenue", "DECIMAL(38,2)", "avg", "DOUBLE", "last", "TIMESTAMP")
	rows := make([]string, 8192)
	for i := range rows {
		rows[i] = fmt.Sprintf(`["city-%d",%d,"%d.25",%d.125,"2026-11-29T18:00:00.%06d"]`, i, i*7, i*1000, i, i)
	}
	batch := record(b, columns, rows...)
	l := &jsonLayout{rows: &Rows{Columns: columns}}
	var buf []byte
	for b.Loop() {
		buf = buf[:0]
		if err := l.bind(batch); err != nil {
			b.Fatal(err)
		}
		for i := range rows {
			buf = l.row(buf, i, i == 0)
		}
	}
	b.SetBytes(int64(len(buf)))
	b.ReportMetric(float64(len(rows)*b.N)/b.Elapsed().Seconds(), "rows/s")
}

func TestValueText(t *testing.T) {
	for typ, texts := range map[string][2]string{
		"HUGEINT": {`"-1"`, "-1"}, "UHUGEINT": {`"340282366920938463463374607431768211455"`, "340282366920938463463374607431768211455"},
		"UUID": {`"00112233-4455-6677-8899-aabbccddeeff"`, "00112233-4455-6677-8899-aabbccddeeff"}, "DECIMAL(4,2)": {"1.5", "1.50"},
		"VARCHAR": {`"a \"b\""`, `a "b"`}, "BOOLEAN": {"true", "true"}, "HUGEINT[]": {"[7]", `["7"]`}, "BIGINT": {"null", "NULL"},
	} {
		typ := sqltype.MustParse(typ)
		b := array.NewBuilder(memory.DefaultAllocator, typ.Inside())
		if err := appendJSON(b, typ, json.RawMessage(texts[0])); err != nil {
			t.Fatal(err)
		}
		if got := ValueText(typ, b.NewArray(), 0); got != texts[1] {
			t.Errorf("%s %s is shown as %s", typ, texts[0], got)
		}
	}
}
