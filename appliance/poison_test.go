//go:build duckdb_arrow

package appliance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/appliance/devbroker"
	"weir/duckext"
)

const numbersSQL = `
CREATE SOURCE numbers (n BIGINT, x BIGINT) WITH (connector = 'kafka', topic = 'numbers');
CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS c, sum(x) AS x, max(n) AS n FROM numbers;
`

// depthsSQL has a key that crashes DuckDB 1.5.6, in the process that runs it, for
// n of some 100,000: json_structure recurses once a level.
const depthsSQL = `
CREATE MATERIALIZED VIEW depths AS
SELECT length(json_structure(repeat('[', n) || repeat(']', n))::VARCHAR) AS size, count(*) AS c, sum(x) AS x FROM numbers GROUP BY size;
`

const poison = 100_000

// TestPoison feeds an appliance a record on which DuckDB crashes. The life that
// reads it ends; the next finds the record, refuses it for that view alone, and
// goes on by itself. The record is new in one case, and in the other among old
// ones, which a new view reads with a cursor of its own.
func TestPoison(t *testing.T) {
	t.Run("new", func(t *testing.T) { testPoison(t, numbersSQL+depthsSQL) })
	t.Run("old", func(t *testing.T) { testPoison(t, numbersSQL) })
}

func testPoison(t *testing.T, firstSQL string) {
	b := newBed(t)
	b.topic("numbers", 2)
	n := 0
	number := func(v int) *devbroker.Record {
		n++
		return &devbroker.Record{Topic: "numbers", Partition: int32(n % 2), Timestamp: time.UnixMilli(int64(1000 + n)), Value: fmt.Appendf(nil, `{"n":%d,"x":%d}`, v, n)}
	}
	live := func(sql string) *victimProcess {
		return startVictim(t, victimSpec{Data: b.dir, Brokers: b.broker.Addr(), SQL: sql, UntilCaughtUp: true})
	}
	var first []*devbroker.Record
	for i := range 500 {
		first = append(first, number(1+i%3))
	}
	second := []*devbroker.Record{number(1), number(2), number(poison), number(1)}
	for i := range 200 {
		second = append(second, number(1+i%3))
	}
	b.send(first...)
	if !strings.Contains(firstSQL, depthsSQL) {
		b.send(second...)
	}
	v := live(firstSQL)
	if err := v.exit(patience); err != nil {
		t.Fatalf("without poison: %v\n%s", err, v.log())
	}
	if strings.Contains(firstSQL, depthsSQL) {
		b.send(second...)
	}
	const poisonSQL = numbersSQL + depthsSQL
	v = live(poisonSQL)
	if err := v.exit(patience); err == nil || !strings.Contains(v.whole(), "SIGSEGV") {
		t.Fatalf("the poison did nothing: %v\n%s", err, v.log())
	}
	v = live(poisonSQL)
	if err := v.exit(patience); err != nil {
		t.Fatalf("after the crash: %v\n%s", err, v.log())
	}
	for _, want := range []string{"a batch did not come to its end", "evaluates with care ended"} {
		if !strings.Contains(v.whole(), want) {
			t.Errorf("not in the log: %s\n%s", want, v.log())
		}
	}

	// What it wrote, and that what comes now is evaluated as usual.
	b.must(poisonSQL)
	b.send(number(1), number(2))
	b.caughtUp()
	if b.run.guard.Running() {
		t.Error("batches are evaluated with care for ever")
	}
	all, sum := int64(n), int64(n)*int64(n+1)/2
	if got, want := b.rows("SELECT c, x, n FROM totals"), fmt.Sprintf("%d | %q | %d\n", all, fmt.Sprint(sum), poison); got != want {
		t.Errorf("the other view: %s, want %s", got, want)
	}
	bad := second[2]
	x := int64(503)
	if got, want := b.rows("SELECT sum(c), sum(x), count(*) FROM depths"), fmt.Sprintf("%q | %q | 3\n", fmt.Sprint(all-1), fmt.Sprint(sum-x)); got != want {
		t.Errorf("the view: %s, want %s", got, want)
	}
	b.verified("totals")
	if rep := b.verified("depths"); rep.excluded != 1 {
		t.Errorf("VERIFY leaves out %d records", rep.excluded)
	}
	status, body, err := b.run.get("/api/v1/sources/numbers/quarantine")
	if err != nil || status != 200 {
		t.Fatal(status, body, err)
	}
	var quarantine struct {
		Records []struct {
			View, Column, Reason string
			Partition            int32
			Offset               int64
		}
	}
	if err := json.Unmarshal([]byte(body), &quarantine); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if len(quarantine.Records) != 1 {
		t.Fatalf("quarantine: %d records, %.1000s", len(quarantine.Records), body)
	}
	r := quarantine.Records[0]
	if r.View != "depths" || r.Column != "size" || !strings.HasPrefix(r.Reason, "DuckDB crashed on this record") || r.Partition != bad.Partition || r.Offset != bad.Offset {
		t.Errorf("quarantined as %+v, want partition %d offset %d", r, bad.Partition, bad.Offset)
	}
	b.stop()
	if _, err := os.Stat(filepath.Join(b.dir, inflightFile)); err != nil {
		t.Error(err)
	}
}

// A DuckDB that has broken for good ends the appliance, so that a restart may
// look at the batch with care.
func TestBrokenDuckDBEndsTheAppliance(t *testing.T) {
	b := newBed(t)
	b.topic("numbers", 1)
	b.must(numbersSQL)
	r := b.run
	b.run = nil
	r.broke(&duckext.EngineError{Kind: "INTERNAL", Message: "assertion failed", Fatal: true})
	select {
	case err := <-r.ended:
		if err == nil || !strings.Contains(err.Error(), "assertion failed") || !strings.Contains(err.Error(), "start Weir again") {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("it goes on")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// whole is all that it wrote.
func (v *victimProcess) whole() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.output.String()
}
