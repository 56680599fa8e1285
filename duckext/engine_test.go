//go:build duckdb_arrow

package duckext

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/state/plan"
	"weir/state/sqltype"
)

func openEngine(t testing.TB) *Engine {
	t.Helper()
	e, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// fields reads columns written as "name TYPE; name TYPE".
func fields(s string) []sqltype.Field {
	fs := []sqltype.Field{}
	for part := range strings.SplitSeq(s, ";") {
		name, typ, _ := strings.Cut(strings.TrimSpace(part), " ")
		fs = append(fs, sqltype.Field{Name: name, Type: sqltype.MustParse(typ)})
	}
	return fs
}

func TestSerializeRoundTrip(t *testing.T) {
	e := openEngine(t)
	tree, err := e.Serialize(t.Context(), "SELECT city, count(*) FILTER (WHERE x > 'ü') FROM orders GROUP BY ALL")
	if err != nil {
		t.Fatal(err)
	}
	sql, err := e.Deserialize(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	if want := "SELECT city, count_star() FILTER (WHERE (x > 'ü')) FROM orders GROUP BY ALL"; sql != want {
		t.Errorf("got %s", sql)
	}
}

func TestSyntaxErrorsHaveOffsets(t *testing.T) {
	e := openEngine(t)
	rel := []plan.Relation{{Name: "orders", Columns: fields("city VARCHAR; amount DECIMAL(12,2)")}}
	for sql, want := range map[string]struct {
		offset int
		text   string
	}{
		"SELEC 1":                         {0, "syntax error"},
		"SELECT 'ü', FRM x y":             {19, "syntax error"},
		"SELECT 'ü', nope FROM orders":    {13, `"nope" not found`},
		"SELECT city + 1 FROM nowhere":    {21, "nowhere does not exist"},
		"SELECT sum(city) FROM orders":    {7, "sum(VARCHAR)"},
		"INSERT INTO orders VALUES (1,2)": {-1, ""},
		"SELECT 1; SELECT 2":              {-1, ""},
	} {
		_, err := e.Describe(t.Context(), rel, sql)
		s, ok := errors.AsType[*plan.SyntaxError](err)
		if !ok || s.Offset != want.offset || !strings.Contains(s.Message, want.text) {
			t.Errorf("%s: %#v", sql, err)
		}
	}
	if _, err := e.Serialize(t.Context(), "SELECT 'ü' FRM x y"); err == nil {
		t.Error("no error")
	} else if s, ok := errors.AsType[*plan.SyntaxError](err); !ok || s.Offset != 16 {
		t.Errorf("%#v", err)
	}
}

func TestDescribe(t *testing.T) {
	e := openEngine(t)
	cols := fields(`city VARCHAR; amount DECIMAL(12,2); x INTEGER; time TIMESTAMP; s STRUCT("Select" INTEGER, "a""b" HUGEINT[]); m MAP(VARCHAR,UUID); j JSON; v BIGINT[3]`)
	cols[2] = sqltype.Field{Name: `we "ird`, Type: sqltype.MustParse("HUGEINT")}
	got, err := e.Describe(t.Context(), []plan.Relation{{Name: `or"ders`, Columns: cols}},
		`SELECT *, sum("we ""ird") OVER () AS h, avg(amount) OVER () AS a, time::TIMESTAMPTZ AS tz FROM "or""ders"`)
	if err != nil {
		t.Fatal(err)
	}
	want := append(cols, fields("h HUGEINT; a DOUBLE; tz TIMESTAMPTZ")...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := e.Describe(t.Context(), nil, "SELECT 1::BIT AS b"); err == nil || !strings.Contains(err.Error(), `column "b"`) {
		t.Errorf("BIT: %v", err)
	}
}

func TestDescribeIsConcurrent(t *testing.T) {
	e := openEngine(t)
	done := make(chan error)
	for i := range 8 {
		typ := []string{"BIGINT", "VARCHAR"}[i%2]
		go func() {
			for range 50 {
				got, err := e.Describe(t.Context(), []plan.Relation{{Name: "r", Columns: fields("x " + typ)}}, "SELECT x FROM r")
				if err == nil && got[0].Type.String() != typ {
					err = errors.New("saw another call's relation")
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestEngineIsClosedToTheWorld(t *testing.T) {
	e := openEngine(t)
	c, err := e.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for _, sql := range []string{
		"SELECT * FROM read_text('/etc/passwd')", "COPY (SELECT 1) TO '/tmp/weir-never.csv'", "ATTACH '/tmp/weir-never.db'",
		"INSTALL httpfs", "LOAD httpfs", "SET memory_limit = '100GB'", "SET enable_external_access = true", "SET TimeZone = 'Asia/Tokyo'",
	} {
		if err := c.exec(sql); err == nil {
			t.Errorf("%s: allowed", sql)
		}
	}
	if got, err := c.text(t.Context(), "SELECT current_setting('TimeZone') || $1::VARCHAR", "!"); err != nil || got != "UTC!" {
		t.Errorf("zone: %q, %v", got, err)
	}
}
