package duckext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/state/plan"
)

// maxSQL is the longest statement that is parsed, in bytes.
const maxSQL = 64 << 10

// A refusal says what a query may not do.
type refusal struct {
	message string
	offset  int
}

func (e *refusal) Error() string { return e.message }

// tableFunctions may be called in FROM. All others are refused by name, since
// DuckDB's own reach files and settings through some of them.
var tableFunctions = map[string]bool{
	"range": true, "generate_series": true, "unnest": true, "repeat": true, "repeat_row": true, "json_each": true, "json_tree": true,
	"duckdb_functions": true, "duckdb_types": true, "duckdb_keywords": true, "pg_timezone_names": true, "icu_calendar_names": true,
}

// deniedFunctions may not be called in expressions. They reach outside of the
// statement; everything else is kept in bounds by the process's limits.
var deniedFunctions = map[string]bool{
	"write_log": true, "getenv": true, "json_execute_serialized_sql": true, "json_serialize_plan": true, "sql_auto_complete": true,
	"query": true, "query_table": true, "set_config": true, "nextval": true, "currval": true,
}

// A statement is a query that passed the gate.
type statement struct {
	sql   string // one statement without its semicolon
	node  any    // its syntax tree
	refs  []Ref
	bases int // references in it, names of WITH excluded
	spans []span
}

// A span is text that stands for a view as it was, and what replaces it.
type span struct {
	start, end int
	with       string
}

// inspect is the statement gate: one statement, a SELECT or what only describes
// one, no function beyond the lists above, no qualified names. It also finds the
// names that the statement needs. It is a second line: what the process can
// reach is bounded by its own limits.
func inspect(sql string, serialize func(string) ([]byte, error)) (*statement, error) {
	if len(sql) > maxSQL {
		return nil, &refusal{fmt.Sprintf("the statement has %d bytes; the limit is %d", len(sql), maxSQL), -1}
	}
	if i := strings.IndexByte(sql, 0); i >= 0 {
		return nil, &refusal{"the statement holds a NUL character", i}
	}
	s := &statement{sql: trimStatement(sql)}
	body := skipExplain(s.sql)
	text, err := serialize(askable(s.sql)[body:])
	if err != nil {
		return nil, s.parseError(err, body)
	}
	var tree struct{ Statements []struct{ Node any } }
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return nil, fmt.Errorf("read the syntax tree: %w", err)
	}
	switch len(tree.Statements) {
	case 0:
		return nil, &refusal{"the statement is empty", -1}
	case 1:
	default:
		return nil, &refusal{"one statement a request: there are " + fmt.Sprint(len(tree.Statements)), -1}
	}
	s.node = tree.Statements[0].Node
	w := walker{s: s, base: body}
	if err := w.walk(s.node, nil); err != nil {
		return nil, err
	}
	return s, nil
}

// skipExplain finds the statement behind EXPLAIN and its options.
func skipExplain(sql string) int {
	t := lex(sql, 0)
	if !strings.EqualFold(t.text(sql), "explain") {
		return 0
	}
	t = lex(sql, t.end)
	if strings.EqualFold(t.text(sql), "analyze") {
		t = lex(sql, t.end)
	}
	if t.kind == 'p' && sql[t.start] == '(' {
		// Options such as (FORMAT json), not a parenthesised SELECT.
		if w := strings.ToLower(lex(sql, t.end).text(sql)); w == "format" || w == "analyze" {
			if end := parens(sql, t); end > 0 {
				t = lex(sql, end)
			}
		}
	}
	return t.start
}

// parseError names the statement that DuckDB did not take for a SELECT.
func (s *statement) parseError(err error, body int) error {
	e, ok := errors.AsType[*plan.SyntaxError](err)
	if !ok {
		return err
	}
	if !strings.HasPrefix(e.Message, "Only SELECT") {
		if e.Offset >= 0 {
			e.Offset += body
		}
		return e
	}
	t := lex(s.sql, body)
	word := strings.ToUpper(t.text(s.sql))
	hint := "a query is one SELECT, or EXPLAIN, DESCRIBE or SUMMARIZE of one"
	switch word {
	case "PIVOT", "WITH", "FROM", "SELECT":
		return &refusal{"PIVOT needs the values of its columns: PIVOT … ON column IN (value, …)", t.start}
	case "SET", "RESET", "PRAGMA", "CALL":
		hint = "settings belong to the server; " + hint
	case "CREATE", "DROP", "ALTER":
		hint = "views and sources are made with CREATE VIEW, CREATE MATERIALIZED VIEW and CREATE SOURCE; " + hint
	case "BEGIN", "START", "COMMIT", "ROLLBACK", "ABORT", "PREPARE", "EXECUTE", "DEALLOCATE", "USE":
		hint = "there are no sessions, and parameters are bound with \"params\"; " + hint
	}
	return &refusal{word + " is not allowed in a query: " + hint, t.start}
}

// A walker visits a syntax tree with the names that WITH has defined so far.
type walker struct {
	s    *statement
	base int // where the tree's text begins in the statement
}

type object = map[string]any

// isRef marks the tables of a tree that are references, not names of a WITH.
const isRef = "weir"

func (w *walker) location(o object) int {
	n, ok := o["query_location"].(json.Number)
	if !ok {
		return -1
	}
	v, err := n.Int64()
	if err != nil || v < 0 || v > int64(len(w.s.sql)) {
		return -1
	}
	return int(v) + w.base
}

func (w *walker) walk(v any, ctes []string) error {
	switch v := v.(type) {
	case []any:
		for _, c := range v {
			if err := w.walk(c, ctes); err != nil {
				return err
			}
		}
	case object:
		return w.visit(v, ctes)
	}
	return nil
}

func (w *walker) visit(o object, ctes []string) error {
	ctes, err := w.with(o, ctes)
	if err != nil {
		return err
	}
	switch o["type"] {
	case "BASE_TABLE":
		if err := w.table(o, ctes); err != nil {
			return err
		}
	case "TABLE_FUNCTION":
		f, _ := o["function"].(object)
		name, _ := f["function_name"].(string)
		if known, err := w.past(name, o, f); known {
			return err
		}
		if !tableFunctions[strings.ToLower(name)] {
			return &refusal{fmt.Sprintf("the table function %s is not allowed in a query", name), w.location(o)}
		}
		return w.walk(f["children"], ctes)
	case "SHOW_REF":
		if o["query"] == nil {
			return &refusal{"DuckDB's own catalogue is not open to queries: use SHOW VIEWS or SHOW SOURCES, or DESCRIBE a name", -1}
		}
	case "FUNCTION":
		name, _ := o["function_name"].(string)
		if o["class"] == "FUNCTION" && deniedFunctions[strings.ToLower(name)] {
			return &refusal{fmt.Sprintf("the function %s is not allowed in a query", name), w.location(o)}
		}
	case "RECURSIVE_CTE_NODE":
		if name, ok := o["cte_name"].(string); ok {
			ctes = append(slices.Clip(ctes), strings.ToLower(name))
		}
	}
	for k, c := range o {
		if k == "cte_map" || k == "at_clause" {
			continue
		}
		if err := w.walk(c, ctes); err != nil {
			return err
		}
	}
	return nil
}

// with visits the definitions of a WITH, each seeing those before it, and
// returns the names that the rest of the node sees.
func (w *walker) with(o object, ctes []string) ([]string, error) {
	m, ok := o["cte_map"].(object)
	if !ok {
		return ctes, nil
	}
	list, _ := m["map"].([]any)
	ctes = slices.Clip(ctes)
	for _, e := range list {
		entry, _ := e.(object)
		if err := w.walk(entry["value"], ctes); err != nil {
			return nil, err
		}
		name, _ := entry["key"].(string)
		ctes = append(ctes, strings.ToLower(name))
	}
	return ctes, nil
}

func (w *walker) table(o object, ctes []string) error {
	name, _ := o["table_name"].(string)
	schema, _ := o["schema_name"].(string)
	catalog, _ := o["catalog_name"].(string)
	at := w.location(o)
	inWith := slices.Contains(ctes, strings.ToLower(name))
	switch {
	case schema == "recurring" && catalog == "" && inWith:
		return nil
	case schema != "" || catalog != "":
		return &refusal{fmt.Sprintf("%s is qualified by a schema; views and sources have none, and DuckDB's catalogue is not open to queries", qualified(catalog, schema, name)), at}
	case inWith:
		return nil
	}
	o[isRef] = true
	clause, _ := o["at_clause"].(object)
	if clause == nil {
		w.s.add(Ref{Name: name, As: name, Offset: at})
		return nil
	}
	when, err := w.at(clause, at)
	if err != nil {
		return err
	}
	alias, _ := o["alias"].(string)
	if alias == "" {
		alias = name
	}
	as := " AS " + quote(alias)
	if columns, _ := o["column_name_alias"].([]any); len(columns) > 0 {
		names := make([]string, len(columns))
		for i, c := range columns {
			text, _ := c.(string)
			names[i] = quote(text)
		}
		as += "(" + strings.Join(names, ", ") + ")"
	}
	return w.s.replace(Ref{Name: name, At: when, Offset: at}, w.s.clause(at), as)
}

func qualified(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ".")
}

// add counts a reference, and keeps its name once.
func (s *statement) add(r Ref) string {
	s.bases++
	for _, old := range s.refs {
		if old.same(r) {
			return old.As
		}
	}
	if r.At != nil || r.Diff != nil || r.History != nil {
		r.As = fmt.Sprintf("__at_%d", len(s.refs)+1)
	}
	s.refs = append(s.refs, r)
	return r.As
}
