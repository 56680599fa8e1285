package recordbatch

import (
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// A Reader is an array.RecordReader of batches that a function makes. One
// goroutine at a time may use it; only Retain and Release are for many.
type Reader struct {
	refs   atomic.Int64
	schema *arrow.Schema
	next   func() (arrow.RecordBatch, error)
	free   func()
	rec    arrow.RecordBatch
	ended  bool
	err    error
}

var _ array.RecordReader = (*Reader)(nil)

// NewReader gives a Reader with one reference. It takes over each batch that next
// makes, and ends where that is nil, or an error; next is not called again then.
// free is called once, when the last reference goes, after the batch under way
// was released.
func NewReader(schema *arrow.Schema, next func() (arrow.RecordBatch, error), free func()) *Reader {
	r := &Reader{schema: schema, next: next, free: free}
	r.refs.Store(1)
	return r
}

// Next goes on to the next batch, if there is one, and releases the one before.
func (r *Reader) Next() bool {
	r.drop()
	if r.ended {
		return false
	}
	r.rec, r.err = r.next()
	r.ended = r.rec == nil
	return !r.ended
}

func (r *Reader) drop() {
	if r.rec != nil {
		r.rec.Release()
		r.rec = nil
	}
}

// Schema is that of the batches.
func (r *Reader) Schema() *arrow.Schema { return r.schema }

// RecordBatch is valid until the next call of Next, unless retained.
func (r *Reader) RecordBatch() arrow.RecordBatch { return r.rec }

// Record is RecordBatch under its old name.
func (r *Reader) Record() arrow.RecordBatch { return r.rec }

// Err is why Next returned false before the end.
func (r *Reader) Err() error { return r.err }

// Retain adds a reference.
func (r *Reader) Retain() { r.refs.Add(1) }

// Release drops a reference.
func (r *Reader) Release() {
	if r.refs.Add(-1) == 0 {
		r.drop()
		r.ended = true
		r.free()
	}
}
