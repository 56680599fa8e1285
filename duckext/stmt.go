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
	err := s.run(ctx, false, func(chunk mapping.DataChunk) error {
		v := newView(mapping.DataChunkGetVector(chunk, 0), sqltype.Type{ID: sqltype.Varchar})
		out = string(v.bytes(0))
		return nil
	})
	return out, err
}

// run executes the statement and hands each chunk of the result to f, which
// must not keep it. With stream the chunks come while the query runs, and f can
// stop it with an error. Cancelling ctx interrupts the query; the error is then
// ctx's cause.
func (s *stmt) run(ctx context.Context, stream bool, f func(mapping.DataChunk) error) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	defer s.c.watch(ctx)()
	var res mapping.Result
	defer func() { mapping.DestroyResult(&res) }()
	var st mapping.State
	if stream {
		st = bindings.ExecutePreparedStreaming(s.s, &res)
	} else {
		st = mapping.ExecutePrepared(s.s, &res)
	}
	if st == mapping.StateError {
		return cancelled(ctx, parseError(mapping.ResultError(&res)))
	}
	for {
		var chunk mapping.DataChunk
		if stream {
			if bindings.StreamFetchChunk(res, &chunk) == mapping.StateError {
				if msg := mapping.ResultError(&res); msg != "" {
					return cancelled(ctx, parseError(msg))
				}
				return nil
			}
		} else if chunk = mapping.FetchChunk(res); chunk.Ptr == nil {
			return nil
		}
		if mapping.DataChunkGetSize(chunk) == 0 {
			mapping.DestroyDataChunk(&chunk)
			if stream {
				return nil
			}
			continue
		}
		err := f(chunk)
		mapping.DestroyDataChunk(&chunk)
		if err != nil {
			return err
		}
	}
}

// cancelled prefers the reason of a cancellation to DuckDB's "Interrupted!".
func cancelled(ctx context.Context, err *duckError) error {
	if ctx.Err() != nil && err.interrupted() {
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
