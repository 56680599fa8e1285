//go:build duckdb_arrow

package appliance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"weir/appliance/devbroker"
	"weir/checkpoint/objectstore/fakes3"
	"weir/queryable"
	"weir/state/ddl"
)

// publishing is a bed whose exports are waited for.
type publishing struct {
	*bed
	done chan uint64
}

func publishingBed(t *testing.T) *publishing {
	t.Helper()
	b := &publishing{bed: newBed(t), done: make(chan uint64, 16)}
	b.config = func(c *config) { c.published = func(id uint64) { b.done <- id } }
	b.topic("t", 2)
	return b
}

// exported takes a checkpoint and waits for its exports.
func (b *publishing) exported() uint64 {
	b.t.Helper()
	n := b.checkpoint()
	b.wait(n)
	return n
}

// wait waits for the exports of a checkpoint; 0 is what was found at the start.
func (b *publishing) wait(n uint64) {
	b.t.Helper()
	for {
		select {
		case id := <-b.done:
			if id == n {
				return
			}
		case <-b.t.Context().Done():
			b.t.Fatal("the exports do not end")
		}
	}
}

func (b *publishing) status(view string) *queryable.ViewExport {
	b.t.Helper()
	code, body, err := b.run.get("/api/v1/views/" + view)
	if err != nil || code != http.StatusOK {
		b.t.Fatalf("view %s: %d %s %v", view, code, body, err)
	}
	var v queryable.View
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		b.t.Fatal(err)
	}
	return v.Export
}

// snapshotFiles are the data files of a table's snapshots by their epochs, from
// the metadata that the hint names.
func snapshotFiles(t *testing.T, table string) map[string]string {
	t.Helper()
	hint, err := os.ReadFile(filepath.Join(table, "metadata", "version-hint.text"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(table, "metadata", "v"+string(hint)+".metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Snapshots []struct {
			ID      int64             `json:"snapshot-id"`
			Summary map[string]string `json:"summary"`
		} `json:"snapshots"`
	}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, s := range m.Snapshots {
		if s.Summary["weir.whole"] != "true" {
			t.Errorf("snapshot %v", s.Summary)
		}
		out[s.Summary["weir.epoch"]] = filepath.Join(table, "data", fmt.Sprintf("weir-%d.parquet", s.ID))
	}
	return out
}

// TestViewsAreExported compares what stands in files after each of some
// checkpoints with what SQL shows of that checkpoint, in both formats, over a
// restart and a DROP.
func TestViewsAreExported(t *testing.T) {
	b := publishingBed(t)
	schema := strings.Replace(exportSchema, `"größe" AS`, `"größe" WITH (export = 'iceberg', export_to = 'tables/größe', export_keep = '2') AS`, 1)
	schema += strings.Replace(exportSchema[strings.Index(exportSchema, "CREATE MATERIALIZED VIEW \"größe\""):strings.Index(exportSchema, "CREATE MATERIALIZED VIEW fails")],
		`"größe" AS`, `"Kopie" WITH (export = 'parquet', export_keep = '2') AS`, 1)
	b.must(schema)
	table, folder := filepath.Join(b.dir, "exported", "tables", "größe"), filepath.Join(b.dir, "exported", "Kopie")
	query := func(from string) string {
		return fmt.Sprintf("SELECT %s FROM %s ORDER BY ALL", texts(exportColumns), from)
	}
	if got := b.status("Kopie"); got.At != nil || got.Error != "" || got.Target != folder {
		t.Errorf("before the first checkpoint: %+v", got)
	}
	var epochs []string
	check := func(n uint64) {
		t.Helper()
		want := b.rows(query(fmt.Sprintf(`"größe" AT (VERSION => %d)`, n)))
		e := b.status("gr%C3%B6%C3%9Fe")
		epochs = append(epochs, fmt.Sprint(e.Epoch))
		files := snapshotFiles(t, table)
		if len(files) != min(2, len(epochs)) {
			t.Errorf("snapshots %v of epochs %v", files, epochs)
		}
		if d := cmp.Diff(want, cellsOf(t, query("'"+files[fmt.Sprint(e.Epoch)]+"'"))); d != "" {
			t.Errorf("checkpoint %d and the table differ (-sql +table):\n%.2000s", n, d)
		}
		name := fmt.Sprintf("%020d.parquet", e.Epoch)
		for _, f := range []string{"newest.parquet", "epochs/" + name} {
			if d := cmp.Diff(want, cellsOf(t, query("'"+filepath.Join(folder, f)+"'"))); d != "" {
				t.Errorf("checkpoint %d and %s differ (-sql +file):\n%.2000s", n, f, d)
			}
		}
		p := b.status("Kopie")
		rows := int64(strings.Count(want, "\n"))
		if e.Checkpoint != n || p.Checkpoint != n || p.Epoch != e.Epoch || e.Rows != rows || p.Rows != rows || e.Error+p.Error != "" || e.At == nil || !e.Whole || !p.Whole || p.Bytes == 0 {
			t.Errorf("checkpoint %d: %+v and %+v", n, e, p)
		}
		said := cellsOf(t, fmt.Sprintf("SELECT decode(key), decode(value) FROM parquet_kv_metadata('%s') WHERE decode(key) IN ('weir.epoch', 'weir.view', 'weir.whole') ORDER BY 1", filepath.Join(folder, "newest.parquet")))
		if want := fmt.Sprintf("\"weir.epoch\" | \"%d\"\n\"weir.view\" | \"Kopie\"\n\"weir.whole\" | \"true\"\n", e.Epoch); said != want {
			t.Errorf("the file says of itself %s", said)
		}
	}
	for i := range 3 {
		b.sendExport(i*200, i*200+200)
		check(b.exported())
	}
	names, err := os.ReadDir(filepath.Join(folder, "epochs"))
	if err != nil || len(names) != 2 {
		t.Errorf("%v, %v", names, err)
	}
	if got := b.rows("SHOW VIEWS"); !strings.Contains(got, `"" | "epoch `+epochs[2]+`"`) || strings.Count(got, `"" | null`) != 2 {
		t.Errorf("SHOW VIEWS: %s", got)
	}
	_, metrics, err := b.run.get("/metrics")
	if err != nil || !strings.Contains(metrics, `weir_view_exports_total{view="größe"} 3`) || !strings.Contains(metrics, `weir_view_export_epoch{view="Kopie"} `+epochs[2]) {
		t.Errorf("metrics: %v\n%s", err, metrics)
	}

	// After a start the same checkpoint is known, and nothing is written again.
	before := snapshotFiles(t, table)
	b.stop()
	b.must(schema)
	b.wait(0)
	b.run.publisher.publish(t.Context(), 3)
	if d := cmp.Diff(before, snapshotFiles(t, table)); d != "" {
		t.Errorf("checkpoint 3 was exported again:\n%s", d)
	}
	if e := b.status("Kopie"); fmt.Sprint(e.Epoch) != epochs[2] || e.Checkpoint != 3 {
		t.Errorf("after the start: %+v", e)
	}
	b.sendExport(600, 700)
	check(b.exported())

	// What was exported stays when the view goes.
	b.query(`DROP MATERIALIZED VIEW "größe"`)
	b.sendExport(700, 800)
	b.exported()
	if files := snapshotFiles(t, table); files[epochs[3]] == "" {
		t.Errorf("after DROP: %v", files)
	}
}

// TestAnExportThatFails wants a checkpoint and all else to go on, and the next
// checkpoint to be exported when the hindrance has gone.
func TestAnExportThatFails(t *testing.T) {
	b := publishingBed(t)
	b.must(`CREATE SOURCE t (k VARCHAR, x BIGINT) WITH (connector = 'kafka', topic = 't', format = 'json');
CREATE MATERIALIZED VIEW v WITH (export = 'iceberg') AS SELECT k, sum(x) AS s FROM t GROUP BY k;
CREATE MATERIALIZED VIEW fails WITH (export = 'parquet') AS SELECT k, ln(sum(x)) AS l FROM t GROUP BY k;
CREATE MATERIALIZED VIEW n WITH (export = 'parquet', export_every = '1 hour') AS SELECT count(*) AS n FROM t;`)
	dir := filepath.Join(b.dir, "exported")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "v"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	send := func(k string, x int) {
		b.send(&devbroker.Record{Topic: "t", Value: fmt.Appendf(nil, `{"k":"%s","x":%d}`, k, x)})
		b.caughtUp()
	}
	send("a", 1)
	send("zero", 0)
	n := b.exported()
	if e := b.status("v"); e.At != nil || !strings.Contains(e.Error, "is no directory") {
		t.Errorf("%+v", e)
	}
	if e := b.status("fails"); e.At != nil || !strings.Contains(e.Error, "group k = zero is in error") {
		t.Errorf("%+v", e)
	}
	first := b.status("n")
	if first.Checkpoint != n || first.Every != 3600 || first.Error != "" {
		t.Errorf("%+v", first)
	}
	if got := b.rows("SHOW VIEWS"); !strings.Contains(got, "nothing yet: ") {
		t.Errorf("SHOW VIEWS: %s", got)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "v")); err != nil || string(text) != "mine" {
		t.Errorf("the file in the way: %q, %v", text, err)
	}
	if err := os.Remove(filepath.Join(dir, "v")); err != nil {
		t.Fatal(err)
	}
	send("zero", 1)
	n = b.exported()
	if e := b.status("v"); e.Error != "" || e.Checkpoint != n || e.Rows != 2 {
		t.Errorf("%+v", e)
	}
	if e := b.status("fails"); e.Error != "" || e.Checkpoint != n || e.Rows != 2 {
		t.Errorf("%+v", e)
	}
	if got := cellsOf(t, "SELECT k, l::VARCHAR FROM '"+filepath.Join(dir, "fails", "newest.parquet")+"' ORDER BY 1"); got != b.rows("SELECT k, l::VARCHAR FROM fails ORDER BY 1") {
		t.Errorf("the file has %s", got)
	}
	if e := b.status("n"); e.Checkpoint != first.Checkpoint {
		t.Errorf("exported again within the hour: %+v", e)
	}
	_, metrics, err := b.run.get("/metrics")
	if err != nil || !strings.Contains(metrics, `weir_view_export_failures_total{view="v"} 1`) || !strings.Contains(metrics, `weir_view_exports_total{view="v"} 1`) {
		t.Errorf("metrics: %v\n%s", err, metrics)
	}
	b.verified("v")
}

// TestWhereExportsGo refuses, when the view is created, what would write into
// other directories than those of exports, or of others.
func TestWhereExportsGo(t *testing.T) {
	b := publishingBed(t)
	outside := t.TempDir()
	b.must(`CREATE SOURCE t (k VARCHAR) WITH (connector = 'kafka', topic = 't', format = 'json');
CREATE MATERIALIZED VIEW v WITH (export = 'iceberg', export_to = 'a/v') AS SELECT k FROM t GROUP BY k;`)
	dir := filepath.Join(b.dir, "exported")
	for _, d := range []string{"full", "half/data"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "full", "budget.xls"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"locked", "tied/metadata"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	precious := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(precious, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	for l, to := range map[string]string{"link": outside, "half/metadata": outside, "locked/weir-lock": precious, "tied/metadata/weir-lock": precious} {
		if err := os.Symlink(to, filepath.Join(dir, l)); err != nil {
			t.Fatal(err)
		}
	}
	for to, want := range map[string]string{
		"../a":   "name that begins with a dot",
		outside:  "is no path below --export-dir",
		"link":   "is a symbolic link",
		"link/w": "is a symbolic link",
		"half":   "is a symbolic link",
		"locked": "is a symbolic link",
		"tied":   "is a symbolic link",

		"weir-lock": "is the lock of the directory of exports",
		"full":      "holds budget.xls, and no table that Weir wrote",
		"A/V":       "view v is exported to",
		"a":         "view v is exported to",
		"a/v/w":     "view v is exported to",
	} {
		_, err := b.run.client.Query(t.Context(), fmt.Sprintf("CREATE MATERIALIZED VIEW w WITH (export = 'iceberg', export_to = '%s') AS SELECT k FROM t GROUP BY k", to))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("export_to = '%s': %v", to, err)
		}
	}
	_, err := b.run.client.Query(t.Context(), "CREATE MATERIALIZED VIEW typed WITH (export = 'iceberg') AS SELECT k, max(kafka_timestamp::TIMESTAMP_NS) AS last FROM t GROUP BY k")
	if err == nil || !strings.Contains(err.Error(), "the view cannot be exported: column last: ") || !strings.Contains(err.Error(), "TIMESTAMP_NS") {
		t.Errorf("a type that Iceberg has not: %v", err)
	}
	b.query("CREATE MATERIALIZED VIEW typed WITH (export = 'iceberg') AS SELECT k, count(*) AS n FROM t GROUP BY k")
	b.becomes("/api/v1/views/typed", "running", "0", "")
	b.exported()
	b.query("DROP MATERIALIZED VIEW typed")
	_, err = b.run.client.Query(t.Context(), "CREATE MATERIALIZED VIEW typed WITH (export = 'iceberg') AS SELECT k, max(k) AS n FROM t GROUP BY k")
	if err == nil || !strings.Contains(err.Error(), "column n is long in the table and string in the view") {
		t.Errorf("another type: %v", err)
	}
	b.query("CREATE MATERIALIZED VIEW typed WITH (export = 'iceberg') AS SELECT k, count(*) AS n, max(k) AS m FROM t GROUP BY k")
	b.becomes("/api/v1/views/typed", "running", "0", "")
	n := b.exported()
	if e := b.status("typed"); e.Checkpoint != n || e.Error != "" {
		t.Errorf("a column more: %+v", e)
	}
	if names, err := os.ReadDir(outside); err != nil || len(names) > 0 {
		t.Errorf("outside there is %v, %v", names, err)
	}
	if got := b.rows("SHOW VIEWS"); strings.Contains(got, `"w"`) {
		t.Errorf("it was created: %s", got)
	}
	// A link that comes later is not followed either, and what it names is not emptied.
	lock := filepath.Join(dir, "typed", "metadata", "weir-lock")
	if err := errors.Join(os.Remove(lock), os.Symlink(precious, lock)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "a", "v")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "a", "v")); err != nil {
		t.Fatal(err)
	}
	b.send(&devbroker.Record{Topic: "t", Value: []byte(`{"k":"a"}`)})
	b.caughtUp()
	b.exported()
	for _, v := range []string{"v", "typed"} {
		if e := b.status(v); !strings.Contains(e.Error, "is a symbolic link") {
			t.Errorf("%s: %+v", v, e)
		}
	}
	if names, err := os.ReadDir(outside); err != nil || len(names) > 0 {
		t.Errorf("outside there is %v, %v", names, err)
	}
	if text, err := os.ReadFile(precious); err != nil || string(text) != "mine" {
		t.Errorf("a file elsewhere is %q, %v", text, err)
	}
}

// TestOptionsOfAViewChange changes where a view goes, in a file and by OR REPLACE,
// and wants its groups to stay. Another SELECT is refused.
func TestOptionsOfAViewChange(t *testing.T) {
	b := publishingBed(t)
	const source = "CREATE SOURCE t (k VARCHAR) WITH (connector = 'kafka', topic = 't', format = 'json');\n"
	view := func(with string) string {
		return "CREATE MATERIALIZED VIEW v " + with + " AS SELECT k, count(*) AS n FROM t GROUP BY k"
	}
	b.must(source + view(""))
	b.send(&devbroker.Record{Topic: "t", Value: []byte(`{"k":"a"}`)})
	b.caughtUp()
	b.exported()
	if e := b.status("v"); e != nil {
		t.Errorf("without options: %+v", e)
	}
	b.stop()
	parquet := view("WITH (export = 'parquet', export_to = 'one')")
	b.must(source + parquet)
	n := b.exported()
	if e := b.status("v"); e == nil || e.Checkpoint != n || !strings.HasSuffix(e.Target, "/one") {
		t.Errorf("from a file: %+v", e)
	}
	replace := func(sql string) string { return strings.Replace(sql, "CREATE", "CREATE OR REPLACE", 1) }
	for _, step := range []struct{ with, says string }{
		{"WITH (export = 'parquet', export_to = 'one')", "is there already, as it stands here"},
		{"WITH (export = 'parquet', export_to = 'one', export_keep = '1')", "changed the options of"},
		{"with (EXPORT = 'iceberg')", "changed the options of"},
		{"", "changed the options of"},
		{"WITH (export = 'iceberg')", "changed the options of"},
	} {
		if got := b.rows(replace(view(step.with))); !strings.Contains(got, step.says) {
			t.Errorf("%s: %s", step.with, got)
		}
		e := b.status("v")
		switch {
		case step.with == "" && e != nil, step.with != "" && e == nil:
			t.Errorf("%s: %+v", step.with, e)
		case strings.Contains(step.with, "one") && e.Checkpoint != n:
			t.Errorf("%s: what was exported is forgotten: %+v", step.with, e)
		}
	}
	n = b.exported()
	if e := b.status("v"); e.Checkpoint != n || e.Format != "iceberg" || e.Rows != 1 {
		t.Errorf("by OR REPLACE: %+v", e)
	}
	// What a checkpoint said of a view that read old records is over when it has.
	p, v := b.run.publisher, b.run.store.Catalog().Views[0]
	p.note(p.views[v.ID], nil, errYoung)
	if e := b.status("v"); !strings.HasPrefix(e.Error, "waits for a checkpoint") {
		t.Errorf("after it has read old records: %+v", e)
	}
	if got := b.rows("SHOW VIEWS"); !strings.Contains(got, ", and none since: waits for a checkpoint") {
		t.Errorf("SHOW VIEWS: %s", got)
	}
	n = b.exported()
	if e := b.status("v"); e.Error != "" || e.Checkpoint != n {
		t.Errorf("after a checkpoint: %+v", e)
	}
	for sql, want := range map[string]string{
		view(""):                          "use CREATE OR REPLACE MATERIALIZED VIEW, which changes the options and keeps the groups",
		view("WITH (export = 'iceberg')"): "there is a materialized view v already",
		replace("CREATE MATERIALIZED VIEW v AS SELECT k, count(k) AS n FROM t GROUP BY k"): "it would throw the state away",
		replace(view("WITH (export = 'iceberg', export_to = 'one')")):                      "and no table that Weir wrote",
	} {
		if _, err := b.run.client.Query(t.Context(), sql); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", sql, err)
		}
	}
	b.query(replace("CREATE MATERIALIZED VIEW fresh AS SELECT k FROM t GROUP BY k")) // there was none
	b.stop()
	if err := b.start(script{"test.sql", source + "CREATE MATERIALIZED VIEW v AS SELECT k, count(k) AS n FROM t GROUP BY k"}); err == nil || !strings.Contains(err.Error(), "exists with another definition") {
		t.Errorf("another SELECT in a file: %v", err)
	}
	b.must("")
	b.wait(0)
	if e := b.status("v"); e == nil || e.Format != "iceberg" || e.Checkpoint != n {
		t.Errorf("after a start without the file: %+v", e)
	}
	if got := b.rows("SELECT k, n FROM v"); got != "\"a\" | 1\n" {
		t.Errorf("the view has %s", got)
	}
	b.verified("v")
}

// TestAViewThatIsNotWhole is not exported: what was exported of the view that had the
// name before stays. Files that are made of it on demand say that it is not whole, and
// those of a view that is say that.
func TestAViewThatIsNotWhole(t *testing.T) {
	b := publishingBed(t)
	b.topic("numbers", 1)
	b.send(&devbroker.Record{Topic: "numbers", Value: []byte(`{"n":1}`)})
	view := func(as string) string {
		return "\nCREATE MATERIALIZED VIEW " + as + " AS SELECT n, count(*) AS c FROM numbers GROUP BY n;"
	}
	b.must(numbersOnlySQL + view("old WITH (export = 'iceberg')"))
	b.caughtUp()
	first := b.exported()
	b.query("DROP MATERIALIZED VIEW old")
	b.stop()
	b.away()
	b.must(numbersOnlySQL + view("old WITH (export = 'iceberg')") + view("young WITH (export = 'parquet')"))
	n := b.exported()
	if e := b.status("old"); e.Checkpoint != first || e.Rows != 1 || !e.Whole || !strings.Contains(e.Error, "still reads old records") {
		t.Errorf("%+v", e)
	}
	if e := b.status("young"); e.At != nil || !strings.Contains(e.Error, "still reads old records") {
		t.Errorf("%+v", e)
	}
	if got := b.rows("SHOW VIEWS"); strings.Count(got, ", and none since: the view still reads") != 1 || strings.Count(got, "nothing yet: the view still reads") != 1 {
		t.Errorf("SHOW VIEWS: %s", got)
	}
	if files := snapshotFiles(t, filepath.Join(b.dir, "exported", "old")); len(files) != 1 {
		t.Errorf("the table has %v", files)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "exported", "young")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	dir := filepath.Join(b.dir, checkpointsDir, fmt.Sprintf("%08d", n))
	table := filepath.Join(t.TempDir(), "table")
	if code, _, errs := weir("checkpoint", "export", dir, "--view", "young", "--format", "iceberg", "-o", table); code == exitOK {
		t.Errorf("on demand: %d %s", code, errs)
	}
	text, err := os.ReadFile(filepath.Join(table, "metadata", "v1.metadata.json"))
	if err != nil || !strings.Contains(string(text), `"weir.whole": "false"`) {
		t.Errorf("%v: %s", err, text)
	}
	for view, want := range map[string]string{"young": "false", "v": "true"} {
		for _, path := range []string{fmt.Sprintf("/api/v1/checkpoints/%d/%s.parquet", n, view), "/api/v1/views/" + view + "/scan.parquet"} {
			file, _ := b.download(path)
			if got := cellsOf(t, "SELECT decode(value) FROM parquet_kv_metadata('"+file+"') WHERE decode(key) = 'weir.whole'"); got != `"`+want+"\"\n" {
				t.Errorf("%s says %s", path, got)
			}
		}
	}
}

// TestAnExportEndsAnywhere fails every fourth call that the exports of two views make of
// the file system (export and iceberg try each), and all after it, as a full disk does: what can be read is the export
// of before or the new one, the state says which, and the same checkpoint is exported
// when there is room, once.
func TestAnExportEndsAnywhere(t *testing.T) {
	b := publishingBed(t)
	b.must(`CREATE SOURCE t (k VARCHAR) WITH (connector = 'kafka', topic = 't', format = 'json');
CREATE MATERIALIZED VIEW a WITH (export = 'iceberg') AS SELECT k, count(*) AS n FROM t GROUP BY k;
CREATE MATERIALIZED VIEW b WITH (export = 'parquet') AS SELECT k, count(*) AS n FROM t GROUP BY k;`)
	b.send(&devbroker.Record{Topic: "t", Value: []byte(`{"k":"x"}`)})
	b.caughtUp()
	p := newPublisher(t.TempDir(), b.run.store, b.run.keeper, b.run.log) // beside that of the appliance
	t.Cleanup(func() { p.close() })
	stands := func(view string) (checkpoint, rows string) {
		t.Helper()
		v, _ := b.run.store.Catalog().View(view)
		e, err := p.newest(exportOf(v.SQL), view)
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			return "none", ""
		}
		return e.said["weir.checkpoint"], fmt.Sprint(e.rows)
	}
	before, failed := "none", 0
	for at := int64(0); ; at += 4 {
		n := b.exported()
		failing := &fullAfter{at: at}
		p.fs = errorfs.Wrap(vfs.Default, failing)
		p.publish(t.Context(), n)
		p.fs = vfs.Default
		for _, view := range []string{"a", "b"} {
			v, _ := b.run.store.Catalog().View(view)
			got, rows := stands(view)
			now := fmt.Sprint(n)
			told := p.status(v)
			switch {
			case got != before && got != now, got != "none" && rows != "1":
				t.Fatalf("call %d: view %s stands at %s with %s rows", at, view, got, rows)
			case told.Error == "" && (got != now || told.Checkpoint != n):
				t.Fatalf("call %d: view %s stands at %s, and nothing is said: %+v", at, view, got, told)
			case told.Error != "" && !strings.Contains(told.Error, "injected error"):
				t.Fatalf("call %d: %s", at, told.Error)
			case told.Error != "":
				failed++
			}
		}
		p.publish(t.Context(), n)
		var written []string
		for range 2 {
			for _, view := range []string{"a", "b"} {
				v, _ := b.run.store.Catalog().View(view)
				if got, rows := stands(view); got != fmt.Sprint(n) || rows != "1" || p.status(v).Error != "" {
					t.Fatalf("call %d: with room view %s stands at %s: %+v", at, view, got, p.status(v))
				}
			}
			files, err := filepath.Glob(filepath.Join(p.dir, "*", "*", "*"))
			if err != nil {
				t.Fatal(err)
			}
			if written != nil && !slices.Equal(written, files) {
				t.Fatalf("call %d: it was exported again: %s", at, cmp.Diff(written, files))
			}
			written = files
			p.publish(t.Context(), n)
		}
		if !failing.met {
			break
		}
		before = fmt.Sprint(n)
	}
	if failed < 15 {
		t.Fatalf("only %d exports failed", failed)
	}
	// Nobody else exports to the same directory meanwhile.
	other := newPublisher(p.dir, b.run.store, b.run.keeper, b.run.log)
	other.publish(t.Context(), b.exported())
	v, _ := b.run.store.Catalog().View("a")
	if e := other.status(v); !strings.Contains(e.Error, "give each --export-dir of its own") {
		t.Errorf("a second one: %+v", e)
	}
	b.verified("a")
}

// fullAfter fails every call from the one with the number at.
type fullAfter struct {
	at, n int64
	met   bool
}

// MaybeError counts a call; exports make one after the other.
func (f *fullAfter) MaybeError(errorfs.Op) error {
	if f.n++; f.n <= f.at {
		return nil
	}
	f.met = true
	return errorfs.ErrInjected
}

// String names it.
func (f *fullAfter) String() string { return fmt.Sprint(f.at) }

// TestExportsOfCheckpointsInObjectStorage exports what lies in a bucket, where a file
// does not stay readable when it is removed: one checkpoint is kept.
func TestExportsOfCheckpointsInObjectStorage(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", fakes3.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", fakes3.SecretKey)
	s3 := fakes3.Start(t)
	b := publishingBed(t)
	listen := b.config
	b.config = func(c *config) { listen(c); c.Checkpoints, c.CheckpointKeep = s3.Location("p"), 1 }
	b.must(`CREATE SOURCE t (k BIGINT) WITH (connector = 'kafka', topic = 't', format = 'json');
CREATE MATERIALIZED VIEW v WITH (export = 'parquet') AS SELECT k % 100 AS k, count(*) AS n FROM t GROUP BY k % 100;`)
	for i := range 3 {
		var recs []*devbroker.Record
		for k := range 200 {
			recs = append(recs, &devbroker.Record{Topic: "t", Value: fmt.Appendf(nil, `{"k":%d}`, k*i)})
		}
		b.send(recs...)
		b.caughtUp()
		n := b.exported()
		if e := b.status("v"); e.Checkpoint != n || e.Error != "" {
			t.Errorf("checkpoint %d: %+v", n, e)
		}
		const all = "SELECT k::VARCHAR, n::VARCHAR FROM %s ORDER BY ALL"
		if d := cmp.Diff(b.rows(fmt.Sprintf(all, "v")), cellsOf(t, fmt.Sprintf(all, "'"+filepath.Join(b.dir, "exported", "v", "newest.parquet")+"'"))); d != "" {
			t.Errorf("checkpoint %d and the file differ (-sql +file):\n%.2000s", n, d)
		}
	}
	if held := b.run.keeper.pins.held(); len(held) > 0 {
		t.Errorf("checkpoints %v are still held", held)
	}
}

// TestExportDir wants the directory of exports to be apart from what is the
// appliance's own.
func TestExportDir(t *testing.T) {
	root := t.TempDir()
	data := filepath.Join(root, "data")
	if err := os.MkdirAll(filepath.Join(data, stateDir), 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(root, "link")
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	for dir, ok := range map[string]bool{
		"": true, filepath.Join(data, "exported"): true, filepath.Join(data, "mine"): true, filepath.Join(root, "lake"): true,
		data: false, root: false, "/": false, filepath.Join(data, "state"): false, filepath.Join(data, "checkpoints", "x"): false,
		link: false, filepath.Join(link, "state", "x"): false, filepath.Join(root, "cp"): false, filepath.Join(root, "cp", "x"): false,
	} {
		c := config{serveFlags: serveFlags{Data: data, ExportDir: dir, Checkpoints: filepath.Join(root, "cp")}}
		got, err := c.exported()
		if (err == nil) != ok || ok && !filepath.IsAbs(got) {
			t.Errorf("%q: %s, %v", dir, got, err)
		}
	}
	c := config{serveFlags: serveFlags{Data: data, Checkpoints: filepath.Join(data, exportedDir, "cp")}}
	if dir, err := c.exported(); err == nil {
		t.Errorf("checkpoints lie in %s", dir)
	}
	for _, flag := range []string{"s3://bucket/x", "file:///x"} {
		if code, _, errs := weir("demo", "--data", data, "--export-dir", flag); code != 2 || !strings.Contains(errs, "not exported to object storage") {
			t.Errorf("%s: %d %s", flag, code, errs)
		}
	}
	if slices.Contains(parts(), exportedDir) {
		t.Error("weir reset would delete what was exported")
	}
}

func TestExportsAreDue(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	hour := &ddl.Export{Every: time.Hour}
	for _, c := range []struct {
		spec *ddl.Export
		ago  time.Duration
		want bool
	}{
		{&ddl.Export{}, 0, true},
		{hour, 0, false},
		{hour, 50 * time.Minute, false},
		{hour, 59 * time.Minute, true}, // the checkpoint came a little early
		{hour, 2 * time.Hour, true},
		{hour, -time.Minute, true}, // the clock went back
	} {
		if got := (&published{spec: c.spec, began: now.Add(-c.ago)}).due(now); got != c.want {
			t.Errorf("every %s, %s ago: %v", c.spec.Every, c.ago, got)
		}
	}
	if !(&published{spec: hour}).due(now) {
		t.Error("the first is not due")
	}
}
