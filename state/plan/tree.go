package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A node is one object of DuckDB's syntax tree, as json_serialize_sql writes
// it. Every expression has a "class"; what else it has depends on that. Numbers
// are json.Number, so that none is rounded.
type node = map[string]any

func decode(tree []byte) (node, error) {
	d := json.NewDecoder(bytes.NewReader(tree))
	d.UseNumber()
	var n node
	if err := d.Decode(&n); err != nil {
		return nil, fmt.Errorf("syntax tree: %w", err)
	}
	return n, nil
}

func str(n node, key string) string { s, _ := n[key].(string); return s }

func isTrue(n node, key string) bool { b, _ := n[key].(bool); return b }

func sub(n node, key string) node { m, _ := n[key].(node); return m }

// list gives the objects of an array.
func list(n node, key string) []node {
	all, _ := n[key].([]any)
	ns := make([]node, 0, len(all))
	for _, a := range all {
		if m, ok := a.(node); ok {
			ns = append(ns, m)
		}
	}
	return ns
}

// texts gives the strings of an array.
func texts(n node, key string) []string {
	all, _ := n[key].([]any)
	ss := make([]string, 0, len(all))
	for _, a := range all {
		s, _ := a.(string)
		ss = append(ss, s)
	}
	return ss
}

func isExpr(n node) bool { return str(n, "class") != "" }

// location is the byte where an expression starts in its statement, as far as
// DuckDB says: the least location of its parts, -1 when there is none.
func location(n node) int {
	at := -1
	if num, ok := n["query_location"].(json.Number); ok {
		if i, err := strconv.ParseInt(string(num), 10, 32); err == nil {
			at = int(i)
		}
	}
	for _, c := range parts(n) {
		if l := location(c); l >= 0 && (at < 0 || l < at) {
			at = l
		}
	}
	return at
}

// parts gives the expressions right below n, wherever they sit in it, in an
// order that does not change.
func parts(n node) []node {
	var ns []node
	for _, k := range slices.Sorted(maps.Keys(n)) {
		ns = appendExprs(ns, n[k])
	}
	return ns
}

func appendExprs(ns []node, v any) []node {
	switch v := v.(type) {
	case node:
		if isExpr(v) {
			return append(ns, v)
		}
		return append(ns, parts(v)...)
	case []any:
		for _, e := range v {
			ns = appendExprs(ns, e)
		}
	}
	return ns
}

// walk calls f for n and everything below it; f says whether to go deeper.
func walk(n node, f func(node) bool) {
	if isExpr(n) && !f(n) {
		return
	}
	for _, c := range parts(n) {
		walk(c, f)
	}
}

func contains(n node, f func(node) bool) bool {
	found := false
	walk(n, func(c node) bool {
		found = found || f(c)
		return !found
	})
	return found
}

// replace copies n with every expression right below it replaced by f of it.
func replace(n node, f func(node) (node, error)) (node, error) {
	c := make(node, len(n))
	for k, v := range n {
		r, err := replaceIn(v, f)
		if err != nil {
			return nil, err
		}
		c[k] = r
	}
	return c, nil
}

func replaceIn(v any, f func(node) (node, error)) (any, error) {
	switch v := v.(type) {
	case node:
		if isExpr(v) {
			return f(v)
		}
		return replace(v, f)
	case []any:
		all := make([]any, len(v))
		for i, e := range v {
			r, err := replaceIn(e, f)
			if err != nil {
				return nil, err
			}
			all[i] = r
		}
		return all, nil
	}
	return v, nil
}

// same is the text by which two expressions are equal: without locations and
// without the alias of the whole. Names of columns are resolved before.
func same(n node) string {
	b, err := json.Marshal(bare(n, true))
	if err != nil {
		panic(fmt.Sprintf("plan: a syntax tree that is not JSON: %v", err)) // decode made it from JSON
	}
	return string(b)
}

func bare(v any, root bool) any {
	switch v := v.(type) {
	case node:
		c := make(node, len(v))
		for k, e := range v {
			if k == "query_location" || root && k == "alias" {
				continue
			}
			c[k] = bare(e, false)
		}
		if str(v, "class") == "COLUMN_REF" {
			names := texts(v, "column_names")
			for i := range names {
				names[i] = strings.ToLower(names[i])
			}
			c["column_names"] = names
		}
		return c
	case []any:
		all := make([]any, len(v))
		for i, e := range v {
			all[i] = bare(e, false)
		}
		return all
	}
	return v
}

func columnRef(names ...string) node {
	all := make([]any, len(names))
	for i, n := range names {
		all[i] = n
	}
	return node{"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "query_location": json.Number("18446744073709551615"), "column_names": all}
}

// selecting is the tree of SELECT e.
func selecting(e node) node {
	return node{
		"error": false,
		"statements": []any{node{
			"node": node{
				"type": "SELECT_NODE", "modifiers": []any{}, "cte_map": node{"map": []any{}}, "select_list": []any{e},
				"from_table":   node{"type": "EMPTY", "alias": "", "sample": nil, "query_location": json.Number("18446744073709551615")},
				"where_clause": nil, "group_expressions": []any{}, "group_sets": []any{}, "aggregate_handling": "STANDARD_HANDLING",
				"having": nil, "sample": nil, "qualify": nil,
			},
			"named_param_map": []any{},
		}},
	}
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
