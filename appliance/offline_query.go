package appliance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/checkpoint"
	"weir/duckext"
	"weir/queryable"
	"weir/state"
	"weir/state/plan"
	"weir/state/sqltype"
)

// offline is the catalogue of a checkpoint: what queries of a running appliance
// see, without one.
type offline struct {
	f *found
	w witness // of what was read

	read []reading // the views that were read

	mu     sync.Mutex
	engine *duckext.Engine // that finds what plain views read; nil until one is named
}

var _ duckext.Catalog = (*offline)(nil)

func (o *offline) close() {
	if o.engine != nil {
		o.engine.Close()
	}
}

// Lease opens the tables that a query names.
func (o *offline) Lease(ctx context.Context, refs []duckext.Ref) (duckext.Lease, error) {
	l := &offlineLease{o: o, tables: map[string]scanner{}}
	for _, r := range refs {
		if err := l.add(ctx, r, 0); err != nil {
			l.Release()
			return nil, err
		}
	}
	return l, nil
}

type offlineLease struct {
	o      *offline
	views  []duckext.ViewDef
	tables map[string]scanner
	opened []*checkpoint.Table
}

func (l *offlineLease) Epoch() uint64            { return l.o.f.Manifest.Epoch }
func (l *offlineLease) Views() []duckext.ViewDef { return l.views }

func (l *offlineLease) Release() {
	for _, t := range l.opened {
		t.Close()
	}
}

func (l *offlineLease) Scan(ctx context.Context, table string, s duckext.ScanSpec) (array.RecordReader, error) {
	scan, ok := l.tables[table]
	if !ok {
		return nil, fmt.Errorf("the query has no table %q", table)
	}
	return scan(ctx, s)
}

// add resolves one name; depth is how many plain views led to it.
func (l *offlineLease) add(ctx context.Context, r duckext.Ref, depth int) error {
	if slices.ContainsFunc(l.views, func(d duckext.ViewDef) bool { return strings.EqualFold(d.Name, r.As) }) {
		return nil
	}
	m := l.o.f.Manifest
	switch {
	case depth > deepest:
		return fmt.Errorf("views stand on one another more than %d deep", deepest)
	case r.Diff != nil:
		return errors.New("state_diff needs a running appliance: weir checkpoint diff compares two checkpoints")
	case r.History != nil:
		return errors.New("state_history needs a running appliance: read the checkpoints one by one, with AT (VERSION => n)")
	case r.At != nil:
		c, err := l.o.at(r.At)
		if err != nil {
			return err
		}
		return l.table(c, r)
	}
	if _, ok := m.View(r.Name); ok {
		l.o.w.readSource() // what was opened is the present of an answer
		return l.table(l.o.f.Checkpoint, r)
	}
	for i := range m.Queries {
		if q := &m.Queries[i]; strings.EqualFold(q.Name, r.Name) {
			return l.query(ctx, r.As, q, depth)
		}
	}
	for _, s := range m.Sources {
		if strings.EqualFold(s.Name, r.Name) {
			return fmt.Errorf("%s is a source: a checkpoint has the views of its records, not the records", s.Name)
		}
	}
	return &duckext.UnknownNameError{Name: r.Name, Names: names(m), Offset: r.Offset}
}

// names are all that a query may name.
func names(m *checkpoint.Manifest) []string {
	var out []string
	for i := range m.Views {
		out = append(out, m.Views[i].Name)
	}
	for i := range m.Queries {
		out = append(out, m.Queries[i].Name)
	}
	return out
}

// table attaches a materialized view of a checkpoint.
func (l *offlineLease) table(c *checkpoint.Checkpoint, r duckext.Ref) error {
	v, ok := c.Manifest.View(r.Name)
	if !ok {
		err := pastOf(l.o.f.Manifest, r.Name)
		if _, now := l.o.f.Manifest.View(r.Name); now {
			err = queryable.Errorf(queryable.NotFound, "view %s is not in %s", r.Name, pointName(c.Manifest))
		}
		if err != nil {
			return placed(err, r.Offset)
		}
		return &duckext.UnknownNameError{Name: r.Name, Names: viewNames(c.Manifest), Offset: r.Offset}
	}
	t, err := c.Table(v.Name)
	if err != nil {
		return l.o.f.named(err)
	}
	l.opened = append(l.opened, t)
	l.o.w.readPast(c.Manifest, v)
	l.o.read = append(l.o.read, reading{c, v})
	table := "checkpoint:" + strconv.FormatUint(c.Manifest.Checkpoint, 10) + ":" + v.Name
	p := v.Plan
	l.views = append(l.views, materialized(r.As, table, &p, v.Groups))
	l.tables[table] = func(ctx context.Context, s duckext.ScanSpec) (array.RecordReader, error) {
		rows, err := scanChecked(ctx, t, &p, scanRequest(state.ViewID(v.ID), &p, s))
		return rows, l.o.f.named(err)
	}
	return nil
}

// query attaches a plain view and, before it, what it reads.
func (l *offlineLease) query(ctx context.Context, name string, q *checkpoint.Query, depth int) error {
	refs, err := l.o.references(ctx, q.Select)
	if err != nil {
		return fmt.Errorf("view %s: %w", q.Name, err)
	}
	for _, r := range refs {
		if r.Kind != "BASE_TABLE" {
			continue
		}
		if err := l.add(ctx, duckext.Ref{Name: r.Name, As: r.Name}, depth+1); err != nil {
			return fmt.Errorf("view %s: %w", q.Name, err)
		}
	}
	l.views = append(l.views, duckext.ViewDef{Name: name, SQL: q.Select})
	return nil
}

func (o *offline) references(ctx context.Context, sel string) ([]plan.Reference, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.engine == nil {
		var err error
		if o.engine, err = duckext.Open(duckext.Options{}); err != nil {
			return nil, err
		}
	}
	return plan.References(ctx, o.engine, sel)
}

// at finds the checkpoint of the same directory that AT means.
func (o *offline) at(at *duckext.At) (*checkpoint.Checkpoint, error) {
	if o.f.temp != nil {
		return nil, errors.New("a bundle holds one checkpoint: leave AT out")
	}
	var m *checkpoint.Manifest
	var err error
	switch {
	case at.Live:
		return nil, errors.New("nothing is live without a running appliance")
	case at.Savepoint != "":
		m, err = checkpoint.FindSavepoint(o.f.fs, o.f.dir, at.Savepoint)
	case !at.Timestamp.IsZero():
		list, _ := checkpoint.List(o.f.fs, o.f.dir) // what cannot be read is not meant
		if m = checkpoint.TakenBy(list, at.Timestamp); m == nil {
			msg := "no checkpoint is as old as " + at.Timestamp.UTC().Format(time.RFC3339)
			if len(checkpoint.Taken(list)) == 0 {
				msg = onlyEdited
			}
			return nil, fmt.Errorf("%s: %s; there are: %s", o.f.dir, msg, checkpoint.Listed(list))
		}
	default:
		m, err = checkpoint.FindNumber(o.f.fs, o.f.dir, uint64(max(at.Version, 0)))
	}
	if err != nil {
		return nil, err
	}
	return checkpoint.Open(o.f.fs, checkpoint.Path(o.f.fs, o.f.dir, m.Checkpoint))
}

// answerRows is the answer of a query process as rows.
func (o *offline) answerRows(res *duckext.Result) (*queryable.Rows, error) {
	rows := &queryable.Rows{
		Answer:      o.w.answer(queryable.Answer{Epoch: res.Epoch}),
		Truncated:   func() bool { return res.Truncated },
		Backfilling: o.w.backfilling(&state.Catalog{}),
	}
	for _, c := range res.Columns {
		t, err := sqltype.Parse(c.Type)
		if err != nil { // a type that only a query has, such as ENUM: its text travels
			t = sqltype.Type{ID: sqltype.Varchar}
		}
		rows.Columns = append(rows.Columns, queryable.Column{Field: sqltype.Field{Name: c.Name, Type: t}})
	}
	var err error
	rows.Records, err = array.NewRecordReader(res.Schema, res.Batches)
	return rows, err
}
