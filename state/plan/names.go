package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/state/ddl"
	"weir/state/sqltype"
)

// A scope resolves names as DuckDB does. A column that it found becomes the
// reference __input.column; aliases become what they stand for. So equal
// expressions become equal trees, however they were written.
type scope struct {
	*selection
	columns []sqltype.Field // of the source, its metadata included
	// resolved are the SELECT's items, filled from left to right.
	resolved []node
}

// column finds a source's column.
func (s *scope) column(name string) (string, bool) {
	for _, c := range s.columns {
		if strings.EqualFold(c.Name, name) {
			return c.Name, true
		}
	}
	return "", false
}

// find gives column and fields of a reference, ok false when it is not to a
// column of the source: table.column first, then column.field.
func (s *scope) find(names []string) (path []string, ok bool) {
	if len(names) > 1 && strings.EqualFold(names[0], s.alias) {
		if c, ok := s.column(names[1]); ok {
			return append([]string{c}, names[2:]...), true
		}
	}
	if c, ok := s.column(names[0]); ok {
		return append([]string{c}, names[1:]...), true
	}
	return nil, false
}

func (s *scope) input(n node, path []string) node {
	r := columnRef(append([]string{InputRelation}, path...)...)
	r["alias"], r["query_location"] = n["alias"], n["query_location"]
	return r
}

// A lookup resolves a reference that is no column; nil means that it can't.
type lookup func(names []string) node

// resolve copies e with all its names resolved. Within an aggregate, aliases do
// not count. Params are the parameters of the lambdas around e.
func (s *scope) resolve(e node, aliases lookup, params []string) (node, error) {
	switch {
	case str(e, "class") == "COLUMN_REF":
		return s.reference(e, aliases, params)
	case isAggregate(e):
		aliases = nil
	case str(e, "class") == "FUNCTION" && lambdaTaker(str(e, "function_name")):
		return s.lambdas(e, aliases, params)
	}
	return replace(e, func(c node) (node, error) { return s.resolve(c, aliases, params) })
}

func (s *scope) reference(e node, aliases lookup, params []string) (node, error) {
	names := texts(e, "column_names")
	for _, p := range params {
		if strings.EqualFold(p, names[0]) {
			return e, nil
		}
	}
	if path, ok := s.find(names); ok {
		return s.input(e, path), nil
	}
	if aliases != nil {
		if n := aliases(names); n != nil {
			return withAlias(n, str(e, "alias")), nil
		}
	}
	name := strings.Join(names, ".")
	if len(names) == 1 {
		if reason, nearest := unrepeatable(name, 0); reason != "" {
			return nil, s.errorAt(e, reason, nearest)
		}
		if strings.EqualFold(name, s.alias) {
			return nil, s.errorAt(e, "the whole record "+name+" as a value is not supported in a materialized view", "name its columns: {'a': a, 'b': b}")
		}
	}
	var all []string
	for _, c := range s.columns {
		all = append(all, c.Name)
	}
	hint := "columns are " + strings.Join(all, ", ")
	if near := ddl.Nearest(names[len(names)-1], all); near != "" {
		hint = "did you mean " + near + "?"
	}
	return nil, s.errorAt(e, fmt.Sprintf("there is no column %s here", name), hint)
}

// lambdas resolves the call of a function that takes lambdas behind its first
// argument.
func (s *scope) lambdas(e node, aliases lookup, params []string) (node, error) {
	var args []any
	for i, c := range list(e, "children") {
		var r node
		var err error
		if names, ok := lambdaParams(sub(c, "lhs")); ok && i > 0 && str(c, "class") == "LAMBDA" {
			r, err = s.lambda(c, names, aliases, params)
		} else {
			r, err = s.resolve(c, aliases, params)
		}
		if err != nil {
			return nil, err
		}
		args = append(args, r)
	}
	call := maps.Clone(e)
	call["children"] = args
	return call, nil
}

func (s *scope) lambda(l node, names []string, aliases lookup, params []string) (node, error) {
	for _, n := range names {
		if strings.HasPrefix(n, "__") {
			return nil, s.errorAt(l, "names that start with __ are Weir's own", "give the lambda's parameter another name")
		}
	}
	body, err := s.resolve(sub(l, "expr"), aliases, slices.Concat(params, names))
	if err != nil {
		return nil, err
	}
	c := maps.Clone(l)
	c["expr"] = body
	return c, nil
}

// lambdaParams reads x or (x, y).
func lambdaParams(lhs node) ([]string, bool) {
	refs := []node{lhs}
	if str(lhs, "class") == "FUNCTION" && strings.EqualFold(str(lhs, "function_name"), "row") {
		refs = list(lhs, "children")
	}
	var names []string
	for _, r := range refs {
		n := texts(r, "column_names")
		if str(r, "class") != "COLUMN_REF" || len(n) != 1 {
			return nil, false
		}
		names = append(names, n[0])
	}
	return names, true
}

// aliasBefore finds the expression that a SELECT item before limit gave a name to.
func (s *scope) aliasBefore(limit int) lookup {
	return func(names []string) node {
		if len(names) != 1 {
			return nil
		}
		for i := range min(limit, len(s.items)) {
			if a := str(s.items[i], "alias"); a != "" && strings.EqualFold(a, names[0]) {
				if i < len(s.resolved) {
					return withoutAlias(s.resolved[i])
				}
			}
		}
		return nil
	}
}

// selectList resolves the SELECT's expressions, each of which may use the
// aliases of those before it.
func (s *scope) selectList() error {
	for i, e := range s.items {
		r, err := s.resolve(e, s.aliasBefore(i), nil)
		if err != nil {
			return err
		}
		s.resolved = append(s.resolved, r)
	}
	return nil
}

func isInput(n node) bool {
	names := texts(n, "column_names")
	return str(n, "class") == "COLUMN_REF" && len(names) > 1 && names[0] == InputRelation
}

// keys resolves GROUP BY: columns, then whole aliases, ordinals, ALL.
func (s *scope) keys() ([]node, error) {
	var keys []node
	add := func(e node) {
		for _, k := range keys {
			if same(k) == same(e) {
				return
			}
		}
		keys = append(keys, withoutAlias(e))
	}
	if s.groupAll {
		for _, e := range s.resolved {
			// As in DuckDB, an item that reads no column is not grouped by: where
			// all are such, there is one row, before any record too.
			if !contains(e, isAggregate) && contains(e, isInput) {
				add(e)
			}
		}
		return keys, nil
	}
	for _, g := range s.groups {
		e, err := s.key(g)
		if err != nil {
			return nil, err
		}
		if contains(e, isAggregate) {
			return nil, s.errorAt(g, "GROUP BY can't hold an aggregate", "group by columns of the source")
		}
		add(e)
	}
	return keys, nil
}

func (s *scope) key(g node) (node, error) {
	if i, ok := ordinal(g); ok {
		if i < 1 || i > len(s.resolved) {
			return nil, s.errorAt(g, fmt.Sprintf("GROUP BY %d: SELECT names %d columns", i, len(s.resolved)), "")
		}
		return s.resolved[i-1], nil
	}
	whole := s.aliasBefore(len(s.items))
	if str(g, "class") != "COLUMN_REF" {
		whole = nil // as in DuckDB, an alias can't be part of an expression here
	}
	return s.resolve(g, whole, nil)
}

// ordinal reads an integer constant.
func ordinal(g node) (int, bool) {
	v := sub(g, "value")
	if str(g, "class") != "CONSTANT" || isTrue(v, "is_null") {
		return 0, false
	}
	switch str(sub(v, "type"), "id") {
	case "INTEGER", "BIGINT":
		var i int
		if _, err := fmt.Sscan(fmt.Sprint(v["value"]), &i); err == nil {
			return i, true
		}
	}
	return 0, false
}

// havingExpr resolves HAVING. There a name is a column only where it is part of
// a key or of an aggregate; else it is an alias of the SELECT.
func (s *scope) havingExpr(e node, keys []node) (node, error) {
	if isAggregate(e) {
		return s.resolve(e, nil, nil)
	}
	if r, err := s.resolve(e, nil, nil); err == nil {
		for _, k := range keys {
			if same(k) == same(r) || str(r, "class") == "COLUMN_REF" && within(k, r) {
				return r, nil
			}
		}
	}
	switch {
	case str(e, "class") == "COLUMN_REF":
		if n := s.aliasBefore(len(s.items))(texts(e, "column_names")); n != nil {
			return n, nil
		}
		r, err := s.resolve(e, nil, nil)
		if err == nil {
			err = s.errorAt(e, "HAVING names "+strings.Join(texts(e, "column_names"), ".")+", which is not grouped", "group by it, use an aggregate of it, or filter records with WHERE")
		}
		return r, err
	case str(e, "class") == "FUNCTION" && lambdaTaker(str(e, "function_name")):
		return s.resolve(e, s.aliasBefore(len(s.items)), nil)
	}
	return replace(e, func(c node) (node, error) { return s.havingExpr(c, keys) })
}

// within says whether the reference r is to the column k or to a field of it.
func within(k, r node) bool {
	if str(k, "class") != "COLUMN_REF" {
		return false
	}
	a, b := texts(k, "column_names"), texts(r, "column_names")
	return len(a) <= len(b) && slices.EqualFunc(a, b[:len(a)], strings.EqualFold)
}
