//go:build duckdb_arrow

package duckext

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/state/sqltype"
)

// A Session is one connection with tables of its own, for tools and for the
// query process. It runs one statement at a time.
type Session struct {
	e      *Engine
	c      *conn
	tables map[string]*attachment
}

// Session opens a connection.
func (e *Engine) Session() (*Session, error) {
	c, err := e.connect()
	if err != nil {
		return nil, err
	}
	return &Session{e: e, c: c, tables: map[string]*attachment{}}, nil
}

// Close drops the tables and the connection.
func (s *Session) Close() error {
	s.c.close()
	for _, a := range s.tables {
		s.e.tables.detach(a)
	}
	return nil
}

// Attach makes t readable under a name, in place of what had that name. Each
// scan is divided by slots into parts that threads read side by side.
func (s *Session) Attach(name string, t Table, parts int) error {
	old := s.tables[name]
	a := s.attach(name, t.Columns(), parts)
	if sized, ok := t.(Sized); ok {
		a.rows = sized.Rows()
	}
	a.open = openTable(t, nil)
	if err := s.c.exec(scanView(name, a)); err != nil {
		return fmt.Errorf("attach %s: %w", name, err)
	}
	if old != nil {
		s.e.tables.detach(old)
	}
	return nil
}

func (s *Session) attach(name string, cols []sqltype.Field, parts int) *attachment {
	a := s.e.tables.attach(cols)
	a.parts = max(parts, 1)
	s.tables[name] = a
	return a
}

// openTable opens parts of a table as ranges of slots.
func openTable(t Table, filters []Filter) func(context.Context, []int, int, int) (array.RecordReader, error) {
	return func(ctx context.Context, cols []int, part, parts int) (array.RecordReader, error) {
		return t.Scan(ctx, ScanSpec{Columns: cols, FromSlot: Slots * part / parts, ToSlot: Slots * (part + 1) / parts, Filters: filters})
	}
}

// Exec runs one statement of the owner's and drops its result.
func (s *Session) Exec(sql string) error { return s.c.exec(sql) }

// Query runs one SELECT and returns its whole result as one batch on the Go
// heap. The error of a table's reader is returned as it is; others are those of
// [Program.Run], and *plan.SyntaxError.
func (s *Session) Query(ctx context.Context, sql string) (arrow.RecordBatch, error) {
	s.use(ctx)
	st, err := s.c.prepare(sql)
	if err != nil {
		return nil, syntax(sql, err)
	}
	defer st.close()
	cols, err := st.columns()
	if err != nil {
		return nil, err
	}
	out := newCollector(cols)
	err = st.run(ctx, out.addAll)
	for _, a := range s.tables {
		err = a.cause(err)
	}
	if err != nil {
		return nil, eval(err)
	}
	return out.batch(), nil
}

// use makes ctx that of the scans to come.
func (s *Session) use(ctx context.Context) {
	for _, a := range s.tables {
		a.begin(ctx)
	}
}
