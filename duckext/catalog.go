package duckext

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/state/sqltype"
)

// A Catalog resolves the names of a query. It is the query process's only way
// to data.
type Catalog interface {
	// Lease pins what the names stand for, all at one epoch. Its error is the
	// query's; for a name that does not exist it is an *UnknownNameError. It is
	// also called for a query that names nothing, for the epoch. refs are what an
	// untrusted process claims that the query names.
	Lease(ctx context.Context, refs []Ref) (Lease, error)
}

// A Ref is one name in a query, each use of it once. At most one of At, Diff and
// History is set; a name alone is the present.
type Ref struct {
	Name    string   `json:"name"`
	At      *At      `json:"at,omitempty"`
	Diff    *Diff    `json:"diff,omitempty"`
	History *History `json:"history,omitempty"`
	// As is what the view that answers this reference must be called: Name itself,
	// or a name made up where it is not the present.
	As     string `json:"as"`
	Offset int    `json:"offset"` // of its first use, in bytes
}

// At is a point in time: the AT clause of a reference, a call of state_at, an end
// of state_diff. One field is set.
type At struct {
	Version   int64     `json:"version,omitempty"`
	Timestamp time.Time `json:"timestamp,omitzero"`
	Savepoint string    `json:"savepoint,omitempty"`
	Live      bool      `json:"live,omitempty"` // the present; of state_diff alone

	expr string // that Timestamp is to be computed from; "" when it is known
}

// Diff is a call of state_diff: what changed in a view between two points.
type Diff struct {
	From At `json:"from"`
	To   At `json:"to"`
}

// History is a call of state_history: one group of a view over all checkpoints.
type History struct {
	Key []KeyValue `json:"key"`
}

// KeyValue is a constant that a key column is asked for with, in the form that
// look-ups over HTTP take.
type KeyValue struct {
	Name string  `json:"name,omitempty"` // of the key column; "" is the one at this place
	Text *string `json:"text"`           // nil is NULL
	JSON bool    `json:"json,omitempty"` // Text is a nested value

	expr string // that Text is to be computed from
}

// same says whether two references are answered by one view.
func (r Ref) same(o Ref) bool {
	return strings.EqualFold(r.Name, o.Name) && reflect.DeepEqual(r.At, o.At) && reflect.DeepEqual(r.Diff, o.Diff) && reflect.DeepEqual(r.History, o.History)
}

// A Lease holds a consistent cut of the data from the time a query is known to
// its end. Its methods are called from several goroutines; none of them after
// Release, and all readers are released before.
type Lease interface {
	// Epoch is that of what Scan reads. Until the first Scan it may still rise.
	Epoch() uint64
	// Views define the names of the lease, those that a definition needs before it.
	Views() []ViewDef
	// Scan reads a table of the views, as [Table.Scan] does.
	Scan(ctx context.Context, table string, s ScanSpec) (array.RecordReader, error)
	Release()
}

// A ViewDef says what a name is. There are three kinds:
//
//   - Table and SQL: a materialized view. SQL is a SELECT over the relation
//     named Relation, which has Columns.
//   - Table alone: rows as they are, such as those of a source.
//   - SQL alone: a plain view over other names of the lease.
type ViewDef struct {
	Name     string          `json:"name"`
	SQL      string          `json:"sql,omitempty"`
	Relation string          `json:"relation,omitempty"`
	Table    string          `json:"table,omitempty"` // for Lease.Scan
	Columns  []sqltype.Field `json:"columns,omitempty"`
	Rows     int64           `json:"rows,omitempty"` // about how many, 0 when not known
	// Keys says which columns of the view show a column of Columns unchanged, so
	// that a predicate on them can go down into the scan.
	Keys []Passed `json:"keys,omitempty"`
}

// Passed is a view's column that is one of its relation's.
type Passed struct {
	Name   string `json:"name"`
	Column int    `json:"column"`
}

// An UnknownNameError says that a query names what does not exist.
type UnknownNameError struct {
	Name   string
	Names  []string // what exists
	Offset int      // byte in the statement, set by the pool
}

func (e *UnknownNameError) Error() string {
	s := fmt.Sprintf("there is no view or source named %q", e.Name)
	if near := nearest(e.Name, e.Names); near != "" {
		return s + fmt.Sprintf("; did you mean %q?", near)
	}
	if len(e.Names) == 0 {
		return s + "; none has been created yet"
	}
	return s
}

// nearest is the name that takes the fewest edits, if they are few.
func nearest(name string, names []string) string {
	best, at := "", 1+max(1, len(name)/3)
	for _, n := range names {
		if d := edits(strings.ToLower(name), strings.ToLower(n)); d < at {
			best, at = n, d
		}
	}
	return best
}

// edits is the Levenshtein distance of two names.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diag
			if a[i] != b[j] {
				cost++
			}
			diag, row[j+1] = row[j+1], min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
