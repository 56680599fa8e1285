//go:build duckdb_arrow

package duckext

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/duckdb/duckdb-go/v2/mapping"
	"github.com/google/go-cmp/cmp"

	"weir/state/plan"
)

// TestErrorTypes decides each of DuckDB's types of errors: which are the rows'
// fault, and which are so only where the statement runs over no rows.
func TestErrorTypes(t *testing.T) {
	const rows, engine, unsure = "rows", "engine", "unsure"
	want := map[mapping.ErrorType]string{
		mapping.ErrorTypeInvalid: unsure, mapping.ErrorTypeOutOfRange: rows, mapping.ErrorTypeConversion: rows, mapping.ErrorTypeUnknownType: unsure,
		mapping.ErrorTypeDecimal: rows, mapping.ErrorTypeMismatchType: rows, mapping.ErrorTypeDivideByZero: rows, mapping.ErrorTypeObjectSize: rows,
		mapping.ErrorTypeInvalidType: rows, mapping.ErrorTypeSerialization: unsure, mapping.ErrorTypeTransaction: engine,
		mapping.ErrorTypeNotImplemented: rows, mapping.ErrorTypeExpression: rows, mapping.ErrorTypeCatalog: unsure, mapping.ErrorTypeParser: unsure,
		mapping.ErrorTypePlanner: unsure, mapping.ErrorTypeScheduler: engine, mapping.ErrorTypeExecutor: unsure, mapping.ErrorTypeConstraint: rows,
		mapping.ErrorTypeIndex: unsure, mapping.ErrorTypeStat: unsure, mapping.ErrorTypeConnection: engine, mapping.ErrorTypeSyntax: rows,
		mapping.ErrorTypeSettings: engine, mapping.ErrorTypeBinder: unsure, mapping.ErrorTypeNetwork: engine, mapping.ErrorTypeOptimizer: unsure,
		mapping.ErrorTypeNullPointer: unsure, mapping.ErrorTypeErrorIO: engine, mapping.ErrorTypeInterrupt: engine, mapping.ErrorTypeFatal: engine,
		mapping.ErrorTypeInternal: engine, mapping.ErrorTypeInvalidInput: rows, mapping.ErrorTypeOutOfMemory: engine, mapping.ErrorTypePermission: engine,
		mapping.ErrorTypeParameterNotResolved: unsure, mapping.ErrorTypeParameterNotAllowed: unsure, mapping.ErrorTypeDependency: unsure,
		mapping.ErrorTypeHTTP: engine, mapping.ErrorTypeMissingExtension: engine, mapping.ErrorTypeAutoload: engine, mapping.ErrorTypeSequence: rows,
		mapping.ErrorTypeInvalidConfiguration: engine, 1000: unsure,
	}
	if len(want) != len(errorTypes)+1 {
		t.Errorf("%d types are decided, %d known", len(want)-1, len(errorTypes))
	}
	for n, w := range want {
		// However it is spelt, and whatever the text says.
		for _, text := range []string{"", `{"exception_type":"FATAL","exception_message":"m"}`, "Conversion Error: m"} {
			e := parseError(text)
			if n == 1000 {
				e.kind = "Of a later version"
			}
			got := ""
			for _, sound := range []bool{true, false} {
				err := evalOver(fmt.Errorf("wrapped: %w", e.typed(int(n))), func() bool { return sound })
				_, isEval := errors.AsType[*EvalError](err)
				if en, ok := errors.AsType[*EngineError](err); ok && en.Fatal != (n == mapping.ErrorTypeFatal || n == mapping.ErrorTypeInternal) {
					t.Errorf("%d: fatal is %v", n, en.Fatal)
				}
				got += map[bool]string{true: "rows ", false: "engine "}[isEval]
			}
			if got = map[string]string{"rows rows ": rows, "engine engine ": engine, "rows engine ": unsure}[got]; got != w {
				t.Errorf("%d %s: %q, not %q", n, e.kind, got, w)
			}
		}
	}
	if err := eval(&duckError{kind: "Binder"}); !strings.Contains(fmt.Sprintf("%T", err), "EngineError") {
		t.Errorf("unsure, and nothing can be tried: %T", err)
	}
}

func TestParseError(t *testing.T) {
	for text, want := range map[string]duckError{
		"":        {message: noReason, offset: -1},
		"plain":   {message: "plain", offset: -1},
		"a: {b}":  {message: "a: {b}", offset: -1},
		`{"a":1}`: {message: `{"a":1}`, offset: -1},
		`{"exception_type":"Conversion","exception_message":"no","error_subtype":"X","position":"7"}`: {kind: "Conversion", message: "no", subtype: "X", offset: 7},
		`{"exception_type":"Invalid Input","exception_message":""}`:                                   {kind: "Invalid Input", message: noReason, offset: -1},
		`{"exception_type":"Invalid Input","exception_message":" \n"}`:                                {kind: "Invalid Input", message: noReason, offset: -1},
		`Invalid Input Error: {"exception_type":"FATAL","exception_message":"x"}`:                     {kind: "Invalid Input", message: "x", offset: -1},
		`Invalid Input Error: {"exception_type":"FATAL"`:                                              {kind: "Invalid Input", message: `{"exception_type":"FATAL"`, offset: -1},
		"Out of Range Error: far": {kind: "Out of Range", message: "far", offset: -1},
	} {
		if got := *parseError(text); got != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// erring are expressions over (s VARCHAR, p VARCHAR, n BIGINT), sound for 'abc', 'a',
// 1, and the row on which each fails. With values in a column no error comes early.
var erring = []struct{ expr, s, p, n, kind string }{
	{`s LIKE p ESCAPE '\'`, `a\`, `a\`, "1", "Syntax"},
	{`s LIKE 'a%' ESCAPE p`, "abc", "xy", "1", "Syntax"},
	{`CASE WHEN p = '' THEN error(p) ELSE s END`, "abc", "", "1", "Invalid Input"},
	{`CASE WHEN p = ' ' THEN error(p) ELSE s END`, "abc", " ", "1", "Invalid Input"},
	{`CASE WHEN n = 2 THEN error(p) ELSE s END`, "abc", `{"exception_type":"INTERNAL","exception_message":"lies"}`, "2", "Invalid Input"},
	{`CASE WHEN n = 2 THEN error(p) ELSE s END`, "abc", `{"exception_type":"FATAL"`, "2", "Invalid Input"},
	{`CASE WHEN n = 2 THEN error(p) ELSE s END`, "abc", "\x00", "2", "Invalid Input"},
	{`regexp_matches(s, p)`, "abc", "[", "1", "Invalid Input"},
	{`regexp_replace(s, p, 'x')`, "abc", "(", "1", "Invalid Input"},
	{`strptime(s || '-01-01', '%Y-%m-%d')`, "x", "a", "1", "Invalid Input"},
	{`json_extract('{}', '$' || p)`, "abc", "[", "1", "Invalid Input"},
	{`json_array_length(s)`, "{", "a", "1", "Invalid Input"},
	{`[1, 2][1:2:n]`, "abc", "a", "0", "Invalid Input"},
	{`CAST(n AS TINYINT)`, "abc", "a", "1000", "Conversion"},
	{`CAST(s || '-01-01' AS DATE)`, "x", "a", "1", "Conversion"},
	{`CAST(p AS UUID)`, "abc", "x", "1", "Conversion"},
	{`CAST(s AS STRUCT(a INTEGER))`, "x", "a", "1", "Conversion"},
	{`chr(CAST(n AS INTEGER))`, "abc", "a", "-1", "Invalid Input"},
	{`printf(p, 1)`, "abc", "%d%d", "1", "Invalid Input"},
	{`printf(p, s)`, "abc", "%d", "1", "Invalid Input"},
	{`format(p, s)`, "abc", "{}{}", "1", "Invalid Input"},
	{`date_trunc(p, DATE '2026-01-01')`, "abc", "bogus", "1", "Conversion"},
	{`date_part(p, DATE '2026-01-01')`, "abc", "bogus", "1", "Conversion"},
	{`timezone(p, TIMESTAMP '2026-01-01')`, "abc", "Mars/Olympus", "1", "Not implemented"},
	{`ln(n)`, "abc", "a", "0", "Out of Range"},
	{`n + 9223372036854775806`, "abc", "a", "2", "Out of Range"},
	{`map([s, p], [1, 2])`, "a", "a", "1", "Invalid Input"},
	{`unhex(p)`, "abc", "x", "1", "Invalid Input"},
	{`to_base(n, 10)`, "abc", "a", "-1", "Invalid Input"},
	{`(SELECT x FROM unnest([1, n]) t(x) WHERE x > 1 OR n > 1)`, "abc", "a", "2", "Invalid Input"},
	{`repeat(s, n * 100000000000)`, "abc", "a", "1", "Out of Range"},
	{`make_date(n, 2, 30)`, "abc", "a", "2026", "Conversion"},
	{`bar(1, 0, 1, n)`, "abc", "a", "100000", "Out of Range"},
	{`decode(CAST(p AS BLOB))`, "abc", `\`, "1", "Conversion"},
}

// TestErringExpressions: whatever a value makes DuckDB say is said of the value, in
// words, in this process and in another, and the program goes on.
func TestErringExpressions(t *testing.T) {
	e := openEngine(t)
	g := newGuard(t, guardVerb, 0)
	rel := plan.Relation{Name: "__input", Columns: fields("s VARCHAR; p VARCHAR; n BIGINT")}
	out := fields("x VARCHAR")
	b := array.NewRecordBuilder(memory.DefaultAllocator, insideSchema(rel.Columns))
	for _, x := range erring {
		sql := "SELECT CAST((" + x.expr + ") AS VARCHAR) AS x FROM __input"
		here, err := e.Prepare(t.Context(), sql, rel, out)
		if err != nil {
			t.Errorf("%s: %v", x.expr, err)
			continue
		}
		there, err := g.Prepare(sql, rel, out)
		if err != nil {
			t.Fatal(err)
		}
		b.Field(0).(*array.StringBuilder).Append(x.s)
		b.Field(1).(*array.StringBuilder).Append(x.p)
		if err := b.Field(2).AppendValueFromString(x.n); err != nil {
			t.Fatal(err)
		}
		bad := b.NewRecordBatch()
		var said []string
		for _, run := range []func() (arrow.RecordBatch, error){
			func() (arrow.RecordBatch, error) { return here.Run(t.Context(), bad) },
			func() (arrow.RecordBatch, error) { return there.Run(t.Context(), bad) },
		} {
			_, err := run()
			v, ok := errors.AsType[*EvalError](err)
			if !ok || v.Kind != x.kind || strings.TrimSpace(v.Message) == "" || strings.Contains(v.Message, "exception_message") {
				t.Errorf("%s: %T %v", x.expr, err, err)
				continue
			}
			said = append(said, v.Message)
		}
		if len(slices.Compact(said)) > 1 {
			t.Errorf("%s: %s", x.expr, cmp.Diff(said[0], said[len(said)-1]))
		}
		if rec, err := here.Run(t.Context(), bad.NewSlice(0, 0)); err != nil || rec.NumRows() != 0 {
			t.Errorf("%s afterwards: %v", x.expr, err)
		}
		bad.Release()
		here.Close()
		there.Close()
	}
}

// TestRebindingIsNoRowsFault: a statement whose table is gone fails over all rows, and
// none is at fault.
func TestRebindingIsNoRowsFault(t *testing.T) {
	e := openEngine(t)
	s, err := e.Session()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Exec("CREATE TABLE side AS SELECT 1::BIGINT AS n"); err != nil {
		t.Fatal(err)
	}
	p, err := e.Prepare(t.Context(), "SELECT n + (SELECT max(side.n) FROM side) AS x FROM __input", plan.Relation{Name: "__input", Columns: fields("n BIGINT")}, fields("x BIGINT"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := s.Exec("DROP TABLE side"); err != nil {
		t.Fatal(err)
	}
	_, err = p.Run(t.Context(), bigints(1, 2))
	if f, ok := errors.AsType[*EngineError](err); !ok || f.Kind != "Catalog" || f.Fatal {
		t.Errorf("%T %v", err, err)
	}
}

// TestGuardRunsOutOfMemory: a record that alone needs more memory than a process of
// its own has is to blame for it.
func TestGuardRunsOutOfMemory(t *testing.T) {
	g := newGuard(t, guardVerb, 0)
	g.o.MemoryLimit = "20MB"
	p := g.must(t, "SELECT repeat('x', n) AS s FROM __input", "n BIGINT", "s VARCHAR") // texts of a result are within the limit
	defer p.Close()
	const vast = 50_000_000
	for _, in := range []arrow.RecordBatch{bigints(1, vast), bigints(vast)} {
		if _, err := p.Run(t.Context(), in); !isCrash(err) || !strings.HasPrefix(err.Error(), "DuckDB ran out of memory on this record: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%d rows: %v", in.NumRows(), err)
		}
	}
	out, err := p.Run(t.Context(), bigints(1, 2))
	if err != nil {
		t.Fatal(err)
	}
	if got := out.Column(0).(*array.String); got.Len() != 2 || got.Value(1) != "xx" {
		t.Error(got)
	}
}
