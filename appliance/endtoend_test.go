//go:build duckdb_arrow

package appliance

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/appliance/devbroker"
	"weir/internal/recordbatch"
	"weir/queryable"
)

var jsonViewsFlag = flag.Int("json-views", 40, "generated views of TestDifferentialOverKafka")

// TestDifferentialOverKafka is the differential test in small, on the whole way
// from JSON in Kafka to a scan, with a restart in the middle.
func TestDifferentialOverKafka(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d (-seed)", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	b := newBed(t)
	b.topic("src", 4)
	d := newDifferential(t)
	rows := generateRows(r, 200)

	var sql strings.Builder
	var defs []string
	for _, c := range d.columns {
		defs = append(defs, c.name+" "+c.typ)
	}
	fmt.Fprintf(&sql, "CREATE SOURCE src (%s) WITH (connector = 'kafka', topic = 'src', format = 'json');\n", strings.Join(defs, ", "))
	views := make([]*generated, *jsonViewsFlag)
	for i := range views {
		views[i] = generateView(r)
		fmt.Fprintf(&sql, "CREATE MATERIALIZED VIEW v%d AS %s;\n", i, views[i].sql)
	}
	b.must(sql.String())
	send := func(rows []dataRow) {
		var recs []*devbroker.Record
		for _, row := range rows {
			var doc strings.Builder
			for i, c := range d.columns {
				if row[i].json == "null" && r.IntN(2) == 0 {
					continue // a key that is missing is NULL as well
				}
				fmt.Fprintf(&doc, `,%q:%s`, c.name, row[i].json)
			}
			if doc.Len() == 0 {
				doc.WriteString(`,"nothing":[]`)
			}
			recs = append(recs, &devbroker.Record{Topic: "src", Partition: int32(r.IntN(4)), Value: []byte("{" + doc.String()[1:] + "}")})
		}
		b.send(recs...)
	}
	send(rows[:120])
	b.caughtUp()
	b.stop()
	send(rows[120:])
	b.must(sql.String())
	b.caughtUp()
	if refused, err := b.run.refused(t.Context(), "src"); err != nil || len(refused) > 0 {
		t.Fatalf("quarantined: %+v, %v", refused, err)
	}

	s := d.load(t, rows)
	defer s.Close()
	for i, g := range views {
		name := fmt.Sprintf("v%d", i)
		stored, _ := b.run.store.Catalog().View(name)
		oracle, bounds := g.oracle()
		got := b.scan(name)
		if diff := diffRows(&diffView{generated: g, plan: &stored.Plan}, got, d.query(t, s, oracle), bounds); diff != "" {
			t.Errorf("%s\n%s", g.sql, diff)
		}
		if res := b.query("SELECT * FROM " + name); int64(len(res.Rows)) != got.NumRows() {
			t.Errorf("SQL has %d rows, the scan %d: %s", len(res.Rows), got.NumRows(), g.sql)
		}
		if b.verified(name); t.Failed() {
			t.Fatal(g.sql)
		}
	}
}

// scan reads a whole view as one batch, without its column of errors.
func (b *bed) scan(name string) arrow.RecordBatch {
	b.t.Helper()
	rows, err := backend{b.run.Appliance}.Scan(b.t.Context(), queryable.ScanRequest{View: name, ToSlot: 256})
	if err != nil {
		b.t.Fatal(err)
	}
	defer rows.Records.Release()
	parts := []arrow.RecordBatch{}
	for rows.Records.Next() {
		rec := rows.Records.RecordBatch()
		rec.Retain()
		parts = append(parts, rec)
	}
	if err := rows.Records.Err(); err != nil {
		b.t.Fatal(err)
	}
	if len(parts) == 0 {
		return emptyOf(rows.Records.Schema())
	}
	all, err := recordbatch.Concat(parts, memory.DefaultAllocator)
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}
