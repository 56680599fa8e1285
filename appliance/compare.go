package appliance

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/state/agg"
	"weir/state/plan"
	"weir/state/sqltype"
)

// compare joins the two answers. Rows are matched by the key columns that SELECT
// names, and where these do not tell rows apart, by the order of their other
// columns.
func (c *comparison) compare(ctx context.Context, v *plan.View, rep *report, base bool) error {
	slack, err := c.slack(ctx, v, base)
	if err != nil {
		return err
	}
	var match, same, order, show []string
	for _, r := range v.Results {
		n := quoteName(r.Name)
		if r.Key >= 0 {
			match = append(match, n)
			show = append(show, fmt.Sprintf("%s || coalesce(CAST(coalesce(e.%s, a.%s) AS VARCHAR), 'NULL')", sqlText(r.Name+" = "), n, n))
		} else {
			order = append(order, n)
		}
		same = append(same, equal(r.Type, "e."+n, "a."+n, slack))
	}
	number := "row_number() OVER (" + clause("PARTITION BY ", match) + clause(" ORDER BY ", order) + ")"
	on := []string{"e.__n = a.__n"}
	for _, m := range match {
		on = append(on, "e."+m+" IS NOT DISTINCT FROM a."+m)
	}
	if len(show) == 0 {
		show = []string{"'the only row'"}
	}
	joined := fmt.Sprintf("FROM (SELECT *, %s AS __n FROM expected) AS e FULL OUTER JOIN (SELECT *, %s AS __n FROM actual) AS a ON %s",
		number, number, strings.Join(on, " AND "))
	equalAll := "(" + strings.Join(same, " AND ") + ")"
	big := sqltype.Type{ID: sqltype.BigInt}
	rec, err := c.run(ctx, fmt.Sprintf("SELECT count(*) FILTER (WHERE e.__n IS NOT NULL AND a.__n IS NOT NULL) AS compared, count(*) FILTER (WHERE a.__n IS NULL) AS missing, count(*) FILTER (WHERE e.__n IS NULL) AS extra, count(*) FILTER (WHERE e.__n IS NOT NULL AND a.__n IS NOT NULL AND NOT %s) AS different %s", equalAll, joined),
		[]sqltype.Field{{Name: "compared", Type: big}, {Name: "missing", Type: big}, {Name: "extra", Type: big}, {Name: "different", Type: big}})
	if err != nil {
		return err
	}
	defer rec.Release()
	at := func(i int) int64 { return rec.Column(i).(*array.Int64).Value(0) }
	rep.compared, rep.missing, rep.extra, rep.different = at(0), at(1), at(2), at(3)
	if rep.missing+rep.extra+rep.different == 0 {
		return nil
	}
	ex, err := c.run(ctx, fmt.Sprintf("SELECT CASE WHEN a.__n IS NULL THEN 'missing: ' WHEN e.__n IS NULL THEN 'extra: ' ELSE 'different: ' END || %s AS example %s WHERE a.__n IS NULL OR e.__n IS NULL OR NOT %s LIMIT 10",
		strings.Join(show, " || ', ' || "), joined, equalAll), []sqltype.Field{{Name: "example", Type: sqltype.Type{ID: sqltype.Varchar}}})
	if err != nil {
		return err
	}
	defer ex.Release()
	for i := range int(ex.NumRows()) {
		rep.examples = append(rep.examples, ex.Column(0).(*array.String).Value(i))
	}
	return nil
}

func clause(word string, items []string) string {
	if len(items) == 0 {
		return ""
	}
	return word + strings.Join(items, ", ")
}

func sqlText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// ulp is one unit in the last place of a DOUBLE, relative to its value.
const ulp = "2.3e-16"

// equal compares two values. Floats may differ by one unit in the last place,
// and by what the order of additions explains where there are float sums.
func equal(t sqltype.Type, e, a, slack string) string {
	is := e + " IS NOT DISTINCT FROM " + a
	if t.ID != sqltype.Double && t.ID != sqltype.Float {
		return "(" + is + ")"
	}
	eps := ulp
	if t.ID == sqltype.Float {
		eps = "1.2e-7"
	}
	// Without isfinite every number would be near infinity.
	return fmt.Sprintf("(%s OR coalesce(isfinite(%s) AND isfinite(%s) AND abs(%s - %s) <= abs(%s) * %s + %s, false))", is, e, a, e, a, e, eps, slack)
}

// slack makes the table of how far the float sums of a group may be from
// DuckDB's, whatever order each adds in: n times the machine's epsilon times the
// sum of magnitudes. It returns the expression for a row of the comparison, 0
// where no float is summed.
func (c *comparison) slack(ctx context.Context, v *plan.View, base bool) (string, error) {
	var sums, begun []string
	for _, a := range v.Accs {
		if a.Type.ID == sqltype.Double && a.Rule == agg.Add {
			sums = append(sums, "coalesce(abs("+a.Partial+"), 0)")
			begun = append(begun, "coalesce(abs("+quoteName(a.Name)+"), 0)")
		}
	}
	if len(sums) == 0 {
		return "0", nil
	}
	var keys, names, on, by []string
	named := true
	for i, k := range v.Keys {
		n := fmt.Sprintf("k%d", i)
		by = append(by, strconv.Itoa(i+1))
		keys, names = append(keys, k.Expr+" AS "+n), append(names, n)
		if k.Result < 0 {
			named = false
		} else {
			on = append(on, "s."+n+" IS NOT DISTINCT FROM e."+quoteName(v.Results[k.Result].Name))
		}
	}
	each := "SELECT " + strings.Join(append(keys, strings.Join(sums, " + ")+" AS x"), ", ") + " FROM records AS " + plan.InputRelation +
		" GROUP BY " + strings.Join(append(by, "kafka_partition", "kafka_offset"), ", ")
	if base {
		var stored []string
		for _, k := range v.Keys {
			stored = append(stored, quoteName(k.Name))
		}
		each += " UNION ALL SELECT " + strings.Join(append(stored, strings.Join(begun, " + ")), ", ") + " FROM base"
	}
	sql := "CREATE TABLE slack AS SELECT " + strings.Join(append(names, "4e-16 * count(*) * sum(x) AS bound"), ", ") + " FROM (" + each + ")" + clause(" GROUP BY ", names)
	if err := c.exec(ctx, sql); err != nil {
		return "", err
	}
	if !named || len(on) == 0 {
		return "coalesce((SELECT max(bound) FILTER (WHERE isfinite(bound)) FROM slack), 0)", nil
	}
	return "coalesce((SELECT max(s.bound) FILTER (WHERE isfinite(s.bound)) FROM slack AS s WHERE " + strings.Join(on, " AND ") + "), 0)", nil
}
