package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"weir/state/ddl"
	"weir/state/sqltype"
)

// A Query is a plain view: a SELECT that runs whenever it is read.
type Query struct {
	Name    string
	Select  string
	Columns []sqltype.Field
	Reads   []string // sources and views it names, in the catalogue's spelling
}

// NewQuery checks the SELECT of CREATE VIEW against the catalogue.
func NewQuery(ctx context.Context, eng Engine, cat Catalog, stmt *ddl.CreateView) (*Query, error) {
	span := stmt.Select
	root, err := serialize(ctx, eng, span)
	if err != nil {
		return nil, err
	}
	if stmts := list(root, "statements"); len(stmts) != 1 {
		return nil, span.Errorf(0, "", "expected one SELECT")
	}
	q := &Query{Name: stmt.Name.Text, Select: span.Text()}
	var rels []Relation
	for _, ref := range references(root) {
		rel, err := cat.readable(span, ref, stmt.Name.Text)
		if err != nil {
			return nil, err
		}
		if rel.Name != "" && !slices.Contains(q.Reads, rel.Name) {
			q.Reads = append(q.Reads, rel.Name)
			rels = append(rels, rel)
		}
	}
	slices.Sort(q.Reads)
	if q.Columns, err = describe(ctx, eng, rels, span); err != nil {
		return nil, err
	}
	for i, c := range q.Columns {
		if slices.ContainsFunc(q.Columns[:i], func(o sqltype.Field) bool { return strings.EqualFold(o.Name, c.Name) }) {
			return nil, span.Errorf(0, "name one of them: expr AS name", "two columns are called "+c.Name)
		}
		if strings.HasPrefix(c.Name, "__") {
			return nil, span.Errorf(0, "name the column: expr AS name", "column "+c.Name+": names that start with __ are Weir's own")
		}
	}
	return q, nil
}

func (c Catalog) relation(name string) (Relation, bool) {
	for _, s := range c.Sources {
		if strings.EqualFold(s.Name, name) {
			return s.Relation(), true
		}
	}
	for _, v := range c.Views {
		if strings.EqualFold(v.Name, name) {
			return v, true
		}
	}
	return Relation{}, false
}

func (c Catalog) nearest(name string) string {
	var names []string
	for _, s := range c.Sources {
		names = append(names, s.Name)
	}
	for _, v := range c.Views {
		names = append(names, v.Name)
	}
	if n := ddl.Nearest(name, names); n != "" {
		return "did you mean " + n + "?"
	}
	if len(names) == 0 {
		return "create it first"
	}
	return "there are " + strings.Join(names, ", ")
}

// readable finds what a reference of a plain view stands for; a table function
// that may be used has no name.
func (c Catalog) readable(span ddl.Span, ref Reference, self string) (Relation, error) {
	fail := func(reason, nearest string) (Relation, error) {
		return Relation{}, span.Errorf(max(ref.Offset, 0), nearest, reason)
	}
	switch {
	case ref.Kind == "TABLE_FUNCTION" && pureTable(ref.Name):
		return Relation{}, nil
	case ref.Kind == "TABLE_FUNCTION":
		return fail("the table function "+ref.Name+" is not supported in a view", "use sources and views, range, generate_series or unnest")
	case ref.Kind != "BASE_TABLE":
		return fail("FROM a "+strings.ToLower(ref.Kind)+" is not supported in a view", "use the names of sources and views")
	case ref.Schema != "":
		return fail("there are no schemas: a name has one part", "write "+ref.Name)
	case ref.AtUnit != "":
		return fail("AT is not supported in a view: its checkpoint is deleted some day", "use AT in the query that reads "+ref.Name)
	}
	if rel, ok := c.relation(ref.Name); ok {
		return rel, nil
	}
	if strings.EqualFold(ref.Name, self) {
		return fail("view "+self+" can't read itself", "choose another name")
	}
	return fail("there is no source or view "+ref.Name, c.nearest(ref.Name))
}

// pureTable says whether a table function computes rows from its arguments alone.
func pureTable(name string) bool {
	return slices.Contains([]string{"range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree"}, strings.ToLower(name))
}

// A Reference is one thing in FROM, other than a subquery, a join or a CTE.
type Reference struct {
	Kind   string // "BASE_TABLE", "TABLE_FUNCTION", or another of DuckDB's
	Name   string
	Schema string // what stands before the name, "" if nothing
	AtUnit string // "VERSION" or "TIMESTAMP" when AT (...) follows, else ""
	At     string // the constant within AT, "" if it is none
	Offset int    // in the statement, -1 when not known
}

// References lists what a statement reads, for checks of dependencies.
func References(ctx context.Context, eng Engine, sql string) ([]Reference, error) {
	tree, err := eng.Serialize(ctx, sql)
	if err != nil {
		return nil, err
	}
	root, err := decode(tree)
	if err != nil {
		return nil, err
	}
	return references(root), nil
}

func references(root node) []Reference {
	var refs []Reference
	visitTables(root, nil, func(r Reference) { refs = append(refs, r) })
	slices.SortFunc(refs, func(a, b Reference) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Name, b.Name), cmp.Compare(a.At, b.At))
	})
	return refs
}

// visitTables calls f for all that FROM clauses in v name, but for the CTEs in
// sight. A CTE is in sight in the whole of its query, the CTEs before it
// included: a name that is a CTE anywhere is not meant otherwise there.
func visitTables(v any, ctes []string, f func(Reference)) {
	switch v := v.(type) {
	case node:
		if m := sub(v, "cte_map"); m != nil {
			for _, e := range list(m, "map") {
				ctes = append(ctes[:len(ctes):len(ctes)], str(e, "key"))
			}
		}
		if r, ok := reference(v); ok {
			if r.Kind != "BASE_TABLE" || r.Schema != "" || !slices.ContainsFunc(ctes, func(c string) bool { return strings.EqualFold(c, r.Name) }) {
				f(r)
			}
		}
		for _, e := range v {
			visitTables(e, ctes, f)
		}
	case []any:
		for _, e := range v {
			visitTables(e, ctes, f)
		}
	}
}

// reference reads a node of FROM. Such nodes, and no others, have a "sample"
// and no "class", but for the SELECT itself.
func reference(n node) (Reference, bool) {
	_, from := n["sample"]
	r := Reference{Kind: str(n, "type"), Offset: location(node{"query_location": n["query_location"]})}
	if !from || isExpr(n) {
		return r, false
	}
	switch r.Kind {
	case "SELECT_NODE", "EMPTY", "JOIN", "SUBQUERY", "EXPRESSION_LIST", "PIVOT":
		return r, false
	case "TABLE_FUNCTION":
		r.Name = str(sub(n, "function"), "function_name")
	default:
		r.Name, r.Schema = str(n, "table_name"), strings.TrimPrefix(str(n, "catalog_name")+"."+str(n, "schema_name"), ".")
	}
	if at := sub(n, "at_clause"); at != nil {
		r.AtUnit = str(at, "unit")
		if v := sub(sub(at, "expr"), "value"); v != nil {
			r.At = fmt.Sprint(v["value"])
		}
	}
	return r, true
}
