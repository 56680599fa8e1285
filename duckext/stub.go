//go:build !duckdb_arrow

package duckext

import (
	"context"
	"errors"

	"github.com/apache/arrow-go/v18/arrow"

	"weir/state/plan"
	"weir/state/sqltype"
)

var errNotLinked = errors.New("weir was built without DuckDB: build with -tags duckdb_arrow")

// Engine is not available in this build.
type Engine struct{}

// Program is not available in this build.
type Program struct{}

// Version is empty: this build has no DuckDB.
func Version() string { return "" }

// Open says that this build has no DuckDB.
func Open(Options) (*Engine, error) { return nil, errNotLinked }

// Close does nothing.
func (e *Engine) Close() error { return nil }

// Serialize says that this build has no DuckDB.
func (e *Engine) Serialize(context.Context, string) ([]byte, error) { return nil, errNotLinked }

// Deserialize says that this build has no DuckDB.
func (e *Engine) Deserialize(context.Context, []byte) (string, error) { return "", errNotLinked }

// Describe says that this build has no DuckDB.
func (e *Engine) Describe(context.Context, []plan.Relation, string) ([]sqltype.Field, error) {
	return nil, errNotLinked
}

// Prepare says that this build has no DuckDB.
func (e *Engine) Prepare(context.Context, string, plan.Relation, []sqltype.Field) (*Program, error) {
	return nil, errNotLinked
}

// Run says that this build has no DuckDB.
func (p *Program) Run(context.Context, arrow.RecordBatch) (arrow.RecordBatch, error) {
	return nil, errNotLinked
}

// Close does nothing.
func (p *Program) Close() error { return nil }

// Worker reports that this build has no DuckDB.
func Worker(context.Context) int { return exitUnlinked }

// GuardWorker reports that this build has no DuckDB.
func GuardWorker(context.Context) int { return exitUnlinked }
