package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"weir/state/ddl"
)

// TestPlans runs scripts of CREATE SOURCE, CREATE VIEW and CREATE MATERIALIZED
// VIEW. What a view becomes is printed; a refusal is printed with its caret.
func TestPlans(t *testing.T) {
	datadriven.Walk(t, "testdata/plans", func(t *testing.T, path string) {
		var cat Catalog
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := runScript(t, &cat, d.Input)
			if e, ok := errors.AsType[*ddl.Error](err); ok {
				return out + e.Caret(d.Input) + "\n"
			}
			if err != nil {
				t.Errorf("%s: %v", d.Pos, err)
				return out + "error: " + err.Error() + "\n"
			}
			return out
		})
	})
}

func runScript(t *testing.T, cat *Catalog, script string) (string, error) {
	stmts, err := ddl.Parse(script)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, s := range stmts {
		switch s := s.(type) {
		case *ddl.CreateSource:
			cat.Sources = append(cat.Sources, Source{Name: s.Name.Text, Columns: s.Columns})
		case *ddl.CreateMaterializedView:
			v, err := New(t.Context(), engine(t), *cat, s)
			if err != nil {
				return b.String(), err
			}
			b.WriteString(printView(v))
		case *ddl.CreateView:
			q, err := NewQuery(t.Context(), engine(t), *cat, s)
			if err != nil {
				return b.String(), err
			}
			fmt.Fprintf(&b, "reads: %s\n", strings.Join(q.Reads, ", "))
			for _, c := range q.Columns {
				fmt.Fprintf(&b, "column %s %s\n", c.Name, c.Type)
			}
			cat.Views = append(cat.Views, Relation{Name: s.Name.Text, Columns: q.Columns})
		case *ddl.Explain:
			v, err := New(t.Context(), engine(t), *cat, &s.View)
			if err != nil {
				return b.String(), err
			}
			b.WriteString(Explain(v))
		default:
			t.Fatalf("%T has no place here", s)
		}
	}
	return b.String(), nil
}

func printView(v *View) string {
	var b strings.Builder
	var in []string
	for _, f := range v.Inputs {
		in = append(in, f.Name)
	}
	if v.Global {
		b.WriteString("global\n")
	}
	fmt.Fprintf(&b, "inputs: %s\n", strings.Join(in, ", "))
	for _, k := range v.Keys {
		fmt.Fprintf(&b, "key %s %s = %s\n", k.Name, k.Type, k.Expr)
	}
	for _, a := range v.Accs {
		fmt.Fprintf(&b, "acc %s %s %s = %s\n", a.Name, a.Type, a.Rule, a.Partial)
	}
	for _, r := range v.Results {
		is := ""
		if r.Key >= 0 {
			is = fmt.Sprintf(" (key %d)", r.Key)
		}
		if r.Acc >= 0 {
			is = fmt.Sprintf(" (acc %d)", r.Acc)
		}
		fmt.Fprintf(&b, "result %s %s = %s%s\n", r.Name, r.Type, r.Expr, is)
	}
	fmt.Fprintf(&b, "partial: %s\nfinal: %s\n", v.Partial, v.Final)
	if v.Visible != "" {
		fmt.Fprintf(&b, "visible: %s\n", v.Visible)
	}
	return b.String()
}
