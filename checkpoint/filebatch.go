package checkpoint

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/sqltype"
)

// A MisfitError says that a value cannot be in a file.
type MisfitError struct {
	Column sqltype.Field
	Row    int // of the batch
}

// Error names the column, and the row for want of a better name.
func (e *MisfitError) Error() string {
	return fmt.Sprintf("column %s: row %d holds a %s beyond what Arrow files carry: cast it to VARCHAR", e.Column.Name, e.Row, e.Column.Type)
}

// FileBatch converts a batch of the inside form to the file form, for readers
// outside of Weir. A value that the file form cannot hold is a
// [*MisfitError]: it is never made NULL. The caller releases the result.
func FileBatch(columns []sqltype.Field, batch arrow.RecordBatch) (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, len(columns))
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		a, misfits, err := toFile(memory.DefaultAllocator, c.Type, batch.Column(i))
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
		defer a.Release()
		if len(misfits) > 0 {
			return nil, &MisfitError{Column: c, Row: misfits[0]}
		}
		cols[i], fields[i] = a, c.Type.FileField(c.Name)
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, batch.NumRows()), nil
}
