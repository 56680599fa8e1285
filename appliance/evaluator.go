package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/apache/arrow-go/v18/arrow"

	"weir/duckext"
	"weir/ingest"
	"weir/state/plan"
	"weir/state/sqltype"
)

// newGuard makes what evaluates batches under suspicion: this binary again, with
// its hidden verb, once there is one.
func newGuard(memory int64, log *slog.Logger) (*duckext.Guard, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's file: %w", err)
	}
	return duckext.NewGuard(duckext.GuardOptions{Command: []string{exe, "batch-worker"}, MemoryLimit: bytesText(memory), Logger: log}), nil
}

// evaluator gives DuckDB to the pipeline. broken is told when the instance answers
// nothing more.
type evaluator struct {
	engine *duckext.Engine
	broken func(error)
}

func (e evaluator) Prepare(ctx context.Context, sql string, in plan.Relation, out []sqltype.Field) (ingest.Program, error) {
	p, err := e.engine.Prepare(ctx, sql, in, out)
	if err != nil {
		return nil, err
	}
	return program{p, e.broken}, nil
}

// careful gives the pipeline DuckDB in another process.
type careful struct{ guard *duckext.Guard }

func (c careful) Prepare(_ context.Context, sql string, in plan.Relation, out []sqltype.Field) (ingest.Program, error) {
	p, err := c.guard.Prepare(sql, in, out)
	if err != nil {
		return nil, err
	}
	return carefulProgram{p}, nil
}

type carefulProgram struct{ *duckext.GuardProgram }

func (p carefulProgram) Run(ctx context.Context, in arrow.RecordBatch) (arrow.RecordBatch, error) {
	out, err := p.GuardProgram.Run(ctx, in)
	if dead, ok := errors.AsType[*duckext.CrashError](err); ok {
		return nil, &ingest.EvalError{Message: dead.Message, Crash: true}
	}
	return out, refusal(err)
}

// refusal turns DuckDB's refusal of a value into the pipeline's.
func refusal(err error) error {
	if bad, ok := errors.AsType[*duckext.EvalError](err); ok {
		return &ingest.EvalError{Message: bad.Message}
	}
	return err
}

type program struct {
	*duckext.Program
	broken func(error)
}

func (p program) Run(ctx context.Context, in arrow.RecordBatch) (arrow.RecordBatch, error) {
	out, err := p.Program.Run(ctx, in)
	if e, ok := errors.AsType[*duckext.EngineError](err); ok {
		if e.Fatal {
			p.broken(err)
		}
		if e.Memory() {
			return nil, &ingest.MemoryError{Err: err}
		}
	}
	return out, refusal(err)
}
