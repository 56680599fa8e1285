// Package recordbatch puts Arrow record batches together and measures them. It
// knows nothing of what they hold.
package recordbatch

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Concat gives the rows of some batches of one schema: nil of none, the batch
// itself of one, else a copy in mem. The caller releases the result; the parts
// stay the caller's.
func Concat(parts []arrow.RecordBatch, mem memory.Allocator) (arrow.RecordBatch, error) {
	switch len(parts) {
	case 0:
		return nil, nil
	case 1:
		parts[0].Retain()
		return parts[0], nil
	}
	schema := parts[0].Schema()
	cols := make([]arrow.Array, schema.NumFields())
	var rows int64
	for _, p := range parts {
		rows += p.NumRows()
	}
	for i := range cols {
		chunks := make([]arrow.Array, len(parts))
		for j, p := range parts {
			chunks[j] = p.Column(i)
		}
		col, err := array.Concatenate(chunks, mem)
		if err != nil {
			return nil, fmt.Errorf("join record batches: %w", err)
		}
		defer col.Release()
		cols[i] = col
	}
	return array.NewRecordBatch(schema, cols, rows), nil
}

// Bytes is about what a batch holds in memory; a slice counts as the whole.
func Bytes(rec arrow.RecordBatch) int64 {
	var size func(arrow.ArrayData) int64
	size = func(d arrow.ArrayData) (n int64) {
		for _, b := range d.Buffers() {
			if b != nil {
				n += int64(b.Len())
			}
		}
		for _, ch := range d.Children() {
			n += size(ch)
		}
		return n
	}
	var n int64
	for _, a := range rec.Columns() {
		n += size(a.Data())
	}
	return n
}
