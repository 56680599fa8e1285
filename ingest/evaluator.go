package ingest

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"weir/state/plan"
	"weir/state/sqltype"
)

// An Evaluator prepares SQL to be run over batches of one relation.
type Evaluator interface {
	Prepare(ctx context.Context, sql string, input plan.Relation, out []sqltype.Field) (Program, error)
}

// A Program is a prepared statement. Run may not be called by two goroutines at
// once. The batch that it returns is the caller's to release.
type Program interface {
	Run(ctx context.Context, in arrow.RecordBatch) (arrow.RecordBatch, error)
	Close() error
}

// An EvalError is a statement that failed on the data it was given: a cast, an
// overflow, a logarithm of zero.
type EvalError struct {
	Message string
	// Crash says that the statement would have ended this process, had it run here.
	Crash bool
}

func (e *EvalError) Error() string { return e.Message }

// A MemoryError is a batch for which an evaluator had not memory enough. The batch
// is evaluated again with care, which finds the record if one is to blame.
type MemoryError struct{ Err error }

func (e *MemoryError) Error() string { return e.Err.Error() }

func (e *MemoryError) Unwrap() error { return e.Err }
