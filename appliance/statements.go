package appliance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/queryable"
	"weir/state"
	"weir/state/ddl"
	"weir/state/plan"
	"weir/state/sqltype"
)

// script is a file of statements.
type script struct{ name, sql string }

// apply runs the statements of a file that is run at each start: one that is
// there already as it stands is passed over; one that differs is refused.
func (a *Appliance) apply(ctx context.Context, s script) error {
	stmts, err := ddl.Parse(s.sql)
	if err != nil {
		return inFile(s, err)
	}
	for _, stmt := range stmts {
		switch stmt.(type) {
		case *ddl.CreateSource, *ddl.CreateMaterializedView, *ddl.CreateView, *ddl.Drop:
		default:
			line, _ := ddl.Position(s.sql, ddl.SpanOf(stmt).Start)
			return fmt.Errorf("%s: line %d: only CREATE and DROP statements stand in a file; send others with weir sql", s.name, line)
		}
		if _, err := a.change(ctx, stmt, true); err != nil {
			return inFile(s, err)
		}
	}
	return nil
}

// inFile says where in a file an error is.
func inFile(s script, err error) error {
	if e, ok := errors.AsType[*ddl.Error](err); ok {
		return fmt.Errorf("%s: %s", s.name, e.Caret(s.sql))
	}
	return fmt.Errorf("%s: %w", s.name, err)
}

// change runs one statement that changes the catalogue and says what it did.
// again is for files: a CREATE of what is there already, in the same words, is
// nothing to do.
func (a *Appliance) change(ctx context.Context, stmt ddl.Statement, again bool) (string, error) {
	a.ddl.Lock()
	defer a.ddl.Unlock()
	defer a.finals.drop(func(id state.ViewID) bool { _, ok := a.store.Catalog().ViewByID(id); return !ok })
	switch s := stmt.(type) {
	case *ddl.CreateSource:
		return a.createSource(ctx, s, again)
	case *ddl.CreateMaterializedView:
		return a.createView(ctx, s, again)
	case *ddl.CreateView:
		return a.createQuery(ctx, s, again)
	case *ddl.Drop:
		return a.drop(ctx, s)
	}
	return "", fmt.Errorf("statement %T changes nothing", stmt)
}

// taken says what a name stands for already: its kind and its statement.
func taken(cat *state.Catalog, name string) (ddl.Kind, string, bool) {
	if s, ok := cat.Source(name); ok {
		return ddl.Source, s.SQL, true
	}
	if v, ok := cat.View(name); ok {
		return ddl.MaterializedView, v.SQL, true
	}
	if q, ok := cat.Query(name); ok {
		return ddl.View, q.SQL, true
	}
	return "", "", false
}

// existing decides about a CREATE whose name may be taken. done is true when
// there is nothing left to do.
func (a *Appliance) existing(kind ddl.Kind, name ddl.Name, span ddl.Span, ifNotExists, orReplace, again bool) (msg string, done bool, err error) {
	was, sql, ok := taken(a.store.Catalog(), name.Text)
	switch {
	case !ok:
		return "", false, nil
	case was == kind && (again || orReplace) && ddl.SameStatement(span.Text(), sql):
		return fmt.Sprintf("%s %s is there already, as it stands here", strings.ToLower(string(kind)), name.Text), true, nil
	case was == kind && ifNotExists:
		return fmt.Sprintf("%s %s is there already", strings.ToLower(string(kind)), name.Text), true, nil
	case was == kind && orReplace:
		return "", false, nil
	case was == kind && again:
		return "", false, span.Errorf(name.Offset-span.Start, "DROP it first, or give the new one another name",
			fmt.Sprintf("%s %s exists with another definition: %s", strings.ToLower(string(kind)), name.Text, ddl.Difference(span.Text(), sql)))
	}
	return "", false, conflict(span, name, fmt.Sprintf("there is a %s %s already", strings.ToLower(string(was)), name.Text), "DROP it first, or use another name")
}

// conflictError is a ddl.Error about something that is there, or in use.
type conflictError struct{ err *ddl.Error }

func (e conflictError) Error() string { return e.err.Error() }
func (e conflictError) Unwrap() error { return e.err }

func conflict(span ddl.Span, at ddl.Name, reason, nearest string) error {
	return conflictError{span.Errorf(at.Offset-span.Start, nearest, reason)}
}

func (a *Appliance) createSource(ctx context.Context, s *ddl.CreateSource, again bool) (string, error) {
	msg, done, err := a.existing(ddl.Source, s.Name, s.Span, s.IfNotExists, s.OrReplace, again)
	if done || err != nil {
		return msg, err
	}
	if len(s.Columns) == 0 {
		return "", s.Errorf(s.Name.Offset-s.Start, "list the columns: CREATE SOURCE name (column TYPE, ...) WITH (...)", "columns cannot be inferred yet")
	}
	if s.Options["brokers"] == "" && a.cfg.Brokers == "" {
		return "", s.Errorf(s.Name.Offset-s.Start, "add brokers = 'host:port' to its options, or start Weir with --brokers", "source "+s.Name.Text+" names no brokers")
	}
	var reading state.SourceID
	if old, ok := a.store.Catalog().Source(s.Name.Text); ok { // OR REPLACE
		if err := a.unusedSource(s.Span, s.Name, old); err != nil {
			return "", err
		}
		reading = old.ID
	}
	src := state.Source{Name: s.Name.Text, SQL: s.Text(), Columns: s.Columns, Options: s.Options}
	err = a.pipeline.Change(ctx, reading, func() error {
		_, err := a.store.ReplaceSource(src)
		return err
	})
	return "created source " + s.Name.Text, err
}

// planCatalog is what the planner knows of the catalogue.
func planCatalog(cat *state.Catalog) plan.Catalog {
	var c plan.Catalog
	for _, s := range cat.Sources {
		c.Sources = append(c.Sources, plan.Source{Name: s.Name, Columns: s.Columns})
	}
	for i := range cat.Views {
		c.Views = append(c.Views, plan.Relation{Name: cat.Views[i].Plan.Name, Columns: cat.Views[i].Plan.ResultColumns()})
	}
	for _, q := range cat.Queries {
		c.Views = append(c.Views, plan.Relation{Name: q.Name, Columns: q.Columns})
	}
	return c
}

func (a *Appliance) createView(ctx context.Context, s *ddl.CreateMaterializedView, again bool) (string, error) {
	if old, ok := a.store.Catalog().View(s.Name.Text); ok && (again || s.OrReplace) && !s.IfNotExists {
		if msg, done, err := a.replaceExport(s, old); done || err != nil {
			return msg, err
		}
	}
	if old, ok := a.store.Catalog().View(s.Name.Text); ok && !again && !s.OrReplace && !s.IfNotExists {
		if err := otherOptions(s, old); err != nil {
			return "", err
		}
	}
	msg, done, err := a.existing(ddl.MaterializedView, s.Name, s.Span, s.IfNotExists, false, again)
	if done || err != nil {
		return msg, err
	}
	if err := a.publisher.check(s); err != nil {
		return "", err
	}
	if err := a.survives(ctx, s.Select); err != nil {
		return "", err
	}
	cat := a.store.Catalog()
	v, err := plan.New(ctx, a.engine, planCatalog(cat), s)
	if err != nil {
		return "", err
	}
	if err := a.publisher.fits(s, v.ResultColumns()); err != nil {
		return "", err
	}
	src, ok := cat.Source(v.Source)
	if !ok {
		return "", fmt.Errorf("there is no source %s", v.Source)
	}
	// What cannot be prepared must not enter the catalogue.
	if err := a.rehearse(ctx, v); err != nil {
		return "", fmt.Errorf("view %s: %w", v.Name, err)
	}
	var initial arrow.RecordBatch
	if v.Global {
		if initial, err = a.initial(ctx, v); err != nil {
			return "", err
		}
		defer initial.Release()
	}
	err = a.pipeline.Change(ctx, src.ID, func() error {
		own := len(a.store.Positions(src.Cursor)) > 0
		_, err := a.store.CreateView(s.Text(), *v, own, initial)
		return err
	})
	return "created materialized view " + s.Name.Text, err
}

// otherOptions refuses a view that is there already, and says how it gets other
// options; nil for another view.
func otherOptions(s *ddl.CreateMaterializedView, old *state.View) error {
	stmt, err := ddl.ParseOne(old.SQL)
	was, ok := stmt.(*ddl.CreateMaterializedView)
	if err != nil || !ok {
		return nil
	}
	if view, export := ddl.SameView(s, was); view && !export {
		return conflict(s.Span, s.Name, fmt.Sprintf("there is a materialized view %s already, with the same SELECT and other options", old.Plan.Name), "use CREATE OR REPLACE MATERIALIZED VIEW, which changes the options and keeps the groups")
	}
	return nil
}

// replaceExport changes the options of a view that is there already with the same
// SELECT, and keeps its state. done is false when the statement is of another view.
func (a *Appliance) replaceExport(s *ddl.CreateMaterializedView, old *state.View) (msg string, done bool, err error) {
	stmt, err := ddl.ParseOne(old.SQL)
	was, ok := stmt.(*ddl.CreateMaterializedView)
	if err != nil || !ok {
		return "", false, fmt.Errorf("the stored statement of view %s does not read: %w", old.Plan.Name, err)
	}
	view, export := ddl.SameView(s, was)
	switch {
	case !view && s.OrReplace:
		return "", false, conflict(s.Span, s.Name, fmt.Sprintf("OR REPLACE changes the options of a materialized view only, and %s has another SELECT: it would throw the state away", old.Plan.Name), "use DROP MATERIALIZED VIEW, then CREATE MATERIALIZED VIEW")
	case !view:
		return "", false, nil
	case export:
		return fmt.Sprintf("materialized view %s is there already, as it stands here", old.Plan.Name), true, nil
	}
	named := *s
	named.Name.Text = old.Plan.Name // which may have other cases
	if err := a.publisher.check(&named); err != nil {
		return "", false, err
	}
	if err := a.publisher.fits(&named, old.Plan.ResultColumns()); err != nil {
		return "", false, err
	}
	return "changed the options of materialized view " + old.Plan.Name, true, a.store.SetViewSQL(old.ID, s.Text())
}

// rehearse binds all statements of a view.
func (a *Appliance) rehearse(ctx context.Context, v *plan.View) error {
	p, err := a.engine.Prepare(ctx, v.Partial, plan.Relation{Name: plan.InputRelation, Columns: v.Inputs}, v.StateColumns())
	if err != nil {
		return err
	}
	if err := p.Close(); err != nil {
		return err
	}
	p, err = a.engine.Prepare(ctx, v.Final, plan.Relation{Name: plan.StateRelation, Columns: v.StateColumns()}, v.ResultColumns())
	if err != nil {
		return err
	}
	if err := p.Close(); err != nil {
		return err
	}
	if want := computed(v); len(want) > 0 || v.Visible != "" {
		f, err := a.finals.from.prepare(ctx, v, want)
		if err != nil {
			return err
		}
		return f.Close()
	}
	return nil
}

// initial is the row of a view without GROUP BY before any record: its partial
// over nothing.
func (a *Appliance) initial(ctx context.Context, v *plan.View) (arrow.RecordBatch, error) {
	rel := plan.Relation{Name: plan.InputRelation, Columns: v.Inputs}
	p, err := a.engine.Prepare(ctx, v.Partial, rel, v.StateColumns())
	if err != nil {
		return nil, err
	}
	defer p.Close()
	fields := make([]arrow.Field, len(v.Inputs))
	for i, c := range v.Inputs {
		fields[i] = c.Type.InsideField(c.Name)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	nothing := b.NewRecordBatch()
	defer nothing.Release()
	return p.Run(ctx, nothing)
}

func (a *Appliance) createQuery(ctx context.Context, s *ddl.CreateView, again bool) (string, error) {
	msg, done, err := a.existing(ddl.View, s.Name, s.Span, s.IfNotExists, s.OrReplace, again)
	if done || err != nil {
		return msg, err
	}
	cat := a.store.Catalog()
	if err := a.survives(ctx, s.Select); err != nil {
		return "", err
	}
	q, err := plan.NewQuery(ctx, a.engine, planCatalog(cat), s)
	if err != nil {
		return "", err
	}
	if old, ok := cat.Query(s.Name.Text); ok {
		if err := a.acyclic(ctx, s, q.Reads); err != nil {
			return "", err
		}
		if users := a.users(old.Name); len(users) > 0 && !sameColumns(old.Columns, q.Columns) {
			return "", conflict(s.Span, s.Name, fmt.Sprintf("view %s is used by %s, and the new one has other columns", old.Name, strings.Join(users, ", ")), "DROP these first, or use another name")
		}
	}
	err = a.store.ReplaceQuery(state.Query{Name: s.Name.Text, SQL: s.Text(), Select: s.Select.Text(), Columns: q.Columns})
	return "created view " + s.Name.Text, err
}

func sameColumns(a, b []sqltype.Field) bool {
	return slices.EqualFunc(a, b, func(x, y sqltype.Field) bool { return strings.EqualFold(x.Name, y.Name) && x.Type.Equal(y.Type) })
}

func (a *Appliance) drop(ctx context.Context, s *ddl.Drop) (string, error) {
	cat := a.store.Catalog()
	kind, _, ok := taken(cat, s.Name.Text)
	switch {
	case !ok && s.IfExists:
		return fmt.Sprintf("there is no %s %s", strings.ToLower(string(s.Kind)), s.Name.Text), nil
	case !ok:
		return "", s.Errorf(s.Name.Offset-s.Start, "SHOW SOURCES and SHOW VIEWS list what there is", fmt.Sprintf("there is no %s %s", strings.ToLower(string(s.Kind)), s.Name.Text))
	case kind != s.Kind:
		return "", s.Errorf(s.Name.Offset-s.Start, fmt.Sprintf("use DROP %s %s", kind, s.Name.Text), fmt.Sprintf("%s is a %s", s.Name.Text, strings.ToLower(string(kind))))
	}
	if src, ok := cat.Source(s.Name.Text); ok {
		if err := a.unusedSource(s.Span, s.Name, src); err != nil {
			return "", err
		}
		return "dropped source " + src.Name, a.pipeline.Change(ctx, src.ID, func() error { return a.store.Drop(src.Name) })
	}
	if users := a.users(s.Name.Text); len(users) > 0 {
		return "", conflict(s.Span, s.Name, fmt.Sprintf("%s is used by %s", s.Name.Text, strings.Join(users, ", ")), "DROP these first")
	}
	if v, ok := cat.View(s.Name.Text); ok {
		return "dropped materialized view " + v.Plan.Name, a.pipeline.Change(ctx, v.Source, func() error { return a.store.Drop(v.Plan.Name) })
	}
	return "dropped view " + s.Name.Text, a.store.Drop(s.Name.Text)
}

// unusedSource refuses to take a source from its views.
func (a *Appliance) unusedSource(span ddl.Span, at ddl.Name, src *state.Source) error {
	cat := a.store.Catalog()
	users := a.users(src.Name)
	for i := range cat.Views {
		if cat.Views[i].Source == src.ID {
			users = append(users, cat.Views[i].Plan.Name)
		}
	}
	if len(users) == 0 {
		return nil
	}
	slices.Sort(users)
	return conflict(span, at, fmt.Sprintf("source %s is used by %s", src.Name, strings.Join(users, ", ")), "DROP these first")
}

// users are the stored queries that name a relation.
func (a *Appliance) users(name string) []string {
	var users []string
	cat := a.store.Catalog()
	for i := range cat.Queries {
		q := &cat.Queries[i]
		refs, err := plan.References(context.Background(), a.engine, q.Select)
		if err != nil || slices.ContainsFunc(refs, func(r plan.Reference) bool { return strings.EqualFold(r.Name, name) }) {
			users = append(users, q.Name)
		}
	}
	return users
}

// sqlError turns an error of a statement into the client's.
func sqlError(err error, offset int) error {
	if e, ok := errors.AsType[*ddl.Error](err); ok {
		code := queryable.BadRequest
		if _, ok := errors.AsType[conflictError](err); ok {
			code = queryable.Conflict
		}
		return &queryable.Error{Code: code, Message: e.Error(), Position: e.Offset, Cause: err}
	}
	if e, ok := errors.AsType[*plan.SyntaxError](err); ok {
		return &queryable.Error{Code: queryable.BadRequest, Message: e.Message, Position: e.Offset + offset, Cause: err}
	}
	return err
}
