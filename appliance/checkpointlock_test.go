//go:build duckdb_arrow

package appliance

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"weir/appliance/devbroker"
	"weir/checkpoint"
	"weir/checkpoint/objectstore"
	"weir/checkpoint/objectstore/fakes3"
	"weir/internal/atomicfile"
	"weir/queryable/client"
)

// TestOneWritesObjects: two appliances do not share a prefix of object storage, nor does
// a command write to that of an appliance. After a crash the same data directory goes on
// at once, and another one when the first has been silent; the first then writes
// nothing any more, and says why.
func TestOneWritesObjects(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", fakes3.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", fakes3.SecretKey)
	s3 := fakes3.Start(t)
	place := s3.Location("team/weir")
	on := func(lease objectstore.LeaseOptions, restore string) func(*config) {
		return func(c *config) { c.Checkpoints, c.lease, c.Restore = place, lease, restore }
	}
	lively := objectstore.LeaseOptions{Renew: 20 * time.Millisecond, Stale: time.Hour}
	silent := objectstore.LeaseOptions{Renew: time.Hour, Stale: time.Hour}
	const sql = "CREATE SOURCE s (a INTEGER) WITH (connector = 'kafka', topic = 's', format = 'json');" +
		"CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM s GROUP BY a;"
	first := newBed(t)
	first.topic("s", 1)
	count := func(b *bed) {
		t.Helper()
		b.send(&devbroker.Record{Topic: "s", Value: []byte(`{"a":1}`)})
		b.caughtUp()
	}
	first.config = on(lively, "")
	first.must(sql)
	count(first)
	first.query("CHECKPOINT")
	fsys := s3.FS(t, time.Minute, objectstore.Options{})
	text := func(name string) string {
		t.Helper()
		for {
			f, err := fsys.Open("team/weir/" + name)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(f)
			f.Close()
			switch {
			case err == nil:
				return string(b)
			case !strings.Contains(err.Error(), "was replaced while it was read"): // as a lock is, all the time
				t.Fatal(err)
			}
		}
	}
	put := func(name, text string) {
		t.Helper()
		err := atomicfile.Write(fsys, "team/weir/"+name, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
		if err != nil {
			t.Fatal(err)
		}
	}
	put("00000002/views/half.arrow", "half")
	inUse := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "s3://weir-test/team/weir is in use: an appliance runs on it, or a command writes to it") || !strings.Contains(err.Error(), "data directory "+first.dir) {
			t.Errorf("%s: %v", what, err)
		}
	}
	second := newBed(t)
	second.config = on(lively, "never")
	err := second.start()
	inUse("a second appliance", err)
	if err != nil && !strings.Contains(err.Error(), ownPlace) {
		t.Errorf("it does not say what to do: %v", err)
	}
	if got := text("00000002/views/half.arrow"); got != "half" {
		t.Error("a second appliance swept what the first writes")
	}
	other := s3.FS(t, time.Minute, objectstore.Options{})
	_, err = lockCheckpoints(other, "team/weir", locker{lease: lively}, slog.New(slog.DiscardHandler))
	inUse("a command", err)
	if err := other.RemoveAll("team/weir/00000001"); err == nil {
		t.Error("a command that was refused removes a checkpoint")
	}

	// A crash leaves the lock.
	left := text(lockFile)
	first.stop()
	if _, err := fsys.Stat("team/weir/" + lockFile); err == nil {
		t.Error("the lock stays behind")
	}
	put(lockFile, left)
	first.config = on(silent, "")
	first.must(sql)
	count(first)
	first.query("CHECKPOINT")

	// The first falls silent, and another takes the place over.
	took := newBed(t)
	took.topic("s", 1)
	took.config = on(objectstore.LeaseOptions{Renew: 20 * time.Millisecond, Stale: time.Nanosecond}, "never")
	took.must(sql)
	count(took)
	count(first)
	_, err = first.run.client.Query(t.Context(), "CHECKPOINT")
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Status != http.StatusConflict || !strings.Contains(e.Message, "data directory "+took.dir) || !strings.Contains(e.Message, ownPlace) {
		t.Errorf("a checkpoint of the first: %v", err)
	}
	if got := first.rows("FROM v"); got != "1 | 3\n" {
		t.Errorf("it counts no more: %s", got)
	}
	before := len(first.run.keeper.list())
	took.query("CHECKPOINT")
	if diff := cmp.Diff(before+1, len(took.run.keeper.list())); diff != "" {
		t.Error(diff)
	}
}

// TestReadWhileMadeWhole: who begins to read parts of a checkpoint in object storage
// while they are made one reads them to the end; after that they go.
func TestReadWhileMadeWhole(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", fakes3.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", fakes3.SecretKey)
	s3 := fakes3.Start(t)
	b := newBed(t)
	b.config = func(c *config) { c.Checkpoints = s3.Location("p") }
	send := b.countsKeys()
	send(12_000)
	b.query("CHECKPOINT")
	send(10)
	b.query("CHECKPOINT")
	k := b.run.keeper
	var table *checkpoint.Table
	var free func()
	var once sync.Once
	s3.Fail(func(_ int, r *http.Request) fakes3.Fault {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/v.arrow") {
			once.Do(func() { // the file that the parts become; nobody reads at the beginning
				free = k.pins.pin(2)
			})
		}
		return fakes3.None
	})
	err := k.read(2, func(c *checkpoint.Checkpoint) (err error) { table, err = c.Table("v"); return err })
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	if err := k.compact(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	s3.Fail(nil)
	if free == nil {
		t.Fatal("it was not made whole")
	}
	parts := k.fs.PathJoin(checkpoint.Path(k.fs, k.dir, 2), "views/v")
	left := func() int {
		t.Helper()
		names, err := k.fs.List(parts)
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	if n := left(); n != 2 {
		t.Fatalf("%d parts are left while somebody reads", n)
	}
	rows, err := table.Rows(t.Context(), nil, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	n := int64(0)
	for rows.Next() {
		n += rows.RecordBatch().NumRows()
	}
	if err := rows.Err(); err != nil || n != 12_000 {
		t.Errorf("%d rows: %v", n, err)
	}
	rows.Release()
	if got := b.rows("SELECT sum(n)::BIGINT FROM v AT (VERSION => 2)"); got != "12010\n" {
		t.Errorf("as one file: %s", got)
	}
	free()
	send(1)
	b.query("CHECKPOINT")
	if n := left(); n != 0 {
		t.Errorf("%d parts are left when nobody reads", n)
	}
	if got := b.rows("SELECT sum(n)::BIGINT FROM v AT (VERSION => 2)"); got != "12010\n" {
		t.Errorf("without the parts: %s", got)
	}
}
