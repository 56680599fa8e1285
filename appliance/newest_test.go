//go:build duckdb_arrow

package appliance

import (
	"fmt"
	"slices"
	"strings"
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
		if got := rowsText(res); got != step.rows || res.Truncated != step.part || res.RowsCut || slices.Equal(res.Partial, []string{"t"}) != step.part || res.Undecoded != 0 {
			t.Errorf("after %d records: %q, truncated %v, cut %v, partial %q, %d undecoded; want %q, %v", step.to, got, res.Truncated, res.RowsCut, res.Partial, res.Undecoded, step.rows, step.part)
		}
	}
	code, out, errs := weir("sql", "--addr", b.run.addr, "SELECT count(*) FROM t")
	if code != exitPartial || !strings.Contains(errs, "only the newest 1,000 records of source t") || strings.Contains(out+errs, "cut") {
		t.Errorf("weir sql: %d %s%s", code, out, errs)
	}
	rows := b.query("SELECT i FROM range(100001) r(i)")
	if !rows.Truncated || !rows.RowsCut || rows.Partial != nil {
		t.Errorf("beyond the limit: truncated %v, cut %v, partial %q", rows.Truncated, rows.RowsCut, rows.Partial)
	}
}

// TestUndecodedAreNotMore: a record that cannot be decoded is no row, but neither are
// there more rows than those that are shown. Two scans of a query see it once.
func TestUndecodedAreNotMore(t *testing.T) {
	b := newBed(t)
	b.topic("t", 1)
	b.must(`CREATE SOURCE t (x BIGINT) WITH (connector = 'kafka', topic = 't', format = 'json');`)
	b.send(&devbroker.Record{Topic: "t", Value: []byte(`{"x":1}`)}, &devbroker.Record{Topic: "t", Value: []byte("no JSON")}, &devbroker.Record{Topic: "t", Value: []byte(`{"x":2}`)})
	for _, sql := range []string{"SELECT x FROM t ORDER BY x", "SELECT x FROM t UNION SELECT x FROM t ORDER BY x"} {
		if res := b.query(sql); rowsText(res) != "1\n2\n" || res.Truncated || res.Undecoded != 1 {
			t.Errorf("%s: %q, truncated %v, %d undecoded", sql, rowsText(res), res.Truncated, res.Undecoded)
		}
	}
	code, out, errs := weir("sql", "--addr", b.run.addr, "SELECT x FROM t")
	if code != exitOK || !strings.Contains(out, "1 of the newest records could not be decoded and is not shown") || strings.Contains(out+errs, "cut") {
		t.Errorf("weir sql: %d %s%s", code, out, errs)
	}
}
