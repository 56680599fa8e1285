package agg

import (
	"fmt"

	"weir/state/sqltype"
)

func avg() Spec {
	return Spec{
		Name: "avg", Aliases: []string{"mean"}, Args: [2]int{1, 1},
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

// mean divides a HUGEINT sum by a count. A sum that a DOUBLE holds gives the
// correctly rounded quotient, as DuckDB's avg does. Of a larger one, list_avg of
// the sum alone is the nearest DOUBLE, by DuckDB's own long double arithmetic,
// which SQL has no other way to: the quotient is then within 1 ulp.
func mean(s, c string) string {
	return fmt.Sprintf("CASE WHEN %[1]s BETWEEN -9007199254740992 AND 9007199254740992 THEN CAST(%[1]s AS DOUBLE) / %[2]s ELSE list_avg([%[1]s]) / %[2]s END", s, c)
}

// meanOfDecimal is mean for a sum of type DECIMAL(38,scale). Where sum and
// count are small enough, it divides the sum's digits by count * 10^scale, both
// exact. (DuckDB's cast of a DECIMAL to DOUBLE may be off by an ulp, which
// rounding the product puts right below 2^50.)
func meanOfDecimal(s, c string, scale int) string {
	wide := fmt.Sprintf("list_avg([%s]) / %s", s, c)
	if scale > 15 {
		return wide
	}
	power := int64(1)
	for range scale {
		power *= 10
	}
	return fmt.Sprintf("CASE WHEN %[1]s BETWEEN -%[3]d AND %[3]d AND %[2]s <= %[4]d THEN round(CAST(%[1]s AS DOUBLE) * %[5]d) / (%[2]s * %[5]d) ELSE %[6]s END",
		s, c, (int64(1)<<50)/power, (int64(1)<<53)/power, power, wide)
}
