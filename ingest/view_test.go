package ingest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"weir/ingest/decode"
	"weir/ingest/kafka"
	"weir/state"
	"weir/state/agg"
	"weir/state/plan"
	"weir/state/sqltype"
)

// adder sums its first column and refuses batches in which a value is in bad, or
// that hold more than most rows.
type adder struct {
	bad  []int64
	most int64
	runs int
}

func (a *adder) Close() error { return nil }

func (a *adder) Run(_ context.Context, in arrow.RecordBatch) (arrow.RecordBatch, error) {
	a.runs++
	if a.most > 0 && in.NumRows() > a.most {
		return nil, &EvalError{Message: "overflow"}
	}
	var sum int64
	col := in.Column(0).(*array.Int64)
	for i := range col.Len() {
		if slices.Contains(a.bad, col.Value(i)) && col.IsValid(i) {
			return nil, &EvalError{Message: fmt.Sprintf("cannot cast %d", col.Value(i))}
		}
		if col.IsValid(i) {
			sum += col.Value(i)
		}
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.PrimitiveTypes.Int64}}, nil))
	defer b.Release()
	b.Field(0).(*array.Int64Builder).Append(sum)
	return b.NewRecordBatch(), nil
}

// evaluatorFunc prepares whatever it returns.
type evaluatorFunc func(sql string) Program

func (f evaluatorFunc) Prepare(_ context.Context, sql string, _ plan.Relation, _ []sqltype.Field) (Program, error) {
	return f(sql), nil
}

func field(name, typ string) sqltype.Field {
	return sqltype.Field{Name: name, Type: sqltype.MustParse(typ)}
}

// testView sums column n of a source with columns n and m.
func testView(p Program) (*view, *state.Source) {
	src := &state.Source{ID: 7, Name: "s", Columns: []sqltype.Field{field("n", "BIGINT"), field("m", "BIGINT")}, Options: map[string]string{"topic": "t"}}
	v := &view{id: 3, source: 7, plan: &plan.View{
		Name: "v", Inputs: []sqltype.Field{field("n", "BIGINT")},
		Accs: []plan.Accumulator{{Acc: agg.Acc{Name: "__sum_n", Type: sqltype.MustParse("BIGINT")}, Aggregate: "sum(n)", Partial: "sum(n)"}},
	}}
	v.usual = &programs{plan: v.plan, eval: evaluatorFunc(func(string) Program { return p }), partial: p}
	return v, src
}

func fill(t *testing.T, src *state.Source, docs ...string) *batch {
	t.Helper()
	pool := decode.NewPool(memory.DefaultAllocator)
	b, err := newBuilder(src, src.Columns, pool)
	if err != nil {
		t.Fatal(err)
	}
	b.begin()
	for i, d := range docs {
		if err := b.add(2, &kafka.Record{Offset: int64(100 + i), Timestamp: 5, Value: []byte(d)}); err != nil {
			t.Fatal(err)
		}
	}
	out := b.take()
	t.Cleanup(func() { out.release(); b.close(); pool.Close() })
	return out
}

func sums(o outcome) (n int64) {
	for _, p := range o.partials {
		n += p.Column(0).(*array.Int64).Value(0)
	}
	return n
}

func offsets(rs []state.Refused) (out []int64) {
	for _, r := range rs {
		out = append(out, r.Offset)
	}
	return out
}

func TestRefusedRecordsAreFoundByHalving(t *testing.T) {
	var docs []string
	var want int64
	for i := range 1000 {
		docs = append(docs, fmt.Sprintf(`{"n":%d}`, i))
		want += int64(i)
	}
	p := &adder{bad: []int64{0, 17, 18, 999}}
	v, src := testView(p)
	o, err := v.evaluate(t.Context(), v.usual, fill(t, src, docs...), memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	defer o.release()
	if got := sums(o); got != want-17-18-999 {
		t.Errorf("sum %d, want %d", got, want-17-18-999)
	}
	if d := cmp.Diff([]int64{100, 117, 118, 1099}, offsets(o.refused)); d != "" {
		t.Error(d)
	}
	r := o.refused[1]
	if r.View != 3 || r.Source != 7 || r.Column != "sum(n)" || r.Reason != "cannot cast 17" || string(r.Value) != `{"n":17}` || r.Partition != 2 || r.Topic != "t" || r.Key != nil {
		t.Errorf("refused as %+v", r)
	}
	if p.runs > 150 {
		t.Errorf("%d runs for 4 bad records of 1000", p.runs)
	}
}

func TestNoRecordIsAtFaultWhenHalvesPass(t *testing.T) {
	v, src := testView(&adder{most: 3})
	o, err := v.evaluate(t.Context(), v.usual, fill(t, src, `{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`, `{"n":5}`), memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	defer o.release()
	if sums(o) != 15 || len(o.refused) != 0 || len(o.partials) != 2 {
		t.Errorf("sum %d of %d parts, refused %v", sums(o), len(o.partials), o.refused)
	}
}

func TestUnreadableColumnRefusesOnlyWhoReadsIt(t *testing.T) {
	docs := []string{`{"n":1,"m":1}`, `{"n":2,"m":"x"}`, `{"n":"x","m":3}`, `{"n":4,"m":4}`, `nonsense`, `{"n":"y"}`}
	v, src := testView(&adder{bad: []int64{4}})
	b := fill(t, src, docs...)
	if d := cmp.Diff([]int64{104}, offsets(b.refused)); d != "" {
		t.Errorf("refused for all views: %s", d)
	}
	o, err := v.evaluate(t.Context(), v.usual, b, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	defer o.release()
	if got := sums(o); got != 1+2 {
		t.Errorf("sum %d, want 3", got)
	}
	if d := cmp.Diff([]int64{102, 105, 103}, offsets(o.refused)); d != "" {
		t.Error(d)
	}
	if r := o.refused[0]; r.Column != "n" || !strings.Contains(r.Reason, "number") || string(r.Value) != docs[2] {
		t.Errorf("refused as %+v", r)
	}
}

func TestAllRecordsUnreadable(t *testing.T) {
	p := &adder{}
	v, src := testView(p)
	o, err := v.evaluate(t.Context(), v.usual, fill(t, src, `{"n":"x"}`, `{"n":[]}`), memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	defer o.release()
	if len(o.refused) != 2 || len(o.partials) != 0 || p.runs != 0 {
		t.Errorf("refused %d, parts %d, runs %d", len(o.refused), len(o.partials), p.runs)
	}
}

func TestTombstonesAreReadAndCountNowhere(t *testing.T) {
	_, src := testView(nil)
	pool := decode.NewPool(memory.DefaultAllocator)
	defer pool.Close()
	b, err := newBuilder(src, src.Columns, pool)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	b.begin()
	for _, r := range []kafka.Record{{Value: nil}, {Value: []byte{}}, {Value: []byte("null")}, {Value: []byte(`{"n":1}`)}} {
		if err := b.add(0, &r); err != nil {
			t.Fatal(err)
		}
	}
	got := b.take()
	defer got.release()
	if got.records != 4 || len(got.rows) != 1 || len(got.refused) != 2 {
		t.Errorf("records %d, rows %d, refused %d; want 4, 1, 2", got.records, len(got.rows), len(got.refused))
	}
	if got.refused[0].Reason != decode.ReasonEmpty || got.refused[0].Value == nil {
		t.Errorf("the empty value was refused as %+v", got.refused[0])
	}
}
