package agg

import "weir/state/sqltype"

func boolAnd() Spec {
	return boolean("bool_and", And, "whether the argument is true in all records where it is not NULL")
}
func boolOr() Spec { return boolean("bool_or", Or, "whether the argument is true in any record") }

func boolean(name string, rule Rule, doc string) Spec {
	return Spec{
		Name: name, Args: [2]int{1, 1}, Distinct: true, Doc: doc, Exactness: "exact",
		Bind: func([]sqltype.Type) (Bound, error) {
			t := typ(sqltype.Boolean)
			return Bound{Parts: []Part{{Call: name, Rule: rule, Type: t}}, Type: t}, nil
		},
	}
}
