package appliance

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/duckext"
	"weir/queryable"
	"weir/state/agg"
	"weir/state/plan"
	"weir/state/sqltype"
)

// diffRelation is what the definition of a state_diff reads.
const diffRelation = "__diff"

// diff attaches state_diff('view', a, b): the groups that differ between two points.
// They are found here, so that the many that are alike go nowhere; their deltas are
// DuckDB's to compute.
func (l *lease) diff(r duckext.Ref) error {
	a, err := l.side(r.Name, &r.Diff.From, r.Offset)
	if err != nil {
		return err
	}
	b, err := l.side(r.Name, &r.Diff.To, r.Offset)
	if err != nil {
		return err
	}
	if how := a.alike(b); how != "" {
		return queryable.Errorf(queryable.BadRequest, "%s is not the same view in %s and in %s, and only states of one view can be compared: %s", r.Name, a.point, b.point, how)
	}
	table := "diff:" + r.As
	l.views = append(l.views, diffDef(r.As, table, a.plan))
	l.tables[table] = func(ctx context.Context, s duckext.ScanSpec) (array.RecordReader, error) {
		return newDiffReader(ctx, l.a, a, b, s)
	}
	return nil
}

// plainResults are the indices of the results that are not keys.
func plainResults(p *plan.View) (results []int) {
	for i, r := range p.Results {
		if r.Key < 0 {
			results = append(results, i)
		}
	}
	return results
}

// diffColumns are the columns of a diff as it is scanned: what changed, the key,
// the results before and after, and why some are missing. Their names are numbers,
// since those of the view may be anything.
func diffColumns(p *plan.View) []sqltype.Field {
	fs := []sqltype.Field{text("change")}
	for i, k := range p.Keys {
		fs = append(fs, sqltype.Field{Name: fmt.Sprintf("k%d", i), Type: k.Type})
	}
	for _, side := range []string{"b", "a"} { // before, after
		for i, r := range plainResults(p) {
			fs = append(fs, sqltype.Field{Name: fmt.Sprintf("%s%d", side, i), Type: p.Results[r].Type})
		}
	}
	return append(fs, text("error"))
}

// diffDef is the definition of a diff.
func diffDef(name, table string, p *plan.View) duckext.ViewDef {
	var exprs, names []string
	add := func(expr, name string) { exprs, names = append(exprs, expr), append(names, name) }
	for i, k := range p.Keys {
		add(fmt.Sprintf("k%d", i), k.Name)
	}
	for i, r := range plainResults(p) {
		res := p.Results[r]
		before, after := fmt.Sprintf("b%d", i), fmt.Sprintf("a%d", i)
		add(before, res.Name+"_before")
		add(after, res.Name+"_after")
		if t := deltaType(p, res); t != "" {
			add(fmt.Sprintf("CAST(%s AS %s) - CAST(%s AS %s)", after, t, before, t), res.Name+"_delta")
		}
	}
	distinct(names, "change", "error")
	var b strings.Builder
	b.WriteString("SELECT change")
	for i, e := range exprs {
		b.WriteString(", " + e + " AS " + quoteName(names[i]))
	}
	b.WriteString(", error FROM " + diffRelation)
	return duckext.ViewDef{Name: name, Table: table, Relation: diffRelation, Columns: diffColumns(p), SQL: b.String()}
}

// distinct makes names differ from those that are taken, and from one another, up to
// case, by underscores behind those that come later.
func distinct(names []string, taken ...string) {
	seen := map[string]bool{}
	for _, t := range taken {
		seen[t] = true
	}
	for i := range names {
		for seen[strings.ToLower(names[i])] {
			names[i] += "_"
		}
		seen[strings.ToLower(names[i])] = true
	}
}

// deltaType is a type that holds the difference of any two values of a result
// without loss, as far as DuckDB has one; "" for what is not a number. Counts are
// never negative, so their differences are BIGINT again.
func deltaType(p *plan.View, r plan.Result) string {
	switch t := r.Type; t.ID {
	case sqltype.TinyInt, sqltype.SmallInt, sqltype.Integer, sqltype.UTinyInt, sqltype.USmallInt, sqltype.UInteger:
		return "BIGINT"
	case sqltype.BigInt:
		if r.Acc >= 0 && p.Accs[r.Acc].Rule == agg.Add {
			return "BIGINT"
		}
		return "HUGEINT"
	case sqltype.UBigInt, sqltype.HugeInt, sqltype.UHugeInt:
		return "HUGEINT"
	case sqltype.Float, sqltype.Double:
		return "DOUBLE"
	case sqltype.Decimal:
		return fmt.Sprintf("DECIMAL(%d,%d)", min(38, t.Width+1), t.Scale)
	}
	return ""
}
