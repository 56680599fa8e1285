//go:build duckdb_arrow

package appliance

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"weir/appliance/devbroker"
)

var emitExports = flag.String("emit-exports", "", "directory to export views into, for other readers to be tested on")

// TestEmitExports writes what export/iceberg/pytest reads: a table and a folder that
// an appliance exported after each of four checkpoints, a restart between them, and
// what SQL showed of these. Here it only has to be written.
func TestEmitExports(t *testing.T) {
	dir := *emitExports
	if dir == "" {
		dir = t.TempDir()
	}
	b := publishingBed(t)
	listen := b.config
	b.config = func(c *config) { listen(c); c.ExportDir = dir }
	const columns = `city, count(*) AS n, sum(amount) AS revenue, max("at") AS last FROM t GROUP BY city`
	schema := `CREATE SOURCE t (city VARCHAR, amount DECIMAL(12,2), "at" TIMESTAMP) WITH (connector = 'kafka', topic = 't', format = 'json');
CREATE MATERIALIZED VIEW by_city WITH (export = 'iceberg', export_to = 'exported/table', export_keep = '3') AS SELECT ` + columns + `;
CREATE MATERIALIZED VIEW as_parquet WITH (export = 'parquet', export_to = 'exported/folder', export_keep = '3') AS SELECT ` + columns + `;`
	b.must(schema)
	type shown struct {
		Epoch uint64              `json:"epoch"`
		Rows  [][]json.RawMessage `json:"rows"`
	}
	var all []shown
	for i := range 4 {
		var recs []*devbroker.Record
		for j := range 50 * (i + 1) {
			recs = append(recs, &devbroker.Record{Topic: "t", Partition: int32(j % 2), Value: fmt.Appendf(nil, `{"city":"city %d ü","amount":%d.25,"at":"2026-11-29T18:%02d:00.000001"}`, j%(10+i), j*i, j%60)})
		}
		b.send(recs...)
		b.caughtUp()
		n := b.exported()
		e := b.status("by_city")
		if e.Checkpoint != n || e.Error != "" {
			t.Fatalf("checkpoint %d: %+v", n, e)
		}
		all = append(all, shown{Epoch: e.Epoch, Rows: b.query(fmt.Sprintf("SELECT city, n, revenue, last FROM by_city AT (VERSION => %d)", n)).Rows})
		if i == 1 {
			b.stop()
			b.must(schema)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "exported", "shown.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
}
