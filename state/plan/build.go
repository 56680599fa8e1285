package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/state/agg"
	"weir/state/ddl"
	"weir/state/sqltype"
)

// A builder makes one view.
type builder struct {
	scope
	printer
	view *View
	want []sqltype.Field // what DESCRIBE of the user's SELECT says

	filter  node   // WHERE, resolved
	having  node   // HAVING, resolved
	keys    []node // resolved
	calls   []call // distinct aggregate calls
	accKeys []string
}

// A call is one aggregate call of the SELECT, without location.
type call struct {
	same  string
	node  node
	spec  agg.Spec
	final node // over the state
}

func (b *builder) build() error {
	steps := []func() error{
		b.names, b.resultNames, b.gather, b.addKeys, b.addCalls, b.addInputs, b.partial, b.results, b.final,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	b.view.Fingerprint = fingerprint(b.view)
	return nil
}

// resultNames takes the names of the columns from DuckDB.
func (b *builder) resultNames() error {
	if len(b.want) != len(b.items) {
		return b.errorAt(node{}, "an expression here makes several columns", "name each column")
	}
	seen := map[string]bool{}
	for i, f := range b.want {
		key := strings.ToLower(f.Name)
		switch {
		case seen[key]:
			return b.errorAt(b.items[i], fmt.Sprintf("two columns are called %s", f.Name), "name one of them: expr AS name")
		case strings.HasPrefix(f.Name, "__"):
			return b.errorAt(b.items[i], "names that start with __ are Weir's own", "name the column: expr AS name")
		case f.Name == "":
			return b.errorAt(b.items[i], "a column without a name", "name it: expr AS name")
		}
		if err := b.result(b.items[i], f.Type); err != nil {
			return err
		}
		seen[key] = true
		b.view.Results = append(b.view.Results, Result{Name: f.Name, Type: f.Type, Key: -1, Acc: -1})
	}
	return nil
}

// result refuses types that a result would not survive in.
func (b *builder) result(e node, t sqltype.Type) error {
	if err := b.named(e, t); err != nil {
		return err
	}
	if _, ok := t.Find(isInterval); ok && t.Nested() {
		return b.errorAt(e, "a result of type "+t.String()+" is not supported: an INTERVAL within another type may lose its hours in Arrow", "make the INTERVAL a result of its own, or use epoch(...)")
	}
	return nil
}

// named refuses structs without names, such as row(1, 2).
func (b *builder) named(e node, t sqltype.Type) error {
	_, ok := t.Find(func(u sqltype.Type) bool {
		return u.ID == sqltype.Struct && slices.ContainsFunc(u.Fields, func(f sqltype.Field) bool { return f.Name == "" })
	})
	if ok {
		return b.errorAt(e, "a struct without names is not supported", "name its fields: {'a': x, 'b': y}")
	}
	return nil
}

// names resolves all names of the statement.
func (b *builder) names() (err error) {
	if err := b.selectList(); err != nil {
		return err
	}
	if b.where != nil {
		if b.filter, err = b.resolve(b.where, b.aliasBefore(len(b.items)), nil); err != nil {
			return err
		}
		if contains(b.filter, isAggregate) {
			return b.errorAt(b.where, "WHERE can't hold an aggregate", "use HAVING")
		}
	}
	if b.keys, err = b.scope.keys(); err != nil {
		return err
	}
	if b.selection.having == nil {
		return nil
	}
	if b.having, err = b.havingExpr(b.selection.having, b.keys); err != nil {
		return err
	}
	return b.groupsByHaving()
}

// groupsByHaving refuses a HAVING that makes keys: under GROUP BY ALL, DuckDB
// groups by the columns that HAVING names, too.
func (b *builder) groupsByHaving() error {
	if !b.selection.groupAll {
		return nil
	}
	var err error
	walk(b.having, func(c node) bool {
		key := slices.ContainsFunc(b.keys, func(k node) bool { return same(k) == same(c) })
		if err == nil && isInput(c) && !key {
			name := strings.Join(texts(c, "column_names")[1:], ".")
			err = b.errorAt(b.selection.having, "GROUP BY ALL groups by "+name+" as well, because HAVING names it", "name the keys: GROUP BY 1, 2")
		}
		return err == nil && !isAggregate(c)
	})
	return err
}

// gather finds the distinct aggregate calls of SELECT and HAVING.
func (b *builder) gather() error {
	outputs := b.resolved
	if b.having != nil {
		outputs = append(slices.Clone(outputs), b.having)
	}
	for _, e := range outputs {
		b.gatherIn(e)
	}
	b.view.Global = len(b.keys) == 0
	if b.view.Global && len(b.calls) == 0 {
		return b.errorAt(node{}, "a materialized view keeps groups, and this SELECT has neither GROUP BY nor an aggregate", "add GROUP BY ALL, or use CREATE VIEW")
	}
	return nil
}

func (b *builder) gatherIn(e node) {
	if b.keyOf(e) >= 0 {
		return
	}
	if isAggregate(e) {
		c := b.normal(e)
		if !slices.ContainsFunc(b.calls, func(o call) bool { return o.same == c.same }) {
			b.calls = append(b.calls, c)
		}
		return
	}
	for _, p := range parts(e) {
		b.gatherIn(p)
	}
}

// normal brings an aggregate call to the form by which calls are compared.
func (b *builder) normal(e node) call {
	spec, _ := agg.Lookup(str(e, "function_name"))
	n := maps.Clone(withoutAlias(e))
	n["function_name"], n["schema"] = spec.Name, ""
	if spec.Name == "count" && len(list(n, "children")) == 0 {
		n["function_name"] = "count_star"
	}
	if spec.Distinct {
		n["distinct"] = false
	}
	return call{same: same(n), node: n, spec: spec}
}

// keyOf is the index of the key that e is, -1 if none.
func (b *builder) keyOf(e node) int {
	is := ""
	for i, k := range b.keys {
		if str(k, "class") != str(e, "class") || str(k, "type") != str(e, "type") {
			continue // spares the text of deep expressions
		}
		if is == "" {
			is = same(e)
		}
		if same(k) == is {
			return i
		}
	}
	return -1
}

// types asks DuckDB for the types of expressions over the source.
func (b *builder) types(exprs []node, sqls []string) ([]sqltype.Type, error) {
	if len(exprs) == 0 {
		return nil, nil
	}
	rel := Relation{Name: InputRelation, Columns: b.columns}
	fs, err := b.eng.Describe(b.ctx, []Relation{rel}, "SELECT "+strings.Join(sqls, ", ")+" FROM "+InputRelation)
	if err == nil && len(fs) != len(exprs) {
		err = fmt.Errorf("DuckDB describes %d columns as %d", len(exprs), len(fs))
	}
	if err == nil {
		ts := make([]sqltype.Type, len(fs))
		for i, f := range fs {
			ts[i] = f.Type
		}
		return ts, nil
	}
	if len(exprs) > 1 { // find the one at fault
		for i := range exprs {
			if _, err := b.types(exprs[i:i+1], sqls[i:i+1]); err != nil {
				return nil, err
			}
		}
		return nil, err
	}
	if e, ok := errors.AsType[*sqltype.UnsupportedError](err); ok {
		return nil, b.errorAt(exprs[0], "an expression of type "+e.Type+" is not supported here", e.Hint)
	}
	return nil, placed(err, ddl.Span{Script: b.span.Script, Start: b.span.Start + max(location(exprs[0]), 0), End: b.span.End})
}

// print is text with the error placed at n.
func (b *builder) print(n node) (string, error) {
	s, err := b.text(n)
	if err != nil {
		return "", b.unprintable(n, err)
	}
	return s, nil
}

func (b *builder) addKeys() error {
	var sqls []string
	for _, k := range b.keys {
		sql, err := b.print(k)
		if err != nil {
			return err
		}
		sqls = append(sqls, sql)
	}
	ts, err := b.types(b.keys, sqls)
	if err != nil {
		return err
	}
	for i, t := range ts {
		if err := b.keyType(b.keys[i], t); err != nil {
			return err
		}
		k := Key{Name: fmt.Sprintf("__key_%d", i+1), Type: t, Expr: sqls[i], Result: -1}
		for j, e := range b.resolved {
			if same(e) == same(b.keys[i]) {
				k.Name, k.Result = b.view.Results[j].Name, j
				break
			}
		}
		b.view.Keys = append(b.view.Keys, k)
	}
	return nil
}

func (b *builder) keyType(k node, t sqltype.Type) error {
	if isNull(k) {
		return b.errorAt(k, "a key that is always NULL has no type", "leave it out, or cast it, for example NULL::VARCHAR")
	}
	if err := b.named(k, t); err != nil {
		return err
	}
	if u, ok := t.Find(func(u sqltype.Type) bool { return u.ID == sqltype.JSON || u.ID == sqltype.Interval }); ok && t.Nested() {
		hint := "cast it, for example to VARCHAR"
		if u.ID == sqltype.Interval {
			hint = "group by the INTERVAL itself, or by a number"
		}
		return b.errorAt(k, fmt.Sprintf("a key of type %s is not supported: %s within another type", t, u), hint)
	}
	if _, text := t.Find(isText); text && contains(k, isCollate) {
		return b.errorAt(k, "a key with a collation is not supported: which spelling a group shows would follow arrival", "group by lower(...)")
	}
	return nil
}

func isCollate(n node) bool { return str(n, "class") == "COLLATE" }

func isNull(n node) bool { return str(n, "class") == "CONSTANT" && isTrue(sub(n, "value"), "is_null") }

func isInterval(t sqltype.Type) bool { return t.ID == sqltype.Interval }

func isText(t sqltype.Type) bool { return t.ID == sqltype.Varchar }
