//go:build duckdb_arrow

package appliance

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"weir/appliance/devbroker"
)

// TestCommittedBeforeTheStart: the status tells when the last commit was, not when the
// process was started; of a state that was restored nobody knows.
func TestCommittedBeforeTheStart(t *testing.T) {
	b := newBed(t)
	b.topic("o", 1)
	const sql = `CREATE SOURCE o (k BIGINT) WITH (connector = 'kafka', topic = 'o', format = 'json');
CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM o GROUP BY k;`
	b.must(sql)
	b.send(&devbroker.Record{Topic: "o", Value: []byte(`{"k":1}`)})
	b.caughtUp()
	id := b.checkpoint()
	status := func() (s struct {
		Epoch     uint64
		Committed *string
	},
	) {
		t.Helper()
		_, body, err := b.run.get("/api/v1/status")
		if err != nil || json.Unmarshal([]byte(body), &s) != nil {
			t.Fatal(body, err)
		}
		return s
	}
	before := status()
	b.stop()
	b.away() // nothing can be committed from now on
	b.must(sql)
	after := status()
	if before.Committed == nil || after.Committed == nil || after.Epoch != before.Epoch || *after.Committed != *before.Committed {
		t.Errorf("epoch %d is epoch %d after a start, committed then, not when it was", before.Epoch, after.Epoch)
	}
	b.stop()
	data := t.TempDir()
	weirs(t, "restore", "--from", filepath.Join(b.dir, checkpointsDir, fmt.Sprintf("%08d", id)), "--data", data)
	b.dir = data
	b.must(sql)
	if s := status(); s.Epoch != before.Epoch || s.Committed != nil {
		t.Errorf("restored: epoch %d of %v, not %d", s.Epoch, s.Committed, before.Epoch)
	}
}

// TestACheckpointMakesNothingYounger: without a broker a checkpoint commits an epoch, and
// what readers see is as old as before.
func TestACheckpointMakesNothingYounger(t *testing.T) {
	b := newBed(t)
	b.topic("numbers", 1)
	b.must(numbersOnlySQL)
	b.send(&devbroker.Record{Topic: "numbers", Value: []byte(`{"n":1}`)})
	b.caughtUp()
	status := func() (s struct {
		Epoch     uint64
		Committed string
		Waiting   []string
	},
	) {
		t.Helper()
		_, body, err := b.run.get("/api/v1/status")
		if err != nil || json.Unmarshal([]byte(body), &s) != nil {
			t.Fatal(body, err)
		}
		return s
	}
	if s := status(); s.Committed == "" || s.Waiting != nil {
		t.Errorf("with a broker: %+v", s)
	}
	b.away()
	b.becomes("/api/v1/sources", "waiting", "null", "")
	before := status()
	b.checkpoint()
	after := status()
	if after.Epoch <= before.Epoch || after.Committed != before.Committed || len(after.Waiting) != 1 || after.Waiting[0] != "numbers" {
		t.Errorf("epoch %d of %s is followed by %d of %s; waiting: %q", before.Epoch, before.Committed, after.Epoch, after.Committed, after.Waiting)
	}
}
