package duckext

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/state/sqltype"
)

// Slots is the number of slots that a table's rows are divided into.
const Slots = 256

// A Table is a relation that DuckDB scans as Arrow. A scan of one query may
// open many readers, several at once and from any goroutine; all of them must
// see the same rows.
type Table interface {
	// Columns are the table's columns, the same at each call.
	Columns() []sqltype.Field
	// Scan opens a fresh reader. Its batches hold exactly the columns of the
	// request in the order of the request, in the inside form of their types,
	// with any number of rows. The caller releases the reader and stops before
	// its end when it has enough. An error of the reader fails the query with its
	// text.
	Scan(ctx context.Context, s ScanSpec) (array.RecordReader, error)
}

// Sized is implemented by tables that know about how many rows they hold.
// DuckDB orders joins by it.
type Sized interface{ Rows() int64 }

// A ScanSpec says what one reader of a table must deliver.
type ScanSpec struct {
	// Columns are indices into Table.Columns. It is empty, not nil, when only the
	// number of rows matters, as for count(*): batches then have no columns but a
	// number of rows.
	Columns []int
	// FromSlot and ToSlot bound the slots: FromSlot <= slot < ToSlot. The ranges
	// of one scan are disjoint and cover 0 to Slots.
	FromSlot, ToSlot int
	// Filters hold for every row that the query can use. They are a hint: rows
	// beyond them may be delivered, since DuckDB checks again.
	Filters []Filter
}

// A Filter restricts one column to listed values or to a range of values. The
// arrays are in the inside form of the column's type.
type Filter struct {
	Column   int         // index into Table.Columns
	In       arrow.Array // the allowed values, without NULL; nil if not given
	Min, Max arrow.Array // one value each, inclusive; nil means open
}

// Release releases the filter's arrays.
func (f Filter) Release() {
	for _, a := range []arrow.Array{f.In, f.Min, f.Max} {
		if a != nil {
			a.Release()
		}
	}
}
