package checkpoint

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state"
	"weir/state/agg"
	"weir/state/plan"
	"weir/state/sqltype"
)

// A fake is a snapshot made of arrays, so that a test decides every value.
type fake struct {
	epoch   uint64
	catalog state.Catalog
	pos     map[state.CursorID][]state.Position
	records int64
	rows    map[state.ViewID][]arrow.RecordBatch // state columns, __slot, __epoch, __error
	refused map[state.SourceID][]state.RefusedRecord
	fail    error // of every scan
	history string
	changed func(v state.ViewID, since uint64) []arrow.RecordBatch // nil: nobody knows
}

var _ Snapshot = (*state.Snapshot)(nil)

func (f *fake) Epoch() uint64                               { return f.epoch }
func (f *fake) Catalog() *state.Catalog                     { return &f.catalog }
func (f *fake) Positions(c state.CursorID) []state.Position { return f.pos[c] }
func (f *fake) Records(state.CursorID) int64                { return f.records }

func (f *fake) Mark() string                          { return f.history }
func (f *fake) Knows(token string, epoch uint64) bool { return token == f.history && epoch <= f.epoch }

func (f *fake) Changed(_ context.Context, r state.ScanRequest, token string, since uint64) (array.RecordReader, int64, error) {
	if f.changed == nil || !f.Knows(token, since) {
		return nil, 0, state.ErrUnknown
	}
	v, _ := f.catalog.ViewByID(r.View)
	rows, n := f.changed(r.View, since), int64(0)
	for _, b := range rows {
		n += b.NumRows()
	}
	fields := append(scanSchema(&v.Plan).Fields(), arrow.Field{Name: state.DeletedColumn, Type: arrow.FixedWidthTypes.Boolean})
	out, err := array.NewRecordReader(arrow.NewSchema(fields, nil), rows)
	return out, n, err
}

func (f *fake) Stats(v state.ViewID) state.ViewStats {
	var s state.ViewStats
	for _, r := range f.rows[v] {
		s.Groups += r.NumRows()
	}
	s.Bytes = 10 * s.Groups
	return s
}

func (f *fake) Scan(_ context.Context, r state.ScanRequest) (array.RecordReader, error) {
	if f.fail != nil {
		return nil, f.fail
	}
	v, _ := f.catalog.ViewByID(r.View)
	return array.NewRecordReader(scanSchema(&v.Plan), f.rows[r.View])
}

func (f *fake) Refused(s state.SourceID, after uint64, limit int) ([]state.RefusedRecord, error) {
	var out []state.RefusedRecord
	for _, r := range f.refused[s] {
		if r.Seq > after && len(out) < limit {
			out = append(out, r)
		}
	}
	return out, nil
}

func (f *fake) RefusedCount(s state.SourceID) state.RefusedCount {
	n := state.RefusedCount{Kept: int64(len(f.refused[s])), ByView: map[state.ViewID]int64{}}
	for _, r := range f.refused[s] {
		n.ByView[r.View]++
	}
	n.Total = n.Kept
	return n
}

// scanSchema is the schema of a scan with all columns.
func scanSchema(v *plan.View) *arrow.Schema {
	var fs []arrow.Field
	for _, c := range v.StateColumns() {
		fs = append(fs, c.Type.InsideField(c.Name))
	}
	fs = append(fs,
		arrow.Field{Name: state.SlotColumn, Type: arrow.PrimitiveTypes.Uint16},
		arrow.Field{Name: state.EpochColumn, Type: arrow.PrimitiveTypes.Uint64},
		arrow.Field{Name: state.ErrorColumn, Type: arrow.BinaryTypes.String, Nullable: true})
	return arrow.NewSchema(fs, nil)
}

// add gives the fake a view with n random groups, in batches of at most size.
// Every tenth group or so is in error; wide is as in randomArray.
func (f *fake) add(r *rand.Rand, p plan.View, n, size int, wide bool) state.ViewID {
	id := state.ViewID(len(f.catalog.Views) + 1)
	f.catalog.NextID = max(f.catalog.NextID, uint32(id)+1)
	f.catalog.Views = append(f.catalog.Views, state.View{
		ID: id, SQL: "CREATE MATERIALIZED VIEW " + p.Name + " AS " + p.Select, Plan: p, Source: 1, Cursor: 1,
		First: []state.Position{{Topic: "orders", Partition: 0, Next: 5}}, CreatedEpoch: uint64(id),
	})
	slots := make([]uint16, n)
	for i := range slots {
		slots[i] = uint16(r.IntN(state.Slots))
	}
	slices.Sort(slots)
	if f.rows == nil {
		f.rows = map[state.ViewID][]arrow.RecordBatch{}
	}
	for at := 0; at < n; at += size {
		m := min(size, n-at)
		var cols []arrow.Array
		errs := array.NewStringBuilder(memory.DefaultAllocator)
		slot, epoch := array.NewUint16Builder(memory.DefaultAllocator), array.NewUint64Builder(memory.DefaultAllocator)
		for i := range m {
			slot.Append(slots[at+i])
			epoch.Append(uint64(r.IntN(int(f.epoch)) + 1))
			if r.IntN(10) == 0 {
				errs.Append("sum(amount): overflow")
			} else {
				errs.AppendNull()
			}
		}
		for _, c := range p.StateColumns() {
			cols = append(cols, randomArray(memory.DefaultAllocator, r, c.Type, m, wide))
		}
		cols = append(cols, slot.NewArray(), epoch.NewArray(), errs.NewArray())
		f.rows[id] = append(f.rows[id], array.NewRecordBatch(scanSchema(&p), cols, int64(m)))
	}
	return id
}

func newFake() *fake {
	return &fake{
		epoch: 1000, history: "0f0f",
		catalog: state.Catalog{
			Version: 7, NextID: 2, NextCursor: 2,
			Sources: []state.Source{{
				ID: 1, Name: "orders", SQL: "CREATE SOURCE orders (city VARCHAR)", Cursor: 1,
				Columns: []sqltype.Field{{Name: "city", Type: sqltype.MustParse("VARCHAR")}},
				Options: map[string]string{"connector": "kafka", "topic": "orders"},
			}},
			Queries: []state.Query{{Name: "top", SQL: "CREATE VIEW top AS SELECT 1 AS one", Select: "SELECT 1 AS one", Columns: []sqltype.Field{{Name: "one", Type: sqltype.MustParse("INTEGER")}}}},
		},
		pos: map[state.CursorID][]state.Position{1: {
			{Topic: "orders", TopicID: [16]byte{1, 2, 3, 15: 255}, Partition: 1, Next: 900, LeaderEpoch: 3},
			{Topic: "orders", TopicID: [16]byte{1, 2, 3, 15: 255}, Partition: 0, Next: 1234, LeaderEpoch: 2},
		}},
		records: 2134,
		refused: map[state.SourceID][]state.RefusedRecord{1: {
			{Seq: 1, Epoch: 3, Refused: state.Refused{Source: 1, Topic: "orders", Offset: 17, Timestamp: 1700000000000, Column: "city", Reason: "not UTF-8", Key: []byte{}, Value: []byte{0xff, 0}}},
			{Seq: 4, Epoch: 9, Refused: state.Refused{Source: 1, View: 1, Topic: "orders", Partition: 1, Offset: 99, Timestamp: -1, Reason: "division by zero", Value: nil}},
		}},
	}
}

// revenue is a view with every kind of column: a selected and an unselected
// key, results that are accumulators (one of them twice), computed results,
// HAVING.
func revenue() plan.View {
	typ := sqltype.MustParse
	acc := func(name, t string, rule agg.Rule, call string) plan.Accumulator {
		return plan.Accumulator{Acc: agg.Acc{Name: name, Type: typ(t), Rule: rule}, Aggregate: call}
	}
	return plan.View{
		Name: "revenue_by_city", Source: "orders", Select: "SELECT city, … FROM orders GROUP BY city, day HAVING count(*) > 0",
		Keys: []plan.Key{{Name: "city", Type: typ("VARCHAR"), Result: 0}, {Name: "__key_2", Type: typ("DATE"), Result: -1}},
		Accs: []plan.Accumulator{
			acc("__count", "BIGINT", agg.Add, "count(*)"),
			acc("__sum_amount", "DECIMAL(38,2)", agg.Add, "sum(amount)"),
			acc("__sum_big", "HUGEINT", agg.Add, "sum(big)"),
			acc("__max_placed_at", "TIMESTAMP", agg.Max, "max(placed_at)"),
			acc("__sum_score", "DOUBLE", agg.Add, "sum(score)"),
		},
		Results: []plan.Result{
			{Name: "city", Type: typ("VARCHAR"), Key: 0, Acc: -1},
			{Name: "orders", Type: typ("BIGINT"), Key: -1, Acc: 0},
			{Name: "n", Type: typ("BIGINT"), Key: -1, Acc: 0},
			{Name: "revenue", Type: typ("DECIMAL(38,2)"), Key: -1, Acc: 1},
			{Name: "twice", Type: typ("HUGEINT"), Key: -1, Acc: -1},
			{Name: "last_order", Type: typ("TIMESTAMP"), Key: -1, Acc: 3},
			{Name: "busy", Type: typ("BOOLEAN"), Key: -1, Acc: -1},
		},
		Visible: "__count > 0", Fingerprint: "f00d",
	}
}

// everything is a view with a key and a min and max of every type.
func everything() plan.View {
	v := plan.View{Name: "every thing/Ü", Source: "orders", Select: "SELECT …", Fingerprint: "beef"}
	for i, name := range allTypes {
		t := sqltype.MustParse(name)
		v.Keys = append(v.Keys, plan.Key{Name: fmt.Sprintf("k%d", i), Type: t, Result: i})
		v.Results = append(v.Results, plan.Result{Name: fmt.Sprintf("k%d", i), Type: t, Key: i, Acc: -1})
		v.Accs = append(v.Accs, plan.Accumulator{Acc: agg.Acc{Name: fmt.Sprintf("__max_%d", i), Type: t, Rule: agg.Max}, Aggregate: "max(x)"})
	}
	return v
}

// finals computes the results of revenue: twice = big (whose values may not fit
// the file), busy = count is even; visible where count > 0; every group whose
// count is a multiple of 7 fails.
type finals struct{ prepared, closed int }

func (f *finals) Prepare(_ context.Context, v *plan.View, results []int) (Final, error) {
	for _, r := range results {
		if name := v.Results[r].Name; name != "twice" && name != "busy" {
			return nil, fmt.Errorf("asked for %s, which is stored", name)
		}
	}
	f.prepared++
	return f, nil
}

func (f *finals) Close() error { f.closed++; return nil }

func (f *finals) Finalize(_ context.Context, rows arrow.RecordBatch) (Finals, error) {
	n := int(rows.NumRows())
	count := rows.Column(2).(*array.Int64)
	busy, visible := array.NewInt8Builder(memory.DefaultAllocator), array.NewInt8Builder(memory.DefaultAllocator)
	out := Finals{Errors: make([]string, n)}
	for i := range n {
		if count.IsNull(i) {
			busy.AppendNull()
			visible.AppendNull()
			continue
		}
		c := count.Value(i)
		busy.Append(int8(1 - c&1))
		visible.Append(int8(min(1, max(0, c))))
		if c%7 == 0 {
			out.Errors[i] = "ln(0)"
		}
	}
	b := busy.NewArray()
	out.Visible = visible.NewArray()
	schema := arrow.NewSchema([]arrow.Field{
		sqltype.MustParse("HUGEINT").InsideField("twice"), sqltype.MustParse("BOOLEAN").InsideField("busy"),
	}, nil)
	out.Results = array.NewRecordBatch(schema, []arrow.Array{rows.Column(4), b}, int64(n))
	return out, nil
}

func clock() time.Time { return time.Date(2026, 11, 29, 12, 0, 0, 123456789, time.UTC) }

// rendered reads a table or a snapshot's rows as text, a line a row.
func rendered(t *testing.T, r array.RecordReader) []string {
	t.Helper()
	defer r.Release()
	var out []string
	for r.Next() {
		out = append(out, renderRecord(r.RecordBatch())...)
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func renderRecord(rec arrow.RecordBatch) []string {
	out := make([]string, rec.NumRows())
	for i := range out {
		for c := range int(rec.NumCols()) {
			out[i] += " " + rec.ColumnName(c) + "=" + render(rec.Column(c), i)
		}
	}
	return out
}
