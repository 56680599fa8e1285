//go:build duckdb_arrow

package appliance

import (
	"fmt"
	"testing"

	"weir/appliance/devbroker"
)

// TestPartOfASourceIsMarked asks for a source that a query sees whole, then for
// one that it cannot: the answer must say which it is.
func TestPartOfASourceIsMarked(t *testing.T) {
	b := newBed(t)
	b.topic("t", 2)
	b.must(`CREATE SOURCE t (x BIGINT) WITH (connector = 'kafka', topic = 't', format = 'json');`)
	write := func(from, to int) {
		var recs []*devbroker.Record
		for i := from; i < to; i++ {
			recs = append(recs, &devbroker.Record{Topic: "t", Partition: int32(i % 2), Value: fmt.Appendf(nil, `{"x":%d}`, i)})
		}
		b.send(recs...)
	}
	for _, step := range []struct {
		from, to int
		rows     string
		part     bool
	}{{0, 10, "10\n", false}, {10, 1000, "1000\n", false}, {1000, 3000, "1000\n", true}} {
		write(step.from, step.to)
		res, err := b.run.client.Query(t.Context(), "SELECT count(*) FROM t")
		if err != nil {
			t.Fatal(err)
		}
		if got := rowsText(res); got != step.rows || res.Truncated != step.part {
			t.Errorf("after %d records: %q, truncated %v; want %q, %v", step.to, got, res.Truncated, step.rows, step.part)
		}
	}
}
