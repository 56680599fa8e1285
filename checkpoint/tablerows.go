package checkpoint

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

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
	r := &tableRows{ctx: ctx, in: in, at: at, schema: arrow.NewSchema(fields, &meta)}
	r.refs.Store(1)
	return r, nil
}

// raw reads the batches that hold slots from up to but not including to. The
// first and the last may hold rows of others, which may not be up to date.
func (t *Table) raw(mem memory.Allocator, from, to int) (rawReader, error) {
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

// tableRows is the reader that Rows gives.
type tableRows struct {
	refs   atomic.Int64
	ctx    context.Context // of the call, which ends the reader
	in     rawReader
	at     []int
	schema *arrow.Schema
	rec    arrow.RecordBatch
	err    error
}

func (r *tableRows) Schema() *arrow.Schema          { return r.schema }
func (r *tableRows) RecordBatch() arrow.RecordBatch { return r.rec }
func (r *tableRows) Record() arrow.RecordBatch      { return r.rec }
func (r *tableRows) Err() error                     { return r.err }
func (r *tableRows) Retain()                        { r.refs.Add(1) }

func (r *tableRows) Release() {
	if r.refs.Add(-1) == 0 {
		r.drop()
		r.in.close()
	}
}

func (r *tableRows) drop() {
	if r.rec != nil {
		r.rec.Release()
		r.rec = nil
	}
}

func (r *tableRows) Next() bool {
	r.drop()
	if r.err == nil {
		r.err = r.ctx.Err()
	}
	if r.err != nil {
		return false
	}
	if !r.in.Next() {
		r.err = r.in.Err()
		return false
	}
	file := r.in.RecordBatch()
	cols := make([]arrow.Array, len(r.at))
	for i, c := range r.at {
		cols[i] = file.Column(c)
	}
	r.rec = array.NewRecordBatch(r.schema, cols, file.NumRows())
	return true
}
