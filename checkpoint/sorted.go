package checkpoint

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state"
)

// Sorted makes the new state of a view of rows in any order: its state columns (see
// [View.StateFields]) in the inside form, then __epoch or __error or both. The
// batches stay in memory and are retained for as long as the state is in use; what
// does not fit there is sorted elsewhere, by state.Keyer.
func Sorted(v *View, batches ...arrow.RecordBatch) NewState {
	return func(context.Context) (array.RecordReader, error) {
		k, err := state.NewKeyer(&v.Plan)
		if err != nil {
			return nil, err
		}
		type place struct {
			key []byte
			rec arrow.RecordBatch
			row int
		}
		var all []place
		n := len(v.Plan.Keys)
		var schema *arrow.Schema
		for _, rec := range batches {
			if int(rec.NumCols()) < n {
				return nil, fmt.Errorf("rows have %d columns, fewer than the %d keys of view %s", rec.NumCols(), n, v.Name)
			}
			if schema != nil && !schema.Equal(rec.Schema()) {
				return nil, fmt.Errorf("rows of view %s have several schemas:\n%s\nand\n%s", v.Name, schema, rec.Schema())
			}
			schema = rec.Schema()
			key, err := k.Bind(rec.Columns()[:n])
			if err != nil {
				return nil, err
			}
			for i := range int(rec.NumRows()) {
				all = append(all, place{key(nil, i), rec, i})
			}
		}
		if schema == nil {
			schema = v.stateSchema()
		}
		slices.SortStableFunc(all, func(a, b place) int { return bytes.Compare(a.key, b.key) })
		var out []arrow.RecordBatch
		defer func() {
			for _, rec := range out {
				rec.Release()
			}
		}()
		for part := range slices.Chunk(all, batchRows) {
			cols := make([]arrow.Array, schema.NumFields())
			for c := range cols {
				parts := make([]arrow.Array, len(part))
				for i, p := range part {
					parts[i] = array.NewSlice(p.rec.Column(c), int64(p.row), int64(p.row+1))
					defer parts[i].Release()
				}
				if cols[c], err = array.Concatenate(parts, memory.DefaultAllocator); err != nil {
					return nil, err
				}
				defer cols[c].Release()
			}
			out = append(out, array.NewRecordBatch(schema, cols, int64(len(part))))
		}
		return array.NewRecordReader(schema, out)
	}
}

// stateSchema is that of the state columns in the inside form.
func (v *View) stateSchema() *arrow.Schema {
	var fields []arrow.Field
	for _, f := range v.Plan.StateColumns() {
		fields = append(fields, f.Type.InsideField(f.Name))
	}
	return arrow.NewSchema(fields, nil)
}
