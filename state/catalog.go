package state

import (
	"slices"
	"strings"

	"weir/state/plan"
	"weir/state/sqltype"
)

// A Catalog is all that was created. It is immutable: a DDL commit replaces it.
type Catalog struct {
	Version uint64   `json:"version"` // rises with each change
	Sources []Source `json:"sources"`
	Views   []View   `json:"views"`
	Queries []Query  `json:"queries"`
	// NextID and NextCursor are the next ids to give.
	NextID     uint32 `json:"next_id"`
	NextCursor uint32 `json:"next_cursor"`
}

// A Source is a topic with columns. Cursor is the one that its views share.
type Source struct {
	ID      SourceID          `json:"id"`
	Name    string            `json:"name"`
	SQL     string            `json:"sql"`
	Columns []sqltype.Field   `json:"columns"`
	Options map[string]string `json:"options"`
	Cursor  CursorID          `json:"cursor"`
	// Passed is what views that were dropped had read beyond the shared cursor.
	// What is refused there stands in the quarantine already.
	Passed []Span `json:"passed,omitempty"`
}

// A View is a materialized view. Cursor is its source's, or one of its own
// while it catches up.
type View struct {
	ID     ViewID    `json:"id"`
	SQL    string    `json:"sql"`
	Plan   plan.View `json:"plan"`
	Source SourceID  `json:"source"`
	Cursor CursorID  `json:"cursor"`
	// First is where the view began to count, per partition.
	First        []Position `json:"first"`
	CreatedEpoch uint64     `json:"created_epoch"`
	// Edited identifies the last edit of the groups by anything but records; ""
	// when they are a function of the records below the positions.
	Edited string `json:"edited,omitempty"`
}

// A Query is a stored SELECT (CREATE VIEW). The store keeps its text only.
type Query struct {
	Name    string          `json:"name"`
	SQL     string          `json:"sql"`
	Select  string          `json:"select"`
	Columns []sqltype.Field `json:"columns"`
}

// Source finds a source by name, upper and lower case being the same.
func (c *Catalog) Source(name string) (*Source, bool) {
	return find(c.Sources, func(s *Source) bool { return strings.EqualFold(s.Name, name) })
}

// View finds a materialized view by name.
func (c *Catalog) View(name string) (*View, bool) {
	return find(c.Views, func(v *View) bool { return strings.EqualFold(v.Plan.Name, name) })
}

// Query finds a stored query by name.
func (c *Catalog) Query(name string) (*Query, bool) {
	return find(c.Queries, func(q *Query) bool { return strings.EqualFold(q.Name, name) })
}

// SourceByID finds a source by its id.
func (c *Catalog) SourceByID(id SourceID) (*Source, bool) {
	return find(c.Sources, func(s *Source) bool { return s.ID == id })
}

// ViewByID finds a materialized view by its id.
func (c *Catalog) ViewByID(id ViewID) (*View, bool) {
	return find(c.Views, func(v *View) bool { return v.ID == id })
}

// Following are the views that a cursor feeds, in the order of creation.
func (c *Catalog) Following(cursor CursorID) []*View {
	var vs []*View
	for i := range c.Views {
		if c.Views[i].Cursor == cursor {
			vs = append(vs, &c.Views[i])
		}
	}
	return vs
}

// find returns a pointer into the catalogue, which nobody may write through.
func find[T any](list []T, is func(*T) bool) (*T, bool) {
	for i := range list {
		if is(&list[i]) {
			return &list[i], true
		}
	}
	return nil, false
}

// clone copies what a change may touch: the lists, not what their entries share.
func (c *Catalog) clone() *Catalog {
	n := *c
	n.Sources, n.Views, n.Queries = slices.Clone(c.Sources), slices.Clone(c.Views), slices.Clone(c.Queries)
	n.Version++
	return &n
}
