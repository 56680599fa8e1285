//go:build duckdb_arrow

package export_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/duckdb/duckdb-go/v2"
	"github.com/google/go-cmp/cmp"

	"weir/checkpoint"
	"weir/export"
	"weir/state/sqltype"
)

// A sample is a column: its SQL type, what DuckDB says of the exported one ("":
// the same), and values as SQL. DuckDB makes the values and DuckDB reads them.
type sample struct {
	typ, read string
	values    []string
}

var samples = []sample{
	{"BOOLEAN", "", []string{"true", "false"}},
	{"TINYINT", "", []string{"-128", "127", "0"}},
	{"SMALLINT", "", []string{"-32768", "32767"}},
	{"INTEGER", "", []string{"-2147483648", "2147483647", "7"}},
	{"BIGINT", "", []string{"-9223372036854775808", "9223372036854775807", "-1"}},
	{"UTINYINT", "", []string{"0", "255"}},
	{"USMALLINT", "", []string{"0", "65535"}},
	{"UINTEGER", "", []string{"0", "4294967295", "2147483648"}},
	{"UBIGINT", "", []string{"0", "18446744073709551615", "9223372036854775808"}},
	{"HUGEINT", "DECIMAL(38,0)", []string{"99999999999999999999999999999999999999", "-99999999999999999999999999999999999999", "-1", "12345678901234567890123"}},
	{"UHUGEINT", "DECIMAL(38,0)", []string{"99999999999999999999999999999999999999", "0", "18446744073709551616"}},
	{"FLOAT", "", []string{"'NaN'", "'-Infinity'", "'Infinity'", "'-0.0'", "'0.0'", "1e-45", "3.4028235e38", "0.1"}},
	{"DOUBLE", "", []string{"'NaN'", "'-Infinity'", "'Infinity'", "'-0.0'", "'0.0'", "5e-324", "1.7976931348623157e308", "0.1"}},
	{"DECIMAL(4,1)", "", []string{"999.9", "-999.9", "0.1"}},
	{"DECIMAL(9,9)", "", []string{"0.999999999", "-0.000000001"}},
	{"DECIMAL(18,3)", "", []string{"999999999999999.999", "-999999999999999.999", "0.001"}},
	{"DECIMAL(38,2)", "", []string{"999999999999999999999999999999999999.99", "-999999999999999999999999999999999999.99", "-0.01", "1.00"}},
	{"VARCHAR", "", []string{"''", "'Zürich 東京 🚀'", "'a' || chr(0) || 'b'", "'quote '' \" \\ , \n'", "repeat('long', 5000)"}},
	{"JSON", "", []string{`'{"a": [1, null], "b": "ü"}'`, "'1'", `'"x"'`}},
	{"BLOB", "", []string{`''`, `'\x00\xFF\x80abc'`, `'abc'`}},
	{"UUID", "", []string{"'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "'80000000-1234-5678-9abc-def012345678'"}},
	{"DATE", "", []string{"'2026-11-29'", "'0044-03-15 (BC)'", "'infinity'", "'-infinity'", "'1970-01-01'"}},
	{"TIME", "", []string{"'00:00:00'", "'23:59:59.999999'", "'24:00:00'"}},
	{"TIMESTAMP_S", "TIMESTAMP", []string{"'2026-11-29 18:00:00'", "'1677-01-01'", "'infinity'", "'-infinity'"}},
	{"TIMESTAMP_MS", "TIMESTAMP", []string{"'2026-11-29 18:00:00.123'", "'1677-01-01 00:00:00.001'", "'infinity'", "'-infinity'"}},
	{"TIMESTAMP", "", []string{"'2026-11-29 18:00:00.123456'", "'290309-12-22 (BC) 00:00:00'", "'294247-01-10 04:00:54.775806'", "'infinity'", "'-infinity'"}},
	{"TIMESTAMP_NS", "", []string{"'2026-11-29 18:00:00.123456789'", "'1677-09-22 00:00:00.000000001'", "'2262-04-11 23:47:16.854775806'", "'infinity'", "'-infinity'"}},
	{"TIMESTAMP WITH TIME ZONE", "", []string{"'2026-11-29 18:00:00.123456+00'", "'1900-01-01 00:00:00+05:30'", "'infinity'", "'-infinity'"}},
	{"INTERVAL", `STRUCT(months INTEGER, days INTEGER, micros BIGINT)`, []string{"'14 months -3 days 04:05:06.000007'", "'0 days'", "'-2562047 hours'"}},
	{"INTEGER[]", "", []string{"[]", "[NULL]", "[1, NULL, -3]", "range(100)"}},
	{"VARCHAR[][]", "", []string{"[]", "[[], NULL, ['a', NULL, '']]", "[['ü']]"}},
	{"UUID[]", "", []string{"['ffffffff-ffff-ffff-ffff-ffffffffffff', NULL]", "[]"}},
	{"HUGEINT[]", "DECIMAL(38,0)[]", []string{"[1, NULL, 99999999999999999999999999999999999999]", "[]"}},
	{"INTEGER[3]", "INTEGER[]", []string{"[1, 2, 3]", "[NULL, 5, NULL]", "[NULL, NULL, NULL]"}},
	{"DOUBLE[2][]", "DOUBLE[][]", []string{"[[1, 'NaN'::DOUBLE], NULL]", "[]"}},
	{`STRUCT(a INTEGER, "ü ""x""." VARCHAR, u UUID)`, "", []string{`{'a': 1, 'ü "x".': 'y', 'u': '80000000-1234-5678-9abc-def012345678'}`, `{'a': NULL, 'ü "x".': NULL, 'u': NULL}`}},
	{"STRUCT(l STRUCT(b BOOLEAN, t TIMESTAMP_NS)[])[]", "", []string{"[{'l': [{'b': true, 't': '2026-01-01'}, NULL]}, NULL, {'l': NULL}]", "[]"}},
	{"MAP(VARCHAR, DECIMAL(12,2))", "", []string{"MAP {'a': 1.25, '': NULL}", "MAP {}"}},
	{"MAP(UUID, MAP(DATE, INTEGER[]))", "", []string{"MAP {'80000000-1234-5678-9abc-def012345678': MAP {'2026-01-01': [1, NULL]}}", "MAP {}"}},
}

// same is SQL that says whether two values are the same one: NULL, NaN and the
// sign of zero included, which the text shows and = does not.
func same(s sample, got, want string) string {
	switch {
	case s.typ == "INTERVAL":
		got = fmt.Sprintf("(CASE WHEN %[1]s IS NULL THEN NULL ELSE to_months(%[1]s.months) + to_days(%[1]s.days) + to_microseconds(%[1]s.micros) END)", got)
	case s.read != "":
		want = fmt.Sprintf("%s::%s", want, s.read)
	}
	return fmt.Sprintf("(%s)::VARCHAR IS NOT DISTINCT FROM (%s)::VARCHAR", got, want)
}

// database opens a DuckDB. Everything in a test happens in one connection.
func database(t *testing.T) (*sql.Conn, func(query string) (columns []sqltype.Field, rows array.RecordReader)) {
	t.Helper()
	c, err := duckdb.NewConnector("", nil)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(c)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	run(t, conn, "SET TimeZone = 'UTC'; SET arrow_lossless_conversion = true")
	return conn, func(query string) (columns []sqltype.Field, rows array.RecordReader) {
		t.Helper()
		for _, d := range table(t, conn, "DESCRIBE "+query) {
			typ, err := sqltype.Parse(d[1])
			if err != nil {
				t.Fatal(err)
			}
			columns = append(columns, sqltype.Field{Name: d[0], Type: typ})
		}
		err := conn.Raw(func(dc any) error {
			ar, err := duckdb.NewArrowFromConn(dc.(*duckdb.Conn))
			if err != nil {
				return err
			}
			rows, err = ar.QueryContext(t.Context(), query)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return columns, &fileForm{RecordReader: rows, columns: columns}
	}
}

// fileForm gives batches of DuckDB in the form of files.
type fileForm struct {
	array.RecordReader
	columns []sqltype.Field
	rec     arrow.RecordBatch
	err     error
}

func (f *fileForm) Schema() *arrow.Schema {
	var fields []arrow.Field
	for _, c := range f.columns {
		fields = append(fields, c.Type.FileField(c.Name))
	}
	return arrow.NewSchema(fields, nil)
}

func (f *fileForm) Next() bool {
	if f.rec != nil {
		f.rec.Release()
		f.rec = nil
	}
	if f.err != nil || !f.RecordReader.Next() {
		return false
	}
	f.rec, f.err = checkpoint.FileBatch(f.columns, f.RecordReader.RecordBatch())
	return f.err == nil
}
func (f *fileForm) RecordBatch() arrow.RecordBatch { return f.rec }
func (f *fileForm) Err() error {
	if f.err != nil {
		return f.err
	}
	return f.RecordReader.Err()
}

func run(t *testing.T, c *sql.Conn, query string) {
	t.Helper()
	if _, err := c.ExecContext(context.Background(), query); err != nil {
		t.Fatalf("%.200s: %v", query, err)
	}
}

// table is an answer as texts; NULL is "NULL".
func table(t *testing.T, c *sql.Conn, query string) (out [][]string) {
	t.Helper()
	rows, err := c.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		cells := make([]any, len(names))
		for i := range cells {
			cells[i] = new(any)
		}
		if err := rows.Scan(cells...); err != nil {
			t.Fatal(err)
		}
		var row []string
		for _, c := range cells {
			if v := *c.(*any); v == nil {
				row = append(row, "NULL")
			} else {
				row = append(row, fmt.Sprint(v))
			}
		}
		out = append(out, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return out
}

// write exports a query to a Parquet file and returns its name.
func write(t *testing.T, columns []sqltype.Field, rows array.RecordReader, o export.Options) string {
	t.Helper()
	defer rows.Release()
	path := filepath.Join(t.TempDir(), "out.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := export.Parquet(t.Context(), f, columns, rows, o); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatalf("the writer closed what is not its own: %v", err)
	}
	return path
}

// fill makes the table t with a column for each sample: c0, c1 and so on, and a
// row number. Each value stands in several rows, between NULLs.
func fill(t *testing.T, c *sql.Conn, rows int) {
	t.Helper()
	var cols []string
	for i, s := range samples {
		var list []string
		for _, v := range s.values {
			list = append(list, fmt.Sprintf("(%s)::%s", v, s.typ))
		}
		list = append(list, "NULL")
		cols = append(cols, fmt.Sprintf("([%s])[(i * %d) %% %d + 1]::%s AS c%d", strings.Join(list, ", "), []int{1, 7, 11}[i%3], len(list), s.typ, i))
	}
	run(t, c, fmt.Sprintf("CREATE TABLE t AS SELECT i AS n, %s FROM range(%d) r(i)", strings.Join(cols, ", "), rows))
}

func TestEveryTypeReadByDuckDB(t *testing.T) {
	c, read := database(t)
	fill(t, c, 1000)
	columns, rows := read("FROM t ORDER BY n")
	path := write(t, columns, rows, export.Options{GroupRows: 77})
	for i, d := range table(t, c, fmt.Sprintf("DESCRIBE FROM '%s'", path))[1:] {
		want := samples[i].read
		if want == "" {
			want = samples[i].typ
		}
		if w, g := parse(t, want), parse(t, d[1]); !w.Equal(g) {
			t.Errorf("%s is read as %s, not %s", samples[i].typ, g, w)
		}
	}
	if got := table(t, c, fmt.Sprintf("SELECT count(*) FROM '%s'", path)); got[0][0] != "1000" {
		t.Fatalf("%v rows", got)
	}
	for i, s := range samples {
		q := fmt.Sprintf("SELECT n, t.c%[1]d::VARCHAR, p.c%[1]d::VARCHAR FROM t JOIN '%[2]s' p USING (n) WHERE NOT (%[3]s) LIMIT 3", i, path, same(s, fmt.Sprintf("p.c%d", i), fmt.Sprintf("t.c%d", i)))
		if diff := table(t, c, q); len(diff) > 0 {
			t.Errorf("%s: row, want, got: %q", s.typ, diff)
		}
	}
}

// TestStatisticsHideNoRow asks for each value by a predicate that DuckDB checks
// against the statistics of the row groups first.
func TestStatisticsHideNoRow(t *testing.T) {
	c, read := database(t)
	run(t, c, "SET parquet_metadata_cache = true")
	fill(t, c, 120)
	columns, rows := read("FROM t ORDER BY n")
	path := write(t, columns, rows, export.Options{GroupRows: 5})
	for i, s := range samples {
		if s.typ == "INTERVAL" || strings.ContainsAny(s.typ, "[(") && !strings.HasPrefix(s.typ, "DECIMAL") {
			continue // no statistics that a predicate would ask
		}
		typ := s.typ
		if s.read != "" {
			typ = s.read
		}
		for _, v := range s.values {
			for _, op := range []string{"=", ">=", "<=", ">", "<"} {
				where := fmt.Sprintf("c%d %s (%s)::%s::%s", i, op, v, s.typ, typ)
				got := table(t, c, fmt.Sprintf("SELECT count(*), sum(n) FROM '%s' WHERE %s", path, where))
				want := table(t, c, fmt.Sprintf("SELECT count(*), sum(n) FROM t WHERE %s", where))
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%s: WHERE %s (-want +got):\n%s", s.typ, where, d)
				}
			}
		}
	}
}

func TestNames(t *testing.T) {
	c, read := database(t)
	q := `SELECT 1 AS "Größe in €", 2 AS "a.b", 3 AS "a", 4 AS " ", 5 AS "with ""quotes"" and 'more'", 6 AS "list", {'x.y': 7, 'x': 8} AS "🚀", __e AS __error FROM (SELECT NULL::VARCHAR AS __e)`
	columns, rows := read(q)
	path := write(t, columns, rows, export.Options{})
	want := table(t, c, "DESCRIBE "+q)
	if got := table(t, c, fmt.Sprintf("DESCRIBE FROM '%s'", path)); !cmp.Equal(want, got) {
		t.Error(cmp.Diff(want, got))
	}
	want = table(t, c, q)
	if got := table(t, c, fmt.Sprintf("FROM '%s'", path)); !cmp.Equal(want, got) {
		t.Error(cmp.Diff(want, got))
	}
}

func TestEmpty(t *testing.T) {
	c, read := database(t)
	fill(t, c, 1)
	columns, rows := read("FROM t WHERE n < 0")
	path := write(t, columns, rows, export.Options{Metadata: map[string]string{"weir.epoch": "42"}})
	if got := table(t, c, fmt.Sprintf("SELECT count(*) FROM '%s'", path)); got[0][0] != "0" {
		t.Errorf("%v rows", got)
	}
	if n := len(table(t, c, fmt.Sprintf("DESCRIBE FROM '%s'", path))); n != len(columns) {
		t.Errorf("%d columns, not %d", n, len(columns))
	}
	got := table(t, c, fmt.Sprintf("SELECT value::VARCHAR FROM parquet_kv_metadata('%s') WHERE key = 'weir.epoch'", path))
	if len(got) != 1 || got[0][0] != "42" {
		t.Errorf("weir.epoch is %v", got)
	}
}

func TestRowGroupsAreBounded(t *testing.T) {
	c, read := database(t)
	columns, rows := read("SELECT i, repeat('x', 40) || i AS s FROM range(300000) r(i)")
	path := write(t, columns, rows, export.Options{})
	got := table(t, c, fmt.Sprintf("SELECT DISTINCT row_group_num_rows, compression, path_in_schema, stats_min_value IS NOT NULL FROM parquet_metadata('%s') ORDER BY ALL", path))
	want := [][]string{
		{"54240", "ZSTD", "i", "true"},
		{"54240", "ZSTD", "s", "true"},
		{"122880", "ZSTD", "i", "true"},
		{"122880", "ZSTD", "s", "true"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("row groups (-want +got):\n%s", d)
	}
}

// TestEqualInputEqualBytes holds what an ETag by content needs.
func TestEqualInputEqualBytes(t *testing.T) {
	c, read := database(t)
	fill(t, c, 50)
	var files [][]byte
	for range 2 {
		columns, rows := read("FROM t ORDER BY n")
		b, err := os.ReadFile(write(t, columns, rows, export.Options{Metadata: map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}}))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, b)
	}
	if !slices.Equal(files[0], files[1]) {
		t.Error("two exports of one table differ")
	}
}

func parse(t *testing.T, s string) sqltype.Type {
	t.Helper()
	typ, err := sqltype.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return typ
}
