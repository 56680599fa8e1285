//go:build duckdb_arrow

package duckext

import (
	"context"
	"errors"
	"fmt"

	"github.com/duckdb/duckdb-go/v2/mapping"

	"weir/state/sqltype"
)

// ErrNoChange says that a statement is none that changes rows.
var ErrNoChange = errors.New("the statement is no UPDATE, DELETE or INSERT")

// Change runs one UPDATE, DELETE or INSERT over the session's own tables and says
// how many rows it touched; the rows of a RETURNING are counted and dropped. Other
// statements are refused with [ErrNoChange] before they run; what else can go wrong
// is as for [Session.Query].
func (s *Session) Change(ctx context.Context, sql string) (rows int64, err error) {
	s.use(ctx)
	st, err := s.c.prepare(sql)
	if err != nil {
		return 0, syntax(sql, err)
	}
	defer st.close()
	switch st.kind() {
	case mapping.StatementTypeUpdate, mapping.StatementTypeDelete, mapping.StatementTypeInsert:
	default:
		return 0, ErrNoChange
	}
	rows, err = st.change(ctx)
	for _, a := range s.tables {
		err = a.cause(err)
	}
	if err != nil {
		return 0, eval(err)
	}
	return rows, nil
}

// change executes a statement that changes rows. Its result is their number, or
// the rows themselves where it has a RETURNING: DuckDB says which.
func (s *stmt) change(ctx context.Context) (rows int64, err error) {
	r, err := s.execute(ctx, false)
	if err != nil {
		return 0, err
	}
	defer r.close()
	kind := mapping.ResultReturnType(r.res)
	if kind == mapping.ResultTypeChangedRows {
		if cols := r.columns(); len(cols) != 1 || cols[0].known.ID != sqltype.BigInt {
			return 0, fmt.Errorf("duckdb: the number of changed rows is not one BIGINT but %v", cols)
		}
	}
	err = r.each(func(chunk mapping.DataChunk) error {
		n := int(mapping.DataChunkGetSize(chunk))
		switch kind {
		case mapping.ResultTypeChangedRows:
			count := newView(mapping.DataChunkGetVector(chunk, 0), sqltype.Type{ID: sqltype.BigInt})
			if n != 1 || !count.valid(0) {
				return fmt.Errorf("duckdb: the number of changed rows is in %d rows", n)
			}
			rows += *(*int64)(count.data)
		case mapping.ResultTypeQueryResult:
			rows += int64(n)
		default:
			return fmt.Errorf("duckdb: a change has a result of kind %d", kind)
		}
		return nil
	})
	return rows, err
}
