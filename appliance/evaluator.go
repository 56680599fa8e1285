package appliance

import (
	"context"
	"errors"

	"github.com/apache/arrow-go/v18/arrow"

	"weir/duckext"
	"weir/ingest"
	"weir/state/plan"
	"weir/state/sqltype"
)

// evaluator gives DuckDB to the pipeline.
type evaluator struct{ engine *duckext.Engine }

func (e evaluator) Prepare(ctx context.Context, sql string, in plan.Relation, out []sqltype.Field) (ingest.Program, error) {
	p, err := e.engine.Prepare(ctx, sql, in, out)
	if err != nil {
		return nil, err
	}
	return program{p}, nil
}

type program struct{ *duckext.Program }

func (p program) Run(ctx context.Context, in arrow.RecordBatch) (arrow.RecordBatch, error) {
	out, err := p.Program.Run(ctx, in)
	if bad, ok := errors.AsType[*duckext.EvalError](err); ok {
		return nil, &ingest.EvalError{Message: bad.Message}
	}
	return out, err
}
