//go:build duckdb_arrow

package appliance

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/appliance/devbroker"
)

var (
	epochQueriesFlag = flag.Int("epoch-queries", 200, "queries of TestOneEpoch")
	recordsFlag      = flag.Int("records", 30_000, "records of TestOneBadRecord")
)

// TestOneEpoch asks for sums of three views that must agree, while records come.
// Each is grouped by something else, so only views of one epoch agree.
func TestOneEpoch(t *testing.T) {
	b := newBed(t)
	b.topic("t", 4)
	b.must(`
CREATE SOURCE t (k INTEGER, j INTEGER, x BIGINT) WITH (connector = 'kafka', topic = 't', format = 'json');
CREATE MATERIALIZED VIEW by_k AS SELECT k, sum(x) AS s, count(*) AS n FROM t GROUP BY k;
CREATE MATERIALIZED VIEW by_j AS SELECT j, sum(x) AS s, count(*) AS n FROM t GROUP BY j;
CREATE MATERIALIZED VIEW total AS SELECT sum(x) AS s, count(*) AS n FROM t;
CREATE VIEW agree AS SELECT a.s AS a, b.s AS b, total.s AS c, a.n = b.n AND b.n = total.n AS n FROM (SELECT sum(s) AS s, sum(n) AS n FROM by_k) AS a, (SELECT sum(s) AS s, sum(n) AS n FROM by_j) AS b, total;
`)
	ctx, stop := context.WithCancel(t.Context())
	written := make(chan error, 1)
	go func() {
		pace := time.NewTicker(4 * time.Millisecond)
		defer pace.Stop()
		for n := 1; ctx.Err() == nil; <-pace.C {
			var recs []*devbroker.Record
			for range 200 {
				recs = append(recs, &devbroker.Record{Topic: "t", Partition: int32(n % 4), Value: fmt.Appendf(nil, `{"k":%d,"j":%d,"x":%d}`, n%97, n%13, n)})
				n++
			}
			if err := b.plain.Send(context.WithoutCancel(ctx), recs...); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	var mu sync.Mutex
	sums := map[uint64]string{}   // by epoch
	distinct := map[string]bool{} // answers
	asked := 0
	const moved = 5 // so many answers must differ: what stands still always agrees
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := uint64(0)
			for {
				mu.Lock()
				asked++
				done := asked > *epochQueriesFlag && len(distinct) >= moved
				mu.Unlock()
				if done || t.Failed() {
					return
				}
				res, err := b.run.client.Query(t.Context(), "SELECT * FROM agree")
				if err != nil {
					t.Error(err)
					return
				}
				row := rowsText(res)
				cells := strings.Split(strings.TrimSuffix(row, "\n"), " | ")
				if len(cells) != 4 || cells[0] != cells[1] || cells[1] != cells[2] || cells[3] != "true" && cells[0] != "null" {
					t.Errorf("epoch %d: the views disagree: %s", res.Epoch, row)
				}
				if res.Epoch < last {
					t.Errorf("epoch %d after %d", res.Epoch, last)
				}
				last = res.Epoch
				mu.Lock()
				if was, ok := sums[res.Epoch]; ok && was != row {
					t.Errorf("epoch %d has the sums %s and %s", res.Epoch, was, row)
				}
				sums[res.Epoch] = row
				distinct[row] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	stop()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	b.caughtUp()
	for _, v := range []string{"by_k", "by_j", "total"} {
		b.verified(v)
	}
	t.Logf("%d queries over %d epochs, %d different answers", asked, len(sums), len(distinct))
}

// TestOneBadRecord has one record among many that a view's cast refuses:
// everything else is exact, and it stands in the quarantine with view and column.
func TestOneBadRecord(t *testing.T) {
	b := newBed(t)
	b.topic("t", 2)
	n := *recordsFlag
	bad := n * 2 / 3
	type group struct{ n, sum int }
	want := map[int]group{}
	var recs []*devbroker.Record
	var at *devbroker.Record
	for i := range n {
		r := &devbroker.Record{Topic: "t", Partition: int32(i % 2), Value: fmt.Appendf(nil, `{"g":%d,"x":"%d"}`, i%7, i)}
		if i == bad {
			r.Value = fmt.Appendf(nil, `{"g":%d,"x":"%d oops"}`, i%7, i)
			at = r
		} else {
			g := want[i%7]
			want[i%7] = group{g.n + 1, g.sum + i}
		}
		if recs = append(recs, r); len(recs) == 5000 || i == n-1 {
			b.send(recs...)
			recs = nil
		}
	}
	b.must(`
CREATE SOURCE t (g INTEGER, x VARCHAR) WITH (connector = 'kafka', topic = 't', format = 'json');
CREATE MATERIALIZED VIEW strict AS SELECT g, count(*) AS n, sum(CAST(x AS BIGINT)) AS s FROM t GROUP BY g;
CREATE MATERIALIZED VIEW lax AS SELECT count(*) AS n FROM t;
`)
	b.caughtUp()
	var text strings.Builder
	for g := range 7 {
		fmt.Fprintf(&text, "%d | %d | \"%d\"\n", g, want[g].n, want[g].sum)
	}
	if d := cmp.Diff(text.String(), b.rows("SELECT * FROM strict ORDER BY g")); d != "" {
		t.Error("strict (-want +got):", d)
	}
	if got, want := b.rows("SELECT n FROM lax"), fmt.Sprintln(n); got != want {
		t.Errorf("lax counts %s, not %s", got, want)
	}
	refused, err := b.run.refused(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	if len(refused) != 1 {
		t.Fatalf("%d records are quarantined: %v", len(refused), refused)
	}
	r := refused[0]
	if r.View != "strict" || r.Column != "sum(CAST(x AS BIGINT))" || r.Partition != at.Partition || r.Offset != at.Offset || string(r.Value) != string(at.Value) {
		t.Errorf("quarantined: %+v, not %d@%d", r, at.Partition, at.Offset)
	}
	if rep := b.verified("strict"); rep.records != int64(n) || rep.excluded != 1 || rep.compared != 7 {
		t.Errorf("verified %+v", rep)
	}
}

// TestManyQueries runs queries side by side while one of their views is dropped:
// each has the right answer, or is told that the view is gone.
func TestManyQueries(t *testing.T) {
	b := newBed(t)
	b.topic("t", 4)
	var recs []*devbroker.Record
	const n = 20_000
	for i := range n {
		recs = append(recs, &devbroker.Record{Topic: "t", Partition: int32(i % 4), Value: fmt.Appendf(nil, `{"k":%d,"x":%d}`, i%5000, i)})
	}
	b.send(recs...)
	b.must(`
CREATE SOURCE t (k INTEGER, x BIGINT) WITH (connector = 'kafka', topic = 't', format = 'json');
CREATE MATERIALIZED VIEW kept AS SELECT k, sum(x) AS s, count(*) AS n FROM t GROUP BY k;
CREATE MATERIALIZED VIEW doomed AS SELECT k, max(x) AS hi, count(*) AS n FROM t GROUP BY k;
`)
	b.caughtUp()
	want := fmt.Sprintf("%d | \"%d\" | %d\n", 5000, n*(n-1)/2, n-1)
	start := make(chan struct{})
	var wg sync.WaitGroup
	var gone, right int
	var mu sync.Mutex
	for i := range 20 {
		wg.Go(func() {
			<-start
			if i == 10 {
				if _, err := b.run.client.Query(t.Context(), "DROP MATERIALIZED VIEW doomed"); err != nil {
					t.Error(err)
				}
				return
			}
			res, err := b.run.client.Query(t.Context(), "SELECT count(*) AS groups, sum(kept.s) AS s, max(doomed.hi) AS hi FROM kept JOIN doomed USING (k)")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil && strings.Contains(err.Error(), `no view or source named "doomed"`):
				gone++
			case err != nil:
				t.Error(err)
			case rowsText(res) != want:
				t.Errorf("got %s, want %s", rowsText(res), want)
			default:
				right++
			}
		})
	}
	close(start)
	wg.Wait()
	if _, err := b.run.client.Query(t.Context(), "SELECT * FROM doomed"); err == nil {
		t.Error("doomed answers after DROP")
	}
	if got, want := b.rows("SELECT sum(n) AS n, count(*) FILTER (WHERE s < 0) AS negative FROM kept"), fmt.Sprintf("\"%d\" | 0\n", n); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	t.Logf("%d queries were answered, %d came after DROP", right, gone)
}
