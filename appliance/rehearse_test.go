//go:build duckdb_arrow

package appliance

import (
	"strings"
	"testing"
	"time"

	"weir/queryable"
)

// A statement that DuckDB dies of, or plans for ever, costs a query process.
func TestCreateOfWhatKillsDuckDB(t *testing.T) {
	b := newBed(t)
	b.topic("s", 1)
	b.config = func(c *config) { c.QueryTimeout = 3 * time.Second }
	b.must("CREATE SOURCE s (a INTEGER) WITH (connector = 'kafka', topic = 's', format = 'json');")
	const deadly = "json_structure(repeat('[', 100000) || repeat(']', 100000))"
	var slow strings.Builder
	slow.WriteString("WITH c0 AS (SELECT 1 x UNION ALL SELECT 2)")
	prev := "c0"
	for i := range 24 {
		next := "c" + string(rune('a'+i))
		slow.WriteString(", " + next + " AS NOT MATERIALIZED (SELECT l.x FROM " + prev + " l, " + prev + " r)")
		prev = next
	}
	for _, sql := range []string{
		"CREATE VIEW v AS SELECT " + deadly + " AS x",
		"CREATE MATERIALIZED VIEW v AS SELECT " + deadly + " AS x, count(*) AS n FROM s GROUP BY a",
		"EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT " + deadly + " AS x, count(*) AS n FROM s GROUP BY a",
		"CREATE VIEW v AS " + slow.String() + " SELECT count(*) AS n FROM " + prev,
		"CREATE VIEW v AS SELECT " + strings.Repeat("1 + ", 20000) + "1 AS x",
	} {
		_, err := backend{b.run.Appliance}.Query(t.Context(), queryable.QueryRequest{SQL: sql})
		if err == nil || !strings.Contains(err.Error(), "DuckDB cannot plan this SELECT") && !strings.Contains(err.Error(), "too long") {
			t.Errorf("%.100s: %v", sql, err)
		}
	}
}

func TestViewsInACircle(t *testing.T) {
	b := newBed(t)
	b.must("CREATE VIEW a AS SELECT 1 AS x; CREATE VIEW b AS SELECT x FROM a; CREATE VIEW c AS WITH k AS (SELECT * FROM b) SELECT x FROM k;")
	for sql, says := range map[string]string{
		"CREATE OR REPLACE VIEW a AS SELECT x FROM a":                         "view a can't read itself",
		"CREATE OR REPLACE VIEW a AS SELECT x FROM B":                         "view a can't read b, which reads a",
		"CREATE OR REPLACE VIEW A AS SELECT (SELECT max(x) FROM c)::INT AS x": "view A can't read c, which reads A",
	} {
		_, err := backend{b.run.Appliance}.Query(t.Context(), queryable.QueryRequest{SQL: sql})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", sql, err)
		}
	}
	for _, sql := range []string{"CREATE OR REPLACE VIEW a AS SELECT 2 AS x", "SELECT x FROM c"} {
		if _, err := (backend{b.run.Appliance}).Query(t.Context(), queryable.QueryRequest{SQL: sql}); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// A position in a topic that no source reads would be waited for in vain, or
// not at all.
func TestPositionOfATopicThatNobodyReads(t *testing.T) {
	b := newBed(t)
	b.topic("s", 1)
	b.must("CREATE SOURCE s (a INTEGER) WITH (connector = 'kafka', topic = 's', format = 'json');")
	for path, want := range map[string]int{"/api/v1/views?min_position=t/0:1": 400, "/api/v1/views?min_position=s/0:0": 200} {
		if code, body, err := b.run.get(path); err != nil || code != want {
			t.Errorf("%s: %d %s %v", path, code, body, err)
		}
	}
}
