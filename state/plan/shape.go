package plan

import (
	"fmt"
	"strings"

	"weir/state/agg"
	"weir/state/ddl"
)

// A selection is a SELECT whose shape a materialized view can have.
type selection struct {
	span     ddl.Span
	from     node   // the BASE_TABLE
	alias    string // by which columns are qualified
	items    []node
	where    node // nil if none
	groups   []node
	groupAll bool
	having   node // nil if none
}

// errorAt is an error at the place of n, or of the SELECT if n has none.
func (s *selection) errorAt(n node, reason, nearest string) error {
	return s.span.Errorf(max(location(n), 0), nearest, reason)
}

const overView = "use CREATE VIEW over this view for that"

// shape takes the tree of a script of one SELECT apart and refuses what a
// materialized view can't keep running.
func shape(span ddl.Span, root node) (*selection, error) {
	s := &selection{span: span}
	stmts := list(root, "statements")
	if len(stmts) != 1 {
		return nil, span.Errorf(0, "", "expected one SELECT")
	}
	n := sub(stmts[0], "node")
	switch str(n, "type") {
	case "SELECT_NODE":
	case "SET_OPERATION_NODE":
		return nil, span.Errorf(0, "create a view of each, and "+overView, "UNION, INTERSECT and EXCEPT are not supported in a materialized view")
	default:
		return nil, span.Errorf(0, "write SELECT ... FROM source GROUP BY ...", "a materialized view is a SELECT over a source, and this is a "+str(n, "type"))
	}
	if len(list(sub(n, "cte_map"), "map")) > 0 {
		return nil, span.Errorf(0, "write the SELECT over the source itself", "WITH is not supported in a materialized view")
	}
	if err := s.modifiers(n); err != nil {
		return nil, err
	}
	if err := s.fromTable(sub(n, "from_table")); err != nil {
		return nil, err
	}
	s.items, s.groups = list(n, "select_list"), list(n, "group_expressions")
	s.where, s.having = sub(n, "where_clause"), sub(n, "having")
	s.groupAll = str(n, "aggregate_handling") == "FORCE_AGGREGATES"
	if q := sub(n, "qualify"); q != nil {
		return nil, s.errorAt(q, "QUALIFY filters by a window, which looks at other groups", overView)
	}
	sets, _ := n["group_sets"].([]any)
	if len(sets) > 1 {
		at := node{}
		if len(s.groups) > 0 {
			at = s.groups[0]
		}
		return nil, s.errorAt(at, "GROUPING SETS, ROLLUP and CUBE are not supported", "create a view of each set of keys")
	}
	if len(sets) == 1 {
		if set, _ := sets[0].([]any); len(set) != len(s.groups) {
			return nil, s.errorAt(s.groups[0], "GROUPING SETS, ROLLUP and CUBE are not supported", "create a view of each set of keys")
		}
	}
	for _, e := range s.exprs() {
		if err := s.expressions(e); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *selection) exprs() []node {
	all := append(append([]node{}, s.items...), s.groups...)
	for _, e := range []node{s.where, s.having} {
		if e != nil {
			all = append(all, e)
		}
	}
	return all
}

func (s *selection) modifiers(n node) error {
	for _, m := range list(n, "modifiers") {
		switch kind := str(m, "type"); kind {
		case "DISTINCT_MODIFIER":
			return s.errorAt(m, "SELECT DISTINCT is not supported in a materialized view", "GROUP BY the columns instead: GROUP BY ALL")
		case "ORDER_MODIFIER":
			return s.errorAt(m, "ORDER BY is not supported in a materialized view: its groups have no order", overView)
		case "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER":
			return s.errorAt(m, "LIMIT is not supported in a materialized view: it keeps every group", overView)
		default:
			return s.errorAt(m, kind+" is not supported in a materialized view", overView)
		}
	}
	if n["sample"] != nil {
		return s.errorAt(node{}, "USING SAMPLE picks records at random, so the view could not be verified", "filter instead, for example WHERE kafka_offset % 10 = 0")
	}
	return nil
}

func (s *selection) fromTable(t node) error {
	const nearest = "write FROM source, the name of one source"
	at := func(reason, nearest string) error { return s.errorAt(t, reason, nearest) }
	switch kind := str(t, "type"); kind {
	case "BASE_TABLE":
	case "JOIN":
		return at("joins are not supported in a materialized view yet", "create a view of each source and join them in a CREATE VIEW")
	case "SUBQUERY":
		return at("a subquery in FROM is not supported in a materialized view", nearest)
	case "TABLE_FUNCTION":
		name := str(sub(t, "function"), "function_name")
		if n := strings.ToLower(name); n == "tumble" || n == "hop" || n == "session" {
			return at(name+"() is not supported yet", "group by time_bucket(INTERVAL '1 minute', placed_at)")
		}
		return at("the table function "+name+" can't feed a materialized view", nearest)
	case "EMPTY":
		return at("a materialized view needs FROM", nearest)
	default:
		return at(fmt.Sprintf("FROM a %s is not supported in a materialized view", strings.ToLower(kind)), nearest)
	}
	name := str(t, "table_name")
	switch {
	case str(t, "schema_name") != "" || str(t, "catalog_name") != "":
		return at("there are no schemas: a source's name has one part", "write FROM "+name)
	case t["sample"] != nil:
		return at("TABLESAMPLE picks records at random, so the view could not be verified", "filter instead, for example WHERE kafka_offset % 10 = 0")
	case len(texts(t, "column_name_alias")) > 0:
		return at("new names for a source's columns are not supported in FROM", "name them in the SELECT: expr AS name")
	case t["at_clause"] != nil:
		return at("AT reads a checkpoint of a view; a source has none", "leave it out")
	}
	s.from, s.alias = t, str(t, "alias")
	if s.alias == "" {
		s.alias = name
	}
	return nil
}

// expressions refuses what no expression of a view may hold.
func (s *selection) expressions(e node) (err error) {
	walk(e, func(n node) bool {
		if err == nil {
			err = s.expression(n)
		}
		return err == nil
	})
	return err
}

func (s *selection) expression(n node) error {
	switch class := str(n, "class"); class {
	case "COLUMN_REF", "CONSTANT", "COMPARISON", "CONJUNCTION", "CASE", "CAST", "BETWEEN", "LAMBDA", "COLLATE", "TYPE":
		return nil
	case "OPERATOR":
		if str(n, "type") == "GROUPING_FUNCTION" {
			return s.errorAt(n, "grouping() belongs to GROUPING SETS, which are not supported", "leave it out")
		}
		if str(n, "type") == "OPERATOR_TRY" {
			return s.errorAt(n, "TRY(...) is not supported in a materialized view: DuckDB can't group by it", "use TRY_CAST, or CASE WHEN to keep what fails away")
		}
		return nil
	case "FUNCTION":
		return s.function(n)
	case "SUBQUERY":
		return s.errorAt(n, "a subquery is not supported in a materialized view: records are evaluated one batch at a time", overView)
	case "WINDOW":
		return s.errorAt(n, "the window function "+str(n, "function_name")+"() OVER looks at other groups", overView)
	case "STAR":
		what := "*"
		if isTrue(n, "columns") {
			what = "COLUMNS(...)"
		}
		return s.errorAt(n, what+" is not supported in a materialized view: a column added later would change its groups", "name the columns")
	case "PARAMETER":
		return s.errorAt(n, "a view has no parameters", "write the value as a constant")
	case "POSITIONAL_REFERENCE":
		return s.errorAt(n, "#n is not supported in a materialized view", "name the column")
	case "DEFAULT":
		return s.errorAt(n, "DEFAULT has no meaning here", "write the value")
	default:
		return s.errorAt(n, fmt.Sprintf("a %s expression is not supported in a materialized view", strings.ToLower(class)), "")
	}
}

func (s *selection) function(n node) error {
	name := str(n, "function_name")
	if schema := str(n, "schema"); schema != "" && schema != "main" || str(n, "catalog") != "" {
		return s.errorAt(n, schema+"."+name+"(...) is not supported in a materialized view, whether it is a method call or a schema", "write "+name+"("+schema+", ...) for the method, "+name+"(...) for the function")
	}
	if reason, nearest := unrepeatable(name, len(list(n, "children"))); reason != "" {
		return s.errorAt(n, reason, nearest)
	}
	if isTrue(n, "export_state") {
		return s.errorAt(n, "EXPORT_STATE is not supported", "leave it out: the accumulators of a view are columns of its checkpoints")
	}
	if reason, nearest, ok := agg.Refused(name); ok {
		return s.errorAt(n, "aggregate "+name+" can't be used in a materialized view: "+reason, nearest)
	}
	spec, ok := agg.Lookup(name)
	if !ok {
		return nil
	}
	args := list(n, "children")
	switch {
	case len(args) > spec.Args[1] && (spec.Name == "min" || spec.Name == "max"):
		return s.errorAt(n, name+"(x, n) keeps a list of n values, which is not supported yet", "use "+name+"(x)")
	case len(args) < spec.Args[0] || len(args) > spec.Args[1]:
		return s.errorAt(n, fmt.Sprintf("%s takes %d argument, not %d", name, spec.Args[1], len(args)), "")
	case isTrue(n, "distinct") && !spec.Distinct && spec.Name == "count":
		return s.errorAt(n, "count(DISTINCT ...) is not supported yet: it needs every value of a group", "group by the value as well, and count the groups in a CREATE VIEW over this view")
	case isTrue(n, "distinct") && !spec.Distinct:
		return s.errorAt(n, name+"(DISTINCT ...) is not supported yet: it needs every value of a group", "group by the value as well, and aggregate in a CREATE VIEW over this view")
	case len(list(sub(n, "order_bys"), "orders")) > 0:
		return s.errorAt(n, "ORDER BY within "+name+"(...) changes nothing", "leave it out")
	}
	return nil
}

func isAggregate(n node) bool {
	if str(n, "class") != "FUNCTION" {
		return false
	}
	_, ok := agg.Lookup(str(n, "function_name"))
	return ok
}
