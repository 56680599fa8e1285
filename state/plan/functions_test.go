package plan

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/state/agg"
)

// TestEveryFunctionIsJudged holds the lists of aggregates and of functions that
// do not repeat against DuckDB's own.
func TestEveryFunctionIsJudged(t *testing.T) {
	rows := func(sql string) [][]string {
		a, err := engine(t).ask(question{Op: "query", SQL: sql})
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Rows) == 0 {
			t.Fatalf("%s: no rows", sql)
		}
		return a.Rows
	}
	refused := func(name string) bool {
		reason, _ := unrepeatable(name, 1)
		_, _, agg := agg.Refused(name)
		return reason != "" || agg
	}
	for _, r := range rows("SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate' ORDER BY ALL") {
		if !agg.IsAggregate(r[0]) {
			t.Errorf("aggregate %s is neither kept nor refused", r[0])
		}
	}
	allowed := []string{"error"} // fails each time in the same way
	for _, r := range rows("SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'scalar' AND stability <> 'CONSISTENT' ORDER BY ALL") {
		if !refused(r[0]) && !slices.Contains(allowed, r[0]) {
			t.Errorf("%s does not repeat, and is not refused", r[0])
		}
	}
	call := regexp.MustCompile(`"?([a-z_0-9]+)"?\(`)
	for _, r := range rows("SELECT DISTINCT function_name, macro_definition FROM duckdb_functions() WHERE function_type = 'macro' AND schema_name = 'main' ORDER BY ALL") {
		name, body := r[0], r[1]
		hidden := strings.Contains(strings.ToUpper(body), "SELECT ") || strings.Contains(body, "current_timestamp")
		for _, m := range call.FindAllStringSubmatch(body, -1) {
			reason, _ := unrepeatable(m[1], 2)
			if m[1] != "error" && reason != "" || agg.IsAggregate(m[1]) {
				hidden = true
			}
		}
		if hidden && !refused(name) && !agg.IsAggregate(name) {
			t.Errorf("macro %s = %s hides what is refused by name", name, body)
		}
	}
}
