//go:build duckdb_arrow

package appliance

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/appliance/devbroker"
)

func TestPlainStatements(t *testing.T) {
	for sql, want := range map[string]bool{
		`SELECT CASE  WHEN ((s.x BETWEEN -9 AND 9)) THEN ((CAST(s.x AS DOUBLE) / s.n)) ELSE (list_avg(main.list_value(s.x)) / s.n) END AS r0 FROM s`: true,
		`SELECT (s.a // 2) AS r0, CAST(s.b AS DECIMAL(38,2)) AS r1 FROM s`:                                                                           true,
		`SELECT main.struct_pack(n := s.n) AS r0, CAST(((s.n > 10)) AS BOOLEAN) AS __visible FROM s`:                                                 true,
		`SELECT json_structure(s.x) AS r0 FROM s`:                                                                                                    false,
		`SELECT main.regexp_replace(s.x, 'a', 'b') AS r0`:                                                                                            false,
		`SELECT "json_structure" (s.x) AS r0`:                                                                                                        false,
		`SELECT CAST(s.x AS JSON) AS r0`:                                                                                                             false,
		`SELECT ü(s.x) AS r0`:                                                                                                                        false,
		`SELECT repeat (s.x, 1000000000) AS r0 FROM s`:                                                                                               false,
		`SELECT list_transform(s.l, (x -> (x || s.k))) FROM`:                                                                                         false,
	} {
		if plain(sql) != want {
			t.Errorf("%s: %v", sql, !want)
		}
	}
}

// A value on which DuckDB dies puts its group in error; the appliance lives.
func TestResultThatKillsDuckDB(t *testing.T) {
	b := newBed(t)
	b.topic("s", 1)
	b.must("CREATE SOURCE s (k INTEGER, v VARCHAR) WITH (connector = 'kafka', topic = 's', format = 'json');" +
		"CREATE MATERIALIZED VIEW v AS SELECT k, json_structure(max(v)::JSON) AS j, count(*) AS n FROM s GROUP BY k;")
	for k, text := range []string{`{"a":1}`, strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)} {
		doc, err := json.Marshal(map[string]any{"k": k, "v": text})
		if err != nil {
			t.Fatal(err)
		}
		b.send(&devbroker.Record{Topic: "s", Value: doc})
	}
	b.caughtUp()
	b.query("CHECKPOINT")
	for path, want := range map[string]int{"/api/v1/views/v/lookup?k=0": 200, "/api/v1/views/v/lookup?k=1": 422, "/api/v1/views/v/scan": 200} {
		if code, body, err := b.run.get(path); err != nil || code != want {
			t.Errorf("%s: %d %.300s %v", path, code, body, err)
		}
	}
	if got := b.rows("SELECT k, j FROM v AT (VERSION => 1) WHERE k = 0"); !strings.Contains(got, "UBIGINT") {
		t.Errorf("the other group: %s", got)
	}
}
