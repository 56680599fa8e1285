package ingest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/state/agg"
	"weir/state/plan"
)

func TestRowExpressions(t *testing.T) {
	for aggregate, want := range map[string][]string{
		"sum(__input.qty)": {"__input.qty"},
		"count_star()":     nil,
		"count_star() FILTER (WHERE (__input.a > 1))":       {"(__input.a > 1)"},
		"sum((__input.qty + 1)) FILTER (WHERE __input.ok)":  {"(__input.qty + 1)", "__input.ok"},
		"CAST(count(CAST(__input.s AS INTEGER)) AS BIGINT)": {"CAST(__input.s AS INTEGER)"},
		`max(concat('sum(', __input."a)b", ')'''))`:         {`concat('sum(', __input."a)b", ')''')`},
		"bool_or((__input.x IN (1, 2)))":                    {"(__input.x IN (1, 2))"},
		"unknown(__input.x)":                                nil,
		"sum(__input.x":                                     nil,
		"sum('":                                             nil,
	} {
		if diff := cmp.Diff(want, rowExpressions(aggregate)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", aggregate, diff)
		}
	}
}

func TestSieveSQL(t *testing.T) {
	v := &plan.View{
		Keys:    []plan.Key{{Name: "k", Expr: "CAST(__input.s AS INTEGER)"}},
		Accs:    []plan.Accumulator{{Acc: agg.Acc{Name: "__count"}, Partial: "count_star()"}, {Acc: agg.Acc{Name: "__sum"}, Partial: "sum(ln(__input.x))"}},
		Partial: `SELECT CAST(__input.s AS INTEGER) AS "k", count_star() AS "__count", sum(ln(__input.x)) AS "__sum" FROM __input WHERE (__input.s != ' GROUP BY ') GROUP BY 1`,
	}
	sql, out := sieveSQL(v)
	const w = "coalesce(TRY((__input.s != ' GROUP BY ')), false)"
	want := "SELECT " + w + " AND (TRY((CAST(__input.s AS INTEGER)) IS NULL) IS NULL) AS b0, " + w + " AND (false) AS b1, " +
		w + " AND (false OR TRY((ln(__input.x)) IS NULL) IS NULL) AS b2, TRY(((__input.s != ' GROUP BY ')) IS NULL) IS NULL AS b3 FROM __input"
	if sql != want || len(out) != 4 {
		t.Errorf("got %s\nwant %s", sql, want)
	}
}
