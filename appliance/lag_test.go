//go:build duckdb_arrow

package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/appliance/devbroker"
	"weir/state"
)

const numbersOnlySQL = `
CREATE SOURCE numbers (n BIGINT) WITH (connector = 'kafka', topic = 'numbers');
CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM numbers;
`

// lagOf is what a GET of a source or view says, as its JSON.
func (b *bed) lagOf(path string) (state, lag, err string) {
	b.t.Helper()
	_, body, fail := b.run.get(path)
	if fail != nil {
		b.t.Fatal(fail)
	}
	type described struct {
		State, Error string
		Lag          json.RawMessage
	}
	var one described
	var list struct{ Sources []described }
	if strings.HasSuffix(path, "/sources") {
		fail = json.Unmarshal([]byte(body), &list)
		one = list.Sources[0]
	} else {
		fail = json.Unmarshal([]byte(body), &one)
	}
	if fail != nil {
		b.t.Fatal(fail)
	}
	return one.State, string(one.Lag), one.Error
}

// becomes polls until a source or view is in a state with a lag ("" for any), and
// says why.
func (b *bed) becomes(path, state, lag, why string) {
	b.t.Helper()
	end := time.After(patience)
	for {
		s, l, e := b.lagOf(path)
		if s == state && (lag == "" || l == lag) && strings.Contains(e, why) {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond): // a source's state has no event
		case <-end:
			b.t.Fatalf("%s is %s with lag %s (%s), not %s with %s (%s)", path, s, l, e, state, lag, why)
		}
	}
}

// TestUnknownLag has no topic, then one, then no broker: a lag that nobody knows
// is null and absent from the metrics, and the state says why.
func TestUnknownLag(t *testing.T) {
	b := newBed(t)
	b.must(numbersOnlySQL)
	unknown := func(want string) {
		t.Helper()
		for _, path := range []string{"/api/v1/sources", "/api/v1/views/v"} {
			b.becomes(path, "waiting", "null", want)
		}
		if got := b.rows("SELECT 1"); got != "1\n" { // SQL goes on
			t.Error(got)
		}
		if got := b.rows("SHOW VIEWS"); !strings.Contains(got, `"waiting" | 1 | null | `) {
			t.Error(got)
		}
		_, metrics, err := b.run.get("/metrics")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"weir_source_lag_records{", "weir_view_lag_records{", "weir_partition_end_offset{"} {
			if strings.Contains(metrics, "\n"+name) {
				t.Errorf("%s is there while it is not known", name)
			}
		}
		if !strings.Contains(metrics, "\nweir_source_up{source=\"numbers\"} 0\n") {
			t.Error("the source is said to be up")
		}
	}
	unknown(`topic "numbers" does not exist`)
	b.topic("numbers", 2)
	b.send(&devbroker.Record{Topic: "numbers", Value: []byte(`{"n":1}`)})
	for _, path := range []string{"/api/v1/sources", "/api/v1/views/v"} {
		b.becomes(path, "running", "0", "")
	}
	_, metrics, err := b.run.get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`weir_source_lag_records{source="numbers"} 0`, `weir_view_lag_records{view="v"} 0`, `weir_partition_end_offset{partition="0",source="numbers"} `} {
		if !strings.Contains(metrics, "\n"+want) {
			t.Errorf("no %s", want)
		}
	}
	b.away()
	unknown("reach kafka at " + b.broker.Addr())
}

// holdCommits makes commits wait while hold is true, until release.
func holdCommits(b *bed) (hold *atomic.Bool, release func()) {
	hold = new(atomic.Bool)
	held := make(chan struct{})
	release = sync.OnceFunc(func() { close(held) })
	b.t.Cleanup(release)
	b.config = func(c *config) {
		c.hook = func(point string) {
			if point == state.PointCommit && hold.Load() {
				<-held
			}
		}
	}
	return hold, release
}

// TestLagIsWhatReadersLack holds the commit of records that are folded: everywhere the
// lag counts them until readers see them.
func TestLagIsWhatReadersLack(t *testing.T) {
	b := newBed(t)
	hold, release := holdCommits(b)
	b.topic("numbers", 2)
	b.must(numbersOnlySQL)
	b.caughtUp()
	for _, path := range []string{"/api/v1/sources", "/api/v1/views/v"} {
		b.becomes(path, "running", "0", "") // before the first record, too
	}
	folded := func(partitions int, records int64) {
		t.Helper()
		for end := time.After(patience); ; {
			at := b.run.store.Positions(b.run.store.Catalog().Sources[0].Cursor)
			var n int64
			for _, p := range at {
				n += p.Next
			}
			if len(at) == partitions && n == records {
				return
			}
			select {
			case <-time.After(20 * time.Millisecond): // a fold has no event
			case <-end:
				t.Fatalf("%v is folded", at)
			}
		}
	}
	folded(2, 0) // each partition begins by a commit
	hold.Store(true)
	b.send(&devbroker.Record{Topic: "numbers", Value: []byte(`{"n":1}`)}, &devbroker.Record{Topic: "numbers", Partition: 1, Value: []byte(`{"n":1}`)})
	folded(2, 2)
	lags := func(lag string, next int) {
		t.Helper()
		for _, path := range []string{"/api/v1/sources", "/api/v1/views/v"} {
			if state, got, _ := b.lagOf(path); state != "running" || got != lag {
				t.Errorf("%s is %s with lag %s, not %s", path, state, got, lag)
			}
		}
		_, sources, err := b.run.get("/api/v1/sources")
		if err != nil || !strings.Contains(sources, fmt.Sprintf(`{"partition":1,"next":%d,"end":1,"lag":%d}`, next, 1-next)) {
			t.Errorf("%s, %v", sources, err)
		}
		if got := b.rows("SHOW SOURCES"); !strings.Contains(got, fmt.Sprintf(`"running" | %d | %s | `, 2*next, lag)) {
			t.Error(got)
		}
		if got := b.rows("SHOW VIEWS"); !strings.Contains(got, `"running" | 1 | `+lag+" | ") {
			t.Error(got)
		}
		_, metrics, err := b.run.get("/metrics")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`weir_source_lag_records{source="numbers"} ` + lag, `weir_view_lag_records{view="v"} ` + lag, fmt.Sprintf(`weir_partition_next_offset{partition="1",source="numbers"} %d`, next)} {
			if !strings.Contains(metrics, "\n"+want+"\n") {
				t.Errorf("no %s", want)
			}
		}
	}
	lags("2", 0)
	if got := b.rows("SELECT n FROM v"); got != "0\n" {
		t.Errorf("readers see %s", got)
	}
	hold.Store(false)
	release()
	b.becomes("/api/v1/views/v", "running", "0", "")
	if got := b.rows("SELECT n FROM v"); got != "2\n" {
		t.Errorf("at lag 0 readers see %s", got)
	}
	lags("0", 1)
}

// TestASourceThatNoViewReads is no outage, whatever becomes of its topic.
func TestASourceThatNoViewReads(t *testing.T) {
	b := newBed(t)
	source, view, _ := strings.Cut(numbersOnlySQL, "CREATE MATERIALIZED")
	up := func(want string) {
		t.Helper()
		_, metrics, err := b.run.get("/metrics")
		if err != nil {
			t.Fatal(err)
		}
		_, got, _ := strings.Cut(metrics, "\nweir_source_up{source=\"numbers\"} ")
		if got, _, _ = strings.Cut(got, "\n"); got != want {
			t.Errorf("weir_source_up is %q, not %q", got, want)
		}
	}
	b.must(source)
	b.becomes("/api/v1/sources", "idle", "null", "")
	if got := b.rows("SHOW SOURCES"); got != "\"numbers\" | \"numbers\" | \"idle\" | 0 | null | 0 | \"\"\n" {
		t.Error(got)
	}
	up("")
	b.query("CREATE MATERIALIZED" + view)
	b.becomes("/api/v1/sources", "waiting", "null", "does not exist")
	up("0")
	b.topic("numbers", 1)
	b.becomes("/api/v1/sources", "running", "0", "")
	up("1")
	b.query("DROP MATERIALIZED VIEW v")
	b.becomes("/api/v1/sources", "idle", "null", "")
	up("")
}

// TestBackfilling holds the commit that ends a view's backfill: until then every
// answer that reads the view says so.
func TestBackfilling(t *testing.T) {
	b := newBed(t)
	b.topic("numbers", 1)
	b.send(&devbroker.Record{Topic: "numbers", Value: []byte(`{"n":1}`)})
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	b.config = func(c *config) {
		c.hook = func(point string) {
			if point == state.PointJoin {
				<-held
			}
		}
	}
	b.must(numbersOnlySQL)
	b.caughtUp()
	b.stop()
	// Views of the script are there before the source is read.
	b.must(numbersOnlySQL + `
CREATE MATERIALIZED VIEW "w ü" AS SELECT n, count(*) AS c FROM numbers GROUP BY n;
CREATE VIEW over AS SELECT * FROM "w ü";`)
	b.becomes("/api/v1/views/w%20%C3%BC", "backfilling", "", "") // the held commit may have its record

	const name, header = `"backfilling":["w ü"]`, "w%20%C3%BC"
	asked := func(young bool) {
		t.Helper()
		for sql, reads := range map[string]bool{
			`SELECT c FROM "w ü"`: true, `SELECT c FROM "w ü" WHERE n = 1`: true, "FROM over": true, `SELECT * FROM v, "w ü" AS a, "w ü" AS b`: true,
			"SELECT n FROM v": false, "SELECT 1": false,
		} {
			for _, accept := range []string{"application/json", "text/csv"} {
				body, err := json.Marshal(map[string]string{"sql": sql})
				if err != nil {
					t.Fatal(err)
				}
				a, err := b.run.post(body, accept)
				if err != nil {
					t.Fatal(err)
				}
				if want := young && reads; a.Status != http.StatusOK || want != (a.Header.Get("Weir-Backfilling") == header) || accept == "application/json" && want != strings.Contains(a.Body, name) {
					t.Errorf("%s as %s: %d, %q, %s", sql, accept, a.Status, a.Header.Get("Weir-Backfilling"), a.Body)
				}
			}
		}
		for _, path := range []string{"lookup?n=1", "scan", "scan.arrow", "scan.parquet?min_epoch=" + strconv.FormatUint(b.run.store.Epoch(), 10)} {
			res, err := http.Get("http://" + b.run.addr + "/api/v1/views/w%20%C3%BC/" + path)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			absent := young && res.StatusCode == http.StatusNotFound // the commit that is held may have the group
			if res.StatusCode != http.StatusOK && !absent || young != (res.Header.Get("Weir-Backfilling") == header) {
				t.Errorf("%s: %d, %q", path, res.StatusCode, res.Header.Get("Weir-Backfilling"))
			}
		}
	}
	asked(true)
	release()
	b.becomes("/api/v1/views/w%20%C3%BC", "running", "0", "")
	asked(false)
}

// TestPastBackfilling takes a checkpoint of a view whose topic cannot be read: what
// is read of it there is not whole.
func TestPastBackfilling(t *testing.T) {
	b := newBed(t)
	b.topic("numbers", 1)
	b.send(&devbroker.Record{Topic: "numbers", Value: []byte(`{"n":1}`)})
	b.must(numbersOnlySQL)
	b.caughtUp()
	b.stop()
	b.away()
	b.must(numbersOnlySQL + `
CREATE MATERIALIZED VIEW "w ü" AS SELECT n, count(*) AS c FROM numbers GROUP BY n;
CREATE VIEW over AS SELECT * FROM "w ü";`)
	id := b.checkpoint()
	dir := fmt.Sprintf("/api/v1/checkpoints/%d/", id)
	for path, want := range map[string]string{
		dir + "w%20%C3%BC.arrow": "w%20%C3%BC", dir + "w%20%C3%BC.parquet": "w%20%C3%BC", "/api/v1/views/w%20%C3%BC/history?n=1": "w%20%C3%BC",
		dir + "v.arrow": "", dir + "v.parquet": "", "/api/v1/views/v/history": "",
	} {
		res := b.ask("GET", path)
		body := b.body(res)
		if got := res.Header.Get("Weir-Backfilling"); res.StatusCode != http.StatusOK || got != want {
			t.Errorf("%s: %d, %q, %.200q", path, res.StatusCode, got, body)
		}
		if told := fmt.Sprintf(`"checkpoints":[{"id":%d,`, id); strings.Contains(path, "history") && !strings.Contains(string(body), told) {
			t.Errorf("%s: no %s: %s", path, told, body)
		}
	}
	res := b.ask("GET", fmt.Sprintf("/api/v1/views/over/lookup?n=1&at=%d", id))
	if body := b.body(res); res.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "plain view") {
		t.Errorf("a plain view in a checkpoint: %d %s", res.StatusCode, body)
	}
}

// lines gives each line that is written to it.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// TestProgress waits for a topic, then for records that are not committed yet.
func TestProgress(t *testing.T) {
	b := newBed(t)
	hold, release := holdCommits(b)
	b.must(numbersOnlySQL)
	wait := func(ctx context.Context) (lines, chan error) {
		said, done := make(lines, 100), make(chan error, 1) // what nobody reads any more must not hold it
		go func() { done <- b.run.waitCaughtUp(ctx, &progress{out: said}) }()
		return said, done
	}
	ctx, cancel := context.WithCancel(t.Context())
	said, done := wait(ctx)
	if got := <-said; !strings.HasPrefix(got, `waiting: source numbers: topic "numbers" does not exist`) {
		t.Error(got)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}

	b.topic("numbers", 2)
	b.caughtUp()
	hold.Store(true)
	b.send(&devbroker.Record{Topic: "numbers", Value: []byte(`{"n":1}`)}, &devbroker.Record{Topic: "numbers", Partition: 1, Value: []byte(`{"n":1}`)})
	said, done = wait(t.Context())
	for {
		select {
		case got := <-said:
			if strings.HasPrefix(got, "catching up: view v has 2 records to go, and source numbers reads ") && hold.CompareAndSwap(true, false) {
				release()
			}
			continue
		case err := <-done:
			if err != nil || hold.Load() {
				t.Errorf("caught up: %v, and said so: %v", err, !hold.Load())
			}
		}
		return
	}
}
