//go:build duckdb_arrow

package duckext

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/state/plan"
	"weir/state/sqltype"
)

// A Program is one SELECT over one relation, prepared once and run over many
// batches: a view's partial statement over records, or its final statement over
// accumulators. It has a connection of its own and runs one batch at a time.
type Program struct {
	conn *conn
	stmt *stmt
	a    *attachment
	reg  *registry
	out  []sqltype.Field
}

// Prepare binds sql, which reads the relation rel and nothing else. The result
// must have exactly the names and types of out.
func (e *Engine) Prepare(ctx context.Context, sql string, rel plan.Relation, out []sqltype.Field) (*Program, error) {
	if len(rel.Columns) == 0 {
		// DuckDB has no table without columns.
		rel.Columns = []sqltype.Field{{Name: "__nothing", Type: sqltype.Type{ID: sqltype.Boolean}}}
	}
	c, err := e.connect()
	if err != nil {
		return nil, err
	}
	p := &Program{conn: c, reg: &e.tables, a: e.tables.attach(rel.Columns), out: out}
	if err := p.bind(ctx, sql, rel.Name); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Program) bind(ctx context.Context, sql, name string) error {
	if err := p.conn.exec(scanView(name, p.a)); err != nil {
		return fmt.Errorf("declare relation %s: %w", name, err)
	}
	s, err := p.conn.prepare(sql)
	if err != nil {
		return syntax(sql, err)
	}
	p.stmt = s
	got, err := s.columns()
	if err != nil {
		return err
	}
	if !slices.EqualFunc(got, p.out, func(a, b sqltype.Field) bool { return a.Name == b.Name && a.Type.Equal(b.Type) }) {
		return fmt.Errorf("statement returns %s, not %s", describe(got), describe(p.out))
	}
	return ctx.Err()
}

func describe(fs []sqltype.Field) string {
	var s strings.Builder
	s.WriteString("(")
	for i, f := range fs {
		if i > 0 {
			s.WriteString(", ")
		}
		s.WriteString(quote(f.Name) + " " + f.Type.String())
	}
	return s.String() + ")"
}

// Run evaluates the statement over batch, whose columns are the relation's in
// order and in the inside form. The batch stays the caller's and is not kept.
// The result is one batch, empty or not, that lives on the Go heap. A value that
// DuckDB refuses is an *EvalError, a failure of DuckDB's own an *EngineError; when
// ctx ends the error is its cause.
func (p *Program) Run(ctx context.Context, batch arrow.RecordBatch) (arrow.RecordBatch, error) {
	over := func(rec arrow.RecordBatch) (arrow.RecordBatch, error) {
		return p.run(ctx, func() (array.RecordReader, error) { return &oneBatch{rec: rec}, nil })
	}
	out, err := over(batch)
	if err == nil {
		return out, nil
	}
	return nil, evalOver(err, func() bool {
		if batch.NumRows() == 0 {
			return false
		}
		none := batch.NewSlice(0, 0)
		defer none.Release()
		out, err := over(none)
		if err != nil {
			return false
		}
		out.Release()
		return true
	})
}

// RunReader is Run over all batches of rd, which it releases.
func (p *Program) RunReader(ctx context.Context, rd array.RecordReader) (arrow.RecordBatch, error) {
	defer rd.Release()
	used := false
	out, err := p.run(ctx, func() (array.RecordReader, error) {
		if used {
			return nil, errors.New("weir: a statement over a stream reads it twice")
		}
		used = true
		return &projected{rd: rd}, nil
	})
	return out, eval(err)
}

func (p *Program) run(ctx context.Context, input func() (array.RecordReader, error)) (arrow.RecordBatch, error) {
	p.a.begin(ctx)
	p.a.mu.Lock()
	p.a.open = func(_ context.Context, cols []int, _, _ int) (array.RecordReader, error) {
		rd, err := input()
		if err != nil {
			return nil, err
		}
		rd.(interface{ project([]int) }).project(cols)
		return rd, nil
	}
	p.a.mu.Unlock()
	out := newCollector(p.out)
	err := p.stmt.run(ctx, out.addAll)
	if err := p.a.cause(err); err != nil {
		return nil, err
	}
	p.a.mu.Lock()
	p.a.open = nil // it holds the batch
	p.a.mu.Unlock()
	return out.batch(), nil
}

// Close frees the connection.
func (p *Program) Close() error {
	if p.stmt != nil {
		p.stmt.close()
	}
	p.conn.close()
	p.reg.detach(p.a)
	return nil
}
