//go:build duckdb_arrow

package appliance

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/appliance/devbroker"
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
		f, err := fsys.Open("team/weir/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
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
