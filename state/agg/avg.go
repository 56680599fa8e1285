package agg

import (
	"fmt"

	"weir/state/sqltype"
)

func avg() Spec {
	return Spec{
		Name: "avg", Aliases: []string{"mean"}, Args: [2]int{1, 1},
		Doc:       "the mean of numbers, a DOUBLE; kept as a sum and a count",
		Exactness: "from the exact sum of integers and DECIMAL, within 1 ulp of DuckDB's; of DOUBLE as its sum",
		Bind: func(args []sqltype.Type) (Bound, error) {
			t := args[0]
			if !t.Numeric() {
				hint := ""
				switch {
				case t.Temporal():
					hint = "; use avg(epoch_us(...)), and make_timestamp over it"
				case t.ID == sqltype.Interval, t.ID == sqltype.Time:
					hint = "; use avg(epoch(...)), which counts seconds"
				}
				return Bound{}, fmt.Errorf("avg of %s is not supported%s", t, hint)
			}
			s, err := sumType("avg", t)
			if err != nil {
				return Bound{}, err
			}
			b := Bound{
				Parts: []Part{{Call: "sum", Rule: Add, Type: s}, {Call: "count", Rule: Add, Type: typ(sqltype.BigInt)}},
				Type:  typ(sqltype.Double),
			}
			switch s.ID {
			case sqltype.Double:
				b.Final = func(c []string) string { return fmt.Sprintf("%s / %s", c[0], c[1]) }
			case sqltype.Decimal:
				b.Final = func(c []string) string { return meanOfDecimal(c[0], c[1], int(s.Scale)) }
			default:
				b.Final = func(c []string) string { return mean(c[0], c[1]) }
			}
			return b, nil
		},
	}
}

// exactDouble is the largest n for which all integers up to n are DOUBLEs.
const exactDouble = "9007199254740992"

// mean divides a HUGEINT sum by a count within 1 ulp. DuckDB divides as long
// double, which SQL has not: a sum that a DOUBLE holds divides correctly
// rounded; of a larger one, quotient and remainder are exact, and only the
// fraction and the last addition round.
func mean(s, c string) string {
	return fmt.Sprintf("CASE WHEN %[1]s BETWEEN -%[3]s AND %[3]s THEN CAST(%[1]s AS DOUBLE) / CAST(%[2]s AS DOUBLE) "+
		"ELSE CAST(%[1]s // %[2]s AS DOUBLE) + CAST(%[1]s %% %[2]s AS DOUBLE) / CAST(%[2]s AS DOUBLE) END", s, c, exactDouble)
}

// meanOfDecimal is mean for a sum of type DECIMAL(38,scale). It works on the
// sum's digits as an integer, since DuckDB's cast of a DECIMAL to DOUBLE rounds
// twice. The lambda gives the digits a name.
func meanOfDecimal(s, c string, scale int) string {
	if scale == 0 {
		return mean(fmt.Sprintf("CAST(%s AS HUGEINT)", s), c)
	}
	power := fmt.Sprintf("CAST('1%0*d' AS HUGEINT)", scale, 0)
	digits := fmt.Sprintf("CAST(replace(CAST(%s AS VARCHAR), '.', '') AS HUGEINT)", s)
	if scale <= 18 { // multiplying is faster than the way over text, as long as the product fits
		limit := fmt.Sprintf("CAST('1%0*d' AS DECIMAL(38,0))", 37-2*scale, 0)
		digits = fmt.Sprintf("CASE WHEN %[1]s BETWEEN -%[2]s AND %[2]s THEN CAST(%[1]s * CAST(%[3]s AS DECIMAL(19,0)) AS HUGEINT) ELSE %[4]s END",
			s, limit, power, digits)
	}
	return fmt.Sprintf("list_transform([%[1]s], d -> CASE WHEN d BETWEEN -%[4]s AND %[4]s AND %[2]s <= %[4]s // %[3]s "+
		"THEN CAST(d AS DOUBLE) / CAST(%[2]s * %[3]s AS DOUBLE) "+
		"ELSE CAST(d // %[2]s // %[3]s AS DOUBLE) + (CAST(d // %[2]s %% %[3]s AS DOUBLE) + CAST(d %% %[2]s AS DOUBLE) / CAST(%[2]s AS DOUBLE)) / CAST(%[3]s AS DOUBLE) END)[1]",
		digits, c, power, exactDouble)
}
