package plan

import (
	"context"
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
	for _, name := range tables(root) {
		rel, ok := cat.relation(name)
		switch {
		case strings.EqualFold(name, stmt.Name.Text) && !ok:
			return nil, span.Errorf(0, "choose another name", "view "+name+" can't read itself")
		case !ok:
			return nil, span.Errorf(0, cat.nearest(name), "there is no source or view "+name)
		}
		q.Reads = append(q.Reads, rel.Name)
		rels = append(rels, rel)
	}
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

// Tables lists the tables that a SELECT names, each once, without its own CTEs.
func Tables(ctx context.Context, eng Engine, sql string) ([]string, error) {
	tree, err := eng.Serialize(ctx, sql)
	if err != nil {
		return nil, err
	}
	root, err := decode(tree)
	if err != nil {
		return nil, err
	}
	return tables(root), nil
}

func tables(root node) []string {
	var names []string
	visitTables(root, nil, func(name string) {
		if !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
			names = append(names, name)
		}
	})
	slices.Sort(names)
	return names
}

// visitTables calls f for every base table in v that is not one of the CTEs in
// sight. A CTE is in sight in the whole of its query, the other CTEs included:
// DuckDB allows no forward references, so nothing else can be meant.
func visitTables(v any, ctes []string, f func(string)) {
	switch v := v.(type) {
	case node:
		if m := sub(v, "cte_map"); m != nil {
			for _, e := range list(m, "map") {
				ctes = append(ctes[:len(ctes):len(ctes)], str(e, "key"))
			}
		}
		if str(v, "type") == "BASE_TABLE" {
			name := str(v, "table_name")
			if str(v, "schema_name") != "" || !slices.ContainsFunc(ctes, func(c string) bool { return strings.EqualFold(c, name) }) {
				f(name)
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
