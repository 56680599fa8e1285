package state

import (
	"slices"
	"testing"
)

// What is left out is as if it had been dropped.
func TestKeepIsADrop(t *testing.T) {
	at := func(n int64) []Position { return []Position{{Topic: "orders", TopicID: [16]byte{1}, Next: n}} }
	d := Dump{
		Sources:   []Source{{ID: 1, Name: "orders", Cursor: 1}},
		Views:     []View{{ID: 2, Plan: planOf("by_id"), Source: 1, Cursor: 1}, {ID: 3, Plan: planOf("by_city"), Source: 1, Cursor: 2, First: at(5)}},
		Queries:   []Query{{Name: "a"}, {Name: "b"}},
		Positions: map[CursorID][]Position{1: at(10), 2: at(30)},
	}
	sources := d.Sources
	d.Keep(func(v *View) bool { return v.ID == 2 }, func(q *Query) bool { return q.Name == "b" })
	if len(d.Views) != 1 || d.Views[0].ID != 2 || len(d.Queries) != 1 || d.Queries[0].Name != "b" {
		t.Errorf("%+v %+v", d.Views, d.Queries)
	}
	// The view that is gone had read up to 30, and the source is at 10.
	if want := []Span{{Position: at(30)[0], From: 5}}; !slices.Equal(d.Sources[0].Passed, want) {
		t.Errorf("passed %+v, not %+v", d.Sources[0].Passed, want)
	}
	if sources[0].Passed != nil {
		t.Error("the caller's sources were changed")
	}
}
