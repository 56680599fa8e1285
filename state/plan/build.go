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
	if b.selection.having != nil {
		b.having, err = b.havingExpr(b.selection.having, b.keys)
	}
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

// addCalls binds the aggregates and adds their accumulators.
func (b *builder) addCalls() error {
	var args []node
	var sqls []string
	for _, c := range b.calls {
		for _, a := range list(c.node, "children") {
			if contains(a, isAggregate) {
				return b.errorAt(a, "an aggregate within an aggregate", "use CREATE VIEW over this view for the outer one")
			}
			sql, err := b.print(a)
			if err != nil {
				return err
			}
			args, sqls = append(args, a), append(sqls, sql)
		}
	}
	ts, err := b.types(args, sqls)
	if err != nil {
		return err
	}
	for i := range b.calls {
		c := &b.calls[i]
		n := len(list(c.node, "children"))
		if err := b.bind(c, ts[:n], sqls[:n]); err != nil {
			return err
		}
		ts, sqls = ts[n:], sqls[n:]
	}
	return nil
}

func (b *builder) bind(c *call, types []sqltype.Type, args []string) error {
	if c.spec.Name == "min" || c.spec.Name == "max" {
		arg := list(c.node, "children")[0]
		if isNull(arg) {
			return b.errorAt(c.node, c.spec.Name+" of NULL has no type", "cast it, for example NULL::VARCHAR")
		}
		if _, text := types[0].Find(isText); text && contains(arg, isCollate) {
			return b.errorAt(c.node, c.spec.Name+" by a collation is not supported", "use "+c.spec.Name+"(lower(...))")
		}
	}
	for _, t := range types {
		if err := b.named(c.node, t); err != nil {
			return err
		}
	}
	bound, err := c.spec.Bind(types)
	if err != nil {
		return b.errorAt(c.node, err.Error(), "")
	}
	label, err := b.print(c.node)
	if err != nil {
		return err
	}
	var cols []string
	for _, p := range bound.Parts {
		name, err := b.accumulator(c, p, label, args)
		if err != nil {
			return err
		}
		cols = append(cols, name)
	}
	if bound.Final == nil {
		c.final = columnRef(StateRelation, cols[0])
		return nil
	}
	sql := make([]string, len(cols))
	for i, n := range cols {
		sql[i] = StateRelation + "." + quote(n)
	}
	if c.final, err = b.parse(bound.Final(sql)); err != nil {
		return fmt.Errorf("final expression of %s: %w", label, err)
	}
	return nil
}

// accumulator gives the name of the column that holds p, adding it if need be.
func (b *builder) accumulator(c *call, p agg.Part, label string, args []string) (string, error) {
	n := maps.Clone(c.node)
	n["function_name"] = p.Call
	if p.Star {
		n["children"] = []any{}
	}
	key := same(n)
	if i := slices.Index(b.accKeys, key); i >= 0 {
		return b.view.Accs[i].Name, nil
	}
	sql, err := b.print(n)
	if err != nil {
		return "", err
	}
	if p.Cast.ID != sqltype.Invalid {
		sql = cast(sql, p.Cast)
	}
	if p.Type.ID == sqltype.Interval {
		sql = guarded(sql)
	}
	name := b.accName(p.Call, args, sub(n, "filter") != nil)
	b.accKeys = append(b.accKeys, key)
	b.view.Accs = append(b.view.Accs, Accumulator{
		Acc: agg.Acc{Name: name, Rule: p.Rule, Type: p.Type}, Aggregate: display(label), Partial: sql,
	})
	return name, nil
}

// display takes the name of the input relation out of an expression that is
// shown to people.
func display(sql string) string { return strings.ReplaceAll(sql, InputRelation+".", "") }

// accName is a readable name that no other accumulator has.
func (b *builder) accName(function string, args []string, filtered bool) string {
	name := "__" + strings.TrimSuffix(function, "_star")
	for _, a := range args {
		name += "_" + slug(display(a))
	}
	if filtered {
		name += "_filtered"
	}
	for i, base := 2, name; ; i++ {
		if !slices.ContainsFunc(b.view.Accs, func(a Accumulator) bool { return strings.EqualFold(a.Name, name) }) {
			return name
		}
		name = fmt.Sprintf("%s_%d", base, i)
	}
}

// slug makes a word of an expression.
func slug(s string) string {
	var w strings.Builder
	gap := false
	for _, r := range strings.ToLower(s) {
		if r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			gap = true
			continue
		}
		if gap && w.Len() > 0 {
			w.WriteByte('_')
		}
		gap = false
		w.WriteRune(r)
		if w.Len() >= 40 {
			break
		}
	}
	if w.Len() == 0 {
		return "value"
	}
	return w.String()
}

func cast(sql string, t sqltype.Type) string { return "CAST(" + sql + " AS " + typeSQL(t) + ")" }

// typeSQL spells a type so that DuckDB reads it: with all fields quoted, since
// any of their names may be a keyword.
func typeSQL(t sqltype.Type) string {
	switch t.ID {
	case sqltype.List:
		return typeSQL(*t.Elem) + "[]"
	case sqltype.Array:
		return fmt.Sprintf("%s[%d]", typeSQL(*t.Elem), t.Size)
	case sqltype.Map:
		return "MAP(" + typeSQL(t.Fields[0].Type) + ", " + typeSQL(t.Fields[1].Type) + ")"
	case sqltype.Struct:
		var fs []string
		for _, f := range t.Fields {
			fs = append(fs, quote(f.Name)+" "+typeSQL(f.Type))
		}
		return "STRUCT(" + strings.Join(fs, ", ") + ")"
	}
	return t.String()
}

// guarded refuses an INTERVAL whose time part does not fit Arrow's nanoseconds.
func guarded(sql string) string {
	return fmt.Sprintf("CASE WHEN abs(date_part('hour', %[1]s)) > 2562046 THEN error('INTERVAL of more than 292 years of hours') ELSE %[1]s END", sql)
}
