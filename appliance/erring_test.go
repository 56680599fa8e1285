//go:build duckdb_arrow

package appliance

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"weir/appliance/devbroker"
	"weir/queryable"
)

// erring are expressions over two texts, and values on which DuckDB fails, each
// with an error of another type or form. The records hold them in the fields s and p,
// and their numbers from 1 on in n.
var erring = []struct{ expr, s, p string }{
	{`$s LIKE $p ESCAPE '\'`, `a\`, `a\`},
	{`$s LIKE 'a%' ESCAPE $p`, "abc", "xy"},
	{`error($p)`, "abc", ""},
	{`error($p)`, "abc", `{"exception_type":"FATAL","exception_message":"lies"}`},
	{`regexp_matches($s, $p)`, "abc", "["},
	{`printf($p, $s)`, "abc", "%d"},
	{`date_trunc($p, DATE '2026-01-01')`, "abc", "bogus"},
	{`timezone($p, TIMESTAMP '2026-01-01')`, "abc", "Mars/Olympus"},
	{`json_extract('{}', '$' || $p)`, "abc", "["},
	{`CAST($p AS UUID)`, "abc", "x"},
}

// erringRecords are sound ones, numbered 0, around those of erring.
func erringRecords(b *bed) (good int) {
	b.t.Helper()
	send := func(n int, s, p string) {
		doc, err := json.Marshal(map[string]any{"n": n, "s": s, "p": p})
		if err != nil {
			b.t.Fatal(err)
		}
		b.send(&devbroker.Record{Topic: "t", Value: doc})
	}
	send(0, "abc", "a")
	for i, e := range erring {
		send(i+1, e.s, e.p)
	}
	for range 4 {
		send(0, "abc", "a")
	}
	return 5
}

const erringSource = "CREATE SOURCE t (n INTEGER, s VARCHAR, p VARCHAR) WITH (connector = 'kafka', topic = 't');\n"

// TestErringRecords: in whatever place of a view a value makes DuckDB fail, and
// whatever it calls that, the record is refused, alone and by that view alone.
func TestErringRecords(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("t", 1)
	var sql strings.Builder
	sql.WriteString(erringSource)
	var views []string
	for i, e := range erring {
		one := fmt.Sprintf("CASE WHEN n = %d THEN CAST((%s) AS VARCHAR) ELSE 'k' END", i+1, strings.NewReplacer("$s", "s", "$p", "p").Replace(e.expr))
		for place, sel := range map[string]string{
			"cond":     "SELECT 'k' AS k, count(*) AS c FROM t WHERE " + one + " IS NOT NULL GROUP BY k",
			"key":      "SELECT " + one + " AS k, count(*) AS c FROM t GROUP BY k",
			"argument": "SELECT max(" + one + ") AS k, count(*) AS c FROM t",
			"filter":   "SELECT max('k') FILTER (WHERE " + one + " IS NOT NULL) AS k, count(*) AS c FROM t",
		} {
			name := fmt.Sprintf("%s%d", place, i+1)
			views = append(views, name)
			fmt.Fprintf(&sql, "CREATE MATERIALIZED VIEW %s AS %s;\n", name, sel)
		}
	}
	b.must(sql.String())
	good := erringRecords(b)
	b.caughtUp()
	refused, err := b.run.refused(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]int64{}
	for _, r := range refused {
		got[r.View] = append(got[r.View], r.Offset)
		if strings.TrimSpace(r.Reason) == "" || strings.Contains(r.Reason, "exception_") {
			t.Errorf("%s refuses %d for %q", r.View, r.Offset, r.Reason)
		}
	}
	for _, v := range views {
		var n int64
		if _, err := fmt.Sscan(strings.TrimLeft(v, "abcdefghijklmnopqrstuvwxyz"), &n); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got[v], []int64{n}) {
			t.Errorf("%s refused the records %v, not %d", v, got[v], n)
		}
		if rows, want := b.rows("SELECT * FROM "+v), fmt.Sprintf("\"k\" | %d\n", good+len(erring)-1); rows != want {
			t.Errorf("%s: %s", v, rows)
		}
	}
	for _, v := range []string{"cond1", "key3", "argument4"} {
		if rep := b.verified(v); rep.excluded != 1 {
			t.Errorf("%s: %d records are excluded", v, rep.excluded)
		}
	}
	b.checkpoint()
}

// TestErringGroups: a result or HAVING that fails over a group is that group's error
// and nothing else's.
func TestErringGroups(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("t", 1)
	var sql strings.Builder
	sql.WriteString(erringSource)
	for i, e := range erring {
		expr := strings.NewReplacer("$s", "max(s)", "$p", "max(p)").Replace(e.expr)
		one := fmt.Sprintf("CASE WHEN n = %d THEN CAST((%s) AS VARCHAR) ELSE 'k' END", i+1, expr)
		fmt.Fprintf(&sql, "CREATE MATERIALIZED VIEW result%d AS SELECT n, count(*) AS c, %s AS r FROM t GROUP BY n;\n", i+1, one)
		fmt.Fprintf(&sql, "CREATE MATERIALIZED VIEW having%d AS SELECT n, count(*) AS c FROM t GROUP BY n HAVING %s IS NOT NULL;\n", i+1, one)
	}
	b.must(sql.String())
	good := erringRecords(b)
	b.caughtUp()
	if refused, err := b.run.refused(t.Context(), "t"); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	b.query("CHECKPOINT")
	for i := range erring {
		for _, place := range []string{"result", "having"} {
			v := fmt.Sprintf("%s%d", place, i+1)
			at := fmt.Sprintf("/api/v1/views/%s/", v)
			for path, want := range map[string]int{
				"lookup?n=0":                    http.StatusOK,
				fmt.Sprintf("lookup?n=%d", i+1): http.StatusUnprocessableEntity,
				"scan":                          http.StatusOK,
			} {
				code, body, err := b.run.get(at + path)
				if err != nil || code != want {
					t.Errorf("%s%s: %d %s %v", at, path, code, body, err)
				}
				if path == "scan" && (strings.Count(body, `"__error":null`) != len(erring) || !strings.Contains(body, fmt.Sprintf(`{"n":%d,"c":null`, i+1))) {
					t.Errorf("%s%s: %s", at, path, body)
				}
			}
			_, err := b.run.client.Query(t.Context(), "SELECT * FROM "+v)
			if want := fmt.Sprintf("which is also why the group n = %d of view %s is in error", i+1, v); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "exception_") {
				t.Errorf("SELECT * FROM %s: %v", v, err)
			}
			if rows, want := b.rows("SELECT c FROM "+v+" WHERE n = 0"), fmt.Sprintf("%d\n", good); rows != want {
				t.Errorf("%s: %s", v, rows)
			}
		}
	}
	for _, v := range []string{"result1", "having3", "result4"} {
		_, err := backend{b.run.Appliance}.verify(t.Context(), v)
		if e, ok := errors.AsType[*queryable.Error](err); !ok || e.Code != queryable.Conflict {
			t.Errorf("VERIFY VIEW %s: %v", v, err)
		}
	}
}
