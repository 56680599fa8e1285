//go:build duckdb_arrow

package duckext

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

const (
	workerVerb = "duckext-test-worker"
	evilVerb   = "duckext-test-evil-"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == workerVerb {
		os.Exit(Worker(context.Background()))
	}
	if len(os.Args) == 2 && os.Args[1] == guardVerb {
		os.Exit(GuardWorker(context.Background()))
	}
	if len(os.Args) == 2 && strings.HasPrefix(os.Args[1], evilGuardVerb) {
		os.Exit(evilGuard(strings.TrimPrefix(os.Args[1], evilGuardVerb)))
	}
	if len(os.Args) == 2 && strings.HasPrefix(os.Args[1], evilVerb) {
		os.Exit(evil(strings.TrimPrefix(os.Args[1], evilVerb)))
	}
	os.Exit(m.Run())
}

// memCatalog is a catalogue in memory that counts its leases.
type memCatalog struct {
	mu     sync.Mutex
	epoch  uint64
	views  map[string]ViewDef
	tables map[string]Table
	asked  []Ref
	leases atomic.Int64
}

func (c *memCatalog) Lease(_ context.Context, refs []Ref) (Lease, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	c.asked = refs
	l := &memLease{c: c, epoch: c.epoch, tables: maps.Clone(c.tables)}
	var add func(name, as string) error
	add = func(name, as string) error {
		v, ok := c.views[strings.ToLower(name)]
		if !ok {
			return &UnknownNameError{Name: name, Names: slices.Sorted(maps.Keys(c.views))}
		}
		if v.Table == "" { // a plain view over v
			if err := add("v", "v"); err != nil {
				return err
			}
		}
		v.Name = as
		l.views = append(l.views, v)
		return nil
	}
	for _, r := range refs {
		if err := add(r.Name, r.As); err != nil {
			return nil, err
		}
	}
	c.leases.Add(1)
	return l, nil
}

func (c *memCatalog) set(name string, v ViewDef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v.Name = name
	c.views[name] = v
}

func (c *memCatalog) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.views, name)
}

type memLease struct {
	c        *memCatalog
	epoch    uint64
	views    []ViewDef
	tables   map[string]Table
	released bool
}

func (l *memLease) Epoch() uint64    { return l.epoch }
func (l *memLease) Views() []ViewDef { return l.views }
func (l *memLease) Scan(ctx context.Context, table string, s ScanSpec) (array.RecordReader, error) {
	return l.tables[table].Scan(ctx, s)
}

func (l *memLease) Release() {
	if l.released {
		panic("released twice")
	}
	l.released = true
	l.c.leases.Add(-1)
}

// shop is a catalogue with v, a materialized view over n rows; w, rows as they
// are; and top, a plain view over v.
func shop(n int) (*memCatalog, *memTable) {
	m := numbers(n)
	c := &memCatalog{views: map[string]ViewDef{}, tables: map[string]Table{"v_state": m, "w_rows": m}}
	c.set("v", ViewDef{
		SQL: "SELECT k, name, amount, tags, s, flag FROM __state WHERE k >= 0", Relation: "__state", Table: "v_state", Columns: m.cols,
		Rows: int64(n), Keys: []Passed{{"k", 0}, {"name", 1}, {"amount", 2}},
	})
	c.set("w", ViewDef{Table: "w_rows", Columns: m.cols})
	c.set("top", ViewDef{SQL: "SELECT k, name FROM v ORDER BY k DESC LIMIT 10"})
	return c, m
}

// patience is for queries that should not be late, however busy the machine is.
const patience = 5 * time.Minute

// until looks again and again, for there is nothing to wait for.
func until(done func() bool) {
	for !done() {
		<-time.After(time.Millisecond)
	}
}

func openPool(t testing.TB, c Catalog, o PoolOptions) *Pool {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o.Command = []string{exe, workerVerb}
	o.TempDir = t.TempDir()
	o.Timeout = cmp.Or(o.Timeout, patience)
	if underRace {
		o.AddressSpace = -1
		o.Memory = max(o.Memory, 8<<30)
	}
	p := NewPool(o, c)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(o.TempDir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	return p
}

func ask(t testing.TB, p *Pool, sql string, params ...any) *Result {
	t.Helper()
	r := Request{SQL: sql}
	if len(params) > 0 {
		b, err := json.Marshal(params)
		if err != nil {
			t.Fatal(err)
		}
		r.Params = b
	}
	res, err := p.Query(t.Context(), r)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return res
}

// answerOf prints a result: a line a row.
func answerOf(r *Result) string {
	var b strings.Builder
	for _, rec := range r.Batches {
		for i := range int(rec.NumRows()) {
			for j, c := range rec.Columns() {
				if j > 0 {
					b.WriteByte('|')
				}
				if h, ok := c.(*array.FixedSizeBinary); ok && c.IsValid(i) { // a HUGEINT
					fmt.Fprint(&b, int64(binary.LittleEndian.Uint64(h.Value(i))))
					continue
				}
				b.WriteString(c.ValueStr(i))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func TestTrapsThroughThePool(t *testing.T) {
	const n = 9000
	c, m := shop(n)
	p := openPool(t, c, PoolOptions{Threads: 3})
	s := openSession(t, openEngine(t), 1, nil)
	for _, q := range traps {
		want, err := s.Query(t.Context(), "WITH v AS MATERIALIZED "+numbersSQL(n)+" SELECT * FROM ("+q+")")
		if err != nil {
			t.Fatal(err)
		}
		got := ask(t, p, q)
		if g, w := answerOf(got), answerOf(&Result{Batches: []arrow.RecordBatch{want}}); g != w {
			t.Errorf("%s:\ngot  %s\nwant %s", q, g, w)
		}
		for i, f := range got.Schema.Fields() {
			if !arrow.TypeEqual(f.Type, want.Schema().Field(i).Type) {
				t.Errorf("%s: column %d is %s", q, i, f.Type)
			}
		}
	}
	if c.leases.Load() != 0 || m.open.Load() != 0 {
		t.Errorf("%d leases, %d readers left", c.leases.Load(), m.open.Load())
	}
}

func TestQueryAnswers(t *testing.T) {
	c, _ := shop(100)
	p := openPool(t, c, PoolOptions{Size: 1})
	for _, q := range []struct {
		sql    string
		params []any
		want   string
		types  string
	}{
		{"SELECT 42 AS x", nil, "42\n", "x INTEGER"},
		{"SELECT 1 AS a, 2 AS a; -- twice", nil, "1|2\n", "a INTEGER, a INTEGER"},
		{"SELECT $2 || $1 AS t", []any{"b", "a"}, "ab\n", "t VARCHAR"},
		{"SELECT k FROM v WHERE k = ? AND flag = ?", []any{7, true}, "7\n", "k BIGINT"},
		{"SELECT ? IS NULL AS n, ? / 2 AS h", []any{nil, 1.5}, "1|0.75\n", "n BOOLEAN, h DOUBLE"},
		{"SELECT '12:00:00+02'::TIMETZ AS z, 'a'::ENUM('a', 'b') AS e, '101'::BIT AS b", nil, "12:00:00+02|a|101\n", "z TIME WITH TIME ZONE, e ENUM, b BIT"},
		{"SELECT k FROM top", nil, "99\n98\n97\n96\n95\n94\n93\n92\n91\n90\n", "k BIGINT"},
		{"SELECT count(*) FROM w JOIN top USING (k)", nil, "10\n", "count_star() BIGINT"},
		{"WITH v AS (SELECT k FROM v WHERE k < 2) SELECT * FROM v ORDER BY 1", nil, "0\n1\n", "k BIGINT"},
		{"WITH RECURSIVE f(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM f WHERE n < 3) SELECT n FROM f", nil, "1\n2\n3\n", "n INTEGER"},
		{"SELECT a.k FROM V a, lateral (SELECT a.k + 1 AS j) b WHERE b.j = 5", nil, "4\n", "k BIGINT"},
		{"SELECT sum(k)//2 FROM v", nil, "2475\n", "(sum(k) // 2) HUGEINT"},
		{"SELECT max(k) FROM v AT (VERSION => 3)", nil, "99\n", "max(k) BIGINT"},
		{"SELECT (SELECT max(k) FROM v AT (VERSION => 3))", nil, "99\n", "(SELECT max(k) FROM v AT (VERSION => 3)) BIGINT"},
		{"SELECT (SELECT max(d.k) FROM v AS d AT (VERSION => 3)), (SELECT min(k) FROM v AT (VERSION => 3))", nil, "99|0\n", "(SELECT max(d.k) FROM v AS d AT (VERSION => 3)) BIGINT, (SELECT min(k) FROM v AT (VERSION => 3)) BIGINT"},
		{"SELECT (SELECT max(k) FROM State_At('v', version := 3))", nil, "99\n", "(SELECT max(k) FROM State_At('v', version := 3)) BIGINT"},
		{"SELECT (SELECT max(\"K l\") FROM state_at('v', version := 3) AS \"a b\"(\"K l\"))", nil, "99\n", "(SELECT max(\"K l\") FROM state_at('v', version := 3) AS \"a b\"(\"K l\")) BIGINT"},
		{"SELECT * FROM (SELECT (SELECT max(k) FROM v AT (VERSION => 3)))", nil, "99\n", "(SELECT max(k) FROM v AT (VERSION => 3)) BIGINT"},
		{"SELECT max(k) AS __at_1 FROM v AT (VERSION => 3)", nil, "99\n", "__at_1 BIGINT"},
		{"SELECT x.k FROM (SELECT * FROM v AT (TIMESTAMP => TIMESTAMP '2026-01-01 00:00:00')) x JOIN v /* now */ y USING (k) WHERE v.k = 1", nil, "", ""},
		{"SELECT max(v.k), count(*) FROM state_at('v', name := 'it''s') JOIN w ON w.k = v.k", nil, "99|100\n", "max(v.k) BIGINT, count_star() BIGINT"},
		{"DESCRIBE top", nil, "k|BIGINT|YES|(null)|(null)|(null)\nname|VARCHAR|YES|(null)|(null)|(null)\n", "column_name VARCHAR, column_type VARCHAR, null VARCHAR, key VARCHAR, default VARCHAR, extra VARCHAR"},
		{"SELECT NULL AS n, [1, NULL] AS l, {'a': 1} AS s, MAP {'k': 1} AS m", nil, `(null)|[1,null]|{"a":1}|[{"key":"k","value":1}]` + "\n", "n INTEGER, l INTEGER[], s STRUCT(a INTEGER), m MAP(VARCHAR, INTEGER)"},
	} {
		if q.types == "" {
			continue
		}
		res := ask(t, p, q.sql, q.params...)
		if got := answerOf(res); strings.ReplaceAll(got, "NULL", "(null)") != q.want {
			t.Errorf("%s:\ngot  %swant %s", q.sql, got, q.want)
		}
		var types []string
		for _, col := range res.Columns {
			types = append(types, col.Name+" "+col.Type)
		}
		if got := strings.Join(types, ", "); got != q.types {
			t.Errorf("%s: types %s", q.sql, got)
		}
		if res.Epoch == 0 || res.Truncated {
			t.Errorf("%s: epoch %d, truncated %v", q.sql, res.Epoch, res.Truncated)
		}
	}
	if res := ask(t, p, "EXPLAIN ANALYZE SELECT count(*) FROM v"); res.Rows == 0 {
		t.Error("EXPLAIN is empty")
	}
	res, err := p.Query(t.Context(), Request{SQL: "SELECT $who AS w", Params: json.RawMessage(`{"who": "me"}`)})
	if err != nil || answerOf(res) != "me\n" {
		t.Errorf("named: %v, %v", res, err)
	}
}

// TestNumbersAreLiterals binds numbers and writes the same into the statement: they
// have one type, one value, and find the same rows. A whole number is a BIGINT where
// SQL has an INTEGER.
func TestNumbersAreLiterals(t *testing.T) {
	c, _ := shop(1)
	p := openPool(t, c, PoolOptions{Size: 1})
	numbers := []string{
		"0", "-0", "7", "-7", "2147483647", "2147483648", "-2147483649", "9223372036854775807", "-9223372036854775808",
		"9223372036854775808", "-9223372036854775809", "170141183460469231731687303715884105727", "-170141183460469231731687303715884105728",
		"170141183460469231731687303715884105728", "340282366920938463463374607431768211455",
		"0.5", "-0.5", "-0.0", "0.10", "1.5", "1.005", "1234567890123456.01", "1234567890123456.02", "0.12345678901234567891", "9999999999999999999999999999.5",
		"-9999999999999999999999999999.5", "0.0000000000000000000000000000000000001", "99999999999999999999999999999999999999.0", "1.000000000000000000000000000001",
		"1e0", "-0e0", "1e3", "0.1e0", "1E-3", "1234567890123456.01e0", "1e308", "5e-324",
	}
	const rows = `SELECT count(*) FROM (SELECT unnest([1234567890123456.01, 1234567890123456.02, 1.005, 0.5, 7, -7, 1])::%[1]s AS d
		UNION ALL SELECT %[2]s::%[1]s WHERE TRY_CAST(%[2]s AS %[1]s) IS NOT NULL) WHERE d = %[3]s OR d BETWEEN %[3]s AND %[3]s OR d > %[3]s`
	for _, n := range numbers {
		if strings.HasPrefix(n, "99999999999999999999999999999999999999.") { // 39 digits: SQL makes a DOUBLE of it
			_, err := p.Query(t.Context(), Request{SQL: "SELECT $1", Params: json.RawMessage("[" + n + "]")})
			if e, ok := errors.AsType[*QueryError](err); !ok || e.Code != CodeParams || !strings.Contains(e.Message, "cast it") {
				t.Errorf("%s: %v", n, err)
			}
			continue
		}
		with := func(sql string) string { return answerOf(ask(t, p, sql, json.Number(n))) }
		plain := func(sql string) string { return answerOf(ask(t, p, sql)) }
		want := strings.Replace(plain("SELECT typeof("+n+"), ("+n+")::VARCHAR"), "INTEGER|", "BIGINT|", 1)
		if got := with("SELECT typeof($1), $1::VARCHAR"); got != want {
			t.Errorf("%s is %s, as a literal %s", n, got, want)
		}
		for _, typ := range []string{"DECIMAL(18,2)", "DECIMAL(38,10)", "DECIMAL(38,20)", "DOUBLE", "BIGINT", "HUGEINT"} {
			got, err := p.Query(t.Context(), Request{SQL: fmt.Sprintf(rows, typ, n, "$1"), Params: json.RawMessage("[" + n + "]")})
			want, wantErr := p.Query(t.Context(), Request{SQL: fmt.Sprintf(rows, typ, n, "("+n+")")})
			if (err != nil) != (wantErr != nil) {
				t.Errorf("%s as %s: %v, as a literal %v", n, typ, err, wantErr)
			} else if err == nil && answerOf(got) != answerOf(want) {
				t.Errorf("%s finds %s %s, as a literal %s", n, typ, answerOf(got), answerOf(want))
			}
		}
	}
	_, err := p.Query(t.Context(), Request{SQL: "SELECT $1", Params: json.RawMessage("[" + strings.Repeat("1", 1<<20) + "]")})
	if e, ok := errors.AsType[*QueryError](err); !ok || e.Code != CodeParams || !strings.Contains(e.Message, "a number of 1048576 characters") {
		t.Errorf("a million digits: %.200v", err)
	}
	if got := answerOf(ask(t, p, "SELECT k FROM v WHERE k = $1", json.Number("18446744073709551616"))); got != "" {
		t.Errorf("a number beyond the column's type finds %s", got)
	}
}

func TestQueryErrors(t *testing.T) {
	c, m := shop(100)
	p := openPool(t, c, PoolOptions{Size: 1})
	for _, q := range []struct {
		sql    string
		offset int
		code   string
		text   string
	}{
		{"SELEC 1", 0, CodeSyntax, "syntax error"},
		{"SELECT 'ü', nope FROM v", 13, CodeSyntax, `"nope" not found`},
		{"EXPLAIN SELECT 'ü' FRM x y", 24, CodeSyntax, "syntax error"},
		{"SELECT 'x'::INTEGER FROM v", -2, CodeFailed, "Could not convert string 'x'"},
		{"SELECT $1", -1, CodeParams, "parameter $1 has no value"},
		{"SELECT k, nope FROM v AT (VERSION => 3) WHERE k = 1", 10, CodeSyntax, `"nope" not found`},
		{"SELECT k FROM v AT (VERSION => 3) WHERE nope = 1", 40, CodeSyntax, `"nope" not found`},
		{"SELECT * FROM v AT (VERSION => k)", 14, CodeSyntax, "checkpoint's number"},
		{"", -1, CodeRefused, "empty"},
	} {
		_, err := p.Query(t.Context(), Request{SQL: q.sql})
		e, ok := errors.AsType[*QueryError](err)
		if !ok || e.Code != q.code || q.offset != -2 && e.Offset != q.offset || !strings.Contains(e.Message, q.text) {
			t.Errorf("%s: %#v", q.sql, err)
		}
	}
	_, err := p.Query(t.Context(), Request{SQL: "SELECT 1, * FROM topp"})
	if e, ok := errors.AsType[*UnknownNameError](err); !ok || e.Offset != 17 || !strings.Contains(e.Error(), `did you mean "top"?`) {
		t.Errorf("%#v", err)
	}
	m.fail = func(ScanSpec) error { return errors.New("group k = 7 is in error: ln(0)") }
	if _, err = p.Query(t.Context(), Request{SQL: "SELECT sum(k) FROM v"}); err == nil || !strings.Contains(err.Error(), "group k = 7 is in error: ln(0)") {
		t.Errorf("%v", err)
	}
	m.fail = nil
	ask(t, p, "SELECT 1")
	if n := p.Stats().Died; n != 0 {
		t.Errorf("%d processes died", n)
	}
}

func TestGateRefusesByName(t *testing.T) {
	c, _ := shop(10)
	p := openPool(t, c, PoolOptions{Size: 1})
	for sql, word := range map[string]string{
		"SET memory_limit = '1TB'": "SET", "RESET threads": "RESET", "PRAGMA database_list": "PRAGMA", "CALL enable_logging()": "CALL",
		"CREATE TEMP TABLE x (a INT)": "CREATE", "INSERT INTO v VALUES (1)": "INSERT", "DROP VIEW v": "DROP", "BEGIN": "BEGIN",
		"ATTACH ':memory:' AS m": "ATTACH", "COPY (SELECT 1) TO '/tmp/weir-never'": "COPY", "INSTALL httpfs": "INSTALL", "LOAD httpfs": "LOAD",
		"PREPARE p AS SELECT 1": "PREPARE", "EXPLAIN ANALYZE DELETE FROM v": "DELETE", "USE memory": "USE", "CHECKPOINT": "CHECKPOINT",
		"EXPORT DATABASE '/tmp/weir-never'": "EXPORT", "VACUUM": "VACUUM", "DELETE FROM v": "DELETE", "UPDATE v SET k = 1": "UPDATE",
		"PIVOT v ON flag USING sum(k)": "PIVOT", "EXPLAIN (FORMAT json) CREATE TABLE x (a INT)": "CREATE",
		"SELECT * FROM enable_logging(storage = 'stdout')": "enable_logging", "SELECT * FROM read_csv('/etc/passwd')": "read_csv",
		"SELECT * FROM \"read_text\"('/etc/passwd')": "read_text", "SELECT * FROM glob('/*')": "glob", "SELECT * FROM query('SELECT 1')": "query",
		"SELECT * FROM sql_auto_complete('SEL')": "sql_auto_complete", "SELECT * FROM duckdb_secrets()": "duckdb_secrets",
		"SELECT * FROM json_execute_serialized_sql('{}')": "json_execute_serialized_sql", "SELECT getenv('HOME')": "getenv",
		"SELECT (SELECT write_log('x')) FROM v": "write_log", "SELECT * FROM weir_scan(1)": "weir_scan", "FROM query_table(['v'])": "query_table",
		"SELECT * FROM information_schema.tables": "information_schema.tables", "SELECT * FROM temp.v": "temp.v", "SHOW TABLES": "SHOW VIEWS",
		"SELECT 1; SELECT 2": "one statement", "SELECT * FROM range(3), checkpoint('memory')": "checkpoint",
		"WITH x AS (SELECT * FROM enable_profiling()) SELECT * FROM x": "enable_profiling", "SELECT '" + strings.Repeat("x", maxSQL) + "'": "limit",
		"SELECT * FROM (SELECT 1 UNION SELECT * FROM (DESCRIBE SELECT * FROM read_blob('/etc/passwd')))": "read_blob",
	} {
		_, err := p.Query(t.Context(), Request{SQL: sql})
		e, ok := errors.AsType[*QueryError](err)
		if !ok || e.Code != CodeRefused || !strings.Contains(e.Message, word) {
			t.Errorf("%.60s: %v", sql, err)
		}
	}
	for _, sql := range []string{"SELECT * FROM '/etc/passwd'", "SELECT * FROM duckdb_settings", "SELECT * FROM pg_class", "SELECT * FROM \"http://127.0.0.1:1/x.csv\""} {
		if _, err := p.Query(t.Context(), Request{SQL: sql}); !isUnknown(err) {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if n := p.Stats().Died; n != 0 {
		t.Errorf("%d processes died", n)
	}
}

func isUnknown(err error) bool {
	_, ok := errors.AsType[*UnknownNameError](err)
	return ok
}

func TestKeyPredicatesGoDown(t *testing.T) {
	c, m := shop(1000)
	p := openPool(t, c, PoolOptions{Size: 1})
	for _, q := range []struct {
		sql    string
		params []any
		want   string // filters of the scan
		rows   string
	}{
		{"SELECT k FROM v WHERE k = 7", nil, "k in [7]", "7\n"},
		{"SELECT k FROM v WHERE k IN (7, 8, 12345678901) ORDER BY 1", nil, "k in [7 8 12345678901]", "7\n8\n"},
		{"SELECT k FROM v x WHERE x.name = 'the name of row 5' AND flag", nil, `name in ["the name of row 5"]`, "5\n"},
		{"SELECT k FROM v WHERE 995 < k AND k <= 997", nil, "k >= [995]; k <= [997]", "996\n997\n"},
		{"SELECT k FROM v WHERE amount BETWEEN 5 AND '5.01' ORDER BY k", nil, "", "500\n501\n"},
		{"SELECT k FROM v WHERE amount = 5", nil, "amount in [5]", "500\n"},
		{"SELECT k FROM v WHERE k = '7'", nil, "k in [7]", "7\n"},
		{"SELECT k FROM v WHERE k = $1", []any{9}, "k in [9]", "9\n"},
		{"SELECT k FROM v WHERE name = ?", []any{"the name of row 9"}, `name in ["the name of row 9"]`, "9\n"},
		{"SELECT k FROM (SELECT * FROM v WHERE k = 3) WHERE flag", nil, "k in [3]", "3\n"},
		{"SELECT k FROM v AT (VERSION => 2) WHERE k = 3", nil, "k in [3]", "3\n"},
		{"SELECT sum(k) FROM v WHERE k = 3 OR k = 4", nil, "", "7\n"},
		{"SELECT k FROM v WHERE k = 3.0", nil, "", "3\n"},
		{"SELECT k FROM v WHERE name = 5 OR k = 1", nil, "", "error"},
		{"SELECT a.k FROM v a, v b WHERE a.k = 3 AND b.k = 4", nil, "", "3\n"},
		{"SELECT k, (SELECT count(*) FROM v) AS n FROM v WHERE k = 3", nil, "", "3|1000\n"},
		{"SELECT t.a FROM v AS t(a) WHERE t.a = 3", nil, "", "3\n"},
		{"SELECT k FROM v WHERE NOT k = 3 AND k < 5 ORDER BY k", nil, "k <= [5]", "0\n1\n2\n4\n"},
		{"SELECT count(*) FROM v WHERE k = NULL", nil, "", "0\n"},
		{"SELECT count(*) FROM v WHERE k = 'x'", nil, "", "error"},
		{"SELECT count(*) FROM v WHERE k = 99999999999999999999", nil, "", "0\n"},
		{"SELECT count(*) FROM top WHERE k = 999", nil, "", "1\n"},
		{"WITH v AS (SELECT k + 1 AS k FROM v) SELECT k FROM v WHERE k = 1000", nil, "", "1000\n"},
		{"SELECT count(*) FROM (FROM v USING SAMPLE 100%) WHERE k = 7", nil, "", "1\n"},
	} {
		m.seen()
		r := Request{SQL: q.sql}
		if q.params != nil {
			r.Params, _ = json.Marshal(q.params)
		}
		res, err := p.Query(t.Context(), r)
		switch {
		case q.rows == "error" && err == nil:
			t.Errorf("%s: no error", q.sql)
		case q.rows != "error" && err != nil:
			t.Errorf("%s: %v", q.sql, err)
			continue
		case q.rows != "error" && answerOf(res) != q.rows:
			t.Errorf("%s: got %s", q.sql, answerOf(res))
		}
		for _, s := range m.seen() {
			var fs []string
			for _, f := range s.Filters {
				name := m.cols[f.Column].Name
				if f.In != nil {
					fs = append(fs, fmt.Sprint(name, " in ", f.In))
				}
				if f.Min != nil {
					fs = append(fs, fmt.Sprint(name, " >= ", f.Min))
				}
				if f.Max != nil {
					fs = append(fs, fmt.Sprint(name, " <= ", f.Max))
				}
			}
			if got := strings.Join(fs, "; "); got != q.want {
				t.Errorf("%s: filters %s, want %s", q.sql, got, q.want)
				break
			}
		}
	}
}

func TestLimitsTruncate(t *testing.T) {
	c, _ := shop(5000)
	p := openPool(t, c, PoolOptions{Size: 1, MaxRows: 3000, MaxBytes: 1 << 20})
	for _, q := range []struct {
		sql  string
		max  int64
		rows int64
		cut  bool
	}{
		{"SELECT k FROM v", 0, 3000, true},
		{"SELECT k FROM v LIMIT 3000", 0, 3000, false},
		{"SELECT k FROM v", 1, 1, true},
		{"SELECT range FROM range(1000000000000)", 5, 5, true},
		{"SELECT k FROM v LIMIT 0", 5, 0, false},
		{"SELECT k FROM v LIMIT 5", 5, 5, false},
	} {
		res, err := p.Query(t.Context(), Request{SQL: q.sql, MaxRows: q.max})
		if err != nil || res.Rows != q.rows || res.Truncated != q.cut {
			t.Errorf("%s: %+v, %v", q.sql, res, err)
		}
	}
	res := ask(t, p, "SELECT repeat('x', 10000) FROM range(1000)")
	if !res.Truncated || res.Rows < 50 || res.Rows > 150 {
		t.Errorf("%d rows, %v", res.Rows, res.Truncated)
	}
	_, err := p.Query(t.Context(), Request{SQL: "SELECT repeat('x', 300000) FROM range(40)"})
	if code(err) != CodeRefused || !strings.Contains(err.Error(), "more than its limit") {
		t.Error(err)
	}
}

// A DROP while a query runs takes effect after it, and the next query of the
// same warm process no longer sees the view.
func TestLeasesAndChanges(t *testing.T) {
	c, m := shop(100)
	p := openPool(t, c, PoolOptions{Size: 1})
	ask(t, p, "SELECT * FROM top")
	v := c.views["v"]
	// Another definition under the same name, and the plain view above it.
	v.SQL = "SELECT k + 1000 AS k, 'new' AS name FROM __state"
	v.Keys = nil
	c.set("v", v)
	if got := answerOf(ask(t, p, "SELECT max(k), max(name) FROM top")); got != "1099|new\n" {
		t.Error(got)
	}
	if got := answerOf(ask(t, p, "SELECT count(*) FROM v WHERE k = 1001")); got != "1\n" {
		t.Error(got)
	}
	started, dropped := make(chan struct{}), make(chan struct{})
	var once sync.Once
	m.fail = func(ScanSpec) error {
		once.Do(func() { close(started); <-dropped })
		return nil
	}
	got := make(chan string)
	go func() {
		res, err := p.Query(context.Background(), Request{SQL: "SELECT count(*) FROM v"})
		if err != nil {
			got <- err.Error()
			return
		}
		got <- answerOf(res)
	}()
	<-started
	c.drop("v")
	c.drop("top")
	close(dropped)
	if s := <-got; s != "100\n" {
		t.Errorf("while dropping: %s", s)
	}
	for _, sql := range []string{"SELECT * FROM v", "SELECT * FROM top"} {
		if _, err := p.Query(t.Context(), Request{SQL: sql}); !isUnknown(err) {
			t.Errorf("%s after DROP: %v", sql, err)
		}
	}
	if c.leases.Load() != 0 {
		t.Errorf("%d leases left", c.leases.Load())
	}
}

// A statement that a process has kept follows its views and its parameters.
func TestKeptStatements(t *testing.T) {
	c, _ := shop(100)
	p := openPool(t, c, PoolOptions{Size: 1})
	const at, max = "SELECT k FROM v AT (VERSION => 3) WHERE k = $1", "SELECT max(k) FROM v"
	old := c.views["v"]
	for round := range 3 {
		if got := answerOf(ask(t, p, max)); got != "99\n" {
			t.Errorf("round %d: %s", round, got)
		}
		for _, k := range []any{5, "5", 5.0, nil} {
			want := "5\n"
			if k == nil {
				want = ""
			}
			if got := answerOf(ask(t, p, at, k)); got != want {
				t.Errorf("round %d, k = %v: %s", round, k, got)
			}
		}
		changed := old
		changed.SQL, changed.Keys = "SELECT k + 1000 AS k, name FROM __state", nil
		c.set("v", changed)
		if got := answerOf(ask(t, p, max)); got != "1099\n" {
			t.Errorf("round %d, changed: %s", round, got)
		}
		if got := answerOf(ask(t, p, at, 1005)); got != "1005\n" {
			t.Errorf("round %d, changed: %s", round, got)
		}
		c.set("v", old)
		for i := range 2 * 64 {
			if got := answerOf(ask(t, p, fmt.Sprintf("SELECT k + %d FROM v WHERE k = 1", i))); got != fmt.Sprintln(i+1) {
				t.Fatalf("round %d: %s", round, got)
			}
		}
		if _, err := p.Query(t.Context(), Request{SQL: "SELECT k + $1 FROM v WHERE k = 1", Params: json.RawMessage(`["x"]`)}); err == nil {
			t.Error("no error")
		}
		if got := answerOf(ask(t, p, "SELECT k + $1 FROM v WHERE k = 1", 2)); got != "3\n" {
			t.Errorf("round %d: %s", round, got)
		}
		if got := answerOf(ask(t, p, "SELECT k::VARCHAR::BIT FROM v WHERE k IN (10, 11) ORDER BY 1")); got != "10\n11\n" {
			t.Errorf("round %d: %s", round, got)
		}
	}
}

func TestOneEpochAQuery(t *testing.T) {
	c, _ := shop(10)
	p := openPool(t, c, PoolOptions{Size: 2})
	var mu sync.Mutex
	seen := map[uint64]bool{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10 {
				res, err := p.Query(t.Context(), Request{SQL: "SELECT a.k FROM v a JOIN w b USING (k) JOIN top USING (k)"})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if seen[res.Epoch] {
					t.Errorf("epoch %d twice", res.Epoch)
				}
				seen[res.Epoch] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != 40 || c.epoch != 40 {
		t.Errorf("%d epochs, %d leases", len(seen), c.epoch)
	}
}

func TestTwentyAtOnceThroughThePool(t *testing.T) {
	c, m := shop(2000)
	p := openPool(t, c, PoolOptions{Size: 2, Threads: 2})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			res, err := p.Query(t.Context(), Request{SQL: "SELECT count(*), sum(a.k) FROM v a JOIN v b ON a.k = b.k"})
			if err != nil {
				t.Error(err)
			} else if got := answerOf(res); got != "2000|1999000\n" {
				t.Error(got)
			}
		})
	}
	wg.Wait()
	if m.open.Load() != 0 || c.leases.Load() != 0 {
		t.Error("readers or leases left")
	}
}

func TestBusy(t *testing.T) {
	c, m := shop(10)
	p := openPool(t, c, PoolOptions{Size: 1, Queue: 1})
	ask(t, p, "SELECT 1")
	started := make(chan struct{})
	var once sync.Once
	m.fail = func(ScanSpec) error {
		once.Do(func() { close(started) })
		return nil
	}
	m.block = true
	errs := make(chan error, 2)
	go func() {
		_, err := p.Query(context.Background(), Request{ID: "first", SQL: "SELECT count(*) FROM v"})
		errs <- err
	}()
	until(func() bool { return m.read.Load() >= 1000 })
	go func() {
		_, err := p.Query(context.Background(), Request{ID: "second", SQL: "SELECT 1"})
		errs <- err
	}()
	until(func() bool { return p.Stats().Waiting > 0 })
	if _, err := p.Query(t.Context(), Request{SQL: "SELECT 1"}); !errors.Is(err, ErrBusy) {
		t.Errorf("the third: %v", err)
	}
	for _, id := range []string{"second", "first"} {
		if !p.Cancel(id) {
			t.Errorf("%s is not running", id)
		}
		err := <-errs
		if e, ok := errors.AsType[*QueryError](err); !ok || e.Code != CodeCancelled {
			t.Errorf("%s: %v", id, err)
		}
	}
	if p.Cancel("first") {
		t.Error("cancelled twice")
	}
	m.block = false
	ask(t, p, "SELECT count(*) FROM v")
}
