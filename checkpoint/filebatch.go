package checkpoint

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/sqltype"
)

// FileBatch converts a batch of the inside form to the file form, for readers
// outside of Weir. A value that the file form cannot hold is an error that names
// its column: it is never made NULL. The caller releases the result.
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
			return nil, fmt.Errorf("column %s: row %d holds a %s beyond what Arrow files carry: cast it to VARCHAR", c.Name, misfits[0], c.Type)
		}
		cols[i], fields[i] = a, c.Type.FileField(c.Name)
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, batch.NumRows()), nil
}
