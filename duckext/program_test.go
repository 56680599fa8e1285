//go:build duckdb_arrow

package duckext

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/plan"
	"weir/state/sqltype"
)

// evaluate runs a SELECT without input and returns its rows in the inside form.
func evaluate(t testing.TB, e *Engine, sql string, out []sqltype.Field) arrow.RecordBatch {
	t.Helper()
	p, err := e.Prepare(t.Context(), sql, plan.Relation{Name: "__input"}, out)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	defer p.Close()
	rec, err := p.Run(t.Context(), rows(1))
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return rec
}

func rows(n int) arrow.RecordBatch {
	b := array.NewInt8Builder(memory.DefaultAllocator)
	for range n {
		b.Append(0)
	}
	return array.NewRecordBatch(insideSchema(fields("__nothing BOOLEAN")), []arrow.Array{b.NewArray()}, int64(n))
}

// Values of every type, extremes included. A type's list is repeated so that it
// crosses DuckDB's chunks.
var samples = map[string][]string{
	"BOOLEAN": {"true", "false"}, "TINYINT": {"-128", "127"}, "SMALLINT": {"-32768", "32767"}, "INTEGER": {"-2147483648", "2147483647"},
	"BIGINT": {"-9223372036854775808", "9223372036854775807"}, "UTINYINT": {"255"}, "USMALLINT": {"65535"}, "UINTEGER": {"4294967295"},
	"UBIGINT": {"18446744073709551615"}, "HUGEINT": {"-170141183460469231731687303715884105728", "170141183460469231731687303715884105727", "-1"},
	"UHUGEINT": {"340282366920938463463374607431768211455", "0"}, "FLOAT": {"'-0.0'", "'nan'", "'inf'", "1.5"},
	"DOUBLE": {"'-0.0'", "'nan'", "'-inf'", "1e308", "5e-324"}, "DECIMAL(4,1)": {"-999.9", "999.9"}, "DECIMAL(9,2)": {"-9999999.99", "0.01"},
	"DECIMAL(18,0)": {"-999999999999999999", "7"}, "DECIMAL(38,10)": {"-9999999999999999999999999999.9999999999", "0.0000000001"},
	"VARCHAR": {"''", "'twelve bytes'", "'thirteen byte'", "'ü' || chr(0) || 'x'", "repeat('long ', 1000)"},
	"JSON":    {`'{"a":[1,null]}'`, "'null'"}, "BLOB": {`'\x00\xFF'::BLOB`, "''::BLOB", `repeat('\xAB', 50)::BLOB`},
	"UUID": {"'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "'80000000-0000-0000-0000-000000000001'"},
	"DATE": {"'infinity'", "'-infinity'", "'0044-03-15 (BC)'", "'2024-02-29'"}, "TIME": {"'24:00:00'", "'00:00:00.000001'"},
	"TIMESTAMP_S": {"'1969-12-31 23:59:59'"}, "TIMESTAMP_MS": {"'2024-02-29 12:00:00.123'"},
	"TIMESTAMP": {"'infinity'", "'-infinity'", "'290309-12-22 (BC) 00:00:00'"}, "TIMESTAMP_NS": {"'2024-02-29 12:00:00.123456789'"},
	"TIMESTAMP WITH TIME ZONE": {"'2024-02-29 12:00:00+02'", "'infinity'"},
	"INTERVAL":                 {"'1 month -3 days 00:00:00.000001'", "'-13 months 290 years'"},
	"INTEGER[]":                {"[]", "[1, NULL, 3]", "[4]"}, "VARCHAR[][]": {"[['a', NULL], NULL, []]", "[['a string longer than twelve']]"},
	"HUGEINT[]": {"[170141183460469231731687303715884105727]"}, "INTEGER[3]": {"[1, NULL, 3]", "[4, 5, 6]"},
	"STRUCT(a INTEGER, b VARCHAR)":          {"{a: 1, b: 'x'}", "{a: NULL, b: 'a string longer than twelve'}"},
	"STRUCT(l BOOLEAN[], s STRUCT(u UUID))": {"{l: [true, NULL], s: {u: '80000000-0000-0000-0000-000000000001'}}", "{l: NULL, s: NULL}"},
	"STRUCT(v INTEGER[2])":                  {"{v: [1, 2]}", "{v: NULL}"},
	"MAP(VARCHAR, DECIMAL(9,2))":            {"MAP {'a': 1.5, 'b': NULL}", "MAP {}"}, "STRUCT(m INTEGER)[]": {"[{m: 1}, NULL, {m: NULL}]"},
}

// Every type goes out of DuckDB and back in: values, NULLs and the type itself
// must be what they were, whatever the slicing of the Arrow arrays.
func TestTypesRoundTrip(t *testing.T) {
	e := openEngine(t)
	for typ, vals := range samples {
		col := sqltype.Field{Name: "v", Type: sqltype.MustParse(typ)}
		var sel []string
		for i, v := range vals {
			sel = append(sel, fmt.Sprintf("SELECT %d AS i, CAST(%s AS %s) AS v", 2*i, v, typ), fmt.Sprintf("SELECT %d, CAST(NULL AS %s)", 2*i+1, typ))
		}
		table := fmt.Sprintf("(SELECT v FROM (%s), range(1500) AS r(n) ORDER BY n, i)", strings.Join(sel, " UNION ALL "))
		rec := evaluate(t, e, "SELECT v FROM "+table, []sqltype.Field{col})
		if rec.NumRows() != int64(3000*len(vals)) {
			t.Fatalf("%s: %d rows", typ, rec.NumRows())
		}
		if got, want := rec.Schema().Field(0), col.Type.InsideField("v"); !got.Equal(want) {
			t.Errorf("%s: field %v", typ, got)
		}
		// Text and type in the program are compared with those in plain SQL.
		out := fields("n HUGEINT; h UHUGEINT; t VARCHAR")
		summary := "SELECT count(*)::HUGEINT AS n, sum(hash(v::VARCHAR, v IS NULL))::UHUGEINT AS h, any_value(typeof(v)) AS t FROM "
		p, err := e.Prepare(t.Context(), summary+"__input", plan.Relation{Name: "__input", Columns: []sqltype.Field{col}}, out)
		if err != nil {
			t.Fatalf("%s: %v", typ, err)
		}
		want := evaluate(t, e, summary+table, out)
		if got, err := p.Run(t.Context(), rec); err != nil || !array.RecordEqual(got, want) {
			t.Errorf("%s: got %v, want %v, %v", typ, got, want, err)
		}
		// Slices: the offset of values and of NULLs must both be honoured.
		for _, cut := range [][2]int64{{1, 2}, {5, 2053}, {7, 7}, {2047, 2050}} {
			part := rec.NewSlice(cut[0], cut[1])
			want := evaluate(t, e, fmt.Sprintf("%s(SELECT * FROM %s OFFSET %d LIMIT %d)", summary, table, cut[0], cut[1]-cut[0]), out)
			if got, err := p.Run(t.Context(), part); err != nil || !array.RecordEqual(got, want) {
				t.Errorf("%s%v: got %v, want %v, %v", typ, cut, got, want, err)
			}
		}
		p.Close()
	}
}

// Parts of a NULL struct or array are NULL, whatever Arrow holds below.
func TestPartsOfNull(t *testing.T) {
	e := openEngine(t)
	cols := fields("s STRUCT(a INTEGER, v INTEGER[2])")
	ints := array.NewInt32Builder(memory.DefaultAllocator)
	ints.AppendValues([]int32{7, 7}, nil)
	pairs := array.NewFixedSizeListBuilderWithField(memory.DefaultAllocator, 2, sqltype.MustParse("INTEGER").InsideField("l"))
	pairs.AppendValues([]bool{true, true})
	pairs.ValueBuilder().(*array.Int32Builder).AppendValues([]int32{8, 9, 8, 9}, nil)
	s, err := array.NewStructArrayWithFieldsAndNulls([]arrow.Array{ints.NewArray(), pairs.NewArray()},
		cols[0].Type.Inside().(*arrow.StructType).Fields(), memory.NewBufferBytes([]byte{0b01}), 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	batch := array.NewRecordBatch(insideSchema(cols), []arrow.Array{s}, 2)
	p, err := e.Prepare(t.Context(), "SELECT sum(s.a)::BIGINT AS a, sum(s.v[1])::BIGINT AS v, count(s.v) AS n FROM r",
		plan.Relation{Name: "r", Columns: cols}, fields("a BIGINT; v BIGINT; n BIGINT"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	got, err := p.Run(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{7, 8, 1} {
		if v := got.Column(i).(*array.Int64).Value(0); v != want {
			t.Errorf("%s: %d, want %d", got.ColumnName(i), v, want)
		}
	}
}

func TestPrepareRefusesOtherResults(t *testing.T) {
	e := openEngine(t)
	rel := plan.Relation{Name: "__input", Columns: fields("a INTEGER")}
	for _, out := range []string{"s BIGINT", "t HUGEINT", "s HUGEINT; t HUGEINT"} {
		if _, err := e.Prepare(t.Context(), "SELECT sum(a) AS s FROM __input", rel, fields(out)); err == nil {
			t.Errorf("%s: accepted", out)
		}
	}
	if _, err := e.Prepare(t.Context(), "SELECT b FROM __input", rel, fields("b INTEGER")); err == nil {
		t.Error("unknown column: accepted")
	}
}

func TestEvalErrorsLeaveTheProgramUsable(t *testing.T) {
	e := openEngine(t)
	p, err := e.Prepare(t.Context(), "SELECT sum(s::BIGINT) AS n FROM r", plan.Relation{Name: "r", Columns: fields("s VARCHAR")}, fields("n HUGEINT"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	batch := func(vals ...string) arrow.RecordBatch {
		b := array.NewRecordBuilder(memory.DefaultAllocator, insideSchema(fields("s VARCHAR")))
		b.Field(0).(*array.StringBuilder).AppendValues(vals, nil)
		return b.NewRecordBatch()
	}
	for range 3 {
		_, err := p.Run(t.Context(), batch("1", "zwei"))
		v, ok := errors.AsType[*EvalError](err)
		if !ok || v.Kind != "Conversion" || !strings.Contains(v.Message, "'zwei'") || strings.Contains(v.Message, "LINE") {
			t.Fatalf("%#v", err)
		}
		if rec, err := p.Run(t.Context(), batch("1", "2")); err != nil || rec.NumRows() != 1 {
			t.Fatalf("%v, %v", rec, err)
		}
	}
	wrong := array.NewRecordBatch(insideSchema(fields("s BIGINT")), []arrow.Array{array.NewInt64Builder(memory.DefaultAllocator).NewArray()}, 0)
	if _, err := p.Run(t.Context(), wrong); err != nil {
		t.Errorf("an empty batch: %v", err)
	}
	ints := array.NewInt64Builder(memory.DefaultAllocator)
	ints.Append(1)
	wrong = array.NewRecordBatch(insideSchema(fields("s BIGINT")), []arrow.Array{ints.NewArray()}, 1)
	if _, err := p.Run(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), "VARCHAR arrived as Arrow int64") {
		t.Errorf("a batch of another type: %v", err)
	}
}

func TestProgramIsCancelled(t *testing.T) {
	e := openEngine(t)
	p, err := e.Prepare(t.Context(), "SELECT count(*) AS n FROM r, range(1000000000000)", plan.Relation{Name: "r"}, fields("n BIGINT"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	cause := errors.New("enough")
	for range 3 {
		ctx, cancel := context.WithCancelCause(t.Context())
		go cancel(cause)
		if _, err := p.Run(ctx, rows(2)); !errors.Is(err, cause) {
			t.Fatal(err)
		}
	}
}

// orders makes a batch like that of a simple view.
func orders(n, groups int) (arrow.RecordBatch, []sqltype.Field) {
	cols := fields("city VARCHAR; amount BIGINT")
	r := rand.New(rand.NewPCG(1, 2))
	b := array.NewRecordBuilder(memory.DefaultAllocator, insideSchema(cols))
	for range n {
		b.Field(0).(*array.StringBuilder).Append(fmt.Sprintf("city-%d", r.IntN(groups)))
		b.Field(1).(*array.Int64Builder).Append(r.Int64N(1000))
	}
	return b.NewRecordBatch(), cols
}

func simple(t testing.TB, cols []sqltype.Field) *Program {
	t.Helper()
	p, err := openEngine(t).Prepare(t.Context(), "SELECT city, count(*) AS n, sum(amount) AS s FROM __input GROUP BY city",
		plan.Relation{Name: "__input", Columns: cols}, fields("city VARCHAR; n BIGINT; s HUGEINT"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestProgramsMemoryIsFlat(t *testing.T) {
	batch, cols := orders(3000, 100)
	p := simple(t, cols)
	run := func(n int) {
		for range n {
			rec, err := p.Run(t.Context(), batch)
			if err != nil || rec.NumRows() != 100 {
				t.Fatal(rec, err)
			}
		}
	}
	flat(t, "2,000 runs", 3<<20, func() int { return residentBytes(t) }, func() { run(2000) })
}

func BenchmarkProgram(b *testing.B) {
	for _, c := range []struct{ rows, groups int }{{0, 1}, {1, 1}, {65536, 1000}, {65536, 65536}} {
		b.Run(fmt.Sprintf("%d_rows_%d_groups", c.rows, c.groups), func(b *testing.B) {
			batch, cols := orders(c.rows, c.groups)
			p := simple(b, cols)
			for b.Loop() {
				if _, err := p.Run(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
			if c.rows > 1 {
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.rows), "ns/record")
			}
		})
	}
}

func TestPreparingLeavesNothingBehind(t *testing.T) {
	e := openEngine(t)
	batch, cols := orders(100, 10)
	run := func(n int) {
		for range n {
			p, err := e.Prepare(t.Context(), "SELECT city FROM __input GROUP BY city", plan.Relation{Name: "__input", Columns: cols}, fields("city VARCHAR"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Run(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			p.Close()
			if _, err := e.Describe(t.Context(), []plan.Relation{{Name: "r", Columns: cols}}, "SELECT max(city) FROM r"); err != nil {
				t.Fatal(err)
			}
		}
	}
	flat(t, "300 programs", 3<<20, func() int { return residentBytes(t) }, func() { run(300) })
	if n := len(e.tables.at); n != 0 {
		t.Errorf("%d tables are still attached", n)
	}
}
