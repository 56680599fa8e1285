package agg

import (
	"fmt"

	"weir/state/sqltype"
)

func count() Spec {
	return Spec{
		Name: "count", Aliases: []string{"count_star"}, Args: [2]int{0, 1},
		Bind: func(args []sqltype.Type) (Bound, error) {
			p := Part{Call: "count", Rule: Add, Type: typ(sqltype.BigInt)}
			if len(args) == 0 {
				p.Call, p.Star = "count_star", true
			}
			return Bound{Parts: []Part{p}, Type: p.Type}, nil
		},
	}
}

// count_if is a HUGEINT in DuckDB, and NULL over no records; it is stored as a
// BIGINT, which no count outgrows.
func countIf() Spec {
	return Spec{
		Name: "count_if", Aliases: []string{"countif"}, Args: [2]int{1, 1},
		Bind: func([]sqltype.Type) (Bound, error) {
			big := typ(sqltype.BigInt)
			return Bound{
				Parts: []Part{{Call: "count_if", Cast: big, Rule: Add, Type: big}},
				Type:  typ(sqltype.HugeInt),
				Final: func(cols []string) string { return fmt.Sprintf("CAST(%s AS HUGEINT)", cols[0]) },
			}, nil
		},
	}
}
