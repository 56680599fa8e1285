//go:build duckdb_arrow

package duckext

import (
	"context"
	"errors"

	"github.com/duckdb/duckdb-go/v2/mapping"

	"weir/state/sqltype"
)

// ErrNoChange says that a statement is none that changes rows.
var ErrNoChange = errors.New("the statement is no UPDATE, DELETE or INSERT")

// Change runs one UPDATE, DELETE or INSERT over the session's own tables and says
// how many rows it touched. Other statements are refused with [ErrNoChange] before
// they run; what else can go wrong is as for [Session.Query].
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
	err = st.run(ctx, func(chunk mapping.DataChunk) error {
		count := newView(mapping.DataChunkGetVector(chunk, 0), sqltype.Type{ID: sqltype.BigInt})
		rows += *(*int64)(count.data)
		return nil
	})
	for _, a := range s.tables {
		err = a.cause(err)
	}
	if err != nil {
		return 0, eval(err)
	}
	return rows, nil
}
