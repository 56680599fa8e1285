//go:build duckdb_arrow

package appliance

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

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

// logged is a log that may be read while it is written.
type logged struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logged) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// TestACheckpointMakesNothingYounger: without a broker a checkpoint commits an epoch, and
// what readers see is as old as before. The log says that the source waits.
func TestACheckpointMakesNothingYounger(t *testing.T) {
	b := newBed(t)
	b.topic("numbers", 1)
	var said logged
	b.config = func(c *config) { c.log = slog.New(slog.NewTextHandler(&said, nil)) }
	b.must(numbersOnlySQL)
	b.send(&devbroker.Record{Topic: "numbers", Value: []byte(`{"n":1}`)})
	b.caughtUp()
	b.query("CREATE VIEW plain AS SELECT n FROM v")
	if got := b.rows("SHOW VIEWS"); !strings.Contains(got, `"plain" | "view" | "" | "running" | null | null`) { // nobody counts its rows
		t.Error(got)
	}
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
	const waits = `msg="the source waits for its broker or topic" source=numbers`
	for end := time.After(patience); !strings.Contains(said.text(), waits); {
		select {
		case <-time.After(20 * time.Millisecond): // a line of the log has no event
		case <-end:
			t.Fatalf("the log does not say that the source waits: %s", said.text())
		}
	}
	before := status()
	b.checkpoint()
	after := status()
	if after.Epoch <= before.Epoch || after.Committed != before.Committed || len(after.Waiting) != 1 || after.Waiting[0] != "numbers" {
		t.Errorf("epoch %d of %s is followed by %d of %s; waiting: %q", before.Epoch, before.Committed, after.Epoch, after.Committed, after.Waiting)
	}
}
