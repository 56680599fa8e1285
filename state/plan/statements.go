package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/state/sqltype"
)

// addInputs lists the columns that keys, accumulators and WHERE read.
func (b *builder) addInputs() error {
	used := map[string]bool{}
	see := func(n node) bool {
		if isInput(n) {
			used[texts(n, "column_names")[1]] = true
		}
		return true
	}
	for _, k := range b.keys {
		walk(k, see)
	}
	for _, c := range b.calls {
		walk(c.node, see)
	}
	if b.filter != nil {
		walk(b.filter, see)
	}
	for _, c := range b.columns {
		if used[c.Name] {
			b.view.Inputs = append(b.view.Inputs, c)
		}
	}
	if len(b.view.Inputs) == 0 { // a relation has a column; this one is cheap
		i := slices.IndexFunc(b.columns, func(f sqltype.Field) bool { return f.Name == "kafka_partition" })
		b.view.Inputs = b.columns[i : i+1 : i+1]
	}
	return nil
}

// partial writes View.Partial and checks its types.
func (b *builder) partial() error {
	var items, ordinals []string
	for i, k := range b.view.Keys {
		items = append(items, canonical(k)+" AS "+quote(k.Name))
		ordinals = append(ordinals, fmt.Sprint(i+1))
	}
	for _, a := range b.view.Accs {
		items = append(items, a.Partial+" AS "+quote(a.Name))
	}
	sql := "SELECT " + strings.Join(items, ", ") + " FROM " + InputRelation
	if b.filter != nil {
		where, err := b.print(b.filter)
		if err != nil {
			return err
		}
		sql += " WHERE " + where
	}
	if len(ordinals) > 0 {
		sql += " GROUP BY " + strings.Join(ordinals, ", ")
	}
	b.view.Partial = sql
	got, err := b.eng.Describe(b.ctx, []Relation{{Name: InputRelation, Columns: b.view.Inputs}}, sql)
	if err != nil {
		return b.unbound("batches", err)
	}
	return b.agree("partial", got, b.view.StateColumns())
}

// canonical is a key's expression in the form in which DuckDB groups it: a
// float key without its negative zero, and an INTERVAL that survives Arrow.
func canonical(k Key) string {
	switch k.Type.ID {
	case sqltype.Double:
		return "(" + k.Expr + " + CAST(0 AS DOUBLE))"
	case sqltype.Float:
		return "(" + k.Expr + " + CAST(0 AS FLOAT))"
	case sqltype.Interval:
		return guarded(k.Expr)
	}
	return k.Expr
}

// results binds what SELECT names, and HAVING, to the state.
func (b *builder) results() error {
	for i, e := range b.resolved {
		n, err := b.output(e)
		if err != nil {
			return err
		}
		r := &b.view.Results[i]
		if r.Expr, err = b.text(n); err != nil {
			return b.unprintable(b.items[i], err)
		}
		if names := texts(n, "column_names"); str(n, "class") == "COLUMN_REF" && len(names) == 2 {
			r.Key = slices.IndexFunc(b.view.Keys, func(k Key) bool { return k.Name == names[1] && k.Type.Equal(r.Type) })
			r.Acc = slices.IndexFunc(b.view.Accs, func(a Accumulator) bool { return a.Name == names[1] && a.Type.Equal(r.Type) })
		} else if r.Type.ID == sqltype.Interval {
			r.Expr = guarded(r.Expr)
		}
	}
	if b.having == nil {
		return nil
	}
	n, err := b.output(b.having)
	if err != nil {
		return err
	}
	b.view.Visible, err = b.text(n)
	if err != nil {
		return b.unprintable(b.selection.having, err)
	}
	return nil
}

// output replaces, in an expression of the SELECT, keys and aggregates by
// columns of the state.
func (b *builder) output(e node) (node, error) {
	if i := b.keyOf(e); i >= 0 {
		return b.keyRef(e, i), nil
	}
	if isAggregate(e) {
		c := b.normal(e)
		i := slices.IndexFunc(b.calls, func(o call) bool { return o.same == c.same })
		f := b.calls[i].final
		if a := str(e, "alias"); a != "" { // names a field of struct_pack(a := ...)
			f = withAlias(f, a)
		}
		return f, nil
	}
	if names := texts(e, "column_names"); isInput(e) {
		for i, k := range b.keys {
			if within(k, e) {
				r := b.keyRef(e, i)
				r["column_names"] = append(r["column_names"].([]any), anys(names[len(texts(k, "column_names")):])...)
				return r, nil
			}
		}
		return nil, b.errorAt(e, strings.Join(names[1:], ".")+" is not grouped", "group by it, or use an aggregate of it")
	}
	return replace(e, b.output)
}

func (b *builder) keyRef(e node, i int) node {
	r := columnRef(StateRelation, b.view.Keys[i].Name)
	r["alias"] = e["alias"]
	return r
}

func withAlias(n node, alias string) node {
	c := maps.Clone(n)
	c["alias"] = alias
	return c
}

func anys(ss []string) []any {
	all := make([]any, len(ss))
	for i, s := range ss {
		all[i] = s
	}
	return all
}

// final writes View.Final, so that DESCRIBE of it equals DESCRIBE of the user's
// SELECT, with casts where DuckDB would give another type.
func (b *builder) final() error {
	state := []Relation{{Name: StateRelation, Columns: b.view.StateColumns()}}
	got, err := b.eng.Describe(b.ctx, state, b.finalSQL())
	if err != nil {
		return b.unbound("state", err)
	}
	casts := false
	for i := range got {
		if r := &b.view.Results[i]; !got[i].Type.Equal(r.Type) {
			r.Expr, r.Key, r.Acc = cast(r.Expr, r.Type), -1, -1
			casts = true
		}
	}
	if casts {
		if got, err = b.eng.Describe(b.ctx, state, b.finalSQL()); err != nil {
			return b.unbound("state", err)
		}
	}
	b.view.Final = b.finalSQL()
	return b.agree("final", got, b.want)
}

func (b *builder) finalSQL() string {
	var items []string
	for _, r := range b.view.Results {
		items = append(items, r.Expr+" AS "+quote(r.Name))
	}
	sql := "SELECT " + strings.Join(items, ", ") + " FROM " + StateRelation
	if b.view.Visible != "" {
		sql += " WHERE " + b.view.Visible
	}
	return sql
}

// agree compares what DuckDB says of a statement with what the plan expects.
func (b *builder) agree(what string, got, want []sqltype.Field) error {
	ok := len(got) == len(want)
	for i := 0; ok && i < len(got); i++ {
		if got[i].Name != want[i].Name || !got[i].Type.Equal(want[i].Type) {
			at := node{}
			if what == "final" {
				at = b.items[i]
			}
			return b.errorAt(at, fmt.Sprintf("this can't be kept: the %s statement gives %s %s, not %s %s", what, got[i].Name, got[i].Type, want[i].Name, want[i].Type), "cast it")
		}
	}
	if !ok {
		return errors.New("the " + what + " statement has another number of columns")
	}
	return nil
}

// fingerprint covers what the meaning of stored state depends on: keys,
// accumulators and how they are filled, but neither results nor HAVING.
func fingerprint(v *View) string {
	type part struct{ Name, Type, Rule string }
	var parts []part
	for _, k := range v.Keys {
		parts = append(parts, part{k.Name, k.Type.String(), "key"})
	}
	for _, a := range v.Accs {
		parts = append(parts, part{a.Name, a.Type.String(), string(a.Rule)})
	}
	b, err := json.Marshal(struct {
		Parts   []part
		Inputs  []sqltype.Field
		Partial string
	}{parts, v.Inputs, v.Partial})
	if err != nil {
		panic(fmt.Sprintf("plan: a view that is not JSON: %v", err)) // it is plain data
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
