package state

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A record that is refused for all views comes again with each cursor that
// reads it, and stands in the quarantine once: none is lost, none is doubled.
func TestRefusedOnce(t *testing.T) {
	fs := vfs.NewMem()
	s := mustOpen(t, fs, Options{})
	shared := withViews(t, s, "by_id")
	src, _ := s.Catalog().Source("orders")
	first, _ := s.Catalog().View("by_id")
	at := func(next int64) []Position { return []Position{{Topic: "orders", Partition: 1, Next: next}} }
	fold := func(c CursorID, v *View, next int64, forAll ...int64) {
		t.Helper()
		f := Fold{Cursor: c, Positions: at(next), Partials: []Partial{{View: v.ID}}}
		for _, o := range forAll {
			f.Refused = append(f.Refused, Refused{Source: src.ID, Topic: "orders", Partition: 1, Offset: o, Reason: "no JSON"})
		}
		do(t, s.Fold(t.Context(), f))
	}
	do(t, s.Start(shared, at(0)))
	fold(shared, first, 10, 3, 7)

	old := createView(t, s, "by_id2", true) // reads from the beginning, then passes the shared cursor
	do(t, s.Start(old.Cursor, at(0)))
	old, _ = s.Catalog().View("by_id2")
	fold(old.Cursor, old, 5, 3)
	do(t, s.Fold(t.Context(), Fold{Cursor: old.Cursor, Positions: at(6), Partials: []Partial{{View: old.ID}}, Refused: []Refused{
		{Source: src.ID, View: old.ID, Topic: "orders", Partition: 1, Offset: 5, Column: "id", Reason: "no number"},
	}}))
	fold(old.Cursor, old, 20, 7, 12)

	late := createView(t, s, "by_id3", true) // begins where nobody has been
	do(t, s.Start(late.Cursor, at(30)))
	late, _ = s.Catalog().View("by_id3")
	fold(late.Cursor, late, 40, 35)
	fold(shared, first, 36, 12, 25, 35)
	fold(old.Cursor, old, 50, 25, 35, 45)

	gone := createView(t, s, "by_id4", true) // is ahead of the others in partition 1, and goes
	do(t, s.Start(gone.Cursor, at(30)))
	gone, _ = s.Catalog().View("by_id4")
	fold(gone.Cursor, gone, 60, 35, 45, 55)
	do(t, s.Drop("by_id4"))
	do(t, s.Close())
	s = mustOpen(t, fs, Options{}) // what it had read is remembered
	fold(old.Cursor, old, 55)
	fold(shared, first, 58, 45, 55)
	fold(old.Cursor, old, 70, 55, 65)
	fold(shared, first, 70, 65)
	createView(t, s, "by_id5", true)
	do(t, s.Drop("by_id5"))
	if src, _ := s.Catalog().Source("orders"); len(src.Passed) != 0 {
		t.Errorf("the source has passed what its dropped views had, and still remembers it: %v", src.Passed)
	}

	_, err := s.Commit(t.Context())
	do(t, err)
	sn, err := s.Snapshot()
	do(t, err)
	defer func() { do(t, s.Close()) }()
	defer sn.Close()
	kept, err := sn.Refused(src.ID, 0, 100)
	do(t, err)
	var got []string
	for _, r := range kept {
		got = append(got, fmt.Sprintf("%d@%d", r.View, r.Offset))
	}
	want := fmt.Sprintf("0@3 0@7 %d@5 0@12 0@35 0@25 0@45 0@55 0@65", old.ID)
	if text := strings.Join(got, " "); text != want {
		t.Errorf("quarantined %s, want %s", text, want)
	}
	if n := sn.RefusedCount(src.ID); n.Total != 9 || n.ByView[0] != 8 {
		t.Errorf("%+v", n)
	}
}
