//go:build duckdb_arrow

package appliance

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/appliance/devbroker"
	"weir/checkpoint"
)

// The tools say of a view that still read old records when its checkpoint was taken
// that it is not whole, and of the same view later that it is.
func TestOfflineToolsSayWhatIsNotWhole(t *testing.T) {
	b := newBed(t)
	b.topic("numbers", 1)
	b.send(&devbroker.Record{Topic: "numbers", Value: []byte(`{"n":1}`)})
	b.must(numbersOnlySQL)
	b.caughtUp()
	b.stop()
	sql := numbersOnlySQL + `
CREATE MATERIALIZED VIEW young AS SELECT n, count(*) AS c FROM numbers GROUP BY n;
CREATE VIEW over AS FROM young;`
	b.config = func(c *config) { c.Brokers = "127.0.0.1:1" } // where nothing is read
	b.must(sql)
	b.checkpoint()
	b.stop()
	b.config = nil
	b.must(sql)
	b.becomes("/api/v1/views/young", "running", "0", "")
	b.checkpoint()
	b.stop()
	dir := filepath.Join(b.dir, checkpointsDir)

	const words = "view young is not whole yet: it still reads old records"
	says := func(want bool, at, sql string) {
		t.Helper()
		wantCode := 0
		if want {
			wantCode = exitPartial
		}
		code, out, errs := weir("checkpoint", "query", at, sql)
		if code != wantCode || want != strings.Contains(out, words) {
			t.Errorf("%s of %s: %d %s%s", sql, at, code, out, errs)
		}
		code, out, errs = weir("checkpoint", "query", "--format", "json", at, sql)
		if code != wantCode || want != strings.Contains(out, `"backfilling":["young"]`) || want != strings.Contains(errs, words) {
			t.Errorf("%s of %s as JSON: %d %s%s", sql, at, code, out, errs)
		}
	}
	says(true, dir+"@1", "FROM young")
	says(true, dir+"@1", "FROM over")
	says(true, dir, "FROM young AT (VERSION => 1)")
	says(false, dir+"@1", "FROM v")
	says(false, dir+"@1", "SELECT 1")
	says(false, dir, "FROM young")
	refusedWith(t, "weir checkpoint diff compares two checkpoints", "checkpoint", "query", dir, "FROM state_diff('v', 1, 2)")
	refusedWith(t, "read the checkpoints one by one, with AT (VERSION => n)", "checkpoint", "query", dir, "FROM state_history('v', 1)")

	for at, want := range map[string]bool{"@1": true, "@2": false} {
		bundle := filepath.Join(t.TempDir(), "b.weir")
		if out := weirs(t, "bundle", "--from", dir+at, "-o", bundle); want != strings.Contains(out, words) {
			t.Errorf("bundle of %s: %s", at, out)
		}
		if out := weirs(t, "checkpoint", "show", bundle); want != strings.Contains(out, words) {
			t.Errorf("show of %s: %s", at, out)
		}
		code, _, errs := weir("checkpoint", "export", bundle, "--view", "young")
		if want != (code == exitPartial && strings.Contains(errs, words)) || !want && code != 0 {
			t.Errorf("export of %s: %d %s", at, code, errs)
		}
		code, out, errs := weir("checkpoint", "diff", bundle, dir+"@2")
		if want != strings.Contains(out, words+" in the first\n") || strings.Contains(out, "in the second") || code == exitError {
			t.Errorf("diff of %s: %d %s%s", at, code, out, errs)
		}
	}
	if _, out, _ := weir("checkpoint", "diff", "--json", "--summary", dir+"@2", dir+"@1"); strings.Count(out, `"backfilling":["the second"]`) != 1 {
		t.Error(out)
	}
}

// An answer is stamped with what it was read from.
func TestOfflineAnswersNameTheirTime(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 1)
	b.must(saleSQL("orders"))
	produce(b, "orders", 0, []sale{{"Paris", "1.50", "1"}})
	b.caughtUp()
	b.query("CHECKPOINT")
	produce(b, "orders", 0, []sale{{"Paris", "2.50", "1"}})
	b.caughtUp()
	b.query("CREATE SAVEPOINT 'later'")
	b.stop()
	dir := filepath.Join(b.dir, checkpointsDir)
	m1, m2 := manifestOf(t, dir, 1), manifestOf(t, dir, 2)
	if m1.Epoch >= m2.Epoch {
		t.Fatal(m1.Epoch, m2.Epoch)
	}
	type past struct {
		ID        uint64
		Epoch     uint64
		Savepoint string
	}
	type stamp struct {
		Epoch       uint64
		Checkpoints []past
	}
	first, later := past{ID: 1, Epoch: m1.Epoch}, past{2, m2.Epoch, "later"}
	for sql, want := range map[string]stamp{
		"FROM total AT (VERSION => 1)": {m1.Epoch, []past{first}},
		"FROM total":                   {m2.Epoch, []past{later}},
		"FROM best":                    {m2.Epoch, []past{later}},
		"FROM total, state_at('total', version := 1) AS o":                              {m2.Epoch, []past{first, later}},
		"FROM state_at('total', name := 'later'), state_at('total', version := 1) AS o": {m1.Epoch, []past{first, later}},
		"SELECT 1 AS one": {m2.Epoch, nil},
	} {
		var got stamp
		if err := json.Unmarshal([]byte(weirs(t, "checkpoint", "query", "--format", "json", dir+"@2", sql)), &got); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", sql, d)
		}
	}
	if out := weirs(t, "checkpoint", "query", dir+"@2", "FROM total AT (VERSION => 1)"); !strings.Contains(out, ", from checkpoint 1)") {
		t.Error(out)
	}

	// weir open shows one of them: it was committed by then, and there is no other.
	bundle := filepath.Join(t.TempDir(), "b.weir")
	weirs(t, "bundle", "--from", dir+"@2", "-o", bundle)
	run, cfg := opened(t, bundle)
	if !cfg.taken.Equal(m2.Created) || !strings.HasPrefix(cfg.shown, `checkpoint 2 (savepoint "later") of `) {
		t.Fatal(cfg.shown, cfg.taken)
	}
	_, body, err := run.get("/api/v1/status")
	var s struct{ Committed time.Time }
	if err != nil || json.Unmarshal([]byte(body), &s) != nil || !s.Committed.Equal(m2.Created.Truncate(time.Millisecond)) {
		t.Errorf("committed %s, not %s: %s %v", s.Committed, m2.Created, body, err)
	}
	const one = "weir open shows one state only"
	for _, sql := range []string{"FROM total AT (VERSION => 1)", "FROM state_at('total', name := 'later')"} {
		if _, err := run.client.Query(t.Context(), sql); err == nil || !strings.Contains(refusalText(err), one) {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if code, body, err := run.get("/api/v1/views/by_city/lookup?city=Paris&at=1"); err != nil || code != http.StatusNotFound || !strings.Contains(body, one) {
		t.Errorf("lookup: %d %s %v", code, body, err)
	}
}

// A query that fails for a group's result names the group.
func TestOfflineQueryBlamesTheGroup(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 1)
	produce(b, "orders", 0, []sale{{"Paris", "1.00", "1"}, {"Rome", "2.00", "300"}})
	dir := takenOf(b, `CREATE SOURCE orders (city VARCHAR, amount DECIMAL(12,2), big HUGEINT) WITH (connector = 'kafka', topic = 'orders');
CREATE MATERIALIZED VIEW small AS SELECT city, CAST(sum(big) AS TINYINT) AS big FROM orders GROUP BY city;`)
	for _, sql := range []string{"FROM small", "FROM small AT (VERSION => 1)"} {
		refusedWith(t, "group city = Rome of view small", "checkpoint", "query", dir, sql)
	}
	if out := weirs(t, "checkpoint", "query", "--format", "csv", dir, "SELECT big FROM small WHERE city = 'Paris'"); out != "big\n1\n" {
		t.Errorf("%q", out)
	}
	if code, _, errs := weir("checkpoint", "query", dir, "SELECT CAST('x' AS INTEGER) FROM small"); code != exitError || strings.Contains(errs, "Rome") {
		t.Errorf("%d %s", code, errs)
	}
}

// Mistakes are told in the words of what was written.
func TestOfflineToolsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 1)
	produce(b, "orders", 0, []sale{{"Paris", "1.50", "1"}, {"Paris", "2.50", "2"}})
	dir := takenOf(b, saleSQL("orders"))
	one, bundle := checkpointPath(dir, 1), filepath.Join(t.TempDir(), "b.weir")
	weirs(t, "bundle", "--from", dir, "-o", bundle)

	usage := func(words string, args ...string) {
		t.Helper()
		if code, _, errs := weir(args...); code != exitUsage || !strings.Contains(errs, words) {
			t.Errorf("weir %q: %d %s", args, code, errs)
		}
	}
	usage("two checkpoints or more", "checkpoint", "merge", dir, "--into", t.TempDir(), "--name", "x")
	usage("--sql or --select", "checkpoint", "transform", dir, "--name", "x")
	usage("VIEW=SELECT", "checkpoint", "transform", dir, "--name", "x", "--select", "SELECT 1")
	usage("--keep goes with --format iceberg", "checkpoint", "export", dir, "--view", "total", "--format", "csv", "--keep", "10")
	usage("--keep is 1 or more", "checkpoint", "export", dir, "--view", "total", "--format", "iceberg", "-o", "x", "--keep", "0")

	const plain = "best is a plain view"
	refusedWith(t, "best is a view: go back in what it reads", "checkpoint", "query", dir, "FROM best AT (VERSION => 1)")
	refusedWith(t, "orders is a source", "checkpoint", "query", dir, "FROM orders AT (VERSION => 1)")
	refusedWith(t, plain, "checkpoint", "diff", dir, dir, "--view", "best")
	refusedWith(t, plain, "checkpoint", "export", dir, "--view", "best")
	refusedWith(t, plain, "restore", "--from", dir, "--data", filepath.Join(t.TempDir(), "d"), "--views", "best")
	refusedWith(t, plain, "checkpoint", "transform", dir, "--name", "x", "--sql", "DELETE FROM best")
	refusedWith(t, plain, "checkpoint", "transform", dir, "--name", "x", "--select", "best=SELECT 1")
	refusedWith(t, "column mean of view by_city is a result, not state", "checkpoint", "transform", dir, "--name", "x", "--sql", "UPDATE by_city SET mean = 3")
	for _, args := range [][]string{
		{"checkpoint", "diff", dir, dir, "--view", "nope"},
		{"checkpoint", "export", dir, "--view", "nope"},
		{"restore", "--from", dir, "--data", filepath.Join(t.TempDir(), "d"), "--views", "nope"},
	} {
		if code, _, errs := weir(args...); code != exitError || !strings.Contains(errs, "there is no materialized view nope") || !strings.HasSuffix(errs, " has by_city, total\n") {
			t.Errorf("weir %q: %d %s", args, code, errs)
		}
	}
	refusedWith(t, "weir checkpoint show "+bundle, "checkpoint", "ls", bundle)
	refusedWith(t, "weir checkpoint show "+one, "checkpoint", "ls", one)
	if out := weirs(t, "checkpoint", "verify", bundle); !strings.HasPrefix(out, bundle+": whole") {
		t.Error(out)
	}
	refusedWith(t, bundle, "checkpoint", "merge", bundle, bundle, "--into", t.TempDir(), "--name", "x")

	b.must(saleSQL("orders"))
	code, _, errs := weir("checkpoint", "compact", dir+"@1")
	if code != exitError || !strings.Contains(errs, "an appliance runs on") || strings.Contains(errs, "--into") {
		t.Errorf("compact: %d %s", code, errs)
	}
}

// Errors of files that a bundle was unpacked to speak of the bundle.
func TestBundleErrorsNameTheBundle(t *testing.T) {
	t.Parallel()
	f := &found{path: "/tmp/weir-bundle-1/checkpoint", bundle: "x.weir"}
	for path, want := range map[string]string{"": "x.weir: ", "/views/v.arrow": "x.weir: views/v.arrow: "} {
		err := f.named(&checkpoint.Error{Kind: checkpoint.ErrDamaged, Path: f.path + path, What: "w"})
		if !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "weir-bundle") {
			t.Errorf("%q: %v", path, err)
		}
	}
	if err := f.named(os.ErrNotExist); err != os.ErrNotExist {
		t.Error(err)
	}
}
