package agg

import (
	"fmt"

	"weir/state/sqltype"
)

func sum() Spec {
	return Spec{
		Name: "sum", Args: [2]int{1, 1},
		Bind: func(args []sqltype.Type) (Bound, error) {
			t, err := sumType("sum", args[0])
			if err != nil {
				return Bound{}, err
			}
			return Bound{Parts: []Part{{Call: "sum", Rule: Add, Type: t}}, Type: t}, nil
		},
	}
}

// sumType is the type of DuckDB's sum over t.
func sumType(name string, t sqltype.Type) (sqltype.Type, error) {
	switch {
	case t.ID == sqltype.Float, t.ID == sqltype.Double, t.ID == sqltype.UHugeInt:
		return typ(sqltype.Double), nil
	case t.ID == sqltype.Decimal:
		return sqltype.Type{ID: sqltype.Decimal, Width: 38, Scale: t.Scale}, nil
	case t.ID == sqltype.Boolean, t.Integral():
		return typ(sqltype.HugeInt), nil
	}
	return t, fmt.Errorf("%s of %s is not supported", name, t)
}
