package duckext

import (
	"encoding/json"
	"strings"

	"weir/state/sqltype"
)

// A predicate restricts one column of the one view that a statement reads.
type predicate struct {
	column string
	in     []constant // for = and IN
	low    *constant  // for >=, > and BETWEEN
	high   *constant
}

// A constant is a value that a column is compared with, as text.
type constant struct {
	kind constantKind
	text string
	cast string // the type that the statement casts it to, "" if none
}

type constantKind uint8

const (
	stringLiteral constantKind = iota
	integerLiteral
	stringParam
	integerParam
)

// predicates finds what WHERE demands of the columns of the only view that the
// statement reads. It errs towards less: a predicate that is not understood is
// left to DuckDB, which checks all of them again.
func (s *statement) predicates(params map[string]any) []predicate {
	if s.bases != 1 {
		return nil
	}
	var out []predicate
	eachObject(s.node, func(o object) {
		if o["type"] != "SELECT_NODE" || o["sample"] != nil {
			return
		}
		from, _ := o["from_table"].(object)
		where, _ := o["where_clause"].(object)
		table, _ := from["table_name"].(string)
		aliases, _ := from["column_name_alias"].([]any)
		if where == nil || from[isRef] != true || from["sample"] != nil || len(aliases) > 0 {
			return
		}
		if alias, _ := from["alias"].(string); alias != "" {
			table = alias
		}
		c := conjuncts{table: table, params: params}
		c.collect(where)
		out = append(out, c.found...)
	})
	return out
}

func eachObject(v any, f func(object)) {
	switch v := v.(type) {
	case []any:
		for _, c := range v {
			eachObject(c, f)
		}
	case object:
		f(v)
		for _, c := range v {
			eachObject(c, f)
		}
	}
}

type conjuncts struct {
	table  string
	params map[string]any
	found  []predicate
}

func (c *conjuncts) collect(o object) {
	switch o["type"] {
	case "CONJUNCTION_AND":
		list, _ := o["children"].([]any)
		for _, e := range list {
			if e, ok := e.(object); ok {
				c.collect(e)
			}
		}
	case "COMPARE_EQUAL", "COMPARE_GREATERTHAN", "COMPARE_GREATERTHANOREQUALTO", "COMPARE_LESSTHAN", "COMPARE_LESSTHANOREQUALTO":
		c.compare(o)
	case "COMPARE_IN":
		c.in(o)
	case "COMPARE_BETWEEN":
		col, ok := c.column(o["input"])
		low, okLow := c.constant(o["lower"])
		high, okHigh := c.constant(o["upper"])
		if ok && okLow && okHigh {
			c.found = append(c.found, predicate{column: col, low: &low, high: &high})
		}
	}
}

func (c *conjuncts) compare(o object) {
	kind, _ := o["type"].(string)
	col, ok := c.column(o["left"])
	val, okVal := c.constant(o["right"])
	if !ok || !okVal {
		// The constant may come first: 5 < k is k > 5.
		col, ok = c.column(o["right"])
		val, okVal = c.constant(o["left"])
		switch {
		case strings.Contains(kind, "GREATER"):
			kind = "LESS"
		case strings.Contains(kind, "LESS"):
			kind = "GREATER"
		}
	}
	if !ok || !okVal {
		return
	}
	p := predicate{column: col}
	switch {
	case kind == "COMPARE_EQUAL":
		p.in = []constant{val}
	case strings.Contains(kind, "GREATER"):
		p.low = &val
	default:
		p.high = &val
	}
	c.found = append(c.found, p)
}

func (c *conjuncts) in(o object) {
	list, _ := o["children"].([]any)
	if len(list) < 2 {
		return
	}
	col, ok := c.column(list[0])
	if !ok {
		return
	}
	p := predicate{column: col}
	for _, e := range list[1:] {
		v, ok := c.constant(e)
		// One type for all, so that DuckDB compares in the column's.
		if !ok || v.kind != p.first(v).kind || v.cast != p.first(v).cast {
			return
		}
		p.in = append(p.in, v)
	}
	c.found = append(c.found, p)
}

func (p *predicate) first(v constant) constant {
	if len(p.in) > 0 {
		return p.in[0]
	}
	return v
}

// column is the name of a column of the view, plain or behind the view's name.
func (c *conjuncts) column(v any) (string, bool) {
	o, _ := v.(object)
	if o["type"] != "COLUMN_REF" {
		return "", false
	}
	names, _ := o["column_names"].([]any)
	if len(names) == 2 {
		if t, _ := names[0].(string); !strings.EqualFold(t, c.table) {
			return "", false
		}
		names = names[1:]
	}
	if len(names) != 1 {
		return "", false
	}
	name, ok := names[0].(string)
	return name, ok
}

func (c *conjuncts) constant(v any) (constant, bool) {
	o, _ := v.(object)
	var cast string
	if o["type"] == "OPERATOR_CAST" {
		t, _ := o["cast_type"].(object)
		cast, _ = t["id"].(string)
		if o["try_cast"] != false || t["type_info"] != nil || cast == "" {
			return constant{}, false
		}
		o, _ = o["child"].(object)
	}
	switch o["type"] {
	case "VALUE_CONSTANT":
		val, _ := o["value"].(object)
		typ, _ := val["type"].(object)
		switch x := val["value"].(type) {
		case string:
			return constant{stringLiteral, x, cast}, typ["id"] == "VARCHAR"
		case json.Number:
			return constant{integerLiteral, x.String(), cast}, cast == "" && (typ["id"] == "INTEGER" || typ["id"] == "BIGINT")
		}
	case "VALUE_PARAMETER":
		id, _ := o["identifier"].(string)
		switch x := c.params[id].(type) {
		case string:
			return constant{stringParam, x, cast}, cast == ""
		case json.Number:
			_, err := x.Int64() // what is no BIGINT is compared in a type that may not be the column's
			return constant{integerParam, x.String(), cast}, cast == "" && err == nil
		}
	}
	return constant{}, false
}

// comparesAs says that DuckDB compares a column of type t with the constant in
// t itself, after a cast that loses nothing, so that the cast value stands for
// the constant. Floats are left out: their keys have more than one spelling.
func (v constant) comparesAs(t sqltype.Type) bool {
	if strings.IndexByte(v.text, 0) >= 0 {
		return false
	}
	if v.cast != "" {
		c, err := sqltype.Parse(v.cast)
		return err == nil && c.Equal(t) && v.kind == stringLiteral && !t.Nested() && t.ID != sqltype.JSON && t.ID != sqltype.Float && t.ID != sqltype.Double
	}
	switch {
	case t.Integral():
		return v.kind != stringParam
	case t.ID == sqltype.Decimal:
		return v.kind == integerLiteral || v.kind == integerParam
	case t.ID == sqltype.Varchar:
		return v.kind == stringLiteral || v.kind == stringParam
	case t.Temporal(), t.ID == sqltype.UUID, t.ID == sqltype.Time:
		return v.kind == stringLiteral
	}
	return false
}
