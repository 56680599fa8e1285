package state

import (
	"errors"
	"reflect"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
)

func TestCatalog(t *testing.T) {
	fsys := vfs.NewMem()
	s := mustOpen(t, fsys, Options{})
	withViews(t, s, "by_city", "total")
	do(t, s.CreateQuery(Query{Name: "top", SQL: "CREATE VIEW top", Select: "SELECT 1"}))
	for name, err := range map[string]error{
		"query named as a view":   s.CreateQuery(Query{Name: "BY_CITY"}),
		"source named as a query": func() error { _, err := s.CreateSource(Source{Name: "Top"}); return err }(),
		"view named as a source": func() error {
			p := planOf("by_id")
			p.Name = "ORDERS"
			_, err := s.CreateView("", p, false, nil)
			return err
		}(),
	} {
		if !errors.Is(err, ErrExists) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := planOf("by_id")
	p.Source = "nowhere"
	if _, err := s.CreateView("", p, false, nil); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	inUse, ok := errors.AsType[*InUseError](s.Drop("Orders"))
	if !ok || !reflect.DeepEqual(inUse.Views, []string{"by_city", "total"}) {
		t.Error("a source in use was dropped", inUse)
	}
	old := s.Catalog()
	total, _ := old.View("total")
	do(t, s.SetViewSQL(total.ID, "CREATE MATERIALIZED VIEW total WITH (...) AS ..."))
	if err := s.SetViewSQL(total.ID+1000, ""); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	before := s.Catalog()
	if v, _ := before.View("total"); v.SQL != "CREATE MATERIALIZED VIEW total WITH (...) AS ..." || total.SQL == v.SQL {
		t.Errorf("%q, and who has the catalogue of before sees %q", v.SQL, total.SQL)
	}
	do(t, s.Close())
	s = mustOpen(t, fsys, Options{})
	if d := cmp.Diff(before, s.Catalog()); d != "" {
		t.Error("the catalogue changed on its way:", d)
	}
	for _, name := range []string{"TOTAL", "by_city", "top", "orders"} {
		do(t, s.Drop(name))
	}
	if err := s.Drop("orders"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	withViews(t, s, "by_city")
	if v, _ := s.Catalog().View("by_city"); v.ID <= before.Views[1].ID || v.Cursor <= before.Views[1].Cursor {
		t.Errorf("ids were given again: view %d on cursor %d", v.ID, v.Cursor)
	}
	verifyStore(t, s)
	do(t, s.Close())
}

// A snapshot shows a view that was dropped after it was taken, and data of a
// dropped view is gone for a new one of the same name.
func TestDropUnderSnapshot(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), Options{})
	c := withViews(t, s, "by_id")
	do(t, foldNext(t.Context(), s, c, 0, 100))
	_, err := s.Commit(t.Context())
	do(t, err)
	sn, err := s.Snapshot()
	do(t, err)
	do(t, foldNext(t.Context(), s, c, 0, 100))
	do(t, s.Drop("by_id"))
	createView(t, s, "by_id", false)
	if err := verify(t.Context(), sn); err != nil {
		t.Error(err)
	}
	sn.Close()
	sn.Close()
	verifyStore(t, s)
	do(t, s.Close())
}

func TestJoin(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), Options{})
	c := withViews(t, s, "by_city")
	do(t, s.Start(c, []Position{{Topic: "orders", TopicID: [16]byte{1}, Partition: 0, Next: 7}}))
	if v, _ := s.Catalog().View("by_city"); len(v.First) != 1 || v.First[0].Next != 7 {
		t.Errorf("first positions %+v", v.First)
	}
	do(t, foldNext(t.Context(), s, c, 0, 50))
	v := createView(t, s, "by_id", true)
	if v.Cursor == c {
		t.Fatal("no cursor of its own")
	}
	err := s.Join(v.ID)
	if b, ok := errors.AsType[*BehindError](err); !ok || b.Source.Next != 57 || b.View.Next != 0 {
		t.Error("a view that is behind joined:", err)
	}
	do(t, s.Start(v.Cursor, []Position{{Topic: "orders", TopicID: [16]byte{1}, Partition: 0, Next: 7}}))
	do(t, foldNext(t.Context(), s, v.Cursor, 0, 50))
	verifyStore(t, s)
	do(t, s.Join(v.ID))
	do(t, s.Join(v.ID))
	verifyStore(t, s)
	if now, _ := s.Catalog().View("by_id"); now.Cursor != c || s.Positions(v.Cursor) != nil {
		t.Error("it did not join", now.Cursor, s.Positions(v.Cursor))
	}
	if err := foldNext(t.Context(), s, v.Cursor, 0, 1); !errors.Is(err, ErrStale) {
		t.Error("its old cursor still folds:", err)
	}
	do(t, foldNext(t.Context(), s, c, 0, 50))
	_, err = s.Commit(t.Context())
	do(t, err)
	verifyStore(t, s)
	do(t, s.Close())
}

// Counts are exact whatever is kept; what is kept is the newest, and bounded.
func TestQuarantine(t *testing.T) {
	fsys := vfs.NewMem()
	o := Options{QuarantineBytes: 4000}
	s := mustOpen(t, fsys, o)
	c := withViews(t, s, "by_id")
	v, _ := s.Catalog().View("by_id")
	src, _ := s.Catalog().Source("orders")
	offset := int64(0)
	for range 20 {
		f := Fold{Cursor: c, Partials: []Partial{{View: v.ID}}}
		for range 10 {
			r := Refused{Source: src.ID, Topic: "orders", Offset: offset, Reason: "no number", Column: "amount", Value: make([]byte, 20)}
			if offset%2 == 0 {
				r.View = v.ID
			}
			f.Refused = append(f.Refused, r)
			offset++
		}
		do(t, s.Fold(t.Context(), f))
		_, err := s.Commit(t.Context())
		do(t, err)
	}
	do(t, s.Close())
	s = mustOpen(t, fsys, o)
	sn, err := s.Snapshot()
	do(t, err)
	defer sn.Close()
	n := sn.RefusedCount(src.ID)
	if n.Total != 200 || n.ByView[v.ID] != 100 || n.ByView[0] != 100 || n.Bytes > 4000 || n.Bytes < 1000 {
		t.Errorf("%+v", n)
	}
	kept, err := sn.Refused(src.ID, 0, 1000)
	do(t, err)
	if int64(len(kept)) != n.Kept || kept[len(kept)-1].Offset != 199 || kept[len(kept)-1].Seq != 200 {
		t.Errorf("%d records, counted %d, the last %+v", len(kept), n.Kept, kept[len(kept)-1])
	}
	first := kept[0]
	want := RefusedRecord{Refused{Source: src.ID, View: first.View, Topic: "orders", Offset: int64(first.Seq) - 1, Reason: "no number", Column: "amount", Value: make([]byte, 20)}, first.Seq, first.Epoch}
	if d := cmp.Diff(want, first); d != "" {
		t.Error(d)
	}
	if page, err := sn.Refused(src.ID, first.Seq, 3); err != nil || len(page) != 3 || page[0].Seq != first.Seq+1 {
		t.Error(page, err)
	}
}

// What is dumped and loaded is the same store, and it goes on.
func TestLoad(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), Options{})
	c := withViews(t, s, "by_city", "by_id", "total")
	for p := range int32(3) {
		do(t, foldNext(t.Context(), s, c, p, 100))
		_, err := s.Commit(t.Context())
		do(t, err)
	}
	sn, err := s.Snapshot()
	do(t, err)
	cat := sn.Catalog()
	d := Dump{
		Epoch: sn.Epoch(), Sources: cat.Sources, Views: cat.Views, Queries: cat.Queries, NextID: 50, NextCursor: cat.NextCursor,
		Positions: map[CursorID][]Position{c: sn.Positions(c)}, Records: map[CursorID]int64{c: sn.Records(c)},
		Rows: func(v ViewID) (array.RecordReader, error) {
			return sn.Scan(t.Context(), ScanRequest{View: v, Extra: Extra{Slot: true, Epoch: true, Error: true}, BatchRows: 17})
		},
	}
	fsys := vfs.NewMem()
	do(t, Load("data", Options{FS: fsys}, d))
	if err := Load("data", Options{FS: fsys}, d); !errors.Is(err, ErrExists) {
		t.Error("loaded over a store:", err)
	}
	r := mustOpen(t, fsys, Options{})
	loaded, err := r.Snapshot()
	do(t, err)
	if err := verify(t.Context(), loaded); err != nil {
		t.Error(err)
	}
	for _, v := range cat.Views {
		if a, b := sn.Stats(v.ID), loaded.Stats(v.ID); a != b {
			t.Errorf("view %s: %+v became %+v", v.Plan.Name, a, b)
		}
	}
	if loaded.Epoch() != sn.Epoch() || loaded.Records(c) != 300 {
		t.Error(loaded.Epoch(), loaded.Records(c))
	}
	loaded.Close()
	do(t, foldNext(t.Context(), r, c, 0, 70))
	if v := createView(t, r, "by_id2", true); v.ID != 50 {
		t.Error("the next id is", v.ID)
	}
	verifyStore(t, r)
	do(t, r.Close())
	sn.Close()
	do(t, s.Close())
}
