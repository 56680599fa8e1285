package checkpoint

import (
	"fmt"
	"math/rand/v2"
	"slices"
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

// A course is a store that lives and is checkpointed.
type course struct {
	t     *testing.T
	r     *rand.Rand
	fs    vfs.FS // of the checkpoints
	local vfs.FS // of the store
	s     *state.Store
	next  int64
}

// newCourse has views of some thousand groups, of which a fold changes a few.
func newCourse(t *testing.T, fsys vfs.FS) *course {
	c := &course{t: t, r: rng(t), fs: fsys, local: vfs.NewMem()}
	c.s = openStore(t, c.local, "live")
	if _, err := c.s.CreateSource(state.Source{Name: "orders", SQL: "CREATE SOURCE orders"}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []plan.View{revenue(), revenueNamed("revenue.arrow"), narrow(), totals()} {
		if _, err := c.s.CreateView("CREATE "+p.Name, p, false, initial(p)); err != nil {
			t.Fatal(err)
		}
	}
	c.fold(400)
	if _, err := c.s.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// narrow is a view with a key that a file may not be able to hold.
func narrow() plan.View {
	v := revenue()
	v.Name = "by second"
	v.Results, v.Visible = v.Results[:2], "" // nothing to compute
	v.Keys = append(v.Keys, plan.Key{Name: "second", Type: sqltype.MustParse("TIMESTAMP_S"), Result: -1})
	return v
}

func (c *course) fold(n int) {
	c.t.Helper()
	c.next += 10
	foldOf(c.t, c.s, c.next, func(v *plan.View) arrow.RecordBatch { return partialsOf(c.r, v, n, 20_000, true) })
}

// snapshot is one that a checkpoint is written of.
func (c *course) snapshot() *state.Snapshot {
	c.t.Helper()
	if _, err := c.s.Mark(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	if c.r.IntN(2) == 0 { // commits do not wait for checkpoints
		c.fold(2)
		if _, err := c.s.Commit(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
	}
	sn, err := c.s.Snapshot()
	if err != nil {
		c.t.Fatal(err)
	}
	return sn
}

func (c *course) write(sn *state.Snapshot, o Options) *Manifest {
	c.t.Helper()
	o.Now, o.Writer = clock, "weir test"
	m, err := Write(c.t.Context(), c.fs, dir, sn, &finals{}, o)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.s.Trim(m.Epoch); err != nil {
		c.t.Fatal(err)
	}
	return m
}

// An account is what a checkpoint must hold: each view's rows, as a stranger reads
// them and as Weir does, as a whole
// checkpoint of the same snapshot has them, and its counts.
type account map[string][]string

func accountOf(t *testing.T, fsys vfs.FS, dir string) account {
	t.Helper()
	c, err := Open(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	a := account{}
	for i := range c.Manifest.Views {
		v := &c.Manifest.Views[i]
		tab := table(t, c, v.Name)
		// An __exact has one meaning, but not one encoding: the scan decodes it.
		names := slices.DeleteFunc(columnNames(*v), func(name string) bool { return name == exactColumn })
		r, err := tab.Rows(t.Context(), names, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := tab.Scan(t.Context(), state.ScanRequest{Extra: allExtra})
		if err != nil {
			t.Fatal(err)
		}
		a[v.Name] = append(slices.Concat(rendered(t, r), rendered(t, s)), fmt.Sprintf("%d groups, %d in error, %d bytes, at %v", v.Groups, v.Errors, v.Bytes, v.Positions))
	}
	return a
}

// account writes a whole checkpoint of the snapshot elsewhere.
func (c *course) account(sn *state.Snapshot) account {
	c.t.Helper()
	mem := vfs.NewMem()
	if _, err := Write(c.t.Context(), mem, dir, sn, &finals{}, Options{Now: clock, Whole: true}); err != nil {
		c.t.Fatal(err)
	}
	a := accountOf(c.t, mem, Path(mem, dir, 1))
	a.holds(c.t, sn)
	return a
}

// holds compares an account with a scan of a store.
func (a account) holds(t *testing.T, sn *state.Snapshot) {
	t.Helper()
	for _, v := range sn.Catalog().Views {
		f := &fake{catalog: *sn.Catalog(), rows: map[state.ViewID][]arrow.RecordBatch{}}
		r, err := sn.Scan(t.Context(), state.ScanRequest{View: v.ID, Extra: allExtra})
		if err != nil {
			t.Fatal(err)
		}
		for r.Next() {
			r.RecordBatch().Retain()
			f.rows[v.ID] = append(f.rows[v.ID], r.RecordBatch())
		}
		if err := r.Err(); err != nil {
			t.Fatal(err)
		}
		r.Release()
		rows := stateRows(f, v.ID)
		scanned := a[v.Plan.Name][len(rows) : 2*len(rows)] // behind what a stranger reads
		if diff := cmp.Diff(rows, scanned, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("view %s: %s", v.Plan.Name, diff)
		}
	}
}

// TestDeltas: a random course of folds, checkpoints, savepoints, compactions,
// retention and restarts. Every checkpoint, at every time, holds what a whole one
// of its snapshot did, in any range of slots, and restores to it.
func TestDeltas(t *testing.T) { onEvery(t, testDeltas) }

func testDeltas(t *testing.T, fsys vfs.FS) {
	c := newCourse(t, fsys)
	want := map[uint64]account{}
	deltas, compacted := 0, 0
	for step := range 30 {
		switch n := c.r.IntN(12); {
		case n < 4:
			c.fold(1 + c.r.IntN(20))
		case n < 9:
			sn := c.snapshot()
			o := Options{Whole: c.r.IntN(12) == 0}
			if c.r.IntN(8) == 0 {
				o.Savepoint = fmt.Sprint("savepoint ", step)
			}
			m := c.write(sn, o)
			want[m.Checkpoint] = c.account(sn)
			sn.Close()
			for i := range m.Views {
				v := &m.Views[i]
				if !v.Whole() {
					deltas++
				}
				if !v.Whole() && (o.Whole || o.Savepoint != "" || v.Name == "by second" || v.Name == "totals") {
					t.Fatalf("step %d: view %s is not whole", step, v.Name)
				}
			}
		case n < 10 && len(want) > 0:
			ids := sortedKeys(want)
			id := ids[c.r.IntN(len(ids))]
			before, err := Open(fsys, Path(fsys, dir, id))
			if err != nil {
				t.Fatal(err)
			}
			m, err := Compact(t.Context(), fsys, dir, id, Options{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range m.Views {
				if !m.Views[i].Whole() {
					t.Fatalf("step %d: view %s is not whole after it was compacted", step, m.Views[i].Name)
				}
				if !before.Manifest.Views[i].Whole() {
					compacted++
				}
				// Who opened it before finds the new files.
				table(t, before, m.Views[i].Name)
			}
			if err := before.Verify(t.Context()); err != nil {
				t.Fatal(err)
			}
		case n < 11:
			removed, err := Retain(fsys, dir, 4)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range removed {
				delete(want, id)
			}
		default:
			if err := c.s.Close(); err != nil {
				t.Fatal(err)
			}
			c.s = openStore(t, c.local, "live")
			c.next = 10_000 * int64(step+1) // what was folded and not committed is read again
		}
		if ids := sortedKeys(want); len(ids) > 0 {
			id := ids[c.r.IntN(len(ids))]
			checkAccount(t, fsys, id, want[id], c.r)
		}
	}
	for _, id := range sortedKeys(want) {
		checkAccount(t, fsys, id, want[id], c.r)
		into := fmt.Sprint("restored", id)
		if _, err := RestoreFrom(t.Context(), fsys, Path(fsys, dir, id), into, state.Options{FS: c.local}); err != nil {
			t.Fatal(err)
		}
		s := openStore(t, c.local, into)
		sn, err := s.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		want[id].holds(t, sn)
		sn.Close()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if deltas < 5 || compacted < 1 {
		t.Fatalf("%d views with deltas, %d of them compacted: the test proves nothing", deltas, compacted)
	}
}

func sortedKeys[V any](m map[uint64]V) (keys []uint64) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func checkAccount(t *testing.T, fsys vfs.FS, id uint64, want account, r *rand.Rand) {
	t.Helper()
	path := Path(fsys, dir, id)
	if diff := cmp.Diff(want, accountOf(t, fsys, path)); diff != "" {
		t.Fatalf("checkpoint %d: %s", id, diff)
	}
	c := open(t, fsys, id)
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	for i := range c.Manifest.Views { // a range of slots is that part of the whole
		tab := table(t, c, c.Manifest.Views[i].Name)
		from := r.IntN(state.Slots)
		to := from + 1 + r.IntN(state.Slots-from)
		all, err := tab.Scan(t.Context(), state.ScanRequest{Extra: allExtra})
		if err != nil {
			t.Fatal(err)
		}
		var part []string
		for all.Next() {
			b := all.RecordBatch()
			slots := b.Column(int(b.NumCols()) - 3).(*array.Uint16).Uint16Values()
			a, _ := slices.BinarySearch(slots, uint16(from))
			z, _ := slices.BinarySearch(slots, uint16(to))
			if a < z {
				rec := b.NewSlice(int64(a), int64(z))
				part = append(part, renderRecord(rec)...)
				rec.Release()
			}
		}
		if err := all.Err(); err != nil {
			t.Fatal(err)
		}
		all.Release()
		some, err := tab.Scan(t.Context(), state.ScanRequest{FromSlot: from, ToSlot: to, Extra: allExtra, Mem: mem})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(part, rendered(t, some)); diff != "" {
			t.Fatalf("checkpoint %d, view %s, slots %d to %d: %s", id, tab.View.Name, from, to, diff)
		}
	}
	mem.AssertSize(t, 0)
}

// TestDeltaRestores: a store restored from base and deltas is the store, and goes
// on from a checkpoint that is whole, because it is another history.
func TestDeltaRestores(t *testing.T) {
	c := newCourse(t, vfs.NewMem())
	c.write(c.snapshot(), Options{})
	for range 3 {
		c.fold(8)
		c.write(c.snapshot(), Options{})
	}
	sn, err := c.s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	m := c.write(sn, Options{})
	sn.Close()
	if n := len(m.Views[0].Parts); n != 4 {
		t.Fatalf("%d parts, want a base and three deltas", n)
	}
	if _, err := Restore(t.Context(), Path(c.fs, dir, m.Checkpoint), "restored", state.Options{FS: c.fs}); err != nil {
		t.Fatal(err)
	}
	restored := openStore(t, c.fs, "restored")
	if diff := cmp.Diff(content(t, c.s), content(t, restored)); diff != "" {
		t.Fatal(diff)
	}
	c.s = restored
	c.fold(20)
	last := c.write(c.snapshot(), Options{})
	if last.BasedOn != nil || !last.Views[0].Whole() {
		t.Errorf("the first checkpoint of a restored store is based on %+v", last.BasedOn)
	}
}

// TestDeltaIsSmall: what changed costs what changed.
func TestDeltaIsSmall(t *testing.T) {
	c := newCourse(t, vfs.NewMem())
	first := c.write(c.snapshot(), Options{})
	c.fold(15)
	second := c.write(c.snapshot(), Options{})
	v := second.Views[0]
	if len(v.Parts) != 2 || v.Parts[0].SHA256 != first.Views[0].File.SHA256 || v.Parts[1].Rows < 15 || v.Parts[1].Rows > 20 {
		t.Fatalf("parts: %+v", v.Parts)
	}
	if got := v.Parts[1].Name; got != "views/revenue_by_city/001-delta.arrow" {
		t.Errorf("the delta is %s", got)
	}
	if name := second.Views[1].Parts[0].Name; name != "views/revenue.arrow-3/000-base.arrow" {
		t.Errorf("the parts of a view named like a file are in %s", name)
	}
	// What did not change at all is shared as it is.
	sn, err := c.s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer sn.Close()
	if third := c.write(sn, Options{}); !cmp.Equal(third.Views[0].Parts, v.Parts) || third.BasedOn.Checkpoint != 2 {
		t.Errorf("parts: %+v", third.Views[0].Parts)
	}
	for range 40 {
		c.fold(1)
		m := c.write(c.snapshot(), Options{})
		n := len(m.Views[0].Parts)
		if n > maxDeltas+1 {
			t.Fatalf("%d parts", n)
		}
		if m.CompactDue() != (n > compactDeltas) {
			t.Fatalf("%d parts: a compaction is due: %v", n, m.CompactDue())
		}
	}
}

// TestDeltaDeletes: a group that is gone is gone, one that is new or changed is
// there as it is now, and a compaction changes nothing of that.
func TestDeltaDeletes(t *testing.T) {
	r, f, fsys := rng(t), newFake(), vfs.NewMem()
	change := f.addChanging(t, r, revenue(), 400)
	write(t, fsys, f)
	change()
	m := write(t, fsys, f)
	v := m.Views[0]
	if len(v.Parts) != 2 {
		t.Fatalf("parts: %+v", v.Parts)
	}
	scan := func() []string {
		got, err := table(t, open(t, fsys, 2), v.Name).Scan(t.Context(), state.ScanRequest{Extra: allExtra})
		if err != nil {
			t.Fatal(err)
		}
		return rendered(t, got)
	}
	if diff := cmp.Diff(stateRows(f, 1), scan()); diff != "" {
		t.Fatal(diff)
	}
	deleted := 0
	for _, line := range arrowFileRows(t, fsys, fsys.PathJoin(Path(fsys, dir, 2), v.Parts[1].Name)) {
		if !strings.HasSuffix(line, " __deleted=true") {
			continue
		}
		deleted++
		if !strings.Contains(line, " orders=NULL n=NULL") || !strings.Contains(line, " __visible=NULL __error=NULL") || strings.Contains(line, "city=NULL") {
			t.Errorf("a deleted row is %s", line)
		}
	}
	if deleted != 27 {
		t.Errorf("%d rows are deleted, want 27", deleted)
	}
	m, err := Compact(t.Context(), fsys, dir, 2, Options{})
	if err != nil || m.Views[0].File.Rows != v.Groups {
		t.Fatalf("%+v, %v", m, err)
	}
	if diff := cmp.Diff(stateRows(f, 1), scan()); diff != "" {
		t.Fatal(diff)
	}
	if names, err := fsys.List(fsys.PathJoin(Path(fsys, dir, 2), "views")); err != nil || !cmp.Equal(names, []string{"revenue_by_city.arrow"}) {
		t.Errorf("the views are %v, %v", names, err)
	}
}

// addChanging gives the fake a view whose rows have their true slots and order.
// change then adds some of n rows, changes some and deletes some, and says so to
// who asks what changed.
func (f *fake) addChanging(t *testing.T, r *rand.Rand, p plan.View, n int) (change func()) {
	t.Helper()
	all := locatedRows(t, r, p, n)
	f.add(r, p, 0, 1, false)
	id := f.catalog.Views[len(f.catalog.Views)-1].ID
	pick := func(take func(int) bool) (pieces []arrow.RecordBatch) {
		for i := range n {
			if take(i) {
				pieces = append(pieces, all.NewSlice(int64(i), int64(i+1)))
			}
		}
		return pieces
	}
	join := func(pieces []arrow.RecordBatch) arrow.RecordBatch {
		rec, err := concatenate(memory.DefaultAllocator, pieces)
		if err != nil {
			t.Fatal(err)
		}
		return rec
	}
	added := func(i int) bool { return i%12 == 5 }
	deleted := func(i int) bool { return i%15 == 1 }
	altered := func(i int) bool { return i%40 == 0 }
	f.rows[id] = pick(func(i int) bool { return !added(i) })
	return func() {
		f.epoch++
		f.records++
		var now, changed []arrow.RecordBatch
		gone := array.NewBooleanBuilder(memory.DefaultAllocator)
		for i := range n {
			row := all.NewSlice(int64(i), int64(i+1))
			if altered(i) {
				row = countOn(row, len(p.Keys), f.epoch)
			}
			if !deleted(i) {
				now = append(now, row)
			}
			if added(i) || deleted(i) || altered(i) {
				changed = append(changed, row)
				gone.Append(deleted(i))
			}
		}
		f.rows[id] = []arrow.RecordBatch{join(now)}
		rec := join(changed)
		fields := append(slices.Clone(rec.Schema().Fields()), arrow.Field{Name: state.DeletedColumn, Type: arrow.FixedWidthTypes.Boolean})
		rec = array.NewRecordBatch(arrow.NewSchema(fields, nil), append(slices.Clone(rec.Columns()), gone.NewArray()), rec.NumRows())
		f.changed = func(v state.ViewID, _ uint64) []arrow.RecordBatch {
			if v == id {
				return []arrow.RecordBatch{rec}
			}
			return nil
		}
	}
}

// countOn is a row with another count, of another epoch.
func countOn(row arrow.RecordBatch, at int, epoch uint64) arrow.RecordBatch {
	cols := slices.Clone(row.Columns())
	n := array.NewInt64Builder(memory.DefaultAllocator)
	n.Append(1000)
	e := array.NewUint64Builder(memory.DefaultAllocator)
	e.Append(epoch)
	cols[at], cols[len(cols)-2] = n.NewArray(), e.NewArray()
	return array.NewRecordBatch(row.Schema(), cols, 1)
}

// locatedRows are n random rows in the order of slot and key.
func locatedRows(t *testing.T, r *rand.Rand, p plan.View, n int) arrow.RecordBatch {
	t.Helper()
	s := openStore(t, vfs.NewMem(), "rows")
	if _, err := s.CreateSource(state.Source{Name: "orders"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateView("", p, false, nil); err != nil {
		t.Fatal(err)
	}
	foldOf(t, s, 1, func(v *plan.View) arrow.RecordBatch { return partialsOf(r, v, 2*n, 50_000, false) })
	if _, err := s.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	sn, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer sn.Close()
	scan, err := sn.Scan(t.Context(), state.ScanRequest{View: s.Catalog().Views[0].ID, Extra: allExtra, BatchRows: n})
	if err != nil {
		t.Fatal(err)
	}
	defer scan.Release()
	if !scan.Next() || scan.RecordBatch().NumRows() != int64(n) {
		t.Fatal("fewer rows than asked for", scan.Err())
	}
	rec := scan.RecordBatch()
	rec.Retain()
	return rec
}
