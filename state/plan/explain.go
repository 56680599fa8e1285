package plan

import (
	"fmt"
	"strings"
)

// Explain tells people what Weir keeps for a view and how it is computed.
func Explain(v *View) string {
	var b strings.Builder
	fmt.Fprintf(&b, "materialized view %s over source %s\n", v.Name, v.Source)
	var in []string
	for _, f := range v.Inputs {
		in = append(in, f.Name+" "+f.Type.String())
	}
	fmt.Fprintf(&b, "reads      %s\n", strings.Join(in, ", "))
	if v.Global {
		b.WriteString("keys       none: one row, there before any record\n")
	}
	for i, k := range v.Keys {
		b.WriteString(head("keys", i) + fmt.Sprintf("%s %s = %s\n", k.Name, k.Type, display(k.Expr)))
	}
	for i, a := range v.Accs {
		b.WriteString(head("keeps", i) + fmt.Sprintf("%s %s, merged by %s, for %s\n", a.Name, a.Type, a.Rule, a.Aggregate))
	}
	for i, r := range v.Results {
		is := ""
		switch {
		case r.Key >= 0:
			is = ", the key " + v.Keys[r.Key].Name
		case r.Acc >= 0:
			is = ", the accumulator " + v.Accs[r.Acc].Name
		}
		b.WriteString(head("shows", i) + fmt.Sprintf("%s %s%s\n", r.Name, r.Type, is))
	}
	if v.Visible != "" {
		fmt.Fprintf(&b, "having     %s\n", strings.ReplaceAll(v.Visible, StateRelation+".", ""))
	}
	if !v.Global {
		b.WriteString("growth     a group is kept for ever: one for each distinct key\n")
	}
	fmt.Fprintf(&b, "each batch %s\nat reading %s\n", v.Partial, v.Final)
	return b.String()
}

func head(word string, i int) string {
	if i > 0 {
		word = ""
	}
	return fmt.Sprintf("%-11s", word)
}
