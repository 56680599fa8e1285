package agg

import (
	"fmt"

	"weir/state/sqltype"
)

func minimum() Spec { return extreme("min", Min) }
func maximum() Spec { return extreme("max", Max) }

// extreme keeps the least or the greatest value that is not NULL, in DuckDB's
// order: NaN is the greatest of numbers.
func extreme(name string, rule Rule) Spec {
	return Spec{
		Name: name, Args: [2]int{1, 1}, Distinct: true,
		Bind: func(args []sqltype.Type) (Bound, error) {
			t := args[0]
			if u, ok := t.Find(func(u sqltype.Type) bool { return u.ID == sqltype.Interval }); ok && t.Nested() {
				return Bound{}, fmt.Errorf("%s of %s is not supported: an %s within another type may lose its hours in Arrow", name, t, u)
			}
			return Bound{Parts: []Part{{Call: name, Rule: rule, Type: t}}, Type: t}, nil
		},
	}
}
