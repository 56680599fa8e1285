// Package plan turns the SELECT of a materialized view into what Weir runs: a
// partial statement over each batch of records, accumulators that merge, and a
// final statement over the state.
//
// [New] promises that the final statement over merged partials shows what the
// SELECT would show over all records, with the types that DESCRIBE gives, to the
// exactness of each aggregate; or it refuses the SELECT by name and place. It
// works on DuckDB's syntax tree and never on text:
//
//   - shape.go takes the SELECT apart and refuses what can't be kept running;
//   - names.go finds columns, aliases and keys as DuckDB does, so that equal
//     expressions become equal trees;
//   - build.go and accumulators.go make keys and accumulators;
//   - statements.go replaces keys and aggregates by columns of the state, writes
//     both statements, and has DuckDB describe them.
//
// query.go does the little that a plain view needs. What the package asks of
// DuckDB is the [Engine]; the tests run on recorded answers. It knows nothing of
// Kafka, of how state is stored, or of how statements are run.
package plan

import (
	"context"

	"weir/state/agg"
	"weir/state/sqltype"
)

// Names of the relations that a plan's statements read.
const (
	InputRelation = "__input" // columns View.Inputs, in order
	StateRelation = "__state" // columns of View.StateColumns, in order
)

// A View is the plan of one materialized view. It is pure data: it is stored
// in the catalogue and printed into manifests as JSON.
type View struct {
	Name    string          `json:"name"`
	Source  string          `json:"source"`
	Select  string          `json:"select"` // the user's text
	Keys    []Key           `json:"keys"`   // in the order of GROUP BY; all of them make the stored key
	Accs    []Accumulator   `json:"accumulators"`
	Results []Result        `json:"results"` // what SELECT names, in order
	Inputs  []sqltype.Field `json:"inputs"`  // columns of the source that Partial reads
	// Partial reads InputRelation and returns Keys, then Accs, one row a group
	// (exactly one row when Global).
	Partial string `json:"partial"`
	// Final reads StateRelation and returns Results of the groups that pass HAVING.
	Final string `json:"final"`
	// Visible is HAVING as a boolean expression over StateRelation, "" if none.
	Visible string `json:"visible,omitempty"`
	// Global views have no GROUP BY: one row, before any input too.
	Global bool `json:"global,omitempty"`
	// Fingerprint changes when the meaning of stored state would.
	Fingerprint string `json:"fingerprint"`
}

// A Key is one column of a view's stored key.
type Key struct {
	Name   string       `json:"name"` // its SQL name, or __key_N when SELECT does not name it
	Type   sqltype.Type `json:"type"`
	Expr   string       `json:"expr"`   // over the source's columns
	Result int          `json:"result"` // index in Results, -1 when not selected
}

// An Accumulator is a stored column and the expression that fills it from a batch.
type Accumulator struct {
	agg.Acc
	Aggregate string `json:"aggregate"` // for example sum(amount)
	Partial   string `json:"partial"`
}

// A Result is one column that SELECT names.
type Result struct {
	Name string       `json:"name"`
	Type sqltype.Type `json:"type"`
	Expr string       `json:"expr"` // over StateRelation
	Key  int          `json:"key"`  // index in Keys when the result is that key, else -1
	Acc  int          `json:"acc"`  // index in Accs when the result is that accumulator, else -1
}

// StateColumns are the columns of StateRelation: keys, then accumulators.
func (v *View) StateColumns() []sqltype.Field {
	fs := make([]sqltype.Field, 0, len(v.Keys)+len(v.Accs))
	for _, k := range v.Keys {
		fs = append(fs, sqltype.Field{Name: k.Name, Type: k.Type})
	}
	for _, a := range v.Accs {
		fs = append(fs, sqltype.Field{Name: a.Name, Type: a.Type})
	}
	return fs
}

// ResultColumns are the names and types that a reader of the view sees.
func (v *View) ResultColumns() []sqltype.Field {
	fs := make([]sqltype.Field, len(v.Results))
	for i, r := range v.Results {
		fs[i] = sqltype.Field{Name: r.Name, Type: r.Type}
	}
	return fs
}

// A Relation is a table that exists only by its columns.
type Relation struct {
	Name    string
	Columns []sqltype.Field
}

// Engine is what the planner asks of DuckDB. Implementations are safe for
// concurrent use.
type Engine interface {
	// Serialize gives the syntax tree of one SELECT (json_serialize_sql). SQL
	// that does not parse is a *SyntaxError.
	Serialize(ctx context.Context, sql string) ([]byte, error)
	// Deserialize turns a tree back into SQL (json_deserialize_sql).
	Deserialize(ctx context.Context, tree []byte) (string, error)
	// Describe gives names and types of the columns of sql, bound against empty
	// relations. SQL that does not bind is a *SyntaxError.
	Describe(ctx context.Context, rels []Relation, sql string) ([]sqltype.Field, error)
}

// SyntaxError is DuckDB's refusal of a statement.
type SyntaxError struct {
	Message string
	Offset  int // byte in the statement, -1 when not known
}

func (e *SyntaxError) Error() string { return e.Message }
