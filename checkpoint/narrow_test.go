package checkpoint

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/state"
	"weir/state/plan"
	"weir/state/sqltype"
)

// TestDeltasOfNarrowKeys: a view whose keys a file may not be able to hold has deltas
// while it holds them all; with a group whose key it cannot hold, which would look like
// that of NULL, the view is whole, and so long as it has it.
func TestDeltasOfNarrowKeys(t *testing.T) {
	for _, typ := range []string{"HUGEINT", "UHUGEINT", "TIMESTAMP_S", "TIMESTAMP_MS"} {
		t.Run(typ, func(t *testing.T) {
			onEvery(t, func(t *testing.T, fsys vfs.FS) { testNarrowKeys(t, fsys, sqltype.MustParse(typ)) })
		})
	}
}

func testNarrowKeys(t *testing.T, fsys vfs.FS, typ sqltype.Type) {
	p := revenue()
	p.Keys = []plan.Key{{Name: "__key_1", Type: typ, Result: -1}}
	p.Accs, p.Results, p.Visible = p.Accs[:1], []plan.Result{p.Results[1]}, ""
	const unfit, null = -1, -2
	rows := func(keys ...int64) arrow.RecordBatch {
		key, count := array.NewBuilder(memory.DefaultAllocator, typ.Inside()), array.NewInt64Builder(memory.DefaultAllocator)
		for _, k := range keys {
			count.Append(1)
			high := uint64(0)
			switch b := key.(type) {
			case *array.FixedSizeBinaryBuilder: // 128 bits, the least first
				if k == unfit {
					high = 1<<63 - 1
				}
				b.Append(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(k)), high))
			case *array.TimestampBuilder:
				if k == unfit {
					k = 1 << 61
				}
				b.Append(arrow.Timestamp(k))
			default:
				t.Fatalf("%s travels as %s", typ, b.Type())
			}
		}
		a := key.NewArray()
		if keys[0] == null {
			a = array.MakeArrayOfNull(memory.DefaultAllocator, typ.Inside(), len(keys))
		}
		var fields []arrow.Field
		for _, c := range p.StateColumns() {
			fields = append(fields, c.Type.InsideField(c.Name))
		}
		return array.NewRecordBatch(arrow.NewSchema(fields, nil), []arrow.Array{a, count.NewArray()}, int64(len(keys)))
	}
	local := vfs.NewMem()
	c := &course{t: t, r: rng(t), fs: fsys, local: local, s: openStore(t, local, "live")}
	if _, err := c.s.CreateSource(state.Source{Name: "orders", SQL: "CREATE SOURCE orders"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.s.CreateView("CREATE v", p, false, nil); err != nil {
		t.Fatal(err)
	}
	next := int64(0)
	take := func(what string, parts int, rec arrow.RecordBatch) {
		t.Helper()
		next += 10
		foldOf(t, c.s, next, func(*plan.View) arrow.RecordBatch { return rec })
		if _, err := c.s.Mark(t.Context()); err != nil {
			t.Fatal(err)
		}
		sn, err := c.s.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		defer sn.Close()
		m := c.write(sn, Options{})
		v := &m.Views[0]
		if len(v.Files()) != parts {
			t.Fatalf("%s: %d files, want %d", what, len(v.Files()), parts)
		}
		if names, err := fsys.List(fsys.PathJoin(Path(fsys, dir, m.Checkpoint), "views")); err != nil || len(names) != 1 {
			t.Errorf("%s: views/ has %v, %v", what, names, err)
		}
		if v.Whole() && parts == 1 && m.Checkpoint > 1 && m.BasedOn != nil {
			t.Errorf("%s: it shares nothing, but is based on %+v", what, m.BasedOn)
		}
		checkAccount(t, fsys, m.Checkpoint, c.account(sn), c.r)
	}
	many := make([]int64, 100)
	for i := range many {
		many[i] = int64(i)
	}
	take("the first", 1, rows(many...))
	take("NULL is a key", 2, rows(null))
	take("some changed", 3, rows(3, 200))
	take("a key that does not fit", 1, rows(5, unfit))
	take("while it is there", 1, rows(6))
	take("and counts on", 1, rows(unfit))

	// The key is NULL in the file, which is not what the group is called.
	at, err := Open(fsys, Path(fsys, dir, 6))
	if err != nil {
		t.Fatal(err)
	}
	table, err := at.Table(p.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	results, err := table.Results(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer results.Release()
	for results.Next() {
	}
	if want := "the group __key_1 = NULL or a value that files cannot hold is in error: __key_1: the " + typ.String(); results.Err() == nil || !strings.Contains(results.Err().Error(), want) {
		t.Errorf("%v, not %s", results.Err(), want)
	}
}

// TestDeltaOfGoneNarrowKey: a group came and went between two checkpoints, and its key
// would be NULL in the delta.
func TestDeltaOfGoneNarrowKey(t *testing.T) {
	r, f := rng(t), newFake()
	p := revenue()
	p.Results, p.Visible = p.Results[:2], ""
	p.Accs = p.Accs[:1]
	p.Keys[1].Type = sqltype.MustParse("TIMESTAMP_S")
	change := f.addChanging(t, r, p, 60)
	mem := vfs.NewMem()
	write(t, mem, f)
	change()
	if m := write(t, mem, f); m.Views[0].Whole() {
		t.Fatal("there is no delta")
	}
	rec := f.changed(1, 0)[0]
	for i := range int(rec.NumRows()) {
		if !rec.Column(int(rec.NumCols()) - 1).(*array.Boolean).Value(i) {
			continue
		}
		b := array.NewTimestampBuilder(memory.DefaultAllocator, sqltype.MustParse("TIMESTAMP_S").Inside().(*arrow.TimestampType))
		for j := range int(rec.NumRows()) {
			if j == i {
				b.Append(1 << 61)
			} else {
				b.Append(rec.Column(1).(*array.Timestamp).Value(j))
			}
		}
		cols := slices.Clone(rec.Columns())
		cols[1] = b.NewArray()
		gone := array.NewRecordBatch(rec.Schema(), cols, rec.NumRows())
		f.changed = func(state.ViewID, uint64) []arrow.RecordBatch { return []arrow.RecordBatch{gone} }
		f.epoch++
		f.records++
		if m := write(t, mem, f); !m.Views[0].Whole() || m.Views[0].Errors != 0 {
			t.Errorf("%d files, %d groups in error", len(m.Views[0].Files()), m.Views[0].Errors)
		}
		return
	}
	t.Fatal("nothing is gone")
}
