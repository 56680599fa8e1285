package agg

import "weir/state/sqltype"

func boolAnd() Spec {
	return boolean("bool_and", And)
}
func boolOr() Spec { return boolean("bool_or", Or) }

func boolean(name string, rule Rule) Spec {
	return Spec{
		Name: name, Args: [2]int{1, 1}, Distinct: true,
		Bind: func([]sqltype.Type) (Bound, error) {
			t := typ(sqltype.Boolean)
			return Bound{Parts: []Part{{Call: name, Rule: rule, Type: t}}, Type: t}, nil
		},
	}
}
