package checkpoint

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/internal/recordbatch"
)

// gather calls f with the rows of r in batches of batchRows, unless they are
// wide: a scan may give many small ones. f does not keep its argument.
func gather(mem memory.Allocator, r array.RecordReader, f func(arrow.RecordBatch) error) error {
	var pending []arrow.RecordBatch
	var rows, bytes int64
	drop := func() {
		for _, p := range pending {
			p.Release()
		}
		pending, rows, bytes = nil, 0, 0
	}
	defer drop()
	flush := func() error {
		if len(pending) == 0 {
			return nil
		}
		rec, err := concatenate(mem, pending)
		if err != nil {
			return err
		}
		drop()
		defer rec.Release()
		return f(rec)
	}
	for r.Next() {
		rec := r.RecordBatch()
		size := recordbatch.Bytes(rec)
		for at := int64(0); at < rec.NumRows(); {
			n := min(rec.NumRows()-at, batchRows-rows)
			pending = append(pending, rec.NewSlice(at, at+n))
			at, rows, bytes = at+n, rows+n, bytes+size*n/rec.NumRows()
			if rows == batchRows || bytes >= batchBytes {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	if err := r.Err(); err != nil {
		return err
	}
	return flush()
}

func concatenate(mem memory.Allocator, recs []arrow.RecordBatch) (arrow.RecordBatch, error) {
	if len(recs) == 1 {
		recs[0].Retain()
		return recs[0], nil
	}
	var rows int64
	for _, r := range recs {
		rows += r.NumRows()
	}
	cols := make([]arrow.Array, recs[0].NumCols())
	defer func() {
		for _, c := range cols {
			if c != nil {
				c.Release()
			}
		}
	}()
	for i := range cols {
		parts := make([]arrow.Array, len(recs))
		for j, r := range recs {
			parts[j] = r.Column(i)
		}
		var err error
		if cols[i], err = array.Concatenate(parts, mem); err != nil {
			return nil, err
		}
	}
	return array.NewRecordBatch(recs[0].Schema(), cols, rows), nil
}
