package checkpoint

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state"
	"weir/state/sqltype"
)

// scan makes the batches of the reader that Table.Scan gives.
type scan struct {
	ctx     context.Context // of the Scan, which ends the reader
	table   *Table
	in      rawReader
	request state.ScanRequest
	columns []int
	schema  *arrow.Schema
}

func (s *scan) next() (arrow.RecordBatch, error) {
	for {
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		if !s.in.Next() {
			return nil, s.in.Err()
		}
		rec, err := s.convert(s.in.RecordBatch())
		if err != nil {
			return nil, damaged(s.table.parts[0].path, "%v", err)
		}
		if rec != nil {
			return rec, nil
		}
	}
}

// convert makes an inside batch of a file's batch, or nil when no row of it is
// in the slots.
func (s *scan) convert(file arrow.RecordBatch) (arrow.RecordBatch, error) {
	t := s.table
	slots := file.Column(t.slot).(*array.Uint16).Uint16Values()
	from, _ := slices.BinarySearch(slots, uint16(s.request.FromSlot))
	to := len(slots)
	if s.request.ToSlot < state.Slots {
		to, _ = slices.BinarySearch(slots, uint16(s.request.ToSlot))
	}
	if from >= to {
		return nil, nil
	}
	part := file.NewSlice(int64(from), int64(to))
	defer part.Release()

	exact, err := s.exactRows(part)
	if err != nil {
		return nil, err
	}
	var cols []arrow.Array
	defer func() {
		for _, c := range cols {
			c.Release()
		}
	}()
	for _, c := range s.columns {
		a, err := toInside(s.request.Mem, t.fields[c].Type, part.Column(t.at[c]))
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", t.fields[c].Name, err)
		}
		if a, err = patch(s.request.Mem, a, t.fields[c], exact); err != nil {
			return nil, fmt.Errorf("column %s: %w", t.fields[c].Name, err)
		}
		cols = append(cols, a)
	}
	keep := func(want bool, column int) {
		if want {
			part.Column(column).Retain()
			cols = append(cols, part.Column(column))
		}
	}
	keep(s.request.Extra.Slot, t.slot)
	keep(s.request.Extra.Epoch, t.epoch)
	if s.request.Extra.Error {
		cols = append(cols, s.mergeErrors(part))
	}
	return array.NewRecordBatch(s.schema, cols, part.NumRows()), nil
}

// mergeErrors are the errors that belong to the state: those of merging.
func (s *scan) mergeErrors(part arrow.RecordBatch) arrow.Array {
	text, at := part.Column(s.table.err).(*array.String), part.Column(s.table.errAt).(*array.String)
	b := array.NewStringBuilder(s.request.Mem)
	defer b.Release()
	for i := range text.Len() {
		if text.IsValid(i) && at.IsValid(i) && at.Value(i) == errorMerge {
			b.Append(text.Value(i))
		} else {
			b.AppendNull()
		}
	}
	return b.NewArray()
}

// An exactRow holds values that the columns of its row could not.
type exactRow struct {
	row int
	rec arrow.RecordBatch
}

// exactRows decodes __exact, which few rows have. The records are Go memory.
func (s *scan) exactRows(part arrow.RecordBatch) ([]exactRow, error) {
	if s.table.exact < 0 {
		return nil, nil
	}
	col := part.Column(s.table.exact).(*array.Binary)
	if col.NullN() == col.Len() {
		return nil, nil
	}
	var rows []exactRow
	for i := range col.Len() {
		if col.IsNull(i) {
			continue
		}
		r, err := ipc.NewReader(bytes.NewReader(bytes.Clone(col.Value(i))))
		if err != nil {
			return nil, fmt.Errorf("row %d: %s: %w", i, exactColumn, err)
		}
		if !r.Next() || r.RecordBatch().NumRows() != 1 {
			r.Release()
			return nil, fmt.Errorf("row %d: %s holds no row", i, exactColumn)
		}
		rec := r.RecordBatch()
		rec.Retain()
		r.Release()
		rows = append(rows, exactRow{i, rec})
	}
	return rows, nil
}

// patch puts exact values in the place of what the file could not hold. It
// takes a over.
func patch(mem memory.Allocator, a arrow.Array, f sqltype.Field, exact []exactRow) (arrow.Array, error) {
	var parts []arrow.Array
	at := 0
	for _, e := range exact {
		i := e.rec.Schema().FieldIndices(f.Name)
		if len(i) != 1 {
			continue
		}
		value := e.rec.Column(i[0])
		if !arrow.TypeEqual(deepStorage(value.DataType()), f.Type.Inside()) {
			a.Release()
			return nil, fmt.Errorf("row %d: %s is %s", e.row, exactColumn, value.DataType())
		}
		plain := bareData(value.Data())
		parts = append(parts, array.NewSlice(a, int64(at), int64(e.row)), array.MakeFromData(plain))
		plain.Release()
		at = e.row + 1
	}
	if parts == nil {
		return a, nil
	}
	defer a.Release()
	parts = append(parts, array.NewSlice(a, int64(at), int64(a.Len())))
	defer func() {
		for _, p := range parts {
			p.Release()
		}
	}()
	return array.Concatenate(parts, mem)
}
