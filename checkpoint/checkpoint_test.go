package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"weir/state"
	"weir/state/plan"
)

const dir = "data/checkpoints"

func write(t *testing.T, fsys vfs.FS, f *fake) *Manifest {
	t.Helper()
	m, err := Write(t.Context(), fsys, dir, f, &finals{}, Options{Now: clock, Writer: "weir test"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func open(t *testing.T, fsys vfs.FS, id uint64) *Checkpoint {
	t.Helper()
	c, err := Open(fsys, Path(fsys, dir, id))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func table(t *testing.T, c *Checkpoint, view string) *Table {
	t.Helper()
	tab, err := c.Table(view)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tab.Close() })
	return tab
}

// stateRows are the rows that a snapshot gave, as a restore must get them: the
// accumulators of a group in error are not kept.
func stateRows(f *fake, id state.ViewID) []string {
	v, _ := f.catalog.ViewByID(id)
	var out []string
	for _, rec := range f.rows[id] {
		errs := rec.Column(int(rec.NumCols()) - 1)
		for i := range int(rec.NumRows()) {
			var line strings.Builder
			for c := range int(rec.NumCols()) {
				value := render(rec.Column(c), i)
				if errs.IsValid(i) && c >= len(v.Plan.Keys) && c < int(rec.NumCols())-3 {
					value = "NULL"
				}
				line.WriteString(" " + rec.ColumnName(c) + "=" + value)
			}
			out = append(out, line.String())
		}
	}
	return out
}

var allExtra = state.Extra{Slot: true, Epoch: true, Error: true}

// TestRoundTrip writes random state of every type and wants the same back, in
// the same order, whatever the batches were.
func TestRoundTrip(t *testing.T) { onEvery(t, testRoundTrip) }

func testRoundTrip(t *testing.T, fsys vfs.FS) {
	for _, wide := range []bool{false, true} {
		for _, size := range []int{1, 7, 500, 9000} {
			t.Run(fmt.Sprintf("wide=%v/batches of %d", wide, size), func(t *testing.T) {
				r, f := rng(t), newFake()
				f.records = int64(r.Uint32()) // another state than that of the checkpoint before
				n := min(300, size*40)
				ids := []state.ViewID{f.add(r, revenue(), n, size, wide), f.add(r, everything(), n/2, size, wide), f.add(r, revenueNamed("empty"), 0, size, wide)}
				m := write(t, fsys, f)
				c := open(t, fsys, m.Checkpoint)
				if err := c.Verify(t.Context()); err != nil {
					t.Fatal(err)
				}
				for i, id := range ids {
					tab := table(t, c, m.Views[i].Name)
					got, err := tab.Scan(t.Context(), state.ScanRequest{Extra: allExtra})
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(stateRows(f, id), rendered(t, got)); diff != "" {
						t.Fatalf("view %s: %s", m.Views[i].Name, diff)
					}
				}
				refused, err := c.Refused(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(f.refused[1], refused); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func revenueNamed(name string) plan.View {
	v := revenue()
	v.Name = name
	return v
}

// TestSlotsAndColumns reads every range of slots and a projection of columns
// in another order, from a file of several batches.
func TestSlotsAndColumns(t *testing.T) { onEvery(t, testSlotsAndColumns) }

func testSlotsAndColumns(t *testing.T, fsys vfs.FS) {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	r, f := rng(t), newFake()
	id := f.add(r, revenue(), 3*batchRows+100, 3000, true)
	m := write(t, fsys, f)
	if got := len(mustIndex(t, fsys, m, 0).Batches); got != 4 {
		t.Fatalf("%d batches, want 4", got)
	}
	all := stateRows(f, id)
	var slots []int
	for _, rec := range f.rows[id] {
		for _, s := range rec.Column(int(rec.NumCols()) - 3).(*array.Uint16).Uint16Values() {
			slots = append(slots, int(s))
		}
	}
	tab := table(t, open(t, fsys, m.Checkpoint), "REVENUE_BY_CITY")
	for range 20 {
		from := r.IntN(state.Slots)
		to := from + 1 + r.IntN(state.Slots-from)
		a, _ := slices.BinarySearch(slots, from)
		b, _ := slices.BinarySearch(slots, to)
		got, err := tab.Scan(t.Context(), state.ScanRequest{FromSlot: from, ToSlot: to, Extra: allExtra, Mem: mem})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(all[a:b], rendered(t, got)); diff != "" {
			t.Fatalf("slots %d to %d: %s", from, to, diff)
		}
	}
	got, err := tab.Scan(t.Context(), state.ScanRequest{Columns: []int{3, 0, 3}, Mem: mem})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, line := range all {
		field := func(name string) string {
			rest := line[strings.Index(line, " "+name+"="):]
			for i := 1; i < len(rest); i++ {
				if rest[i] == ' ' && (strings.HasPrefix(rest[i:], " __") || strings.HasPrefix(rest[i:], " city=")) {
					return rest[:i]
				}
			}
			return rest
		}
		want = append(want, field("__sum_amount")+field("city")+field("__sum_amount"))
	}
	if diff := cmp.Diff(want, rendered(t, got)); diff != "" {
		t.Fatal(diff)
	}
	for _, bad := range []state.ScanRequest{{Columns: []int{9}}, {Columns: []int{-1}}, {FromSlot: -1}, {ToSlot: 257}, {FromSlot: 9, ToSlot: 3}} {
		if _, err := tab.Scan(t.Context(), bad); err == nil {
			t.Errorf("scan of %+v succeeded", bad)
		}
	}
	mem.AssertSize(t, 0)
}

func mustIndex(t *testing.T, fsys vfs.FS, m *Manifest, view int) index {
	t.Helper()
	file := m.Views[view].File
	a, err := openArrow(fsys, fsys.PathJoin(Path(fsys, dir, m.Checkpoint), file.Name), file)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	return a.index
}

// TestConcurrentScans reads one table from many goroutines, closes it meanwhile,
// and retires its checkpoint: scans that run end as they began.
func TestConcurrentScans(t *testing.T) {
	r, f, root := rng(t), newFake(), t.TempDir()
	id := f.add(r, revenue(), 2*batchRows, 3000, false)
	for range 2 {
		f.records++
		if _, err := Write(t.Context(), vfs.Default, root, f, &finals{}, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Open(vfs.Default, Path(vfs.Default, root, 1))
	if err != nil {
		t.Fatal(err)
	}
	tab, err := c.Table("revenue_by_city")
	if err != nil {
		t.Fatal(err)
	}
	want := stateRows(f, id)
	var readers []array.RecordReader
	for range 6 {
		r, err := tab.Scan(t.Context(), state.ScanRequest{Extra: allExtra})
		if err != nil {
			t.Fatal(err)
		}
		readers = append(readers, r)
	}
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
	if removed, err := Retain(vfs.Default, root, 1); err != nil || len(removed) != 1 {
		t.Fatal(removed, err)
	}
	if _, err := tab.Scan(t.Context(), state.ScanRequest{}); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a scan of a closed table: %v", err)
	}
	var wg sync.WaitGroup
	got := make([][]string, len(readers))
	errs := make([]error, len(readers))
	for i, r := range readers {
		wg.Go(func() {
			defer r.Release()
			for r.Next() {
				got[i] = append(got[i], renderRecord(r.RecordBatch())...)
			}
			errs[i] = r.Err()
		})
	}
	wg.Wait()
	for i := range got {
		if errs[i] != nil || !slices.Equal(got[i], want) {
			t.Errorf("reader %d: %d rows, %v", i, len(got[i]), errs[i])
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c2, err := Open(vfs.Default, Path(vfs.Default, root, 2))
	if err != nil {
		t.Fatal(err)
	}
	last, err := table(t, c2, "revenue_by_city").Scan(ctx, state.ScanRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer last.Release()
	if last.Next() || !errors.Is(last.Err(), context.Canceled) {
		t.Errorf("a cancelled scan: %v", last.Err())
	}
}

// TestFileRows looks at the rows as a stranger sees them.
func TestFileRows(t *testing.T) { onEvery(t, testFileRows) }

func testFileRows(t *testing.T, fsys vfs.FS) {
	r, f := rng(t), newFake()
	id := f.add(r, revenue(), 400, 50, true)
	m := write(t, fsys, f)
	v := m.Views[0]
	var names []string
	for _, c := range v.Columns {
		names = append(names, c.Name+":"+c.Role)
	}
	want := []string{
		"city:key", "__key_2:key", "orders:accumulator", "n:result", "revenue:accumulator", "twice:result", "last_order:accumulator", "busy:result",
		"__sum_big:accumulator", "__sum_score:accumulator", "__slot:system", "__epoch:system", "__visible:system", "__error:system", "__error_at:system", "__exact:system",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}

	a, err := openArrow(fsys, fsys.PathJoin(Path(fsys, dir, 1), v.File.Name), v.File)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	in, err := a.scan(memory.DefaultAllocator, 0, len(a.index.Batches))
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	var source []arrow.RecordBatch = f.rows[id]
	whole, err := concatenate(memory.DefaultAllocator, source)
	if err != nil {
		t.Fatal(err)
	}
	seen, at := map[string]int{}, 0
	for in.Next() {
		rec := in.RecordBatch()
		col := func(name string) arrow.Array { return rec.Column(slices.Index(columnNames(v), name)) }
		for i := range int(rec.NumRows()) {
			count := whole.Column(2).(*array.Int64)
			merge := whole.Column(9)
			big, _, err := toFile(memory.DefaultAllocator, f.catalog.Views[0].Plan.Accs[2].Type, array.NewSlice(whole.Column(4), int64(at), int64(at+1)))
			if err != nil {
				t.Fatal(err)
			}
			misfit := whole.Column(4).IsValid(at) && big.IsNull(0)
			kind := "NULL"
			switch {
			case merge.IsValid(at):
				kind = `"merge"`
			case count.IsValid(at) && count.Value(at)%7 == 0:
				kind = `"result"`
			case misfit:
				kind = `"file"`
			}
			seen[kind]++
			if got := render(col("__error_at"), i); got != kind {
				t.Fatalf("row %d: __error_at %s, want %s", at, got, kind)
			}
			if col("__error").IsNull(i) != (kind == "NULL") {
				t.Fatalf("row %d of kind %s: __error %s", at, kind, render(col("__error"), i))
			}
			show := kind == `"merge"` || kind == `"result"` || count.IsValid(at) && count.Value(at) > 0
			if col("__visible").(*array.Boolean).Value(i) != show || col("__visible").IsNull(i) {
				t.Fatalf("row %d of kind %s: __visible %s", at, kind, render(col("__visible"), i))
			}
			if kind == `"merge"` && (col("orders").IsValid(i) || col("busy").IsValid(i) || col("twice").IsValid(i)) {
				t.Fatalf("row %d has results beside an error", at)
			}
			if kind == `"result"` && (col("busy").IsValid(i) || col("orders").IsNull(i)) {
				t.Fatalf("row %d: a failed result must be NULL, an accumulator must not", at)
			}
			if kind != `"merge"` && render(col("orders"), i) != render(col("n"), i) {
				t.Fatalf("row %d: two names of one accumulator differ", at)
			}
			if (kind != `"merge"` && misfit) != col("__exact").IsValid(i) {
				t.Fatalf("row %d of kind %s: __exact is %v", at, kind, col("__exact").IsValid(i))
			}
			at++
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	if at != 400 || len(seen) != 4 {
		t.Fatalf("%d rows of kinds %v", at, seen)
	}
	if got := int64(400 - seen["NULL"]); v.Errors != got {
		t.Errorf("the manifest counts %d errors, want %d", v.Errors, got)
	}
	meta := in.Schema().Field(2).Metadata
	for key, want := range map[string]string{"weir.role": "accumulator", "weir.result": "1", "weir.accumulator": "__count", "weir.aggregate": "count(*)", "weir.merge": "add", "weir.sql_type": "BIGINT"} {
		if got, _ := meta.GetValue(key); got != want {
			t.Errorf("orders: %s is %q, want %q", key, got, want)
		}
	}
	schema := in.Schema().Metadata()
	if got, _ := schema.GetValue("weir.format_version"); got != "2" {
		t.Errorf("weir.format_version is %q", got)
	}
}

func columnNames(v View) []string {
	var names []string
	for _, c := range v.Columns {
		names = append(names, c.Name)
	}
	return names
}
