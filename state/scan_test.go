package state

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"
)

func texts(values ...string) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	for _, v := range values {
		if v == "NULL" {
			b.AppendNull()
		} else {
			b.Append(v)
		}
	}
	return b.NewArray()
}

func minutes(values ...int64) arrow.Array {
	b := array.NewTimestampBuilder(memory.DefaultAllocator, &arrow.TimestampType{Unit: arrow.Microsecond})
	for _, v := range values {
		b.Append(arrow.Timestamp(v * 60e6))
	}
	return b.NewArray()
}

// A scan with filters gives what a full scan gives after them, and reads no more
// than it has to.
func TestScanFilters(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), Options{})
	c := withViews(t, s, "by_city")
	for p := range int32(3) {
		do(t, foldNext(t.Context(), s, c, p, 200))
	}
	_, err := s.Commit(t.Context())
	do(t, err)
	sn, err := s.Snapshot()
	do(t, err)
	defer sn.Close()
	v, _ := sn.Catalog().View("by_city")
	all, err := readGroups(t.Context(), sn, v)
	do(t, err)
	const city, minute = 0, 1
	for name, c := range map[string]struct {
		filters []Filter
		allows  func(r record) bool
		points  int
		spans   int
	}{
		"none":       {nil, func(record) bool { return true }, 0, 1},
		"both equal": {[]Filter{{Column: city, In: texts("Paris")}, {Column: minute, In: minutes(2)}}, func(r record) bool { return r.city == "Paris" && r.minute == 2*60e6 }, 1, 0},
		"both in": {[]Filter{{Column: city, In: texts("Paris", "NULL", "nowhere")}, {Column: minute, In: minutes(2, 3)}}, func(r record) bool {
			return (r.city == "Paris" || r.city == "NULL") && (r.minute == 2*60e6 || r.minute == 3*60e6)
		}, 6, 0},
		"city":             {[]Filter{{Column: city, In: texts("NULL")}}, func(r record) bool { return r.city == "NULL" }, 0, 1},
		"city and range":   {[]Filter{{Column: city, In: texts("Oslo\x00")}, {Column: minute, Min: minutes(1), Max: minutes(3)}}, func(r record) bool { return r.city == "Oslo\x00" && r.minute >= 60e6 && r.minute <= 3*60e6 }, 0, 1},
		"minute":           {[]Filter{{Column: minute, In: minutes(0, 4)}}, func(r record) bool { return r.minute == 0 || r.minute == 4*60e6 }, 0, Slots},
		"minute from":      {[]Filter{{Column: minute, Min: minutes(3)}}, func(r record) bool { return r.minute >= 3*60e6 }, 0, Slots},
		"city range":       {[]Filter{{Column: city, Min: texts("P"), Max: texts("Q")}}, func(r record) bool { return r.city == "Paris" }, 0, 1},
		"nothing":          {[]Filter{{Column: city, In: texts()}}, func(record) bool { return false }, 0, 0},
		"two that exclude": {[]Filter{{Column: city, In: texts("Rome")}, {Column: city, In: texts("Paris")}}, func(record) bool { return false }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]group{}
			for p := range int32(3) {
				for o := range int64(200) {
					if r := recordAt(p, o); c.allows(r) {
						want[keyText(v.Plan, r)] = all[keyText(v.Plan, r)]
					}
				}
			}
			got := map[string]group{}
			req := ScanRequest{View: v.ID, Filters: c.filters, BatchRows: 3}
			way, err := sn.p.shapes[v.ID].plan(&req)
			do(t, err)
			if len(way.points) != c.points || len(way.spans) != c.spans {
				t.Errorf("%d points and %d spans, not %d and %d", len(way.points), len(way.spans), c.points, c.spans)
			}
			rows, err := sn.Scan(t.Context(), req)
			do(t, err)
			defer rows.Release()
			for rows.Next() {
				if n := rows.RecordBatch().NumRows(); n > 3 {
					t.Error("a batch of", n)
				}
				do(t, collect(got, v.Plan, rows.RecordBatch()))
			}
			do(t, rows.Err())
			if !maps.Equal(got, want) {
				t.Errorf("got %v\nwant %v", got, want)
			}
		})
	}
}

// Slot ranges part the groups; columns come in the order asked for; the slot of
// a group is that of Locate, and all buckets of a city share it.
func TestScanSlotsAndColumns(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), Options{})
	c := withViews(t, s, "by_city")
	do(t, foldNext(t.Context(), s, c, 0, 300))
	epoch, err := s.Commit(t.Context())
	do(t, err)
	sn, err := s.Snapshot()
	do(t, err)
	defer sn.Close()
	v, _ := sn.Catalog().View("by_city")
	total, slots := 0, map[string]uint16{}
	for from := 0; from < Slots; from += 32 {
		rows, err := sn.Scan(t.Context(), ScanRequest{View: v.ID, Columns: []int{2, 0, 1}, Extra: Extra{Slot: true, Epoch: true, Error: true}, FromSlot: from, ToSlot: from + 32})
		do(t, err)
		for rows.Next() {
			b := rows.RecordBatch()
			city, slot := b.Column(1).(*array.String), b.Column(3).(*array.Uint16)
			want, order, err := Locate(&v.Plan, []arrow.Array{b.Column(1), b.Column(2)})
			do(t, err)
			for i := range city.Len() {
				name := city.ValueStr(i)
				if old, ok := slots[name]; ok && old != slot.Value(i) {
					t.Errorf("%q has slots %d and %d", name, old, slot.Value(i))
				}
				slots[name] = slot.Value(i)
				if slot.Value(i) != want[i] || int(want[i]) < from || int(want[i]) >= from+32 {
					t.Errorf("slot %d of %q, by Locate %d, in %d to %d", slot.Value(i), name, want[i], from, from+32)
				}
				if b.Column(4).(*array.Uint64).Value(i) != epoch || b.Column(5).IsValid(i) {
					t.Error("wrong epoch or an error", b)
				}
				if i > 0 && want[i] == want[i-1] && slices.Compare(order[i-1], order[i]) >= 0 {
					t.Error("out of order")
				}
			}
			total += int(b.NumRows())
		}
		do(t, rows.Err())
		rows.Release()
	}
	if st := sn.Stats(v.ID); int64(total) != st.Groups || len(slots) != 5 {
		t.Errorf("%d groups of %d, cities %v", total, st.Groups, slots)
	}
	for _, r := range []ScanRequest{
		{View: 99},
		{View: v.ID, Columns: []int{5}},
		{View: v.ID, Columns: []int{1, 1}},
		{View: v.ID, FromSlot: 3, ToSlot: 2},
		{View: v.ID, Filters: []Filter{{Column: 2, In: texts("x")}}},
		{View: v.ID, Filters: []Filter{{Column: 0, In: minutes(1)}}},
	} {
		if _, err := sn.Scan(t.Context(), r); err == nil {
			t.Errorf("scan of %+v", r)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	rows, err := sn.Scan(ctx, ScanRequest{View: v.ID, BatchRows: 1})
	do(t, err)
	defer rows.Release()
	rows.Next()
	cancel()
	if rows.Next() || !errors.Is(rows.Err(), context.Canceled) {
		t.Error("a cancelled scan went on")
	}
}

// A sum that overflows puts its group in error, for ever and with its reason,
// and no other.
func TestGroupInError(t *testing.T) {
	fsys := vfs.NewMem()
	s := mustOpen(t, fsys, Options{})
	c := withViews(t, s, "by_id")
	v, _ := s.Catalog().View("by_id")
	add := func(id, count int64) {
		b := partial(v.Plan, []record{{id: id, name: "x"}})
		cols := slices.Clone(b.Columns())
		n := array.NewInt64Builder(memory.DefaultAllocator)
		n.Append(count)
		cols[1] = n.NewArray()
		do(t, s.Fold(t.Context(), Fold{Cursor: c, Partials: []Partial{{v.ID, array.NewRecordBatch(b.Schema(), cols, 1)}}}))
	}
	add(1, 1<<62)
	add(2, 5)
	add(1, 1<<62)
	_, err := s.Commit(t.Context())
	do(t, err)
	for range 2 {
		do(t, s.Close())
		s = mustOpen(t, fsys, Options{})
		add(1, 1)
		_, err = s.Commit(t.Context())
		do(t, err)
	}
	sn, err := s.Snapshot()
	do(t, err)
	defer sn.Close()
	if st := sn.Stats(v.ID); st.Errors != 1 || st.Groups != 2 {
		t.Errorf("%+v", st)
	}
	rows, err := sn.Scan(t.Context(), ScanRequest{View: v.ID, Extra: Extra{Error: true}})
	do(t, err)
	defer rows.Release()
	for rows.Next() {
		b := rows.RecordBatch()
		for i := range int(b.NumRows()) {
			failed, id := b.Column(4).(*array.String), b.Column(0).(*array.Int64).Value(i)
			if failed.IsValid(i) != (id == 1) || id == 1 && failed.Value(i) != "__count: the sum is beyond the range of BIGINT" {
				t.Errorf("group %d: %q", id, failed.ValueStr(i))
			}
			if b.Column(1).IsNull(i) {
				t.Error("NULL in place of an error")
			}
		}
	}
}

// Pages that begin after the last key of the page before are the whole scan, in
// its order, also where a slot or a filter bounds them.
func TestScanAfter(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), Options{})
	c := withViews(t, s, "by_city")
	do(t, foldNext(t.Context(), s, c, 0, 300))
	_, err := s.Commit(t.Context())
	do(t, err)
	sn, err := s.Snapshot()
	do(t, err)
	defer sn.Close()
	v, _ := sn.Catalog().View("by_city")
	read := func(r ScanRequest, limit int) (keys []string) {
		r.View, r.Extra, r.Columns, r.BatchRows = v.ID, Extra{Key: true}, []int{}, 7
		rows, err := sn.Scan(t.Context(), r)
		do(t, err)
		defer rows.Release()
		for rows.Next() {
			col := rows.RecordBatch().Column(0).(*array.Binary)
			for i := range col.Len() {
				if len(keys) < limit {
					keys = append(keys, string(col.Value(i)))
				}
			}
		}
		do(t, rows.Err())
		return keys
	}
	for name, r := range map[string]ScanRequest{
		"whole": {}, "slots": {FromSlot: 64, ToSlot: 192}, "one city": {Filters: []Filter{{Column: 0, In: texts("Paris")}}},
		"points": {Filters: []Filter{{Column: 0, In: texts("Paris", "Rome", "NULL")}, {Column: 1, In: minutes(0, 1, 2, 3)}}},
	} {
		all := read(r, 1<<30)
		if len(all) < 3 || !slices.IsSorted(all) {
			t.Fatalf("%s: %d keys", name, len(all))
		}
		var paged []string
		for {
			page := read(r, 5)
			paged = append(paged, page...)
			if len(page) < 5 {
				break
			}
			r.After = []byte(page[4])
		}
		if !slices.Equal(paged, all) {
			t.Errorf("%s: pages hold %d keys, the scan %d", name, len(paged), len(all))
		}
	}
}
