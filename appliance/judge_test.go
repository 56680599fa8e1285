//go:build duckdb_arrow

package appliance

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/duckext"
	"weir/queryable"
	"weir/state/sqltype"
)

// A verdict counts what is wrong with a view, or with a quarantine.
type verdict struct {
	compared    int64
	missing     int64 // the oracle has it, Weir has not
	foreign     int64 // the other way round
	duplicate   int64 // Weir has it twice
	conflicting int64 // both have it, with other values
	examples    []string
}

func (v verdict) clean() bool { return v.missing+v.foreign+v.duplicate+v.conflicting == 0 }

func (v verdict) String() string {
	return fmt.Sprintf("compared %d, missing %d, foreign %d, duplicate %d, conflicting %d %s",
		v.compared, v.missing, v.foreign, v.duplicate, v.conflicting, strings.Join(v.examples, "; "))
}

// memTable is batches that DuckDB reads.
type memTable struct {
	cols []sqltype.Field
	recs []arrow.RecordBatch
}

func (m *memTable) Columns() []sqltype.Field { return m.cols }

func (m *memTable) Scan(_ context.Context, s duckext.ScanSpec) (array.RecordReader, error) {
	fields := make([]arrow.Field, len(s.Columns))
	for i, c := range s.Columns {
		fields[i] = m.cols[c].Type.InsideField(m.cols[c].Name)
	}
	schema := arrow.NewSchema(fields, nil)
	var out []arrow.RecordBatch
	if s.FromSlot == 0 {
		for _, rec := range m.recs {
			cols := make([]arrow.Array, len(s.Columns))
			for i, c := range s.Columns {
				cols[i] = rec.Column(c)
			}
			out = append(out, array.NewRecordBatch(schema, cols, rec.NumRows()))
		}
	}
	return array.NewRecordReader(schema, out)
}

// A judge recomputes views from the records that were written, with a DuckDB of
// its own that reads their JSON by itself.
type judge struct {
	t *testing.T
	s *duckext.Session
}

func newJudge(t *testing.T, log []written) *judge {
	t.Helper()
	s, err := openEngine(t).Session()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	j := &judge{t, s}
	cols := []sqltype.Field{
		{Name: "topic", Type: sqltype.MustParse("VARCHAR")}, {Name: "value", Type: sqltype.MustParse("VARCHAR")}, {Name: "unfit", Type: sqltype.MustParse("BIGINT")},
	}
	var fields []arrow.Field
	for _, c := range cols {
		fields = append(fields, c.Type.InsideField(c.Name))
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for _, w := range log {
		if w.fate == broken || w.fate == tombstone {
			continue
		}
		b.Field(0).(*array.StringBuilder).Append(w.topic)
		b.Field(1).(*array.StringBuilder).Append(w.value)
		b.Field(2).(*array.Int64Builder).Append(map[bool]int64{true: 1}[w.fate == unfit])
	}
	j.attach("log", &memTable{cols, []arrow.RecordBatch{b.NewRecordBatch()}})
	j.exec(`CREATE TEMP TABLE orders AS SELECT CAST(value->>'id' AS BIGINT) AS id, value->>'city' AS city, CAST(value->>'price' AS DECIMAL(12,2)) AS price,
		CAST(value->>'x' AS DOUBLE) AS x FROM log WHERE topic = 'orders'`)
	j.exec(`CREATE TEMP TABLE visits AS SELECT value->>'page' AS page, CAST(value->>'ms' AS DOUBLE) AS ms, CAST(value->>'who' AS BIGINT) AS who,
		value->>'note' AS note, unfit FROM log WHERE topic = 'visits'`)
	return j
}

func (j *judge) attach(name string, t duckext.Table) {
	j.t.Helper()
	if err := j.s.Attach(name, t, 1); err != nil {
		j.t.Fatal(err)
	}
}

func (j *judge) exec(sql string) {
	j.t.Helper()
	if err := j.s.Exec(sql); err != nil {
		j.t.Fatalf("%s: %v", sql, err)
	}
}

func (j *judge) query(sql string) arrow.RecordBatch {
	j.t.Helper()
	rec, err := j.s.Query(j.t.Context(), sql)
	if err != nil {
		j.t.Fatalf("%s: %v", sql, err)
	}
	return rec
}

// view compares every group of a view with the oracle's.
func (j *judge) view(a *Appliance, name string) (v verdict) {
	j.t.Helper()
	stored, ok := a.store.Catalog().View(name)
	if !ok {
		j.t.Fatalf("there is no view %s", name)
	}
	p := &stored.Plan
	rows, err := backend{a}.Scan(j.t.Context(), queryable.ScanRequest{View: name, ToSlot: 256})
	if err != nil {
		j.t.Fatal(err)
	}
	defer rows.Records.Release()
	actual := &memTable{}
	for _, c := range rows.Columns {
		actual.cols = append(actual.cols, c.Field)
	}
	for rows.Records.Next() {
		rec := rows.Records.RecordBatch()
		rec.Retain()
		actual.recs = append(actual.recs, rec)
	}
	if err := rows.Records.Err(); err != nil {
		j.t.Fatal(err)
	}
	j.attach("actual", actual)
	sql := p.Select
	if name == "strict" {
		sql = strings.Replace(sql, "FROM visits", "FROM visits WHERE unfit = 0", 1)
	}
	j.exec("CREATE OR REPLACE TEMP TABLE expected AS " + sql)
	on, keys, same := []string{"true"}, []string{}, []string{"a.__error IS NULL"}
	for _, r := range p.Results {
		n := quoteName(r.Name)
		switch {
		case r.Key >= 0:
			on, keys = append(on, "e."+n+" IS NOT DISTINCT FROM a."+n), append(keys, n)
		case r.Type.ID == sqltype.Double:
			same = append(same, fmt.Sprintf("(e.%s IS NOT DISTINCT FROM a.%s OR abs(e.%s - a.%s) <= 2.3e-16 * abs(e.%s))", n, n, n, n, n))
		default:
			same = append(same, "e."+n+" IS NOT DISTINCT FROM a."+n)
		}
	}
	joined := "FROM (SELECT *, 1 AS here FROM expected) AS e FULL JOIN (SELECT *, 1 AS here FROM actual) AS a ON " + strings.Join(on, " AND ")
	wrong := "e.here IS NOT NULL AND a.here IS NOT NULL AND NOT coalesce(" + strings.Join(same, " AND ") + ", false)"
	distinct := "1"
	if len(keys) > 0 {
		distinct = "(SELECT count(*) FROM (SELECT DISTINCT " + strings.Join(keys, ", ") + " FROM actual))"
	}
	rec := j.query("SELECT count(*), count(*) FILTER (WHERE a.here IS NULL), count(*) FILTER (WHERE e.here IS NULL), (SELECT count(*) FROM actual) - " + distinct +
		", count(*) FILTER (WHERE " + wrong + ") " + joined)
	for i, n := range []*int64{&v.compared, &v.missing, &v.foreign, &v.duplicate, &v.conflicting} {
		*n = rec.Column(i).(*array.Int64).Value(0)
	}
	if !v.clean() {
		v.examples = append(v.examples, renderAll(j.query("SELECT e, a "+joined+" WHERE e.here IS NULL OR a.here IS NULL OR "+wrong+" LIMIT 3")))
	}
	return v
}

// quarantine compares what stands in the quarantine of a source with what must.
func (j *judge) quarantine(a *Appliance, source string, log []written) (v verdict) {
	j.t.Helper()
	key := func(topic string, partition int32, offset int64, view string) string {
		return fmt.Sprintf("%s/%d@%d %s", topic, partition, offset, view)
	}
	want := map[string]string{}
	for _, w := range log {
		switch {
		case w.topic != source: // the topics are called as the sources
		case w.fate == broken:
			want[key(w.topic, w.partition, w.offset, "")] = w.value
		case w.fate == unfit:
			want[key(w.topic, w.partition, w.offset, "strict")] = w.value
		}
	}
	recs, err := (&running{Appliance: a}).refused(j.t.Context(), source)
	if err != nil {
		j.t.Fatal(err)
	}
	seen := map[string]bool{}
	say := func(what, k string) {
		if len(v.examples) < 5 {
			v.examples = append(v.examples, what+" "+k)
		}
	}
	for _, r := range recs {
		k := key(r.Topic, r.Partition, r.Offset, r.View)
		value, ok := want[k]
		switch {
		case !ok:
			v.foreign++
			say("foreign", k)
		case seen[k]:
			v.duplicate++
			say("duplicate", k)
		case string(r.Value) != value || r.Reason == "" || r.View != "" && r.Column != "sum(CAST(note AS INTEGER))":
			v.conflicting++
			say("conflicting", fmt.Sprintf("%s column %q reason %q value %q", k, r.Column, r.Reason, r.Value))
		default:
			v.compared++
		}
		seen[k] = true
	}
	for k := range want {
		if !seen[k] {
			v.missing++
			say("missing", k)
		}
	}
	return v
}
