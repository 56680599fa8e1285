//go:build duckdb_arrow

package appliance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"weir/appliance/devbroker"
	"weir/checkpoint"
	"weir/internal/atomicfile"
	"weir/queryable/client"
	"weir/state"
)

// TestCheckpointsAddWhatChanged: a large view of which little changes is a base and
// deltas, through a restart, too; SQL, HTTP and a restore read them as what SQL
// showed at that epoch, before and after they were made whole.
func TestCheckpointsAddWhatChanged(t *testing.T) {
	b := newBed(t)
	b.topic("o", 1)
	b.must(`CREATE SOURCE o (k BIGINT, x BIGINT) WITH (connector = 'kafka', topic = 'o', format = 'json');
CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n, sum(x) AS total, avg(x) AS mean FROM o GROUP BY k HAVING sum(x) > 0;
CREATE MATERIALIZED VIEW small AS SELECT x, count(*) AS n FROM o GROUP BY x;`)
	send := func(from, to, step int) {
		var recs []*devbroker.Record
		for k := from; k < to; k += step {
			recs = append(recs, &devbroker.Record{Topic: "o", Value: fmt.Appendf(nil, `{"k":%d,"x":%d}`, k, k%7)})
		}
		b.send(recs...)
		b.caughtUp()
	}
	const sums = "SELECT count(*), sum(n), sum(total), sum(mean), sum(k * total) FROM v"
	var shown []string // by checkpoint, from 1
	take := func(parts int) {
		t.Helper()
		shown = append(shown, b.rows(sums))
		id := b.checkpoint()
		c, err := b.run.keeper.open(id)
		if err != nil {
			t.Fatal(err)
		}
		v, _ := c.Manifest.View("v")
		small, _ := c.Manifest.View("small")
		if int(id) != len(shown) || len(v.Files()) != parts || !small.Whole() {
			t.Fatalf("checkpoint %d has %d files of v", id, len(v.Files()))
		}
	}
	same := func(what string) {
		t.Helper()
		for i, want := range shown {
			if got := b.rows(fmt.Sprintf("%s AT (VERSION => %d)", sums, i+1)); got != want {
				t.Errorf("%s: version %d: %s, want %s", what, i+1, got, want)
			}
		}
	}
	send(0, 12_000, 1)
	take(1)
	send(0, 12_000, 400)
	send(12_000, 12_010, 1)
	take(2)
	send(3, 12_010, 1000)
	take(3)
	same("as parts")

	res := b.ask("GET", "/api/v1/checkpoints/3/v.arrow")
	file, err := ipc.NewFileReader(bytes.NewReader(b.body(res)))
	if err != nil {
		t.Fatal(res.Status, err)
	}
	rows := int64(0)
	for i := range file.NumRecords() {
		rec, err := file.RecordBatchAt(i)
		if err != nil {
			t.Fatal(err)
		}
		rows += rec.NumRows()
	}
	if rows != 12_010 {
		t.Errorf("the file of checkpoint 3 has %d rows", rows)
	}
	restored := filepath.Join(t.TempDir(), "state")
	if _, err := checkpoint.Restore(t.Context(), checkpoint.Path(vfs.Default, b.run.keeper.dir, 3), restored, state.Options{}); err != nil {
		t.Fatal(err)
	}
	s, err := state.Open(restored, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sn, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	v, _ := sn.Catalog().View("v")
	if n := sn.Stats(v.ID).Groups; n != 12_010 {
		t.Errorf("%d groups restored", n)
	}
	sn.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	for id := range uint64(3) {
		if err := b.run.keeper.compact(t.Context(), id+1); err != nil {
			t.Fatal(err)
		}
	}
	same("made whole")
	b.stop()
	if err := b.start(); err != nil {
		t.Fatal(err)
	}
	b.run.keeper.o.Count = 9
	same("after a restart")
	send(5, 12_010, 800)
	take(2)
	same("after a restart, based on one from before")
	b.verified("v")
}

// countsKeys has a view v of how often each key k of topic o came. The function
// sends the keys below n, and waits until they are counted.
func (b *bed) countsKeys() (send func(n int)) {
	b.topic("o", 1)
	b.must(`CREATE SOURCE o (k BIGINT) WITH (connector = 'kafka', topic = 'o', format = 'json');
CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM o GROUP BY k;`)
	return func(n int) {
		var recs []*devbroker.Record
		for k := range n {
			recs = append(recs, &devbroker.Record{Topic: "o", Value: fmt.Appendf(nil, `{"k":%d}`, k)})
		}
		b.send(recs...)
		b.caughtUp()
	}
}

// TestManyDeltasAreMadeWhole: also after checkpoints that somebody asked for.
func TestManyDeltasAreMadeWhole(t *testing.T) {
	b := newBed(t)
	send := b.countsKeys()
	send(12_000)
	b.query("CHECKPOINT")
	send(1200)
	b.query("CHECKPOINT")
	send(1200) // deltas are a fifth of the view
	b.query("CREATE SAVEPOINT 'third'")
	late := time.After(patience)
	for {
		c, err := b.run.keeper.open(3)
		if err != nil {
			t.Fatal(err)
		}
		if v, _ := c.Manifest.View("v"); v.Whole() {
			break
		}
		select {
		case <-time.After(20 * time.Millisecond): // nobody is told
		case <-late:
			t.Fatal("the savepoint keeps its deltas")
		}
	}
	b.verified("v")
}

// TestOneWritesCheckpoints: two appliances do not share a directory, by whatever
// path; nor does a command write into that of an appliance.
func TestOneWritesCheckpoints(t *testing.T) {
	place := filepath.Join(t.TempDir(), "elsewhere")
	b := newBed(t)
	b.config = func(c *config) { c.Checkpoints = place }
	b.topic("orders", 1)
	produce(b, "orders", 0, []sale{{"Paris", "1.50", "1"}, {"Rome", "2.50", "2"}})
	b.must(saleSQL("orders"))
	b.caughtUp()
	b.query("CHECKPOINT")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(place, link); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(place, atomicfile.TempPrefix+"half")
	if err := os.Mkdir(half, 0o755); err != nil {
		t.Fatal(err)
	}
	const drop = "DELETE FROM by_city WHERE city = 'Paris'"
	for _, dir := range []string{place, link} {
		refusedWith(t, "is in use: an appliance runs on it", "checkpoint", "transform", dir, "--name", "x", "--sql", drop)
		refusedWith(t, "is in use: an appliance runs on it", "checkpoint", "compact", dir)
		other := newBed(t)
		other.config = func(c *config) { c.Checkpoints, c.Restore = dir, "never" }
		if err := other.start(); err == nil || !strings.Contains(err.Error(), "give each appliance --checkpoints of its own") {
			t.Errorf("a second appliance on %s: %v", dir, err)
		}
	}
	if !isDir(half) {
		t.Error("a second appliance swept what the first writes")
	}
	b.stop()
	weirs(t, "checkpoint", "transform", link, "--name", "x", "--sql", drop)
	weirs(t, "checkpoint", "transform", link+"@x", "--name", "y", "--sql", "DELETE FROM by_city WHERE city = 'Rome'")
}

// TestFullDisk: whoever asks for a checkpoint is told what to do.
func TestFullDisk(t *testing.T) {
	b := newBed(t)
	b.topic("o", 1)
	b.must(`CREATE SOURCE o (k BIGINT) WITH (connector = 'kafka', topic = 'o', format = 'json');
CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM o GROUP BY k;`)
	k := b.run.keeper
	whole := k.fs
	for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		k.fs = errorfs.Wrap(whole, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileWrite {
				return &os.PathError{Op: "write", Path: op.Path, Err: full}
			}
			return nil
		}))
		for _, sql := range []string{"CHECKPOINT", "CREATE SAVEPOINT 's'"} {
			_, err := b.run.client.Query(t.Context(), sql)
			if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != http.StatusServiceUnavailable || !strings.Contains(e.Message, "is full") || !strings.Contains(e.Message, "free space") {
				t.Errorf("%s with %v: %v", sql, full, err)
			}
		}
	}
	k.fs = whole
	if list := k.list(); len(list) != 0 {
		t.Errorf("%d checkpoints on a full disk", len(list))
	}
	b.checkpoint()
}

// TestCheckpointsAreDue: by time and by records, and not when nothing happened.
func TestCheckpointsAreDue(t *testing.T) {
	b := newBed(t)
	b.topic("o", 1)
	b.must(`CREATE SOURCE o (k BIGINT) WITH (connector = 'kafka', topic = 'o', format = 'json');
CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM o GROUP BY k;`)
	k := b.run.keeper
	due := func(want bool, since time.Duration, what string) {
		t.Helper()
		if got, err := k.due(since, keeping{every: time.Hour, records: 5}); err != nil || got != want {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	send := func(n int) {
		for range n {
			b.send(&devbroker.Record{Topic: "o", Value: []byte(`{"k":1}`)})
		}
		b.caughtUp()
	}
	send(4)
	due(false, time.Minute, "fewer records, and less time")
	due(true, 2*time.Hour, "it is time")
	send(1)
	due(true, time.Minute, "enough records")
	b.checkpoint()
	due(false, 2*time.Hour, "nothing happened since the last")
	send(4)
	due(false, time.Minute, "fewer records since the last")

	if _, err := k.take(t.Context(), "", 1); err != nil {
		t.Fatal(err)
	}
	if ms := k.list(); len(ms) != 2 || ms[1].Epoch != k.store.Epoch() {
		t.Errorf("%d checkpoints", len(ms))
	}
	due(false, 2*time.Hour, "nothing happened since that")
}

// TestCheckpointsByVolume: the keeper takes one when commits have written enough,
// looks every second, counts from the last one, and does not press a disk that
// refuses.
func TestCheckpointsByVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		store, err := state.Open("state", state.Options{FS: mem})
		if err != nil {
			t.Fatal(err)
		}
		var full atomic.Bool
		tries := 0
		disk := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if !full.Load() || !strings.HasSuffix(op.Path, checkpoint.ManifestName) || op.Kind != errorfs.OpCreate {
				return nil
			}
			tries++
			return syscall.ENOSPC
		}))
		commit := func(bytes int) {
			t.Helper()
			if _, err := store.ReplaceSource(state.Source{Name: "s", SQL: strings.Repeat("x", bytes)}); err != nil {
				t.Fatal(err)
			}
		}
		commit(1)
		k, err := newKeeper(disk, "ck", locker{}, store, nil, keeping{every: time.Hour, bytes: 10_000, Retention: checkpoint.Retention{Count: 9}}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- k.run(ctx) }()
		after := func(d time.Duration, want int, what string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := len(k.list()); got != want {
				t.Errorf("%s: %d checkpoints, want %d", what, got, want)
			}
		}
		commit(9_000)
		after(10*time.Second, 0, "a little below")
		commit(2_000)
		after(2*time.Second, 1, "above")
		after(time.Minute, 1, "nothing more was written")
		commit(4_000)
		after(10*time.Second, 1, "less since the last")
		commit(7_000)
		after(2*time.Second, 2, "enough since the last")
		commit(100)
		after(time.Hour, 3, "time counts as well")

		full.Store(true)
		commit(11_000)
		after(30*time.Second, 3, "on a full disk")
		if tries != 1 {
			t.Errorf("%d tries in half a minute", tries)
		}
		full.Store(false)
		after(2*afterFailure, 4, "with room again")
		cancel()
		if err := errors.Join(<-ended, k.close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
}

// TestOldCheckpointsGo: by age also while nothing is counted, but for the newest and
// for savepoints; and the newest is known after a start.
func TestOldCheckpointsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		store, err := state.Open("state", state.Options{FS: mem})
		if err != nil {
			t.Fatal(err)
		}
		open := func() *keeper {
			t.Helper()
			k, err := newKeeper(mem, "ck", locker{}, store, nil, keeping{every: time.Hour, Retention: checkpoint.Retention{Count: 9, Age: 30 * time.Minute}}, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		k := open()
		if k.shown != 0 {
			t.Errorf("before the first: epoch %d", k.shown)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- k.run(ctx) }()
		take := func(savepoint string) {
			t.Helper()
			if _, err := store.ReplaceSource(state.Source{Name: "s", SQL: time.Now().String()}); err != nil {
				t.Fatal(err)
			}
			if _, err := k.take(t.Context(), savepoint, 0); err != nil {
				t.Fatal(err)
			}
		}
		after := func(d time.Duration, want ...uint64) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			var got []uint64
			for _, m := range k.list() {
				got = append(got, m.Checkpoint)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v: %v, want %v", d, got, want)
			}
		}
		take("")
		take("kept")
		take("")
		time.Sleep(10 * time.Minute)
		take("")
		epoch := store.Epoch()
		after(19*time.Minute, 1, 2, 3, 4)
		after(32*time.Minute, 2, 4)
		after(5*time.Hour, 2, 4)
		cancel()
		if err := errors.Join(<-ended, k.close()); err != nil {
			t.Error(err)
		}
		if k = open(); k.shown != epoch || epoch == 0 {
			t.Errorf("after a start the newest is of epoch %d, not %d", k.shown, epoch)
		}
		if err := errors.Join(k.close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
}
