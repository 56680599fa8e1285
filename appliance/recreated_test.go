//go:build duckdb_arrow

package appliance

import (
	"context"
	"strings"
	"testing"

	"weir/appliance/devbroker"
	"weir/queryable"
)

// A view that is made while the topic is another one than the source's must
// neither wait for offsets that mean something else nor keep the source from
// being dropped.
func TestViewOverATopicThatWasCreatedAgain(t *testing.T) {
	b := newBed(t)
	b.topic("s", 1)
	const source = "CREATE SOURCE s (a INTEGER) WITH (connector = 'kafka', topic = 's', format = 'json');"
	b.must(source + "CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM s GROUP BY a;")
	for range 10 {
		b.send(&devbroker.Record{Topic: "s", Value: []byte(`{"a":1}`)})
	}
	b.caughtUp()
	b.stop()
	if err := b.broker.DeleteTopic("s"); err != nil {
		t.Fatal(err)
	}
	b.topic("s", 1)
	b.must("")

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	do := func(sql string) {
		t.Helper()
		if _, err := (backend{b.run.Appliance}).Query(ctx, queryable.QueryRequest{SQL: sql}); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	do("CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM s")
	if err := b.run.waitCaughtUp(ctx, nil); err == nil || !strings.Contains(err.Error(), "created again") {
		t.Errorf("caught up: %v", err)
	}
	do("DROP MATERIALIZED VIEW v")
	do("DROP MATERIALIZED VIEW w")
	do("DROP SOURCE s")
	do(source)
	do("CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM s GROUP BY a")
	b.plain = b.producer("") // the old one knows the old topic
	b.send(&devbroker.Record{Topic: "s", Value: []byte(`{"a":2}`)})
	b.caughtUp()
	if got := b.rows("SELECT * FROM v"); got != "2 | 1\n" {
		t.Errorf("after all: %s", got)
	}
}
