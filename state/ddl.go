package state

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cockroachdb/pebble/v2"

	"weir/state/plan"
)

// Every change of the catalogue is a commit, with all that was folded before
// it. When it returns without an error, the change is durable and readers see
// it.

// free says whether a name can be given.
func (c *Catalog) free(name string) error {
	_, source := c.Source(name)
	_, view := c.View(name)
	_, query := c.Query(name)
	switch {
	case name == "":
		return errors.New("a name is needed")
	case source || view || query:
		return fmt.Errorf("%s: %w", name, ErrExists)
	}
	return nil
}

// CreateSource adds a source and a cursor for it. ID and Cursor of src are
// ignored.
func (s *Store) CreateSource(src Source) (SourceID, error) { return s.createSource(src, false) }

// ReplaceSource is CreateSource after a Drop of the source of that name, if
// there is one, in one commit.
func (s *Store) ReplaceSource(src Source) (SourceID, error) { return s.createSource(src, true) }

func (s *Store) createSource(src Source, replace bool) (SourceID, error) {
	var wipe func(*pebble.Batch) error
	_, err := s.commit(&change{
		point: PointCatalog,
		apply: func(next *Catalog) error {
			old, ok := next.Source(src.Name)
			switch {
			case !ok || !replace:
				if err := next.free(src.Name); err != nil {
					return err
				}
			default:
				if users := next.viewsOf(old.ID); len(users) > 0 {
					return &InUseError{old.Name, users}
				}
				wipe = s.dropSource(next, *old)
			}
			src.ID, src.Cursor = SourceID(next.NextID), CursorID(next.NextCursor)
			next.NextID++
			next.NextCursor++
			next.Sources = append(next.Sources, src)
			s.addCursor(src.Cursor, nil)
			s.refused[src.ID] = newRefusedState()
			return nil
		},
		write: func(b *pebble.Batch) error {
			if wipe == nil {
				return nil
			}
			return wipe(b)
		},
	})
	if err != nil {
		return 0, fmt.Errorf("create source: %w", err)
	}
	return src.ID, nil
}

// CreateView adds a materialized view. With own it gets a cursor of its own, to
// read the log from the beginning until it can [Store.Join] its source's; else
// it counts from where the source's cursor stands. A global view begins with
// the row of initial, that is the partial of no records.
func (s *Store) CreateView(sql string, p plan.View, own bool, initial arrow.RecordBatch) (ViewID, error) {
	var v View
	_, err := s.commit(&change{point: PointCatalog, apply: func(next *Catalog) error {
		if err := next.free(p.Name); err != nil {
			return err
		}
		src, ok := next.Source(p.Source)
		if !ok {
			return fmt.Errorf("source %s: %w", p.Source, ErrNotFound)
		}
		v = View{ID: ViewID(next.NextID), SQL: sql, Plan: p, Source: src.ID, Cursor: src.Cursor, CreatedEpoch: s.openEpoch}
		next.NextID++
		if own {
			v.Cursor = CursorID(next.NextCursor)
			next.NextCursor++
		} else {
			v.First = s.cursors[v.Cursor].state().positions
		}
		var first keyed
		if err := s.addView(&v); err != nil {
			return err
		}
		if err := s.views[v.ID].encode(initial, &first); err != nil {
			delete(s.views, v.ID)
			return err
		}
		s.addCursor(v.Cursor, nil)
		s.cursors[v.Cursor].moved = true
		l, err := s.reside(s.views[v.ID], &first)
		if err != nil {
			return err // it has no groups to read: cannot be
		}
		s.views[v.ID].merge(&first, l.added, s.openEpoch, s.newestMark())
		s.views[v.ID].moved = true
		next.Views = append(next.Views, v)
		return nil
	}})
	if err != nil {
		return 0, fmt.Errorf("create view: %w", err)
	}
	return v.ID, nil
}

// SetViewSQL puts another statement in the place of the one that a view was created
// by, for the same plan.
func (s *Store) SetViewSQL(id ViewID, sql string) error {
	_, err := s.commit(&change{point: PointCatalog, apply: func(next *Catalog) error {
		i := slices.IndexFunc(next.Views, func(v View) bool { return v.ID == id })
		if i < 0 {
			return fmt.Errorf("view %d: %w", id, ErrNotFound)
		}
		next.Views[i].SQL = sql
		return nil
	}})
	if err != nil {
		return fmt.Errorf("change view: %w", err)
	}
	return nil
}

// CreateQuery adds a stored SELECT.
func (s *Store) CreateQuery(q Query) error { return s.createQuery(q, false) }

// ReplaceQuery is CreateQuery after a Drop of the query of that name, if there
// is one, in one commit.
func (s *Store) ReplaceQuery(q Query) error { return s.createQuery(q, true) }

func (s *Store) createQuery(q Query, replace bool) error {
	_, err := s.commit(&change{point: PointCatalog, apply: func(next *Catalog) error {
		if replace {
			next.Queries = slices.DeleteFunc(next.Queries, func(o Query) bool { return strings.EqualFold(o.Name, q.Name) })
		}
		if err := next.free(q.Name); err != nil {
			return err
		}
		next.Queries = append(next.Queries, q)
		return nil
	}})
	if err != nil {
		return fmt.Errorf("create query: %w", err)
	}
	return nil
}

// Start records where a cursor begins in partitions that it has no position in
// yet, and the same as the first positions of the views that follow it.
// Partitions that it knows are left as they are.
func (s *Store) Start(c CursorID, at []Position) error {
	_, err := s.commit(&change{point: PointCatalog, apply: func(next *Catalog) error {
		cur := s.cursors[c]
		if cur == nil {
			return fmt.Errorf("cursor %d: %w", c, ErrNotFound)
		}
		var fresh []Position
		for _, p := range at {
			k := partition{p.Topic, p.Partition}
			if _, ok := cur.at[k]; !ok {
				cur.at[k] = p
				fresh = append(fresh, p)
			}
		}
		cur.moved = cur.moved || len(fresh) > 0
		for i := range next.Views {
			if v := &next.Views[i]; v.Cursor == c {
				v.First = slices.SortedFunc(slices.Values(slices.Concat(v.First, fresh)), comparePositions)
			}
		}
		return nil
	}})
	if err != nil {
		return fmt.Errorf("start cursor: %w", err)
	}
	return nil
}

// A BehindError says in which partition two cursors do not stand at one
// position, so that a view cannot join.
type BehindError struct{ View, Source Position }

func (e *BehindError) Error() string {
	p := e.Source
	if p.Topic == "" {
		p = e.View
	}
	return fmt.Sprintf("at %s/%d the view stands at %d, the source at %d", p.Topic, p.Partition, e.View.Next, e.Source.Next)
}

// Join moves a view from its own cursor to its source's, in one commit. Both
// must stand at equal positions, else the error is a BehindError. Joining twice
// does nothing.
func (s *Store) Join(id ViewID) error {
	var own CursorID
	_, err := s.commit(&change{
		point: PointJoin,
		apply: func(next *Catalog) error {
			v, ok := next.ViewByID(id)
			if !ok {
				return fmt.Errorf("view %d: %w", id, ErrNotFound)
			}
			src, _ := next.SourceByID(v.Source)
			if v.Cursor == src.Cursor {
				return nil
			}
			if err := equalPositions(s.cursors[v.Cursor], s.cursors[src.Cursor]); err != nil {
				return err
			}
			own = v.Cursor
			v.Cursor = src.Cursor // next is a copy
			s.views[id].cursor = src.Cursor
			delete(s.cursors, own)
			return nil
		},
		write: func(b *pebble.Batch) error { return deleteCursor(b, own) },
	})
	if err != nil {
		return fmt.Errorf("join: %w", err)
	}
	return nil
}

func deleteCursor(b *pebble.Batch, c CursorID) error {
	if c == 0 {
		return nil
	}
	return b.Delete(sysKey(kindCursor, uint32(c)), nil)
}

func equalPositions(view, source *cursor) error {
	same := func(a, b Position) bool { return a.Next == b.Next && a.TopicID == b.TopicID }
	for k, p := range source.at {
		if q := view.at[k]; !same(p, q) {
			return &BehindError{View: q, Source: p}
		}
	}
	for k, q := range view.at {
		if p := source.at[k]; !same(p, q) {
			return &BehindError{View: q, Source: p}
		}
	}
	return nil
}

// An InUseError refuses to drop a source that views read.
type InUseError struct {
	Source string
	Views  []string
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("source %s is read by %s: drop that first", e.Source, strings.Join(e.Views, ", "))
}

// Drop removes a source, a view or a query by name, and its data. Snapshots
// that are open still see it.
func (s *Store) Drop(name string) error {
	var wipe []func(b *pebble.Batch) error
	_, err := s.commit(&change{
		point: PointDrop,
		apply: func(next *Catalog) error {
			if v, ok := next.View(name); ok {
				wipe = append(wipe, s.dropView(next, *v))
				return nil
			}
			if src, ok := next.Source(name); ok {
				if users := next.viewsOf(src.ID); len(users) > 0 {
					return &InUseError{src.Name, users}
				}
				wipe = append(wipe, s.dropSource(next, *src))
				return nil
			}
			if q, ok := next.Query(name); ok {
				next.Queries = slices.DeleteFunc(next.Queries, func(o Query) bool { return o.Name == q.Name })
				return nil
			}
			return fmt.Errorf("%s: %w", name, ErrNotFound)
		},
		write: func(b *pebble.Batch) error {
			for _, f := range wipe {
				if err := f(b); err != nil {
					return err
				}
			}
			return nil
		},
	})
	if err != nil {
		return fmt.Errorf("drop: %w", err)
	}
	return nil
}

func (c *Catalog) viewsOf(id SourceID) (names []string) {
	for i := range c.Views {
		if c.Views[i].Source == id {
			names = append(names, c.Views[i].Plan.Name)
		}
	}
	return names
}

func (s *Store) dropView(next *Catalog, v View) func(*pebble.Batch) error {
	next.Views = slices.DeleteFunc(next.Views, func(o View) bool { return o.ID == v.ID })
	delete(s.views, v.ID)
	var own CursorID
	if src, _ := next.SourceByID(v.Source); src.Cursor != v.Cursor {
		own = v.Cursor
		src.Passed = passedBy(src.Passed, v.First, s.cursors[own], s.cursors[src.Cursor]) // next is a copy
		delete(s.cursors, own)
	}
	return func(b *pebble.Batch) error {
		lower, upper := viewSpan(v.ID, 0, Slots)
		return errors.Join(b.DeleteRange(lower, upper, nil), b.Delete(sysKey(kindStats, uint32(v.ID)), nil),
			b.Delete(sysKey(kindRecorded, uint32(v.ID)), nil), wipeChanged(b, v.ID), deleteCursor(b, own))
	}
}

func (s *Store) dropSource(next *Catalog, src Source) func(*pebble.Batch) error {
	next.Sources = slices.DeleteFunc(next.Sources, func(o Source) bool { return o.ID == src.ID })
	delete(s.cursors, src.Cursor)
	delete(s.refused, src.ID)
	s.pending = slices.DeleteFunc(s.pending, func(r Refused) bool { return r.Source == src.ID })
	return func(b *pebble.Batch) error {
		return errors.Join(
			b.DeleteRange(sysKey(kindRefused, uint32(src.ID)), sysKey(kindRefused, uint32(src.ID)+1), nil),
			b.Delete(sysKey(kindQuarantine, uint32(src.ID)), nil), deleteCursor(b, src.Cursor))
	}
}
