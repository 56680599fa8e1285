package agg

import (
	"os"
	"strings"
	"testing"
)

// TestDocumentedAggregates wants every name of an aggregate in the table of
// docs/sql.md, and no row without one.
func TestDocumentedAggregates(t *testing.T) {
	doc, err := os.ReadFile("../../docs/sql.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(doc), "| aggregate | is | kept as | exactness |\n|---|---|---|---|\n")
	if !ok {
		t.Fatal("docs/sql.md has no table of aggregates")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	for _, s := range Specs() {
		for _, n := range append([]string{s.Name}, s.Aliases...) {
			if !strings.Contains(table, "`"+n+"(") {
				t.Errorf("docs/sql.md does not have %s", n)
			}
		}
	}
	for row := range strings.SplitSeq(table, "\n") {
		name, _, _ := strings.Cut(strings.TrimPrefix(row, "| `"), "(")
		if _, ok := Lookup(name); !ok {
			t.Errorf("docs/sql.md has an aggregate that is not: %s", row)
		}
	}
}
