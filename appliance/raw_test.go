//go:build duckdb_arrow

package appliance

import (
	"testing"

	"weir/appliance/devbroker"
)

// WHERE, arguments and other keys see the form of a key's column that a record
// has, and VERIFY VIEW must know.
func TestVerifyOfKeysThatAreReadTwice(t *testing.T) {
	b := newBed(t)
	b.topic("s", 1)
	b.must("CREATE SOURCE s (d DOUBLE, iv INTERVAL, ts TIMESTAMP) WITH (connector = 'kafka', topic = 's', format = 'json');" +
		"CREATE MATERIALIZED VIEW a AS SELECT d, max(d::VARCHAR) AS most, count(*) AS n FROM s GROUP BY d;" +
		"CREATE MATERIALIZED VIEW b AS SELECT iv, ts + iv AS later, count(*) AS n FROM s GROUP BY iv, ts + iv;" +
		"CREATE MATERIALIZED VIEW d AS SELECT d, 1 / d AS r, count(*) AS n FROM s GROUP BY d;")
	for _, iv := range []string{"30 days", "1 month", "720 hours"} {
		for _, d := range []string{"-0.0", "0.0"} {
			b.send(&devbroker.Record{Topic: "s", Value: []byte(`{"d":` + d + `,"iv":"` + iv + `","ts":"2026-01-01 00:00:00"}`)})
		}
	}
	b.caughtUp()
	for _, v := range []string{"a", "b", "d"} {
		if rep := b.verified(v); rep.records != 6 {
			t.Errorf("%s: %d records", v, rep.records)
		}
	}
	if got := b.rows("SELECT later, n FROM b ORDER BY later"); got != "\"2026-01-31T00:00:00\" | 4\n\"2026-02-01T00:00:00\" | 2\n" {
		t.Errorf("later: %s", got)
	}
}
