//go:build duckdb_arrow

package appliance

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/appliance/devbroker"
	"weir/checkpoint"
	"weir/checkpoint/objectstore"
	"weir/checkpoint/objectstore/fakes3"
)

// TestCheckpointsInObjectStorage takes, reads, downloads and restores checkpoints
// that are nowhere on the disk; counting goes on while the store is away.
func TestCheckpointsInObjectStorage(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", fakes3.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", fakes3.SecretKey)
	store := fakes3.Start(t)
	place := store.Location("team/weir")
	b := newBed(t)
	b.config = func(c *config) {
		c.Checkpoints, c.objects = place, objectstore.Options{Retry: time.Second, Backoff: time.Millisecond}
	}
	b.topic("s", 1)
	const sql = "CREATE SOURCE s (a INTEGER) WITH (connector = 'kafka', topic = 's', format = 'json');" +
		"CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM s GROUP BY a;"
	b.must(sql)
	send := func() {
		t.Helper()
		b.send(&devbroker.Record{Topic: "s", Value: []byte(`{"a":1}`)}, &devbroker.Record{Topic: "s", Value: []byte(`{"a":2}`)})
		b.caughtUp()
	}
	send()
	b.query("CHECKPOINT")
	send()
	b.query("CHECKPOINT")
	if got := b.rows("SELECT x.n, y.n FROM v x JOIN (FROM v AT (VERSION => 1)) y USING (a) ORDER BY a"); got != "2 | 1\n2 | 1\n" {
		t.Errorf("time travel: %s", got)
	}
	if onDisk, err := checkpoint.List(vfs.Default, filepath.Join(b.dir, checkpointsDir)); err != nil || onDisk != nil {
		t.Errorf("checkpoints on the disk: %v, %v", onDisk, err)
	}

	status, text, err := b.run.get("/api/v1/checkpoints/2")
	var m checkpoint.Manifest
	if err != nil || status != http.StatusOK || json.Unmarshal([]byte(text), &m) != nil || m.Checkpoint != 2 {
		t.Fatalf("manifest: %d, %v, %s", status, err, text)
	}
	status, file, err := b.run.get("/api/v1/checkpoints/2/v.arrow")
	if err != nil || status != http.StatusOK {
		t.Fatalf("download: %d, %v, %s", status, err, file)
	}
	if m.Views[0].File.Name != "" {
		if sum := sha256.Sum256([]byte(file)); fmt.Sprintf("%x", sum) != m.Views[0].File.SHA256 {
			t.Error("the file that was downloaded is not that of the manifest")
		}
	}

	// The store goes away while Weir stops and starts.
	store.Fail(func(int, *http.Request) fakes3.Fault { return fakes3.Error500 })
	b.stop()
	b.must(sql)
	send()
	if _, err := b.run.client.Query(t.Context(), "CHECKPOINT"); err == nil || !strings.Contains(err.Error(), "object store") {
		t.Errorf("a checkpoint without a store: %v", err)
	}
	if got := b.rows("SELECT * FROM v ORDER BY a"); got != "1 | 3\n2 | 3\n" {
		t.Errorf("without a store: %s", got)
	}
	store.Fail(nil)
	b.query("CHECKPOINT")
	b.verified("v")
	b.stop()

	data := t.TempDir()
	weir := func(args ...string) (int, string) {
		var out, errs bytes.Buffer
		code := Main(args, strings.NewReader(""), &out, &errs)
		return code, out.String() + errs.String()
	}
	from := func(id int) string { return store.Location(fmt.Sprintf("team/weir/%08d", id)) }
	if code, text := weir("restore", "--from", from(99), "--data", data); code != 1 || !strings.Contains(text, "team/weir/00000099") {
		t.Errorf("no such checkpoint: %d, %s", code, text)
	}
	if code, text := weir("checkpoint", "verify", place); code != 0 || strings.Count(text, "whole") != 3 {
		t.Errorf("verify: %d, %s", code, text)
	}
	if code, text := weir("restore", "--from", from(2), "--data", data); code != 0 {
		t.Fatal(text)
	}
	b.dir = data
	b.must(sql)
	b.caughtUp()
	b.verified("v")
	if got := b.rows("SELECT * FROM v ORDER BY a"); got != "1 | 3\n2 | 3\n" {
		t.Errorf("restored: %s", got)
	}
	for _, place := range []string{"s3://", "s3://key:secret@bucket/p"} {
		if code, text := weir("demo", "--data", t.TempDir(), "--checkpoints", place); code != 2 || strings.Contains(text, "secret@") {
			t.Errorf("%s: %d, %s", place, code, text)
		}
	}
}
