package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"weir/checkpoint"
	"weir/state"
)

// salesOf reads the view of a checkpoint, a line a group, sorted.
func salesOf(t *testing.T, c *checkpoint.Checkpoint) []string {
	t.Helper()
	table, err := c.Table("sales")
	ok(t, err)
	defer table.Close()
	rows, err := table.Rows(t.Context(), []string{"city", "orders", "revenue", "__epoch", "__error"}, nil)
	ok(t, err)
	defer rows.Release()
	var out []string
	for rows.Next() {
		rec := rows.RecordBatch()
		for i := range int(rec.NumRows()) {
			var cells []string
			for _, col := range rec.Columns() {
				cells = append(cells, col.ValueStr(i))
			}
			out = append(out, strings.Join(cells, " "))
		}
	}
	ok(t, rows.Err())
	slices.Sort(out)
	return out
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, got, want []string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func named(name string) checkpoint.TransformOptions {
	return checkpoint.TransformOptions{Options: checkpoint.Options{Savepoint: name}, SQL: []string{"UPDATE sales SET …"}}
}

// groups are rows of the view with chosen values: nil is NULL.
func groups(rows ...[3]any) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, stateRows().Schema())
	defer b.Release()
	for _, r := range rows {
		for i, v := range r {
			switch v := v.(type) {
			case nil:
				b.Field(i).AppendNull()
			case string:
				b.Field(i).(*array.StringBuilder).Append(v)
			case int:
				b.Field(i).(*array.Int64Builder).Append(int64(v))
			}
		}
	}
	return b.NewRecordBatch()
}

func transform(c *checkpoint.Checkpoint, s *shop, name string, rows arrow.RecordBatch) (*checkpoint.Manifest, error) {
	v, _ := c.Manifest.View("sales")
	return checkpoint.Transform(context.Background(), c, s.fs, s.dir, map[string]checkpoint.NewState{"sales": checkpoint.Sorted(v, rows)}, nil, named(name))
}

// A transform is restored, and what it did not touch is what it was.
func TestTransformIsRestored(t *testing.T) {
	fsys := vfs.NewMem()
	s := newShop(fsys, "berlin", 1)
	s.sell(order{"Paris", 10}, order{"Rome", 5})
	c := s.checkpoint()
	m, err := transform(c, s, "fixed", groups([3]any{"Rome", 1, 6}, [3]any{"Paris", 1, 10}, [3]any{nil, 2, nil}))
	ok(t, err)
	at := c.Manifest.Epoch
	if m.Epoch != at+1 || m.Savepoint != "fixed" || m.Views[0].Edited != m.Edits[0].ID || m.Edits[0].SQL[0] != "UPDATE sales SET …" || m.Edits[0].From[0].Checkpoint != 1 || len(m.Edits[0].From[0].SHA256) != 64 {
		t.Errorf("manifest: %+v", m)
	}
	if want := (checkpoint.EditedView{View: "sales", Before: []int64{2}, After: 3, Added: 1, Changed: 1}); !cmp.Equal(want, m.Edits[0].Views[0]) {
		t.Errorf("counts: %+v", m.Edits[0].Views[0])
	}
	want := []string{
		fmt.Sprintf("(null) 2 (null) %d (null)", at+1),
		fmt.Sprintf("Paris 1 10 %d (null)", at+1), // Sorted rows came without epochs
		fmt.Sprintf("Rome 1 6 %d (null)", at+1),
	}
	equal(t, salesOf(t, open(fsys, s.dir, m)), want)
	_, err = checkpoint.Restore(t.Context(), checkpoint.Path(fsys, s.dir, m.Checkpoint), "again/state", state.Options{FS: fsys})
	ok(t, err)
	store, err := state.Open("again/state", state.Options{FS: fsys})
	ok(t, err)
	r := &shop{fs: fsys, store: store, dir: "again/checkpoints", topic: s.topic, next: s.next}
	r.sell(order{"Rome", 1})
	after := r.checkpoint()
	if after.Manifest.Views[0].Edited != m.Edits[0].ID {
		t.Error("the restored view forgot that it was edited")
	}
	if got := salesOf(t, after); !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "Rome 2 7 ") }) {
		t.Errorf("counting did not go on from the edit: %q", got)
	}
	ok(t, store.Close())
	ok(t, s.store.Close())
}

// A group whose __epoch is NULL is of the new epoch, whatever lies under the NULL.
func TestTransformOfNullEpochs(t *testing.T) {
	fsys := vfs.NewMem()
	s := newShop(fsys, "berlin", 1)
	s.sell(order{"Paris", 10}, order{"Rome", 5})
	c := s.checkpoint()
	v, _ := c.Manifest.View("sales")
	rows := func(ctx context.Context) (array.RecordReader, error) {
		in, err := checkpoint.Sorted(v, groups([3]any{"Rome", 1, 6}, [3]any{"Paris", 1, 10}, [3]any{"Oslo", 1, 1}))(ctx)
		if err != nil {
			return nil, err
		}
		defer in.Release()
		var recs []arrow.RecordBatch
		for in.Next() {
			rec := in.RecordBatch()
			n := int(rec.NumRows())
			under := memory.NewBufferBytes(bytes.Repeat([]byte{0x79}, 8*n))
			null := memory.NewBufferBytes(make([]byte, (n+7)/8))
			epochs := array.NewUint64Data(array.NewData(arrow.PrimitiveTypes.Uint64, n, []*memory.Buffer{null, under}, nil, n, 0))
			fields := append(slices.Clone(rec.Schema().Fields()), arrow.Field{Name: "__epoch", Type: epochs.DataType(), Nullable: true})
			recs = append(recs, array.NewRecordBatch(arrow.NewSchema(fields, nil), append(slices.Clone(rec.Columns()), epochs), int64(n)))
		}
		if len(recs) != 1 {
			return nil, fmt.Errorf("%d batches", len(recs))
		}
		return array.NewRecordReader(recs[0].Schema(), recs)
	}
	m, err := checkpoint.Transform(t.Context(), c, s.fs, s.dir, map[string]checkpoint.NewState{"sales": rows}, nil, named("fixed"))
	ok(t, err)
	at := c.Manifest.Epoch + 1
	equal(t, salesOf(t, open(fsys, s.dir, m)), []string{
		fmt.Sprintf("Oslo 1 1 %d (null)", at),
		fmt.Sprintf("Paris 1 10 %d (null)", at),
		fmt.Sprintf("Rome 1 6 %d (null)", at),
	})
	ok(t, s.store.Close())
}

// A file is never shared between a view and its edited form, though nothing else
// tells them apart.
func TestEditedFilesAreNotShared(t *testing.T) {
	fsys := vfs.NewMem()
	s := newShop(fsys, "berlin", 1)
	s.sell(order{"Paris", 10}, order{"Rome", 5})
	c := s.checkpoint()
	m, err := transform(c, s, "fixed", groups([3]any{"Rome", 1, 6}, [3]any{"Paris", 1, 10}))
	ok(t, err)
	again := s.checkpoint() // of the store, which was not restored; the newest there is the edited one
	if m.Views[0].Bytes != c.Manifest.Views[0].Bytes || m.Views[0].Groups != c.Manifest.Views[0].Groups {
		t.Fatal("the test is to edit without changing sizes")
	}
	got := salesOf(t, again)
	if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "Rome 1 5 ") }) {
		t.Errorf("the checkpoint of the store shows the edit: %q", got)
	}
	ok(t, s.store.Close())
}

func TestTransformRefuses(t *testing.T) {
	fsys := vfs.NewMem()
	s := newShop(fsys, "berlin", 1)
	s.sell(order{"Paris", 10}, order{"Rome", 5})
	c := s.checkpoint()
	v, _ := c.Manifest.View("sales")
	narrow := array.NewRecordBatch(arrow.NewSchema(stateRows().Schema().Fields()[:2], nil), stateRows(order{"x", 1}).Columns()[:2], 1)
	swapped := stateRows(order{"x", 1})
	f := swapped.Schema().Fields()
	swapped = array.NewRecordBatch(arrow.NewSchema([]arrow.Field{f[0], f[1], f[0]}, nil), []arrow.Array{swapped.Column(0), swapped.Column(1), swapped.Column(0)}, 1)
	silent := groups([3]any{"Rome", 1, 5})
	why := array.NewStringBuilder(memory.DefaultAllocator)
	why.Append("")
	silent = array.NewRecordBatch(arrow.NewSchema(append(silent.Schema().Fields(), arrow.Field{Name: "__error", Type: arrow.BinaryTypes.String, Nullable: true}), nil), append(silent.Columns(), why.NewArray()), 1)
	for what, x := range map[string]struct {
		views map[string]checkpoint.NewState
		name  string
		want  string
	}{
		"another view":     {map[string]checkpoint.NewState{"cities": checkpoint.Sorted(v)}, "n", "it has no view cities; it has sales"},
		"a key twice":      {map[string]checkpoint.NewState{"sales": checkpoint.Sorted(v, groups([3]any{"Rome", 1, 1}, [3]any{"Rome", 2, 2}))}, "n", "two rows have the key city = Rome"},
		"a NULL count":     {map[string]checkpoint.NewState{"sales": checkpoint.Sorted(v, groups([3]any{"Rome", nil, 1}))}, "n", "orders is NULL where city = Rome"},
		"a negative count": {map[string]checkpoint.NewState{"sales": checkpoint.Sorted(v, groups([3]any{"Rome", -1, 1}))}, "n", "orders is -1 where city = Rome"},
		"a group of none":  {map[string]checkpoint.NewState{"sales": checkpoint.Sorted(v, groups([3]any{strings.Repeat("R", 200), 0, 1}))}, "n", "orders is 0 where city = " + strings.Repeat("R", 80) + "…: a group has a record at least"},
		"an unsaid error":  {map[string]checkpoint.NewState{"sales": checkpoint.Sorted(v, silent)}, "n", "__error is '' where the key is city = Rome"},
		"few columns":      {map[string]checkpoint.NewState{"sales": checkpoint.Sorted(v, narrow)}, "n", "rows have 2 columns"},
		"another type":     {map[string]checkpoint.NewState{"sales": checkpoint.Sorted(v, swapped)}, "n", "__sum_amount"},
		"no change":        {map[string]checkpoint.NewState{"sales": checkpoint.Sorted(v, groups([3]any{"Rome", 1, 5}, [3]any{"Paris", 1, 10}))}, "n", checkpoint.ErrSame.Error()},
		"no name":          {map[string]checkpoint.NewState{"sales": checkpoint.Sorted(v)}, "", "name of a savepoint"},
		"a number":         {map[string]checkpoint.NewState{"sales": checkpoint.Sorted(v)}, "1", "a number is that of a checkpoint"},
	} {
		_, err := checkpoint.Transform(t.Context(), c, fsys, s.dir, x.views, nil, named(x.name))
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	list, err := checkpoint.List(fsys, s.dir)
	ok(t, err)
	if names, _ := fsys.List(s.dir); len(list) != 1 || len(names) != 1 {
		t.Errorf("a refused transform left something: %q", names)
	}
	_, err = transform(c, s, "taken", groups())
	ok(t, err)
	if _, err = transform(c, s, "taken", groups()); !errors.Is(err, checkpoint.ErrExists) {
		t.Errorf("a name twice: %v", err)
	}
	ok(t, s.store.Close())
}

func TestMergeRefuses(t *testing.T) {
	fsys := vfs.NewMem()
	one := func(name string, topic byte, next int64, orders ...order) *shop {
		s := newShop(fsys, name, topic)
		if next > 0 { // began there
			s = newShopAt(fsys, name+"-at", topic, next)
		}
		s.sell(orders...)
		return s
	}
	a := one("a", 1, 0, order{"Paris", 1}, order{"Rome", 2}).checkpoint()
	merge := func(name string, cs ...*checkpoint.Checkpoint) (*checkpoint.Manifest, error) {
		return checkpoint.Merge(t.Context(), cs, fsys, "out", nil, checkpoint.Options{Savepoint: name})
	}
	refused := func(want string, cs ...*checkpoint.Checkpoint) {
		t.Helper()
		if _, err := merge("x", cs...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	refused("two checkpoints or more", a)
	refused("view sales: orders partition 0: a/checkpoints/00000001 has counted the offsets from 0 up to 2, and this one from 0 up to 2: records would be counted twice", a, a)
	refused("from 1 up to 2: records would be counted twice", a, one("b", 1, 1, order{"Paris", 1}).checkpoint())
	refused("from 3 up to 4: the records between would be left out", a, one("c", 1, 3, order{"Paris", 1}).checkpoint())

	other := one("d", 2, 0, order{"Paris", 1}).checkpoint()
	other.Manifest.Views[0].Fingerprint = "other"
	refused("keeps other state", a, other)
	other.Manifest.Views[0].Name = "elsewhere"
	refused("it has no view sales", a, other)
	refused("it has no view elsewhere", other, a)
	if names, err := fsys.List("out"); err == nil && len(names) > 0 {
		t.Errorf("a refused merge left %q", names)
	}

	// One goes on exactly where the other ended: that can be resumed.
	m, err := merge("whole", a, one("e", 1, 2, order{"Paris", 7}).checkpoint())
	ok(t, err)
	ok(t, m.Resumable())
	if p := m.Views[0].Positions; len(p) != 1 || p[0].Next != 3 || m.Views[0].First[0].Next != 0 || m.Cursors[0].Records != 3 {
		t.Errorf("positions %+v, first %+v, cursors %+v", p, m.Views[0].First, m.Cursors)
	}
	equal(t, firsts(salesOf(t, open(fsys, "out", m)), 3), []string{"Paris 2 8", "Rome 1 2"})
	e := m.Edits[0]
	if want := (checkpoint.EditedView{View: "sales", Before: []int64{2, 1}, After: 2, Removed: 1}); e.Kind != "merge" || len(e.From) != 2 || !cmp.Equal(want, e.Views[0]) {
		t.Errorf("edit: %+v", e)
	}
}

// firsts are the first n words of each line.
func firsts(lines []string, n int) (out []string) {
	for _, l := range lines {
		out = append(out, strings.Join(strings.Fields(l)[:n], " "))
	}
	return out
}

// newShopAt begins to count at an offset.
func newShopAt(fsys vfs.FS, name string, topic byte, next int64) *shop {
	store, err := state.Open(name+"/state", state.Options{FS: fsys})
	check(err)
	_, err = store.CreateSource(state.Source{Name: "orders", SQL: "CREATE SOURCE orders (city VARCHAR, amount BIGINT)"})
	check(err)
	_, err = store.CreateView("CREATE MATERIALIZED VIEW sales AS "+sales().Select, sales(), false, nil)
	check(err)
	s := &shop{fs: fsys, store: store, dir: name + "/checkpoints", topic: [16]byte{topic}, next: next}
	check(store.Start(store.Catalog().Sources[0].Cursor, []state.Position{{Topic: "orders", TopicID: s.topic, Next: next}}))
	return s
}

func TestMergeOverflowIsAnErrorOfTheGroup(t *testing.T) {
	fsys := vfs.NewMem()
	a, b := newShop(fsys, "a", 1), newShop(fsys, "b", 2)
	a.sell(order{"Paris", 1<<63 - 1}, order{"Rome", 1})
	b.sell(order{"Paris", 1}, order{"Rome", 2})
	m, err := checkpoint.Merge(t.Context(), []*checkpoint.Checkpoint{a.checkpoint(), b.checkpoint()}, fsys, "out", nil, checkpoint.Options{Savepoint: "x"})
	ok(t, err)
	got := salesOf(t, open(fsys, "out", m))
	if m.Views[0].Errors != 1 || len(got) != 2 || !strings.HasPrefix(got[0], "Paris (null) (null)") || !strings.Contains(got[0], "beyond the range of BIGINT") || !strings.HasPrefix(got[1], "Rome 2 3 ") {
		t.Errorf("errors %d: %q", m.Views[0].Errors, got)
	}
}

// Many random orders in three shops, merged, are what a map makes of them; and the
// diff of two of their checkpoints is what two maps differ in.
func TestMergeAndDiffAreWhatAMapSays(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 29))
	fsys := vfs.NewMem()
	type group struct{ orders, revenue int64 }
	all, last := map[string]group{}, map[string]group{}
	var from []*checkpoint.Checkpoint
	var shops []*shop
	for i := range 3 {
		s := newShop(fsys, fmt.Sprint("shop", i), byte(i+1))
		shops = append(shops, s)
		last = map[string]group{}
		var orders []order
		for range 30_000 {
			o := order{fmt.Sprint("city ", r.IntN(20_000)), r.Int64N(2000) - 1000}
			orders = append(orders, o)
			for _, m := range []map[string]group{all, last} {
				g := m[o.city]
				m[o.city] = group{g.orders + 1, g.revenue + o.amount}
			}
		}
		s.sell(orders...)
		from = append(from, s.checkpoint())
	}
	m, err := checkpoint.Merge(t.Context(), from, fsys, "out", nil, checkpoint.Options{Savepoint: "all"})
	ok(t, err)
	merged := open(fsys, "out", m)
	ok(t, merged.Verify(t.Context()))
	lines := func(m map[string]group) (out []string) {
		for c, g := range m {
			out = append(out, fmt.Sprint(c, " ", g.orders, " ", g.revenue))
		}
		slices.Sort(out)
		return out
	}
	got := firsts(salesOf(t, merged), 4)
	slices.Sort(got)
	equal(t, got, lines(all))

	var want checkpoint.DiffCount
	after := map[string]group{}
	maps.Copy(after, last)
	var more []order
	for range 500 {
		o := order{fmt.Sprint("city ", r.IntN(40_000)), r.Int64N(2000) - 1000}
		more = append(more, o)
		after[o.city] = group{after[o.city].orders + 1, after[o.city].revenue + o.amount}
	}
	for c, g := range after {
		switch old, ok := last[c]; {
		case !ok:
			want.Added++
		case old != g:
			want.Changed++
		default:
			want.Same++
		}
	}
	shops[2].sell(more...)
	rows := int64(0)
	count, err := checkpoint.Diff(t.Context(), from[2], shops[2].checkpoint(), "sales", func(rec arrow.RecordBatch) error {
		rows += rec.NumRows()
		before, now := rec.Column(2).(*array.Struct), rec.Column(3).(*array.Struct)
		for i := range int(rec.NumRows()) {
			city := strings.Clone(rec.Column(1).(*array.String).Value(i))
			side := func(s *array.Struct) any {
				if s.IsNull(i) {
					return nil
				}
				return group{s.Field(0).(*array.Int64).Value(i), s.Field(1).(*array.Int64).Value(i)}
			}
			var old any
			if g, ok := last[city]; ok {
				old = g
			}
			if side(before) != old || side(now) != any(after[city]) {
				t.Errorf("%s: %v became %v, not %v and %v", city, side(before), side(now), old, after[city])
			}
		}
		return nil
	})
	ok(t, err)
	if count != want || rows != want.Added+want.Changed {
		t.Errorf("%+v in %d rows, not %+v", count, rows, want)
	}
	back, err := checkpoint.Diff(t.Context(), shops[2].checkpoint(), from[2], "sales", nil)
	ok(t, err)
	if back != (checkpoint.DiffCount{Same: want.Same, Removed: want.Added, Changed: want.Changed}) {
		t.Errorf("the other way round: %+v", back)
	}
}
