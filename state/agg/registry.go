package agg

import (
	"strings"

	"weir/state/sqltype"
)

// A Spec describes one aggregate function. An aggregate is one file that makes
// its Spec, and one row of [Specs].
type Spec struct {
	Name    string
	Aliases []string // what DuckDB calls it too
	// Args is how many arguments the aggregate takes: Args[0] to Args[1].
	Args [2]int
	// Distinct says that DISTINCT changes nothing.
	Distinct bool
	// Bind gives the accumulators for arguments of the given types. Its error says
	// why the aggregate can't be kept for them, and what can.
	Bind func(args []sqltype.Type) (Bound, error)
}

// Bound is an aggregate over arguments of known types.
type Bound struct {
	Parts []Part
	Type  sqltype.Type // of the result, as DuckDB has it
	// Final gives the result as SQL over the accumulators, whose column names,
	// ready for SQL, it is given in the order of Parts. A nil Final means that the
	// only part is the result.
	Final func(cols []string) string
}

// A Part is one accumulator and DuckDB's aggregate that fills it from a batch.
type Part struct {
	// Call is the aggregate to run over the arguments of the call, with its FILTER.
	Call string
	// Star drops the arguments.
	Star bool
	// Cast, when valid, is the type to which the aggregate's result is cast.
	Cast sqltype.Type
	Rule Rule
	Type sqltype.Type
}

// Specs are all aggregates that a materialized view may use.
func Specs() []Spec {
	return []Spec{count(), countIf(), sum(), avg(), minimum(), maximum(), boolAnd(), boolOr()}
}

// Lookup finds an aggregate by any of its names, without regard to case.
func Lookup(name string) (Spec, bool) {
	for _, s := range Specs() {
		if strings.EqualFold(s.Name, name) {
			return s, true
		}
		for _, a := range s.Aliases {
			if strings.EqualFold(a, name) {
				return s, true
			}
		}
	}
	return Spec{}, false
}

// IsAggregate says whether DuckDB has an aggregate of that name, kept by Weir or not.
func IsAggregate(name string) bool {
	if _, ok := Lookup(name); ok {
		return true
	}
	_, _, ok := Refused(name)
	return ok
}

func typ(id sqltype.ID) sqltype.Type { return sqltype.Type{ID: id} }
