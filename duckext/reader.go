package duckext

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// noCount gives a reader that is owned by one user the methods of a counted one.
type noCount struct{}

func (noCount) Retain()  {}
func (noCount) Release() {}

// oneBatch reads the projected columns of a batch that someone else owns.
type oneBatch struct {
	noCount
	rec  arrow.RecordBatch
	cols []int
	done bool
}

func (r *oneBatch) project(cols []int)             { r.cols = cols }
func (r *oneBatch) Schema() *arrow.Schema          { return r.rec.Schema() }
func (r *oneBatch) Err() error                     { return nil }
func (r *oneBatch) Record() arrow.RecordBatch      { return r.RecordBatch() }
func (r *oneBatch) RecordBatch() arrow.RecordBatch { return picked{r.rec, r.cols} }
func (r *oneBatch) Next() bool                     { d := r.done; r.done = true; return !d }

// projected reads the projected columns of a reader that someone else owns.
type projected struct {
	noCount
	rd   array.RecordReader
	cols []int
}

func (r *projected) project(cols []int)             { r.cols = cols }
func (r *projected) Schema() *arrow.Schema          { return r.rd.Schema() }
func (r *projected) Err() error                     { return r.rd.Err() }
func (r *projected) Record() arrow.RecordBatch      { return r.RecordBatch() }
func (r *projected) RecordBatch() arrow.RecordBatch { return picked{r.rd.RecordBatch(), r.cols} }
func (r *projected) Next() bool                     { return r.rd.Next() }

// picked is a batch seen through a projection, without making a new one.
type picked struct {
	arrow.RecordBatch
	cols []int
}

func (p picked) NumCols() int64           { return int64(len(p.cols)) }
func (p picked) Column(i int) arrow.Array { return p.RecordBatch.Column(p.cols[i]) }
