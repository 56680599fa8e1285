package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/state/ddl"
	"weir/state/sqltype"
)

// A Source is what the planner knows of one: its columns as declared, without
// Kafka's metadata.
type Source struct {
	Name    string
	Columns []sqltype.Field
}

// Relation is the source as views see it, with Kafka's metadata.
func (s Source) Relation() Relation {
	return Relation{Name: s.Name, Columns: slices.Concat(s.Columns, ddl.MetadataColumns())}
}

// A Catalog is what names stand for when a view is created.
type Catalog struct {
	Sources []Source
	Views   []Relation // views and materialized views, by the columns they show
}

// New plans a materialized view. An error of the statement is a [*ddl.Error]
// with its place in the statement's script; any other error is DuckDB's.
func New(ctx context.Context, eng Engine, cat Catalog, stmt *ddl.CreateMaterializedView) (*View, error) {
	root, err := serialize(ctx, eng, stmt.Select)
	if err != nil {
		return nil, err
	}
	sel, err := shape(stmt.Select, root)
	if err != nil {
		return nil, err
	}
	src, err := cat.source(sel)
	if err != nil {
		return nil, err
	}
	rel := src.Relation()
	b := &builder{
		scope:   scope{selection: sel, columns: rel.Columns},
		printer: printer{ctx, eng},
		view:    &View{Name: stmt.Name.Text, Source: src.Name, Select: stmt.Select.Text()},
	}
	b.want, err = eng.Describe(ctx, []Relation{rel}, stmt.Select.Text())
	if err != nil {
		if e, ok := errors.AsType[*SyntaxError](err); ok && e.Offset < 0 {
			// DuckDB refuses it without a place: the same fault, found here, has one.
			if named := b.names(); named != nil {
				return nil, named
			}
		}
		return nil, placed(err, stmt.Select)
	}
	if err := b.build(); err != nil {
		return nil, err
	}
	return b.view, nil
}

// source finds what FROM names.
func (c Catalog) source(sel *selection) (Source, error) {
	name := str(sel.from, "table_name")
	var names []string
	for _, s := range c.Sources {
		if strings.EqualFold(s.Name, name) {
			return s, nil
		}
		names = append(names, s.Name)
	}
	for _, v := range c.Views {
		if strings.EqualFold(v.Name, name) {
			return Source{}, sel.errorAt(sel.from, v.Name+" is a view, and a materialized view reads a source", "use CREATE VIEW over "+v.Name)
		}
	}
	nearest := "create it first: CREATE SOURCE " + name + " (...) WITH (...)"
	if n := ddl.Nearest(name, names); n != "" {
		nearest = "did you mean " + n + "?"
	}
	return Source{}, sel.errorAt(sel.from, "there is no source "+name, nearest)
}

// serialize reads a SELECT, and gives a syntax error its place in the script.
func serialize(ctx context.Context, eng Engine, span ddl.Span) (node, error) {
	tree, err := eng.Serialize(ctx, span.Text())
	if err != nil {
		return nil, placed(err, span)
	}
	root, err := decode(tree)
	if err != nil { // Infinity is not JSON
		return nil, span.Errorf(0, "write 'inf'::DOUBLE for infinity", "a number in this SELECT is beyond DOUBLE")
	}
	return root, nil
}

// describe gives the columns of a SELECT of the script.
func describe(ctx context.Context, eng Engine, rels []Relation, span ddl.Span) ([]sqltype.Field, error) {
	fs, err := eng.Describe(ctx, rels, span.Text())
	return fs, placed(err, span)
}

// placed turns DuckDB's refusal of a piece of a script into a ddl.Error.
func placed(err error, span ddl.Span) error {
	if e, ok := errors.AsType[*SyntaxError](err); ok {
		reason, nearest := cutMessage(e.Message)
		if strings.HasPrefix(reason, "Only SELECT statements") {
			reason, nearest = "a view is made of a SELECT", "write AS SELECT ..."
		}
		return span.Errorf(max(e.Offset, 0), nearest, reason)
	}
	if e, ok := errors.AsType[*sqltype.UnsupportedError](err); ok {
		return span.Errorf(0, e.Hint, "a column of type "+e.Type+" is not supported")
	}
	return err
}

// cutMessage takes DuckDB's own excerpt of the statement off its message, and
// the hint, if there is one.
func cutMessage(m string) (reason, nearest string) {
	m, _, _ = strings.Cut(m, "\n\nLINE ")
	m, _, _ = strings.Cut(m, "\nLINE ")
	m = strings.TrimSpace(m)
	for _, kind := range []string{"Binder Error: ", "Parser Error: ", "Catalog Error: ", "Conversion Error: "} {
		m = strings.TrimPrefix(m, kind)
	}
	for _, hint := range []string{"Did you mean ", "Candidate bindings: ", "Candidate Entries: "} {
		if i := strings.Index(m, hint); i > 0 {
			m, nearest = m[:i], strings.ToLower(hint[:1])+hint[1:]+m[i+len(hint):]
		}
	}
	m, _, _ = strings.Cut(m, "\n")
	nearest, _, _ = strings.Cut(nearest, "\n")
	return strings.TrimRight(m, " .!"), nearest
}

// unprintable places a misprint; other errors are not the statement's.
func (s *selection) unprintable(n node, err error) error {
	if m, ok := errors.AsType[misprint](err); ok {
		return s.errorAt(n, "this expression can't be kept: "+string(m), "write it another way")
	}
	return err
}

// unbound refuses a SELECT for which DuckDB refuses a statement of the plan,
// which a constant without a type of its own can bring about.
func (s *selection) unbound(what string, err error) error {
	if e, ok := errors.AsType[*SyntaxError](err); ok {
		reason, _ := cutMessage(e.Message)
		return s.errorAt(node{}, fmt.Sprintf("this can't be kept: over the %s, DuckDB says: %s", what, reason), "cast the constants in it, for example '1'::INTEGER")
	}
	return fmt.Errorf("describe the %s: %w", what, err)
}
