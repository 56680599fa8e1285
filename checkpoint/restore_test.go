package checkpoint

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weir/state"
	"weir/state/plan"
	"weir/state/sqltype"
)

// fold adds a random batch to every view of the store: groups that come again,
// a group whose sum overflows, a refused record.
func fold(t *testing.T, s *state.Store, r *rand.Rand, next int64) {
	t.Helper()
	foldOf(t, s, next, func(v *plan.View) arrow.RecordBatch { return partials(r, v) })
}

func foldOf(t *testing.T, s *state.Store, next int64, rows func(*plan.View) arrow.RecordBatch) {
	t.Helper()
	src, _ := s.Catalog().Source("orders")
	f := state.Fold{
		Cursor: src.Cursor, Records: 10,
		Positions: []state.Position{{Topic: "orders", TopicID: [16]byte{9}, Next: next, LeaderEpoch: 4}},
		Refused:   []state.Refused{{Source: src.ID, Topic: "orders", Offset: next - 1, Column: "city", Reason: "not UTF-8", Value: []byte{0xff}}},
	}
	for _, v := range s.Catalog().Following(src.Cursor) {
		f.Partials = append(f.Partials, state.Partial{View: v.ID, Rows: rows(&v.Plan)})
	}
	if err := s.Fold(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

// partials are random rows of a view. The count of the city "overflow" is so
// great that it overflows when it comes twice.
func partials(r *rand.Rand, v *plan.View) arrow.RecordBatch { return partialsOf(r, v, 40, 60, true) }

// partialsOf are n rows of so many cities.
func partialsOf(r *rand.Rand, v *plan.View, n, cities int, wide bool) arrow.RecordBatch {
	var fields []arrow.Field
	var cols []arrow.Array
	for i, c := range v.StateColumns() {
		fields = append(fields, c.Type.InsideField(c.Name))
		a := randomArray(memory.DefaultAllocator, r, c.Type, n, wide)
		switch {
		case i == 0 && c.Type.ID == sqltype.Varchar:
			b := array.NewStringBuilder(memory.DefaultAllocator)
			for j := range n {
				if j == 0 {
					b.Append("overflow")
				} else {
					b.Append(fmt.Sprintf("city %d", r.IntN(cities)))
				}
			}
			a = b.NewArray()
		case c.Type.ID == sqltype.BigInt && i >= len(v.Keys):
			b := array.NewInt64Builder(memory.DefaultAllocator)
			for j := range n {
				if j == 0 {
					b.Append(1 << 62)
				} else {
					b.Append(int64(r.IntN(100)))
				}
			}
			a = b.NewArray()
		case c.Type.ID == sqltype.Date:
			b := array.NewDate32Builder(memory.DefaultAllocator)
			for range n {
				b.Append(20000)
			}
			a = b.NewArray()
		}
		cols = append(cols, a)
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, int64(n))
}

func openStore(t *testing.T, fsys vfs.FS, dir string) *state.Store {
	t.Helper()
	s, err := state.Open(dir, state.Options{FS: fsys, Fatal: func(msg string) { t.Error(msg) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// content is everything that a store holds, as text.
func content(t *testing.T, s *state.Store) []string {
	t.Helper()
	if _, err := s.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	sn, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer sn.Close()
	out := []string{fmt.Sprintf("epoch %d", sn.Epoch())}
	for _, src := range sn.Catalog().Sources {
		records, err := sn.Refused(src.ID, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		n := sn.RefusedCount(src.ID)
		out = append(out, fmt.Sprintf("%+v", src), fmt.Sprintf("%v at %+v", sn.Records(src.Cursor), sn.Positions(src.Cursor)), fmt.Sprintf("%+v", records), fmt.Sprintf("%+v", n))
	}
	for _, v := range sn.Catalog().Views {
		r, err := sn.Scan(t.Context(), state.ScanRequest{View: v.ID, Extra: allExtra})
		if err != nil {
			t.Fatal(err)
		}
		stats := sn.Stats(v.ID)
		out = append(out, fmt.Sprintf("view %d %s: %d groups, %d in error, created %d at %v", v.ID, v.SQL, stats.Groups, stats.Errors, v.CreatedEpoch, v.First))
		for _, line := range rendered(t, r) {
			if i := strings.Index(line, " __count="); i >= 0 && !strings.Contains(line, "__error=NULL") {
				line = line[:i] + line[strings.Index(line, " __slot="):] // of a group in error only the key is kept
			}
			out = append(out, line)
		}
	}
	for _, q := range sn.Catalog().Queries {
		out = append(out, fmt.Sprintf("%+v", q))
	}
	return out
}

// TestRestore takes a checkpoint of a real store, restores it, and goes on with
// both: they hold the same at each step.
func TestRestore(t *testing.T) { onEvery(t, testRestore) }

func testRestore(t *testing.T, fsys vfs.FS) {
	r, local := rng(t), vfs.NewMem()
	s := openStore(t, local, "live")
	if _, err := s.CreateSource(state.Source{Name: "orders", SQL: "CREATE SOURCE orders"}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []plan.View{revenue(), revenueNamed("dropped"), totals()} {
		if _, err := s.CreateView("CREATE "+p.Name, p, false, initial(p)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.CreateQuery(state.Query{Name: "top", SQL: "CREATE VIEW top", Select: "SELECT 1"}); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		fold(t, s, r, int64(10*i+10))
		if _, err := s.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Drop("dropped"); err != nil {
		t.Fatal(err)
	}
	readAhead(t, s, 80)
	if _, err := s.Mark(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := content(t, s)

	sn, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	m, err := Write(t.Context(), fsys, dir, sn, &finals{}, Options{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Write(t.Context(), fsys, dir, sn, &finals{}, Options{Now: clock}); err != nil || again.BasedOn == nil {
		t.Fatalf("a second checkpoint of one snapshot shares nothing: %v", err)
	}
	sn.Close()

	back, err := RestoreFrom(t.Context(), fsys, Path(fsys, dir, 2), "restored", state.Options{FS: local})
	if err != nil {
		t.Fatal(err)
	}
	if back.Epoch != m.Epoch {
		t.Errorf("epoch %d, want %d", back.Epoch, m.Epoch)
	}
	restored := openStore(t, local, "restored")
	if diff := cmp.Diff(want, content(t, restored)); diff != "" {
		t.Fatal(diff)
	}
	v, _ := restored.Catalog().View("revenue_by_city")
	before, _ := s.Catalog().View("revenue_by_city")
	if diff := cmp.Diff(before, v, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}

	// Both go on.
	seed := r.Uint64()
	for _, store := range []*state.Store{s, restored} {
		fold(t, store, rand.New(rand.NewPCG(seed, 2)), 60)
	}
	if diff := cmp.Diff(content(t, s), content(t, restored)); diff != "" {
		t.Fatal(diff)
	}
	if id, err := restored.CreateView("CREATE again", revenueNamed("again"), false, nil); err != nil || id <= 4 {
		t.Errorf("a new view got id %d, %v", id, err)
	}
}

// readAhead creates a view with a cursor of its own, has it read up to next, and
// drops it: what it had refused stays in the quarantine.
func readAhead(t *testing.T, s *state.Store, next int64) {
	t.Helper()
	p := revenueNamed("ahead")
	id, err := s.CreateView("CREATE ahead", p, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := s.Catalog().ViewByID(id)
	at := func(next int64) []state.Position {
		return []state.Position{{Topic: "orders", TopicID: [16]byte{9}, Next: next}}
	}
	if err := s.Start(v.Cursor, at(0)); err != nil {
		t.Fatal(err)
	}
	f := state.Fold{
		Cursor: v.Cursor, Positions: at(next), Partials: []state.Partial{{View: id}},
		Refused: []state.Refused{{Source: v.Source, Topic: "orders", Offset: 59, Reason: "no JSON"}},
	}
	if err := s.Fold(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if err := s.Drop("ahead"); err != nil {
		t.Fatal(err)
	}
	if src, _ := s.Catalog().Source("orders"); len(src.Passed) != 1 {
		t.Fatalf("passed: %+v", src.Passed)
	}
}

// totals is a view without GROUP BY.
func totals() plan.View {
	v := revenueNamed("totals")
	v.Keys, v.Results, v.Accs, v.Global, v.Visible = nil, v.Results[1:2], v.Accs[4:], true, ""
	v.Results[0] = plan.Result{Name: "score", Type: v.Accs[0].Type, Key: -1, Acc: 0}
	return v
}

func initial(p plan.View) arrow.RecordBatch {
	if !p.Global {
		return nil
	}
	b := array.NewFloat64Builder(memory.DefaultAllocator)
	b.AppendNull()
	return array.NewRecordBatch(arrow.NewSchema([]arrow.Field{p.Accs[0].Type.InsideField(p.Accs[0].Name)}, nil), []arrow.Array{b.NewArray()}, 1)
}

// TestRestoreRefuses says why, and leaves nothing behind.
func TestRestoreRefuses(t *testing.T) { onEvery(t, testRestoreRefuses) }

func testRestoreRefuses(t *testing.T, fsys vfs.FS) {
	r, f, local := rng(t), newFake(), vfs.NewMem()
	f.add(r, revenue(), 50, 50, false)
	m := write(t, fsys, f)
	from := Path(fsys, dir, 1)
	restore := func(into string) error {
		_, err := RestoreFrom(t.Context(), fsys, from, into, state.Options{FS: local})
		return err
	}
	if err := local.MkdirAll("full", 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, local, "full/note", nil)
	if err := restore("full"); !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), "full") || !strings.Contains(err.Error(), "note") {
		t.Errorf("a directory that is not empty: %v", err)
	}
	if err := local.MkdirAll("again", 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, local, "again/lock", nil) // a try that failed; this one gets as far as the store
	if err := restore("again"); errors.Is(err, ErrNotEmpty) {
		t.Errorf("a directory with a lock alone: %v", err)
	}
	for _, name := range []string{m.Views[0].File.Name, quarantineFile, ManifestName} {
		path := fsys.PathJoin(from, name)
		good, err := readAll(fsys, path)
		if err != nil {
			t.Fatal(err)
		}
		corrupt(t, fsys, path, func(b []byte) []byte { b[len(b)/3] ^= 32; return b })
		if err := restore("new"); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), name) {
			t.Errorf("a damaged %s: %v", name, err)
		}
		put(t, fsys, path, good)
	}
	if err := fsys.Remove(fsys.PathJoin(from, ManifestName)); err != nil {
		t.Fatal(err)
	}
	if err := restore("new"); !errors.Is(err, ErrMissing) {
		t.Errorf("no manifest: %v", err)
	}
	if _, err := local.Stat("new"); err == nil {
		t.Error("a refused restore left a directory")
	}
}
