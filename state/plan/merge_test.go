package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/state/agg"
	"weir/state/ddl"
)

// TestMergedPartialsAreTheSelect runs the partial statement over three batches,
// merges by the rules in SQL, runs the final one, and wants what the SELECT
// gives over all records.
func TestMergedPartialsAreTheSelect(t *testing.T) {
	s, err := ddl.ParseOne(`CREATE SOURCE t (k VARCHAR, n INTEGER, m DECIMAL(12,2), d DOUBLE, b BOOLEAN, big BIGINT, at_ TIMESTAMP, l INTEGER[],
		s STRUCT(a INTEGER, "by" VARCHAR), i INTERVAL) WITH (connector = 'kafka', topic = 't')`)
	if err != nil {
		t.Fatal(err)
	}
	src := Source{Name: "t", Columns: s.(*ddl.CreateSource).Columns}
	records := []string{ // batch, columns
		`0, 'a', 1, 1.10, 0.5::DOUBLE, true, 9007199254740993, TIMESTAMP '2020-01-01 00:00:01', [1, 2], {'a': 1, 'by': 'x'}, INTERVAL 1 DAY`,
		`0, 'A', 2, 2.25, -0.0::DOUBLE, false, 9223372036854775807, TIMESTAMP '2020-01-01 01:00:00', [], {'a': NULL, 'by': 'x'}, INTERVAL 2 HOUR`,
		`0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL`,
		`1, 'a', 7, 0.05, 'nan'::DOUBLE, true, -3, TIMESTAMP '2020-01-02 00:00:01', [1, 2], {'a': 1, 'by': 'x'}, INTERVAL 1 DAY`,
		`1, 'ü', -4, -5.00, 0.0, NULL, 9223372036854775807, TIMESTAMP '1969-12-31 23:59:59', [NULL], {'a': 2, 'by': NULL}, INTERVAL 3 MONTH`,
		`1, NULL, 3, 3.00, 2.5, false, 4, TIMESTAMP '2020-01-01 00:30:00', NULL, NULL, NULL`,
		`2, 'b', 2, 99.99, 'inf'::DOUBLE, false, 0, TIMESTAMP '2020-01-01 01:59:59', [3], {'a': 1, 'by': 'x'}, INTERVAL 1 DAY`,
		`2, 'A', 5, 1.00, 1.5, true, -9223372036854775808, NULL, [1, 2], NULL, INTERVAL 2 HOUR`,
	}
	for _, sql := range []string{
		"SELECT k, count(*) AS n, sum(n) AS s, avg(m) AS a, min(d) AS lo, max(d) AS hi FROM t GROUP BY k",
		"SELECT count(*) AS c, sum(big) AS s, avg(big) AS a, count_if(b) AS i, bool_and(b) AS x, bool_or(b) AS y FROM t",
		"SELECT count(*) AS c, sum(n) AS s, count_if(b) AS i FROM t WHERE n > 1000",
		"SELECT k FROM t WHERE n > 1000 GROUP BY k",
		"SELECT lower(k) AS k, sum(n) FILTER (b) AS s FROM t GROUP BY k",
		"SELECT lower(k) AS low, sum(m) AS s FROM t GROUP BY low HAVING s > 2",
		"SELECT max(n) AS n FROM t GROUP BY k HAVING n > 2",
		"SELECT d, count(*) AS c FROM t GROUP BY d",
		"SELECT l, s, count(*) AS c, max(s) AS m, min(l) AS ml FROM t GROUP BY ALL",
		"SELECT i, max(i) AS m, i * count(*) AS t FROM t GROUP BY i",
		"SELECT s.a, s.by || '!' AS e FROM t GROUP BY s",
		"SELECT sum(n) // 2 AS h, sum(big) & 7 AS w, 0.1e0 + 0.2e0 AS e, sum(m) * 1e3 AS k FROM t",
		"SELECT time_bucket(INTERVAL 1 HOUR, at_) AS h, count(*) AS c FROM t GROUP BY h",
		"SELECT [x + n for x in l] AS q, list_transform(l, n -> n + 1) AS r, count(*) AS c FROM t GROUP BY n, l",
		"SELECT {'n': count(*), 'big': sum(big)} AS o, CASE WHEN count(*) > 2 THEN 'many' ELSE 'few' END AS size FROM t GROUP BY b IS NOT TRUE",
		"SELECT n AS k, k AS n, count(*) FROM t GROUP BY n, k",
		"SELECT max({'y': at_, 'x': k}).x AS newest FROM t",
		"SELECT 'x' AS c, 5 AS f, count(*) AS n FROM t GROUP BY ALL",
		"SELECT 'x' AS c, count(*) AS n FROM t WHERE n > 1000 GROUP BY ALL",
		"SELECT 'x' AS c, count(*) AS m FROM t WHERE n > 1000 GROUP BY c",
		"SELECT 'x' AS c, c || 'y' AS cy, n, count(*) AS m FROM t GROUP BY ALL",
		"SELECT count(*) AS c FROM t HAVING count(*) > 100",
		"SELECT n + 1 AS a, a * 2 AS b2, sum(n) AS total, total + 1 AS more FROM t WHERE a > 2 GROUP BY n",
	} {
		stmt, err := ddl.ParseOne("CREATE MATERIALIZED VIEW v AS " + sql)
		if err != nil {
			t.Fatal(err)
		}
		v, err := New(t.Context(), engine(t), Catalog{Sources: []Source{src}}, stmt.(*ddl.CreateMaterializedView))
		if err != nil {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		raw := rawRecords(src, records)
		want, got := rowsOf(t, "WITH raw AS ("+raw+"), t AS (SELECT * EXCLUDE (batch) FROM raw) "+sql), rowsOf(t, merged(v, raw))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: the merged view differs (-select +view):\n%s", sql, diff)
		}
	}
}

// rawRecords is a SELECT of the records with the column batch before their own.
func rawRecords(src Source, records []string) string {
	cols, names := []string{"batch"}, []string{"batch"}
	for _, c := range src.Columns {
		cols = append(cols, "CAST("+quote(c.Name)+" AS "+typeSQL(c.Type)+") AS "+quote(c.Name))
		names = append(names, quote(c.Name))
	}
	return "SELECT " + strings.Join(cols, ", ") + ", 0 AS kafka_partition FROM (VALUES (" + strings.Join(records, "), (") + ")) r(" + strings.Join(names, ", ") + ")"
}

// merged is one statement that does what Weir does with three batches.
func merged(v *View, raw string) string {
	var inputs, columns, ordinals []string
	for _, f := range v.Inputs {
		inputs = append(inputs, quote(f.Name))
	}
	for i, k := range v.Keys {
		columns = append(columns, quote(k.Name))
		ordinals = append(ordinals, fmt.Sprint(i+1))
	}
	merge := map[agg.Rule]string{agg.Add: "sum", agg.Min: "min", agg.Max: "max", agg.And: "bool_and", agg.Or: "bool_or"}
	for _, a := range v.Accs {
		columns = append(columns, fmt.Sprintf("CAST(%s(%s) AS %s) AS %[2]s", merge[a.Rule], quote(a.Name), typeSQL(a.Type)))
	}
	var batches []string
	for i := range 3 {
		batches = append(batches, fmt.Sprintf("(WITH %s AS (SELECT %s FROM raw WHERE batch = %d) %s)", InputRelation, strings.Join(inputs, ", "), i, v.Partial))
	}
	state := "SELECT " + strings.Join(columns, ", ") + " FROM (" + strings.Join(batches, " UNION ALL ") + ")"
	if len(ordinals) > 0 {
		state += " GROUP BY " + strings.Join(ordinals, ", ")
	}
	return "WITH raw AS (" + raw + "), " + StateRelation + " AS (" + state + ") " + v.Final
}

// rowsOf gives the rows of a SELECT as texts, sorted, with one zero.
func rowsOf(t *testing.T, sql string) [][]string {
	t.Helper()
	a, err := engine(t).ask(question{Op: "query", SQL: "SELECT COLUMNS(*)::VARCHAR FROM (" + sql + ")"})
	if err != nil {
		t.Errorf("...%s: %v", sql[max(0, len(sql)-200):], err)
	}
	for _, r := range a.Rows {
		for i := range r {
			if r[i] == "-0.0" {
				r[i] = "0.0"
			}
		}
	}
	slices.SortFunc(a.Rows, slices.Compare)
	return a.Rows
}
