//go:build duckdb_arrow

package appliance

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"weir/checkpoint"
	"weir/state"
)

// restoring sets what the next start is told.
func (b *bed) restoring(what, from string) {
	b.config = func(c *config) { c.Restore, c.RestoreFrom = what, from }
}

// refused wants a start to fail with some words and to leave the state as it is.
func (b *bed) refused(words, sql string) {
	b.t.Helper()
	before, _ := os.ReadDir(b.dir)
	err := b.start(script{"test.sql", sql})
	if err == nil {
		b.stop()
		b.t.Fatalf("the start was not refused: %q", words)
	}
	if !strings.Contains(err.Error(), words) {
		b.t.Errorf("refused with other words than %q: %v", words, err)
	}
	after, _ := os.ReadDir(b.dir)
	names := func(list []os.DirEntry) (out []string) {
		for _, e := range list {
			if e.Name() != "tmp" {
				out = append(out, e.Name())
			}
		}
		return out
	}
	if !slices.Equal(names(before), names(after)) {
		b.t.Errorf("a refused start (%q) made %q of %q", words, names(after), names(before))
	}
}

func (b *bed) lose() {
	b.t.Helper()
	if err := os.RemoveAll(filepath.Join(b.dir, stateDir)); err != nil {
		b.t.Fatal(err)
	}
}

// A state that is gone is restored only when that was asked for, from what was
// asked for.
func TestRestoreAtStart(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 2)
	list := []sale{{"Paris", "1.50", "1"}, {"Paris", "2.50", "2"}, {"Rome", "1.00", "3"}, {"Rome", "3.00", "4"}}
	produce(b, "orders", 0, list)
	sql := saleSQL("orders")
	b.restoring("newest", "") // a first start has nothing to restore
	b.must(sql)
	b.caughtUp()
	b.query("CREATE SAVEPOINT 'early'")
	more := sales(newRand(1), 50)
	produce(b, "orders", 1, more)
	b.caughtUp()
	b.query("CHECKPOINT")
	b.stop()
	all := slices.Concat(list, more)
	check := func() {
		t.Helper()
		b.caughtUp()
		b.verified("by_city")
		b.verified("total")
		if got := b.rows("SELECT orders FROM total"); got != "54\n" {
			t.Errorf("total: %s of %d", got, len(all))
		}
	}
	dir := filepath.Join(b.dir, checkpointsDir)

	b.lose()
	b.restoring("", "")
	b.refused("holds no state, but "+dir+" holds checkpoints: start with --restore newest to go on from checkpoint 2 of", sql)
	b.restoring("nine", "")
	b.refused(`there is no savepoint "nine"`, sql)
	b.restoring("newest", t.TempDir())
	b.refused("holds no checkpoint", sql)
	b.restoring("newest", "")
	b.refused("checkpoint 2 has by_city with another definition", strings.Replace(sql, "count(*) > 1", "count(*) > 2", 1))

	b.restoring("newest", "")
	b.must(sql)
	if got := b.run.store.Epoch(); got < manifestOf(t, dir, 2).Epoch {
		t.Errorf("epoch %d is below the checkpoint's", got)
	}
	check()
	b.stop()

	b.lose()
	b.restoring("early", "")
	b.must(sql)
	check()
	b.stop()

	b.lose()
	b.restoring("never", "")
	b.must(sql)
	check()
	b.stop()

	// Another machine: only the checkpoints are there, elsewhere. Of those the
	// newest is damaged, so an older one is used.
	v, _ := manifestOf(t, dir, 2).View("by_city")
	flip(t, filepath.Join(checkpointPath(dir, 2), filepath.FromSlash(v.File.Name)))
	b.dir = t.TempDir()
	b.restoring("2", dir)
	b.refused(v.File.Name+": damaged", sql)
	b.restoring("newest", dir)
	b.must(sql)
	check()
	b.stop()
}

func manifestOf(t *testing.T, dir string, id uint64) *checkpoint.Manifest {
	t.Helper()
	c, err := checkpoint.Open(vfs.Default, checkpoint.Path(vfs.Default, dir, id))
	if err != nil {
		t.Fatal(err)
	}
	return c.Manifest
}

// flip changes a bit in the middle of a file.
func flip(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)/2] ^= 4
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		t.Fatal(err)
	}
}

// A damaged state is put aside, never deleted, and only when that was asked for.
func TestRestoreOfADamagedState(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 1)
	produce(b, "orders", 0, sales(newRand(2), 100))
	sql := saleSQL("orders")
	dir := takenOf(b, sql)
	db := filepath.Join(b.dir, stateDir, "db")
	manifests, err := filepath.Glob(filepath.Join(db, "MANIFEST-*"))
	if err != nil || len(manifests) == 0 {
		t.Fatal(manifests, err)
	}
	for _, m := range manifests {
		if err := os.WriteFile(m, []byte("no manifest at all"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b.refused("the state is damaged", sql)
	b.refused("start with --restore newest to go on from checkpoint 1 of", sql)
	b.restoring("newest", "")
	b.must(sql)
	b.caughtUp()
	b.verified("by_city")
	b.stop()
	aside := func() int {
		t.Helper()
		dirs, err := filepath.Glob(filepath.Join(b.dir, stateDir+".damaged-*", "db"))
		if err != nil {
			t.Fatal(err)
		}
		return len(dirs)
	}
	if aside() != 1 {
		t.Errorf("%d damaged states were kept", aside())
	}

	// A table of Pebble that is gone, or cut.
	for i, damage := range []func(string) error{os.Remove, func(path string) error { return os.Truncate(path, 100) }} {
		tables, err := filepath.Glob(filepath.Join(db, "*.sst"))
		if err != nil || len(tables) == 0 {
			t.Fatal(tables, err)
		}
		if err := damage(tables[0]); err != nil {
			t.Fatal(err)
		}
		b.restoring("", "")
		b.refused("the state is damaged", sql)
		b.restoring("1", "")
		b.must(sql)
		b.caughtUp()
		b.verified("by_city")
		b.stop()
		if aside() != 2+i {
			t.Errorf("%d damaged states were kept", aside())
		}
	}

	// Without a checkpoint there is nothing to offer.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	manifests, _ = filepath.Glob(filepath.Join(db, "MANIFEST-*"))
	for _, m := range manifests {
		if err := os.WriteFile(m, []byte("no manifest at all"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b.restoring("", "")
	b.refused("there is no checkpoint to go on from", sql)
}

// A checkpoint whose next records are not in the topics any more is refused with
// partition and offsets.
func TestRestoreRefusesWhatKafkaNoLongerHas(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 1)
	produce(b, "orders", 0, sales(newRand(3), 20))
	sql := saleSQL("orders")
	takenOf(b, sql)
	produce(b, "orders", 0, sales(newRand(4), 20))
	if err := b.broker.Cluster().DeleteRecords("orders", 0, 30); err != nil {
		t.Fatal(err)
	}
	b.lose()
	b.restoring("newest", "")
	b.refused("topic orders partition 0: the checkpoint stands at offset 20, and the log now begins at 30: the records between are gone; restore a newer checkpoint, or begin anew with --restore never", sql)
	if err := b.broker.DeleteTopic("orders"); err != nil {
		t.Fatal(err)
	}
	b.refused("orders", sql) // no such topic
	b.topic("orders", 1)
	b.refused("it was created again, and its offsets mean other records", sql)
}

// Some views are restored; the others count again from the log's start.
func TestRestoreOfSomeViews(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 1)
	list := sales(newRand(5), 200)
	produce(b, "orders", 0, list)
	sql := saleSQL("orders") + "CREATE VIEW nothing AS SELECT 1 AS one; CREATE VIEW sums AS SELECT * FROM total;"
	takenOf(b, sql)
	from := b.dir
	data := filepath.Join(t.TempDir(), "new")
	refusedWith(t, "there is no materialized view by_town: the checkpoint has by_city", "restore", "--from", from, "--data", data, "--views", "by_town")
	refusedWith(t, "best is a plain view", "restore", "--from", from, "--data", data, "--views", "best")
	if _, err := os.Stat(data); err == nil {
		t.Error("a refused restore made its directory")
	}
	out := weirs(t, "restore", "--from", from, "--data", data, "--views", "BY_CITY")
	if !strings.Contains(out, "left out: total, sums\n") {
		t.Errorf("restore says: %s", out)
	}
	refusedWith(t, "not empty", "restore", "--from", from, "--data", data)
	b.dir = data
	b.must("")
	b.caughtUp()
	if got := b.rows("SELECT count(*) FROM best"); got != "3\n" {
		t.Errorf("best: %s", got)
	}
	if _, err := b.run.client.Query(t.Context(), "FROM total"); err == nil {
		t.Error("a view that was left out is there")
	}
	b.stop()
	b.must(sql)
	b.caughtUp()
	b.verified("by_city")
	b.verified("total")
	b.stop()
}

// A newer format, an unfinished checkpoint, and a missing file are refused by name
// before anything is written.
func TestRestoreRefusesByName(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 1)
	produce(b, "orders", 0, sales(newRand(6), 20))
	dir := takenOf(b, saleSQL("orders"))
	one := checkpointPath(dir, 1)
	data := filepath.Join(t.TempDir(), "new")
	name := filepath.Join(one, checkpoint.ManifestName)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	edit := func(from, to string, resum bool) {
		t.Helper()
		changed := strings.Replace(string(text), from, to, 1)
		if changed == string(text) {
			t.Fatalf("the manifest has no %s", from)
		}
		// The text is whole again: the checksum is that of the changed one.
		end := strings.LastIndex(changed, ",\n  \"checksum\": ")
		if resum {
			changed = changed[:end] + fmt.Sprintf(",\n  \"checksum\": \"sha256:%x\"\n}\n", sha256.Sum256([]byte(changed[:end])))
		}
		if err := os.WriteFile(name, []byte(changed), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	i := strings.Index(string(text), `"format_version": `)
	edit(string(text[i:i+len(`"format_version": `)+1]), `"format_version": 99`, true)
	refusedWith(t, "format is newer", "restore", "--from", one, "--data", data)
	edit(`"epoch": `, `"epoch": 1`, false)
	refusedWith(t, "damaged", "restore", "--from", one, "--data", data)
	if err := os.WriteFile(name, text, 0o644); err != nil {
		t.Fatal(err)
	}
	v, _ := manifestOf(t, dir, 1).View("total")
	if err := os.Remove(filepath.Join(one, filepath.FromSlash(v.File.Name))); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, v.File.Name+": missing", "restore", "--from", one, "--data", data)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, "00000001 holds no checkpoint: one is complete when it has a manifest.json", "restore", "--from", one, "--data", data)
	if _, err := os.Stat(data); err == nil {
		t.Error("a refused restore made its directory")
	}
}

// Where the disk is full a restore says so, leaves no half of a state, and can be
// tried again.
func TestRestoreOnAFullDisk(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 1)
	produce(b, "orders", 0, sales(newRand(74), 20))
	dir := takenOf(b, saleSQL("orders"))
	for _, what := range []string{".log", ".sst", "MANIFEST"} {
		mem := vfs.NewCrashableMem()
		full := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileWrite && strings.Contains(mem.PathBase(op.Path), what) {
				return syscall.ENOSPC
			}
			return nil
		}))
		_, err := restoreInto(t.Context(), vfs.Default, checkpointPath(dir, 1), "data/state", state.Options{FS: full}, checkpoint.Choice{})
		if err == nil || !strings.Contains(err.Error(), "no space left on device") || !strings.Contains(err.Error(), "nothing was restored: free space") {
			t.Errorf("%s: restored with %v", what, err)
		}
		if left, err := mem.List("data/state"); err != nil || slices.ContainsFunc(left, func(n string) bool { return n != "lock" }) {
			t.Errorf("%s: left are %q, %v", what, left, err)
		}
		again := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: newRand(1)}) // in another process
		if _, err := restoreInto(t.Context(), vfs.Default, checkpointPath(dir, 1), "data/state", state.Options{FS: again}, checkpoint.Choice{}); err != nil {
			t.Errorf("%s: with room again: %v", what, err)
		}
	}
}

// A directory that cannot be synced after the rename leaves a state, and the error
// says that.
func TestRestoreThatIsNotSynced(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 1)
	produce(b, "orders", 0, sales(newRand(77), 20))
	dir := takenOf(b, saleSQL("orders"))
	mem := vfs.NewMem()
	broken := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if _, err := mem.Stat("data/state/db"); err == nil && op.Kind == errorfs.OpFileSync && op.Path == "data/state" {
			return syscall.EIO
		}
		return nil
	}))
	_, err := restoreInto(t.Context(), vfs.Default, checkpointPath(dir, 1), "data/state", state.Options{FS: broken}, checkpoint.Choice{})
	if err == nil || !strings.Contains(err.Error(), "it is written, but a power cut may still undo that") || strings.Contains(err.Error(), "nothing was restored") {
		t.Errorf("restored with %v", err)
	}
	if _, err := mem.Stat("data/state/db"); err != nil {
		t.Error(err)
	}
}

// Views are named as they are, also with spaces and commas.
func TestRestoreOfViewsWithOddNames(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 1)
	produce(b, "orders", 0, sales(newRand(75), 20))
	takenOf(b, `
CREATE SOURCE orders (city VARCHAR) WITH (connector = 'kafka', topic = 'orders');
CREATE MATERIALIZED VIEW " y" AS SELECT count(*) AS n FROM orders;
CREATE MATERIALIZED VIEW "y" AS SELECT count(*) AS n FROM orders;
CREATE MATERIALIZED VIEW "a,b" AS SELECT count(*) AS n FROM orders;
CREATE MATERIALIZED VIEW "a" AS SELECT count(*) AS n FROM orders;`)
	for given, left := range map[string]string{" y": "y, a,b, a", "y": " y, a,b, a", `a\,b`: " y, y, a", "a, y": "y, a,b", "a , a\\,b": " y, y"} {
		out := weirs(t, "restore", "--from", b.dir, "--data", filepath.Join(t.TempDir(), "new"), "--views", given)
		if !strings.Contains(out, "left out: "+left+"\n") {
			t.Errorf("--views %q: %s", given, out)
		}
	}
}

// A statement that is none is told so.
func TestTransformWithoutAStatement(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 1)
	produce(b, "orders", 0, sales(newRand(76), 20))
	dir := takenOf(b, saleSQL("orders"))
	for _, sql := range []string{"-- nothing", ";", "/* total */"} {
		refusedWith(t, sql+": it has no statement", "checkpoint", "transform", dir, "--name", "n", "--sql="+sql)
	}
}
