// Package agg holds the aggregates that Weir can keep running, and the rules
// by which their partial results merge.
package agg

import "weir/state/sqltype"

// A Rule says how two values of one accumulator merge. NULL is the identity of
// every rule. Rules are commutative and associative, so the order of batches
// does not show.
type Rule string

// The rules. Their names are part of the open format (docs/format.md).
const (
	// Add sums. BIGINT, HUGEINT and DECIMAL are exact and an overflow is an
	// error of the group; DOUBLE keeps a compensation (Neumaier) inside Weir.
	Add Rule = "add"
	// Min and Max keep the least and the greatest in DuckDB's order: NaN above
	// all numbers, -0.0 equal to 0.0. Of equals the older stays.
	Min Rule = "min"
	Max Rule = "max"
	// And and Or are of BOOLEAN.
	And Rule = "and"
	Or  Rule = "or"
)

// An Acc is one accumulator column of a view.
type Acc struct {
	Name string       `json:"name"` // for example __sum_amount
	Rule Rule         `json:"rule"`
	Type sqltype.Type `json:"type"`
}
