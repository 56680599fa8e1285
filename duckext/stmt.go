//go:build duckdb_arrow

package duckext

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	bindings "github.com/duckdb/duckdb-go-bindings"
	"github.com/duckdb/duckdb-go/v2/mapping"

	"weir/state/sqltype"
)

// A stmt is a prepared statement. Like its connection it runs one thing at a time.
type stmt struct {
	c *conn
	s mapping.PreparedStatement
}

// prepare parses and binds one statement. Its errors are *duckError.
func (c *conn) prepare(sql string) (*stmt, error) {
	s := &stmt{c: c}
	if mapping.Prepare(c.c, sql, &s.s) == mapping.StateError {
		defer s.close()
		return nil, parseError(mapping.PrepareError(s.s))
	}
	return s, nil
}

func (s *stmt) close() { mapping.DestroyPrepare(&s.s) }

func (s *stmt) kind() mapping.StatementType { return mapping.PreparedStatementType(s.s) }

// columns are the names and types of the result. A type that Weir refuses is a
// *sqltype.UnsupportedError.
func (s *stmt) columns() ([]sqltype.Field, error) {
	n := mapping.PreparedStatementColumnCount(s.s)
	fs := make([]sqltype.Field, n)
	for i := range fs {
		lt := mapping.PreparedStatementColumnLogicalType(s.s, mapping.IdxT(i))
		t, err := sqltype.Parse(typeText(lt))
		mapping.DestroyLogicalType(&lt)
		name := mapping.PreparedStatementColumnName(s.s, mapping.IdxT(i))
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", name, err)
		}
		fs[i] = sqltype.Field{Name: name, Type: t}
	}
	return fs, nil
}

// text runs the statement with one text parameter and returns its one value.
func (s *stmt) text(ctx context.Context, arg string) (string, error) {
	if mapping.BindVarchar(s.s, 1, arg) == mapping.StateError {
		return "", fmt.Errorf("duckdb: cannot bind a text of %d bytes", len(arg))
	}
	var out string
	err := s.run(ctx, func(chunk mapping.DataChunk) error {
		v := newView(mapping.DataChunkGetVector(chunk, 0), sqltype.Type{ID: sqltype.Varchar})
		out = string(v.bytes(0))
		return nil
	})
	return out, err
}

// run executes the statement and hands each chunk of the result to f, which
// must not keep it.
func (s *stmt) run(ctx context.Context, f func(mapping.DataChunk) error) error {
	r, err := s.execute(ctx, false)
	if err != nil {
		return err
	}
	defer r.close()
	return r.each(f)
}

// A result is a statement's answer. It must be closed before its connection is
// used again.
type result struct {
	ctx    context.Context
	res    mapping.Result
	stream bool
	stop   func()
}

// execute runs the statement. With stream the chunks come while the query runs,
// so that a reader who stops early saves the rest. Cancelling ctx interrupts the
// query, in each as well; the error is then ctx's cause.
func (s *stmt) execute(ctx context.Context, stream bool) (*result, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r := &result{ctx: ctx, stream: stream, stop: s.c.watch(ctx)}
	run := mapping.ExecutePrepared
	if stream {
		run = bindings.ExecutePreparedStreaming
	}
	if run(s.s, &r.res) == mapping.StateError {
		defer r.close()
		return nil, cancelled(ctx, r.failure(mapping.ResultError(&r.res)))
	}
	return r, nil
}

// each hands the chunks to f until f fails.
func (r *result) each(f func(mapping.DataChunk) error) error {
	for {
		var chunk mapping.DataChunk
		if r.stream {
			if bindings.StreamFetchChunk(r.res, &chunk) == mapping.StateError {
				if msg := mapping.ResultError(&r.res); msg != "" {
					return cancelled(r.ctx, r.failure(msg))
				}
				return nil
			}
		} else if chunk = mapping.FetchChunk(r.res); chunk.Ptr == nil {
			return nil
		}
		n := mapping.DataChunkGetSize(chunk)
		var err error
		if n > 0 {
			err = f(chunk)
		}
		mapping.DestroyDataChunk(&chunk)
		if err != nil || n == 0 && r.stream {
			return err
		}
	}
}

// failure is the error of the result, whose text DuckDB has given.
func (r *result) failure(text string) *duckError {
	return parseError(text).typed(int(mapping.ResultErrorType(&r.res)))
}

func (r *result) close() {
	mapping.DestroyResult(&r.res)
	r.stop()
}

// A resultColumn is a column of any type that DuckDB has.
type resultColumn struct {
	name, typ string
	known     sqltype.Type // invalid for types that Weir does not carry
}

func (r *result) columns() []resultColumn {
	cols := make([]resultColumn, mapping.ColumnCount(&r.res))
	for i := range cols {
		lt := mapping.ColumnLogicalType(&r.res, mapping.IdxT(i))
		cols[i] = resultColumn{name: mapping.ColumnName(&r.res, mapping.IdxT(i)), typ: typeText(lt)}
		mapping.DestroyLogicalType(&lt)
		if t, err := sqltype.Parse(cols[i].typ); err == nil {
			cols[i].known, cols[i].typ = t, t.String()
		}
	}
	return cols
}

// cancelled prefers the reason of a cancellation to what it made DuckDB or a
// reader say.
func cancelled(ctx context.Context, err *duckError) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// watch interrupts the connection from the end of ctx until the returned
// function is called, which waits so that no later statement is hit. DuckDB
// forgets an interrupt that comes before it has begun, so it is repeated.
func (c *conn) watch(ctx context.Context) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	var over atomic.Bool
	gone := make(chan struct{})
	end := make(chan struct{})
	halt := context.AfterFunc(ctx, func() {
		defer close(gone)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for !over.Load() {
			c.interrupt()
			select {
			case <-tick.C:
			case <-end:
			}
		}
	})
	return func() {
		over.Store(true)
		close(end)
		if !halt() {
			<-gone
		}
	}
}

func (c *conn) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.c.Ptr != nil {
		mapping.Interrupt(c.c)
	}
}
