package agg

import (
	"strings"
	"testing"

	"weir/state/sqltype"
)

func TestNamesAreKeptOrRefused(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Specs() {
		for _, n := range append([]string{s.Name}, s.Aliases...) {
			if seen[n] {
				t.Errorf("%s is there twice", n)
			}
			seen[n] = true
			if got, ok := Lookup(strings.ToUpper(n)); !ok || got.Name != s.Name {
				t.Errorf("%s is not found", n)
			}
			if _, _, ok := Refused(n); ok {
				t.Errorf("%s is both kept and refused", n)
			}
		}
	}
	for _, r := range refusals() {
		if r.reason == "" || r.nearest == "" {
			t.Errorf("%s: a refusal says why and what instead", r.names)
		}
		for n := range strings.FieldsSeq(r.names) {
			if seen[n] || n != strings.ToLower(n) {
				t.Errorf("%s is there twice, or not in lower case", n)
			}
			seen[n] = true
		}
	}
}

func TestBindTypes(t *testing.T) {
	for _, c := range []struct{ call, arg, result, accs string }{
		{"count", "", "BIGINT", "count_star BIGINT add"},
		{"count", "VARCHAR", "BIGINT", "count BIGINT add"},
		{"count_if", "BOOLEAN", "HUGEINT", "count_if BIGINT add"},
		{"sum", "BOOLEAN", "HUGEINT", "sum HUGEINT add"},
		{"sum", "UBIGINT", "HUGEINT", "sum HUGEINT add"},
		{"sum", "UHUGEINT", "DOUBLE", "sum DOUBLE add"},
		{"sum", "FLOAT", "DOUBLE", "sum DOUBLE add"},
		{"sum", "DECIMAL(4,2)", "DECIMAL(38,2)", "sum DECIMAL(38,2) add"},
		{"sum", "VARCHAR", "", ""},
		{"avg", "INTEGER", "DOUBLE", "sum HUGEINT add, count BIGINT add"},
		{"mean", "DECIMAL(38,10)", "DOUBLE", "sum DECIMAL(38,10) add, count BIGINT add"},
		{"avg", "TIMESTAMP", "", ""},
		{"avg", "INTERVAL", "", ""},
		{"min", "INTERVAL", "INTERVAL", "min INTERVAL min"},
		{"max", "STRUCT(a VARCHAR[])", "STRUCT(a VARCHAR[])", "max STRUCT(a VARCHAR[]) max"},
		{"max", "INTERVAL[]", "", ""},
		{"bool_or", "BOOLEAN", "BOOLEAN", "bool_or BOOLEAN or"},
	} {
		var args []sqltype.Type
		if c.arg != "" {
			args = append(args, sqltype.MustParse(c.arg))
		}
		s, ok := Lookup(c.call)
		if !ok {
			t.Fatalf("no %s", c.call)
		}
		b, err := s.Bind(args)
		if c.result == "" {
			if err == nil {
				t.Errorf("%s(%s) is not refused", c.call, c.arg)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s(%s): %v", c.call, c.arg, err)
			continue
		}
		var accs []string
		for _, p := range b.Parts {
			accs = append(accs, p.Call+" "+p.Type.String()+" "+string(p.Rule))
		}
		if got := strings.Join(accs, ", "); b.Type.String() != c.result || got != c.accs {
			t.Errorf("%s(%s): got %s from %s, want %s from %s", c.call, c.arg, b.Type, got, c.result, c.accs)
		}
		if (b.Final == nil) && (len(b.Parts) != 1 || !b.Parts[0].Type.Equal(b.Type)) {
			t.Errorf("%s(%s): the part is not the result", c.call, c.arg)
		}
	}
}
