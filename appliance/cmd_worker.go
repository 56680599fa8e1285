package appliance

import (
	"context"

	"weir/duckext"
)

// workerCmd is the query process: what its parent starts, and nobody else.
type workerCmd struct{}

func (workerCmd) Run(ctx context.Context) error {
	if code := duckext.Worker(ctx); code != exitOK {
		return exitCode(code)
	}
	return nil
}

// batchCmd is the process in which batches under suspicion are evaluated.
type batchCmd struct{}

func (batchCmd) Run(ctx context.Context) error {
	if code := duckext.GuardWorker(ctx); code != exitOK {
		return exitCode(code)
	}
	return nil
}
