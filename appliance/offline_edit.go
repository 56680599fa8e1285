package appliance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/checkpoint"
	"weir/duckext"
	"weir/state"
	"weir/state/plan"
	"weir/state/sqltype"
)

// An editor holds views of a checkpoint as tables of a DuckDB of its own, in which
// SQL changes them. The tables have the state columns under the names of the file
// (keys, accumulators), then __epoch and __error. What does not fit into memory
// DuckDB spills.
type editor struct {
	c      *checkpoint.Checkpoint
	eng    *duckext.Engine
	s      *duckext.Session
	views  map[string]*editedView // by lower-case name
	opened []*checkpoint.Table
	made   int // tables that were made, to number them
}

// An editedView is a view that was loaded. table holds its groups: itself, or what
// a SELECT made.
type editedView struct {
	view    *checkpoint.View
	loaded  []sqltype.Field // of the table that statements read, which has the view's name
	fields  []sqltype.Field // of table
	table   string
	touched bool
	sorted  string // a table with the rows of table by slot and key, "" until made
}

func newEditor(c *checkpoint.Checkpoint, o duckext.Options) (_ *editor, err error) {
	e := &editor{c: c, views: map[string]*editedView{}}
	if e.eng, err = duckext.Open(o); err != nil {
		return nil, err
	}
	if e.s, err = e.eng.Session(); err != nil {
		return nil, errors.Join(err, e.eng.Close())
	}
	return e, nil
}

func (e *editor) close() error {
	err := errors.Join(e.s.Close(), e.eng.Close())
	for _, t := range e.opened {
		err = errors.Join(err, t.Close())
	}
	return err
}

// quoted writes a name as SQL reads it.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// load makes tables of the views that a statement may name: one too many does no
// harm.
func (e *editor) load(ctx context.Context, sql string) error {
	text := strings.ToLower(sql)
	for i := range e.c.Manifest.Views {
		v := &e.c.Manifest.Views[i]
		name := strings.ToLower(v.Name)
		if e.views[name] != nil || !strings.Contains(text, name) && !strings.Contains(text, strings.ReplaceAll(name, `"`, `""`)) {
			continue
		}
		t, err := e.c.Table(v.Name)
		if err != nil {
			return err
		}
		e.opened = append(e.opened, t)
		fields := append(v.StateFields(),
			sqltype.Field{Name: state.EpochColumn, Type: sqltype.Type{ID: sqltype.UBigInt}},
			sqltype.Field{Name: state.ErrorColumn, Type: sqltype.Type{ID: sqltype.Varchar}})
		from := e.name("from")
		if err := e.s.Attach(from, &stored{t, fields}, 1); err != nil {
			return err
		}
		if err := e.exec(ctx, "CREATE TABLE "+quoted(v.Name)+" AS SELECT * FROM "+from); err != nil {
			return fmt.Errorf("load view %s: %w", v.Name, err)
		}
		e.views[name] = &editedView{view: v, loaded: fields, fields: fields, table: quoted(v.Name)}
	}
	return nil
}

func (e *editor) name(what string) string {
	e.made++
	return fmt.Sprintf("__weir_%s_%d", what, e.made)
}

// exec runs a statement of our own that scans attached tables.
func (e *editor) exec(ctx context.Context, sql string) error {
	_, err := e.s.Query(ctx, sql)
	return err
}

// change runs an UPDATE, DELETE or INSERT of the user's.
func (e *editor) change(ctx context.Context, sql string) (rows int64, err error) {
	if err := e.load(ctx, sql); err != nil {
		return 0, err
	}
	rows, err = e.s.Change(ctx, sql)
	if err != nil {
		err = e.explained(err)
	}
	if errors.Is(err, duckext.ErrNoChange) {
		return 0, fmt.Errorf("%w: a transform takes these, or --select 'view=SELECT …'", err)
	}
	if err == nil && rows == 0 {
		return 0, errors.New("it touches no row: leave it out, or correct it")
	}
	for _, v := range e.views {
		v.touched = true // which one, DuckDB does not say; those that are the same are left out later
	}
	return rows, err
}

// explained puts DuckDB's errors of names that the checkpoint knows, and that are
// no state, in its own words.
func (e *editor) explained(err error) error {
	m := e.c.Manifest
	text := strings.ToLower(err.Error())
	if strings.Contains(text, "no statement to prepare") { // a comment, say
		return errors.New("it has no statement")
	}
	for _, q := range m.Queries {
		if strings.Contains(text, "table with name "+strings.ToLower(q.Name)+" does not exist") {
			return unmaterialized(m, "the checkpoint", q.Name)
		}
	}
	for _, v := range e.views {
		for _, r := range v.view.Plan.Results {
			name := strings.ToLower(r.Name)
			named := strings.Contains(text, "column "+name+" not found in table") || strings.Contains(text, `column "`+name+`" not found in from`) ||
				strings.Contains(text, "column with name "+name+" ")
			if named && !slices.ContainsFunc(v.loaded, func(f sqltype.Field) bool { return strings.EqualFold(f.Name, r.Name) }) {
				return fmt.Errorf("column %s of view %s is a result, not state: change the accumulators that it is computed from (weir checkpoint show lists them)", shown(r.Name), shown(v.view.Name))
			}
		}
	}
	return err
}

// replace makes a SELECT the new state of a view.
func (e *editor) replace(ctx context.Context, view, sel string) error {
	v, ok := e.c.Manifest.View(view)
	if !ok {
		return unmaterialized(e.c.Manifest, "the checkpoint", view)
	}
	if err := e.load(ctx, quoted(v.Name)+" "+sel); err != nil {
		return err
	}
	var rels []plan.Relation
	for _, l := range e.views {
		rels = append(rels, plan.Relation{Name: l.view.Name, Columns: l.loaded})
	}
	got, err := e.eng.Describe(ctx, rels, sel)
	if err != nil {
		return err
	}
	fields, err := matching(v, got)
	if err != nil {
		return fmt.Errorf("the SELECT for view %s: %w", v.Name, err)
	}
	keeps := slices.ContainsFunc(fields, func(f sqltype.Field) bool { return strings.EqualFold(f.Name, state.ErrorColumn) })
	if v.Errors > 0 && !keeps {
		// Their accumulators are NULL, which must not pass for a value.
		return fmt.Errorf("view %s has %d groups in error: the SELECT must give %s, too", v.Name, v.Errors, state.ErrorColumn)
	}
	var list []string
	for _, f := range fields {
		list = append(list, quoted(f.Name))
	}
	ev := e.views[strings.ToLower(v.Name)]
	if ev.table != quoted(v.Name) {
		return fmt.Errorf("view %s is given twice", v.Name)
	}
	table := e.name("new")
	if err := e.exec(ctx, "CREATE TABLE "+table+" AS SELECT "+strings.Join(list, ", ")+" FROM (\n"+sel+"\n)"); err != nil {
		return err
	}
	ev.fields, ev.table, ev.touched = fields, table, true
	return nil
}

// matching wants the columns of a SELECT to be the state columns, in any order, and
// __epoch or __error where it keeps them. It gives them in the order of the state.
func matching(v *checkpoint.View, got []sqltype.Field) ([]sqltype.Field, error) {
	want := append(v.StateFields(),
		sqltype.Field{Name: state.EpochColumn, Type: sqltype.Type{ID: sqltype.UBigInt}},
		sqltype.Field{Name: state.ErrorColumn, Type: sqltype.Type{ID: sqltype.Varchar}})
	var list []string
	for _, f := range want[:len(want)-2] {
		list = append(list, f.Name+" "+f.Type.String())
	}
	shape := "the state has " + strings.Join(list, ", ")
	seen := map[string]sqltype.Field{}
	for _, f := range got {
		i := slices.IndexFunc(want, func(w sqltype.Field) bool { return strings.EqualFold(w.Name, f.Name) })
		switch _, twice := seen[strings.ToLower(f.Name)]; {
		case i < 0:
			return nil, fmt.Errorf("column %s is none of the state: %s", f.Name, shape)
		case twice:
			return nil, fmt.Errorf("column %s is there twice", f.Name)
		case !f.Type.Equal(want[i].Type):
			return nil, fmt.Errorf("column %s is %s and the state keeps %s: cast it", f.Name, f.Type, want[i].Type)
		}
		seen[strings.ToLower(f.Name)] = f
	}
	var out []sqltype.Field
	for i, w := range want {
		f, ok := seen[strings.ToLower(w.Name)]
		if !ok && i < len(want)-2 {
			return nil, fmt.Errorf("column %s is missing: %s", w.Name, shape)
		}
		if ok {
			out = append(out, sqltype.Field{Name: f.Name, Type: w.Type})
		}
	}
	return out, nil
}

// states are the new groups of the views that may have changed.
func (e *editor) states() map[string]checkpoint.NewState {
	out := map[string]checkpoint.NewState{}
	for _, v := range e.views {
		if v.touched {
			out[v.view.Name] = func(ctx context.Context) (array.RecordReader, error) { return e.read(ctx, v) }
		}
	}
	return out
}
