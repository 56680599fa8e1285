package checkpoint

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/internal/recordbatch"
	"weir/state"
)

// A rawReader gives the verified batches of a view in the file's own columns. A
// batch is good until the next call of Next.
type rawReader interface {
	Schema() *arrow.Schema
	Next() bool
	RecordBatch() arrow.RecordBatch
	Err() error
	close()
}

// Rows reads the table as a stranger's library would: the file's own columns,
// found by name and in the order asked for (nil: all of them, as in
// View.Columns), in the types of docs/format.md and with the fields' metadata.
// Rows come in the order of slot and key, those of groups that HAVING hides or
// that are in error included. Every batch is verified before it is decoded. mem
// is memory.DefaultAllocator when nil; the caller releases the reader.
func (t *Table) Rows(ctx context.Context, columns []string, mem memory.Allocator) (array.RecordReader, error) {
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	at := make([]int, 0, len(t.View.Columns))
	if columns == nil {
		for i := range t.View.Columns {
			at = append(at, i)
		}
	}
	for _, name := range columns {
		i := t.View.column(name)
		if i < 0 {
			return nil, &Error{Kind: ErrMismatch, Path: t.parts[0].path, What: fmt.Sprintf("view %s has no column %s", t.View.Name, name), Do: "the manifest lists the columns that there are (views[].columns)"}
		}
		at = append(at, i)
	}
	in, err := t.raw(mem, 0, state.Slots)
	if err != nil {
		return nil, err
	}
	fields := make([]arrow.Field, len(at))
	for i, c := range at {
		fields[i] = in.Schema().Field(c)
	}
	meta := in.Schema().Metadata()
	schema := arrow.NewSchema(fields, &meta)
	return recordbatch.NewReader(schema, func() (arrow.RecordBatch, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !in.Next() {
			return nil, in.Err()
		}
		file := in.RecordBatch()
		cols := make([]arrow.Array, len(at))
		for i, c := range at {
			cols[i] = file.Column(c)
		}
		return array.NewRecordBatch(schema, cols, file.NumRows()), nil
	}, in.close), nil
}

// raw reads the batches that hold slots from up to but not including to. The
// first and the last may hold rows of others, which may not be up to date.
func (t *Table) raw(mem memory.Allocator, from, to int) (rawReader, error) {
	in, err := t.unchecked(mem, from, to)
	if err != nil {
		return nil, err
	}
	s := &saidErrors{rawReader: in, err: t.err, errAt: t.errAt, visible: t.View.column(visibleColumn), path: t.parts[0].path, want: -1}
	if from <= 0 && to >= state.Slots && !t.counting {
		s.want = t.View.Errors
	}
	return s, nil
}

func (t *Table) unchecked(mem memory.Allocator, from, to int) (rawReader, error) {
	if len(t.parts) > 1 {
		m, err := t.merged(mem, from, to)
		if err != nil {
			return nil, err
		}
		return m, nil
	}
	file := t.parts[0]
	first, last := file.batches(from, to)
	in, err := file.scan(mem, first, last)
	if err != nil {
		return nil, err
	}
	if err := sameColumns(in.Schema(), t.View.Columns); err != nil {
		in.close()
		return nil, damaged(file.path, "%v", err)
	}
	return in, nil
}
