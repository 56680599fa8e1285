package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
)

// A misprint is why an expression can't be put into a statement of the plan.
type misprint string

func (m misprint) Error() string { return string(m) }

// A printer turns expressions into SQL and back by way of DuckDB.
type printer struct {
	ctx context.Context
	eng Engine
}

// text prints one expression. DuckDB's printer is not faithful: it prints a
// DOUBLE constant so that it reads back as a DECIMAL. So constants are wrapped
// first, and what it printed is read again and compared; any other difference is
// an error.
func (p printer) text(e node) (string, error) {
	e, err := wrapConstants(e)
	if err != nil {
		return "", err
	}
	e = withoutAlias(e)
	tree, err := json.Marshal(selecting(e))
	if err != nil {
		return "", fmt.Errorf("print expression: %w", err)
	}
	sql, err := p.eng.Deserialize(p.ctx, tree)
	if err != nil {
		return "", fmt.Errorf("print expression: %w", err)
	}
	sql = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(sql), ";"))
	s, ok := strings.CutPrefix(sql, "SELECT ")
	if !ok {
		return "", misprint("DuckDB prints it as " + sql)
	}
	again, err := p.parse(s)
	if e, ok := errors.AsType[*SyntaxError](err); ok {
		return "", misprint("DuckDB does not read what it printed, " + s + ": " + e.Message)
	}
	if err != nil {
		return "", err
	}
	if same(again) != same(e) {
		return "", misprint("DuckDB prints it as " + s + ", which means something else")
	}
	return s, nil
}

// parse reads one expression.
func (p printer) parse(sql string) (node, error) {
	tree, err := p.eng.Serialize(p.ctx, "SELECT "+sql)
	if err != nil {
		return nil, err
	}
	root, err := decode(tree)
	if err != nil {
		return nil, err
	}
	stmts := list(root, "statements")
	if len(stmts) != 1 {
		return nil, misprint(sql + " is not one expression")
	}
	items := list(sub(stmts[0], "node"), "select_list")
	if len(items) != 1 {
		return nil, misprint(sql + " is not one expression")
	}
	return items[0], nil
}

func withoutAlias(e node) node {
	if str(e, "alias") == "" {
		return e
	}
	c := maps.Clone(e)
	c["alias"] = ""
	return c
}

// wrapConstants replaces constants that DuckDB prints unfaithfully by the cast
// of a string: a DOUBLE or FLOAT by the shortest digits that read back as the
// same bits, a BOOLEAN as the parser itself writes one.
func wrapConstants(e node) (node, error) {
	if str(e, "class") != "CONSTANT" {
		return replace(e, wrapConstants)
	}
	value := sub(e, "value")
	id := str(sub(value, "type"), "id")
	if isTrue(value, "is_null") {
		return e, nil
	}
	switch id {
	case "BOOLEAN":
		if isTrue(value, "value") {
			return castOf(e, "t", id), nil
		}
		return castOf(e, "f", id), nil
	case "DOUBLE", "FLOAT":
		bits := 64
		if id == "FLOAT" {
			bits = 32
		}
		f, err := strconv.ParseFloat(fmt.Sprint(value["value"]), bits)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return nil, misprint(fmt.Sprintf("a constant of type %s is out of range: %v", id, value["value"]))
		}
		return castOf(e, strconv.FormatFloat(f, 'g', -1, bits), id), nil
	}
	return e, nil
}

// castOf is CAST('digits' AS id) in the place of e.
func castOf(e node, digits, id string) node {
	text := node{
		"class": "CONSTANT", "type": "VALUE_CONSTANT", "alias": "", "query_location": e["query_location"],
		"value": node{"type": node{"id": "VARCHAR", "type_info": nil}, "is_null": false, "value": digits},
	}
	return node{
		"class": "CAST", "type": "OPERATOR_CAST", "alias": e["alias"], "query_location": e["query_location"],
		"child": text, "cast_type": node{"id": id, "type_info": nil}, "try_cast": false,
	}
}
