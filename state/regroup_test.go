package state

import (
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/state/agg"
	"weir/state/plan"
)

// storeOf is a store that has counted n records of some partitions.
func storeOf(t *testing.T, n int64, parts ...int32) *Snapshot {
	t.Helper()
	s := mustOpen(t, vfs.NewMem(), Options{})
	c := withViews(t, s, "by_city", "by_id", "total")
	for _, p := range parts {
		do(t, foldNext(t.Context(), s, c, p, n))
	}
	_, err := s.Commit(t.Context())
	do(t, err)
	sn, err := s.Snapshot()
	do(t, err)
	t.Cleanup(func() {
		sn.Close()
		do(t, s.Close())
	})
	return sn
}

func scanned(t *testing.T, sn *Snapshot, id ViewID) array.RecordReader {
	t.Helper()
	r, err := sn.Scan(t.Context(), ScanRequest{View: id, Extra: Extra{Slot: true, Epoch: true, Error: true}, BatchRows: 37})
	do(t, err)
	return r
}

// Two stores that have read different partitions, regrouped, are what one store
// would be that had read both: the model says so.
func TestRegroupIsOneStore(t *testing.T) {
	a, b := storeOf(t, 700, 0, 2), storeOf(t, 900, 1)
	d := Dump{Epoch: max(a.Epoch(), b.Epoch()), Sources: a.Catalog().Sources, Views: a.Catalog().Views, Positions: map[CursorID][]Position{}}
	cursor := a.Catalog().Sources[0].Cursor
	d.Positions[cursor] = append(a.Positions(cursor), b.Positions(cursor)...)
	read := map[ViewID]*Regrouped{}
	d.Rows = func(id ViewID) (array.RecordReader, error) {
		v, _ := a.Catalog().ViewByID(id)
		r, err := Regroup(t.Context(), &v.Plan, nil, scanned(t, a, id), scanned(t, b, id))
		if r != nil {
			r.Retain()
			read[id] = r
		}
		return r, err
	}
	fsys := vfs.NewMem()
	do(t, Load("data", Options{FS: fsys}, d))
	s := mustOpen(t, fsys, Options{})
	verifyStore(t, s)
	sn, err := s.Snapshot()
	do(t, err)
	for id, r := range read {
		if got, want := r.Stats(), sn.Stats(id); got != want {
			t.Errorf("view %d: stats %+v, the store's are %+v", id, got, want)
		}
		r.Release()
	}
	if len(read) != 3 {
		t.Errorf("%d views were read", len(read))
	}
	sn.Close()
	do(t, s.Close())
}

// byID makes rows of the view by_id: id, count, sum, min.
func byID(rows ...[2]int64) array.RecordReader {
	p := planOf("by_id")
	var fields []arrow.Field
	for _, c := range p.StateColumns() {
		fields = append(fields, c.Type.InsideField(c.Name))
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	for _, r := range rows {
		b.Field(0).(*array.Int64Builder).Append(r[0])
		b.Field(1).(*array.Int64Builder).Append(r[1])
		b.Field(2).AppendNull()
		b.Field(3).AppendNull()
	}
	rec := b.NewRecordBatch()
	rd, err := array.NewRecordReader(rec.Schema(), []arrow.RecordBatch{rec})
	if err != nil {
		panic(err)
	}
	return rd
}

func drained(p plan.View, t *testing.T, in ...array.RecordReader) (rows []string, err error) {
	r, err := Regroup(t.Context(), &p, nil, in...)
	do(t, err)
	defer r.Release()
	for r.Next() {
		rec := r.RecordBatch()
		for i := range int(rec.NumRows()) {
			var cells []string
			for _, c := range []int{0, 1, 6} {
				cells = append(cells, rec.Column(c).ValueStr(i))
			}
			rows = append(rows, strings.Join(cells, " "))
		}
	}
	return rows, r.Err()
}

func TestRegroupRefusesWhatIsNoState(t *testing.T) {
	p := planOf("by_id")
	if _, err := drained(p, t, byID([2]int64{7, 1}, [2]int64{7, 2})); err == nil || !strings.Contains(err.Error(), "two rows have the key id = 7") {
		t.Errorf("a key twice: %v", err)
	}
	rows, err := drained(p, t, byID([2]int64{1, 1}), byID([2]int64{2, 1}))
	do(t, err)
	first, second := int64(1), int64(2)
	if strings.HasPrefix(rows[0], "2") {
		first, second = second, first
	}
	if _, err := drained(p, t, byID([2]int64{second, 1}, [2]int64{first, 1})); err == nil || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("keys that fall: %v", err)
	}
	if _, err := drained(planOf("by_city"), t, byID([2]int64{1, 1})); err == nil {
		t.Error("rows of another view were taken")
	}
}

func TestRegroupOverflowIsAnErrorOfTheGroup(t *testing.T) {
	p := planOf("by_id")
	rows, err := drained(p, t, byID([2]int64{7, 1<<63 - 1}), byID([2]int64{7, 1}))
	do(t, err)
	if len(rows) != 1 || !strings.HasSuffix(rows[0], "__count: the sum is beyond the range of BIGINT") {
		t.Errorf("%q", rows)
	}
	rows, err = drained(p, t, byID([2]int64{7, 1<<63 - 2}), byID([2]int64{7, 1}))
	do(t, err)
	if len(rows) != 1 || rows[0] != "7 9223372036854775807 (null)" {
		t.Errorf("%q", rows)
	}
}

// Compare finds what the model finds.
func TestCompareFindsEveryDifference(t *testing.T) {
	a, b := storeOf(t, 300, 0), storeOf(t, 310, 0)
	at := func(n int64) []Position { return []Position{{Topic: "orders", Next: n}} }
	for i := range a.Catalog().Views {
		v := &a.Catalog().Views[i]
		x, y := expect(v.Plan, nil, at(300)), expect(v.Plan, nil, at(310))
		var want [4]int64 // same, added, removed, changed
		for k, g := range y {
			switch old, ok := x[k]; {
			case !ok:
				want[1]++
			case old != g:
				want[3]++
			default:
				want[0]++
			}
		}
		var got [4]int64
		ra, rb := scanned(t, a, v.ID), scanned(t, b, v.ID)
		same, err := Compare(t.Context(), &v.Plan, ra, rb, func(d Difference) error {
			switch {
			case d.A == nil:
				got[1]++
			case d.B == nil:
				got[2]++
			default:
				got[3]++
			}
			return nil
		})
		do(t, err)
		got[0] = same
		if got != want {
			t.Errorf("%s: same, added, removed, changed: %v, not %v", v.Plan.Name, got, want)
		}
		ra.Release()
		rb.Release()
	}
}

// Keys that DuckDB takes for one are one, and come out in their one spelling.
func TestRegroupKnowsOneSpelling(t *testing.T) {
	p := plan.View{Name: "by_x", Source: "orders", Keys: []plan.Key{key("x", "DOUBLE"), key("i", "INTERVAL")}, Accs: []plan.Accumulator{acc("__count", agg.Add, "BIGINT")}}
	rows := func(xs []float64, is []arrow.MonthDayNanoInterval) array.RecordReader {
		var fields []arrow.Field
		for _, c := range p.StateColumns() {
			fields = append(fields, c.Type.InsideField(c.Name))
		}
		b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
		for i := range xs {
			b.Field(0).(*array.Float64Builder).Append(xs[i])
			b.Field(1).(*array.MonthDayNanoIntervalBuilder).Append(is[i])
			b.Field(2).(*array.Int64Builder).Append(1)
		}
		rec := b.NewRecordBatch()
		rd, err := array.NewRecordReader(rec.Schema(), []arrow.RecordBatch{rec})
		do(t, err)
		return rd
	}
	month, days := arrow.MonthDayNanoInterval{Months: 1}, arrow.MonthDayNanoInterval{Days: 30}
	minus := math.Copysign(0, -1)
	if _, err := drained(p, t, rows([]float64{0, minus}, []arrow.MonthDayNanoInterval{month, days})); err == nil || !strings.Contains(err.Error(), "two rows have the key") {
		t.Errorf("-0.0, 30 days beside 0.0, 1 month: %v", err)
	}
	r, err := Regroup(t.Context(), &p, nil, rows([]float64{minus}, []arrow.MonthDayNanoInterval{days}), rows([]float64{0}, []arrow.MonthDayNanoInterval{month}))
	do(t, err)
	defer r.Release()
	if !r.Next() || r.RecordBatch().NumRows() != 1 {
		t.Fatal("two spellings in two readers did not become one group", r.Err())
	}
	rec := r.RecordBatch()
	x, i := rec.Column(0).(*array.Float64).Value(0), rec.Column(1).(*array.MonthDayNanoInterval).Value(0)
	if math.Signbit(x) || x != 0 || i != month || rec.Column(2).(*array.Int64).Value(0) != 2 {
		t.Errorf("%v %v %v", x, i, rec.Column(2))
	}
}
