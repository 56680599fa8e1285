package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/state/agg"
	"weir/state/sqltype"
)

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
