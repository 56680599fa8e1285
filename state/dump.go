package state

import "slices"

// Keep leaves out the views and queries that are not to be kept, as if they had
// been dropped: what a view had read beyond its source is remembered.
func (d *Dump) Keep(view func(*View) bool, query func(*Query) bool) {
	d.Sources = slices.Clone(d.Sources)
	var kept []View
	for i := range d.Views {
		v := &d.Views[i]
		if view(v) {
			kept = append(kept, *v)
			continue
		}
		j := slices.IndexFunc(d.Sources, func(s Source) bool { return s.ID == v.Source })
		if j < 0 || d.Sources[j].Cursor == v.Cursor {
			continue
		}
		src := &d.Sources[j]
		own, shared := newCursor(cursorState{d.Positions[v.Cursor], 0}), newCursor(cursorState{d.Positions[src.Cursor], 0})
		src.Passed = passedBy(src.Passed, v.First, own, shared)
	}
	d.Views = kept
	d.Queries = slices.DeleteFunc(slices.Clone(d.Queries), func(q Query) bool { return !query(&q) })
}
