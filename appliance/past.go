package appliance

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/checkpoint"
	"weir/duckext"
	"weir/queryable"
	"weir/state"
	"weir/state/ddl"
	"weir/state/plan"
)

// A side is a view at one point in time.
type side struct {
	point  string // what it is called in messages
	plan   *plan.View
	id     state.ViewID
	sql    string // its CREATE statement
	groups int64  // about
	errors bool   // some groups may be in error
	from   scans
}

// side pins a view at a point.
func (l *lease) side(view string, at *duckext.At, offset int) (s *side, err error) {
	if at.Live {
		v, ok := l.cat.View(view)
		if !ok {
			return nil, l.unviewed(view, "the present", l.names(), offset)
		}
		l.witness.read(v)
		return &side{point: "the present", plan: &v.Plan, id: v.ID, sql: v.SQL, groups: l.sn.Stats(v.ID).Groups, errors: true, from: live{l, v}}, nil
	}
	n, err := l.a.keeper.point(at)
	if err != nil {
		return nil, err
	}
	err = l.a.keeper.read(n, func(c *checkpoint.Checkpoint) error {
		v, ok := c.Manifest.View(view)
		if !ok {
			return l.unviewed(view, pointName(c.Manifest), viewNames(c.Manifest), offset)
		}
		t, err := c.Table(v.Name)
		if err != nil {
			return err
		}
		free := l.a.keeper.pins.pin(n)
		l.closers = append(l.closers, func() error { free(); return t.Close() })
		l.witness.readPast(c.Manifest, v)
		p := v.Plan
		s = &side{point: pointName(c.Manifest), plan: &p, id: state.ViewID(v.ID), sql: v.SQL, groups: v.Groups, errors: true, from: t}
		return nil
	})
	return s, err
}

// point is the number of a checkpoint.
func (k *keeper) point(at *duckext.At) (uint64, error) {
	switch {
	case at.Savepoint != "":
		return k.named(at.Savepoint)
	case !at.Timestamp.IsZero():
		return k.before(at.Timestamp)
	case at.Version < 1:
		return 0, k.unknown(fmt.Sprintf("there is no checkpoint %d", at.Version))
	}
	return uint64(at.Version), nil
}

// unviewed says that a name is no materialized view at a point.
func (l *lease) unviewed(name, point string, names []string, offset int) error {
	kind := ""
	if _, plain := l.cat.Query(name); plain {
		kind = "a view: go back in what it reads"
	} else if _, source := l.cat.Source(name); source {
		kind = "a source"
	}
	if kind != "" {
		return queryable.Errorf(queryable.BadRequest, "checkpoints hold materialized views, and %s is %s", name, kind)
	}
	if _, now := l.cat.View(name); now {
		return queryable.Errorf(queryable.NotFound, "view %s is not in %s: it was created later", name, point)
	}
	return &duckext.UnknownNameError{Name: name, Names: names, Offset: offset}
}

func viewNames(m *checkpoint.Manifest) []string {
	names := make([]string, len(m.Views))
	for i := range m.Views {
		names[i] = m.Views[i].Name
	}
	return names
}

// A pastView is a view of a checkpoint. Close it.
type pastView struct {
	manifest *checkpoint.Manifest
	view     *checkpoint.View
	table    *checkpoint.Table
	free     func()
}

func (p pastView) close() error {
	p.free()
	return p.table.Close()
}

// openPast opens a view as it was at a point: see queryable.LookupRequest.At.
func (b backend) openPast(view, at string) (p pastView, err error) {
	n, err := b.keeper.at(at)
	if err != nil {
		return p, err
	}
	err = b.keeper.read(n, func(c *checkpoint.Checkpoint) (err error) {
		v, ok := c.Manifest.View(view)
		if !ok {
			return queryable.Errorf(queryable.NotFound, "there is no view %s in %s", view, pointName(c.Manifest))
		}
		p.manifest, p.view = c.Manifest, v
		if p.table, err = c.Table(v.Name); err == nil {
			p.free = b.keeper.pins.pin(n)
		}
		return err
	})
	return p, err
}

// witness has seen the view, and nothing else.
func (p pastView) witness() *witness {
	w := new(witness)
	w.readPast(p.manifest, p.view)
	return w
}

// past attaches a view as a checkpoint holds it.
func (l *lease) past(r duckext.Ref) error {
	s, err := l.side(r.Name, r.At, r.Offset)
	if err != nil {
		return err
	}
	table := "past:" + r.As
	l.views = append(l.views, materialized(r.As, table, s.plan, s.groups))
	l.tables[table] = func(ctx context.Context, spec duckext.ScanSpec) (array.RecordReader, error) {
		return scanChecked(ctx, s.from, s.plan, scanRequest(s.id, s.plan, spec))
	}
	return nil
}

// alike says in what two sides are different views, "" when they are the same.
func (s *side) alike(o *side) string {
	a, b := s.plan, o.plan
	switch {
	case a.Fingerprint == b.Fingerprint && a.Final == b.Final && a.Visible == b.Visible && sameColumns(a.ResultColumns(), b.ResultColumns()):
		return ""
	case !ddl.SameStatement(s.sql, o.sql):
		return ddl.Difference(o.sql, s.sql)
	}
	return fmt.Sprintf("its source's columns, or how it is kept: fingerprint %.12s, then %.12s", a.Fingerprint, b.Fingerprint)
}
