package ddl

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// someKeywords are DuckDB's as far as these tests go.
func someKeywords() map[string]bool {
	m := map[string]bool{"key": true, "day": true}
	for w := range strings.FieldsSeq("select from where and or as limit offset distinct all group order interval left not null between") {
		m[w] = false
	}
	return m
}

func TestPointQuery(t *testing.T) {
	integer := func(name, v string) PointKey { return PointKey{name, PointInteger, v} }
	text := func(name, v string) PointKey { return PointKey{name, PointString, v} }
	param := func(name, v string) PointKey { return PointKey{name, PointParam, v} }
	for sql, want := range map[string]Point{
		"SELECT * FROM v WHERE k = 5":                             {View: "v", Keys: []PointKey{integer("k", "5")}},
		" select  * \n from V where K=0 limit 1 ;\n":              {View: "V", Keys: []PointKey{integer("K", "0")}},
		"SELECT * FROM v WHERE k = -17 LIMIT 0":                   {View: "v", Keys: []PointKey{integer("k", "-17")}, Empty: true},
		"SELECT a, \"B b\" AS c, d e FROM v x WHERE key='it''s'":  {View: "v", Columns: []PointColumn{{"a", "a"}, {"B b", "c"}, {"d", "e"}}, Keys: []PointKey{text("key", "it's")}},
		"SELECT a AS \"as\" FROM \"v\" AS t WHERE k='Ä' AND l=12": {View: "v", Columns: []PointColumn{{"a", "as"}}, Keys: []PointKey{text("k", "Ä"), integer("l", "12")}},
		"SELECT day FROM v WHERE a = ? AND b = ?":                 {View: "v", Columns: []PointColumn{{"day", "day"}}, Keys: []PointKey{param("a", "1"), param("b", "2")}},
		"SELECT a FROM v WHERE a = $2 AND b = $name":              {View: "v", Columns: []PointColumn{{"a", "a"}}, Keys: []PointKey{param("a", "2"), param("b", "name")}},
		"SELECT a FROM v WHERE a = '--' AND b = '/*'":             {View: "v", Columns: []PointColumn{{"a", "a"}}, Keys: []PointKey{text("a", "--"), text("b", "/*")}},
	} {
		got, ok := PointQuery(sql, someKeywords())
		if !ok {
			t.Errorf("%s: not read", sql)
			continue
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sql, diff)
		}
	}
}

func TestNoPointQuery(t *testing.T) {
	for _, sql := range []string{
		"", ";", "SELECT", "SELECT 1", "SELECT *", "SELECT * FROM v", "SELECT * FROM v WHERE", "SELECT * FROM v WHERE k", "SELECT * FROM v WHERE k =",
		"SELECT DISTINCT a FROM v WHERE k = 1", "SELECT distinct FROM v WHERE k = 1", "SELECT *, a FROM v WHERE k = 1", "SELECT v.* FROM v WHERE k = 1",
		"SELECT v.a FROM v WHERE k = 1", "SELECT a FROM main.v WHERE k = 1", "SELECT a FROM v, w WHERE k = 1", "SELECT a FROM v AT (VERSION => 1) WHERE k = 1",
		"SELECT a + 1 FROM v WHERE k = 1", "SELECT count(*) FROM v WHERE k = 1", "SELECT a, FROM v WHERE k = 1", "SELECT 'a' FROM v WHERE k = 1",
		"SELECT a key FROM v WHERE k = 1", "SELECT interval FROM v WHERE k = 1", "SELECT a FROM v key WHERE k = 1", "SELECT a FROM v AS left WHERE k = 1",
		"SELECT * FROM v WHERE k = 1.0", "SELECT * FROM v WHERE k = 1e3", "SELECT * FROM v WHERE k = 1_000", "SELECT * FROM v WHERE k = 0x1F", "SELECT * FROM v WHERE k = 007",
		"SELECT * FROM v WHERE k = .5", "SELECT * FROM v WHERE k = 1.", "SELECT * FROM v WHERE k = 9999999999999999999", "SELECT * FROM v WHERE k = - 5",
		"SELECT * FROM v WHERE k =-5", "SELECT * FROM v WHERE k = --5", "SELECT * FROM v WHERE k = +5", "SELECT * FROM v WHERE k == 5", "SELECT * FROM v WHERE k =? ",
		"SELECT * FROM v WHERE k = 5AND l = 6", "SELECT * FROM v WHERE k = NULL", "SELECT * FROM v WHERE k = true", "SELECT * FROM v WHERE k = (5)", "SELECT * FROM v WHERE (k = 5)",
		"SELECT * FROM v WHERE 5 = k", "SELECT * FROM v WHERE k = 5 OR k = 6", "SELECT * FROM v WHERE k = 5 AND", "SELECT * FROM v WHERE k = 5 AND NOT l", "SELECT * FROM v WHERE k <> 5",
		"SELECT * FROM v WHERE k = 5::BIGINT", "SELECT * FROM v WHERE k = DATE '2026-01-01'", "SELECT * FROM v WHERE k = E'a'", "SELECT * FROM v WHERE k = e'a\\'b'", "SELECT * FROM v WHERE k = x'00'",
		"SELECT * FROM v WHERE k = $$a$$", "SELECT * FROM v WHERE k = $t$a$t$", "SELECT * FROM v WHERE k = $ 1", "SELECT * FROM v WHERE k = $Name", "SELECT * FROM v WHERE k = ? AND l = $2",
		"SELECT * FROM v WHERE k = 'a' 'b'", "SELECT * FROM v WHERE k = 'a'\n'b'", "SELECT * FROM v WHERE k = 'a", "SELECT * FROM v WHERE k = 'a\x00'", "SELECT * FROM \"\" WHERE k = 1",
		"SELECT * FROM v WHERE k = 5 LIMIT", "SELECT * FROM v WHERE k = 5 LIMIT 1 OFFSET 0", "SELECT * FROM v WHERE k = 5 LIMIT -1", "SELECT * FROM v WHERE k = 5 LIMIT ALL", "SELECT * FROM v WHERE k = 5 LIMIT 10%",
		"SELECT * FROM v WHERE k = 5 ORDER BY k", "SELECT * FROM v WHERE k = 5 GROUP BY ALL", "SELECT * FROM v WHERE k = 5; SELECT 1", "SELECT * FROM v WHERE k = 5;;",
		"SELECT * FROM v -- c\nWHERE k = 5", "SELECT * /* c */ FROM v WHERE k = 5", "SELECT *\u00a0FROM v WHERE k = 5", "SELECT *\vFROM v WHERE k = 5", "SELECT ä FROM v WHERE k = 5",
		"SELECT*FROM v WHERE k = 5", "FROM v WHERE k = 5", "FROM v SELECT * WHERE k = 5", "EXPLAIN SELECT * FROM v WHERE k = 5", "WITH v AS (SELECT 1) SELECT * FROM v WHERE k = 5",
		"SELECT * FROM v WHERE k IN (5)", "SELECT * FROM v x(a) WHERE a = 5", "SELECT * EXCLUDE (a) FROM v WHERE k = 5", "SELECT a b c FROM v WHERE k = 5", "SELECT a FROM v x y WHERE k = 5",
		"SELECT a$b FROM v WHERE k = 5", "SELECT * FROM v WHERE k = 5 " + strings.Repeat(" ", 5000),
	} {
		if p, ok := PointQuery(sql, someKeywords()); ok {
			t.Errorf("%s: read as %+v", sql, p)
		}
	}
}
