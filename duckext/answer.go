//go:build duckdb_arrow

package duckext

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/duckdb/duckdb-go/v2/mapping"

	"weir/state/plan"
	"weir/state/sqltype"
)

// A worker is the state of a query process. Its DuckDB instance and the views
// in it outlive a query: the gate lets no statement change them.
type worker struct {
	ctx     context.Context
	control *os.File
	line    *line
	gate    bool
	parts   int
	options Options

	engine     *Engine
	session    *Session
	trees      *stmt              // json_serialize_sql
	views      map[string]*warmed // by lower-case name
	texts      map[string]*warmed // by definition
	edition    int                // grows when a view is declared anew
	version    int                // grows when any view is declared
	statements map[string]*known  // by the user's text
	leases     chan leaseMsg
	queries    chan queryMsg

	mu     sync.Mutex
	query  context.Context
	cancel context.CancelCauseFunc
}

func (w *worker) open() (err error) {
	if w.engine, err = Open(w.options); err != nil {
		return err
	}
	if w.session, err = w.engine.Session(); err != nil {
		return err
	}
	w.views, w.texts = map[string]*warmed{}, map[string]*warmed{}
	w.statements = map[string]*known{}
	w.trees, err = w.session.c.prepare("SELECT json_serialize_sql($1::VARCHAR)")
	return err
}

// begin makes the context of the next query, so that an interrupt finds it.
func (w *worker) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.query, w.cancel = context.WithCancelCause(w.ctx)
}

// serve answers one query. It returns false when the parent is gone.
func (w *worker) serve(q queryMsg) bool {
	w.mu.Lock()
	ctx := w.query
	w.mu.Unlock()
	end := endMsg{Offset: -1}
	if err := w.run(ctx, q, &end); err != nil {
		w.report(ctx, err, &end)
	}
	w.mu.Lock()
	w.cancel(nil)
	w.cancel = nil
	w.mu.Unlock()
	return writeJSON(w.control, frameEnd, end) == nil
}

// report turns an error into the end of a query.
func (w *worker) report(ctx context.Context, err error, end *endMsg) {
	end.Code, end.Message = CodeFailed, err.Error()
	if ctx.Err() != nil {
		end.Code = CodeStopped
	}
	if e, ok := errors.AsType[*refusal](err); ok {
		end.Code, end.Offset = CodeRefused, e.offset
	}
	if _, ok := errors.AsType[*paramError](err); ok {
		end.Code = CodeParams
	}
	if e, ok := errors.AsType[*plan.SyntaxError](err); ok {
		end.Code, end.Offset = CodeSyntax, e.Offset
	}
	if e, ok := errors.AsType[*duckError](err); ok {
		end.Offset = e.offset
		if strings.EqualFold(e.kind, "Out of Memory") {
			end.Code = CodeMemory
		}
		end.Retire = e.fatal()
	}
}

// serialize is json_serialize_sql by the warm statement.
func (w *worker) serialize(sql string) ([]byte, error) {
	text, err := w.trees.text(w.ctx, sql)
	if err != nil {
		return nil, syntax(sql, err)
	}
	return checkTree(sql, text)
}

func (w *worker) run(ctx context.Context, q queryMsg, end *endMsg) error {
	k, err := w.known(q.SQL)
	if err != nil {
		return err
	}
	params, err := readParams(q.Params)
	if err != nil {
		return err
	}
	refs, err := w.resolved(ctx, k.st.refs)
	if err != nil {
		return err
	}
	if err := writeJSON(w.control, frameNames, namesMsg{Refs: refs}); err != nil {
		return err
	}
	lease := <-w.leases // always answered, so that none is left for the next query
	if lease.Refused {
		return errors.New("the lease was refused")
	}
	if err := w.declare(ctx, lease); err != nil {
		return err
	}
	if err := w.pushDown(ctx, k.st, params); err != nil {
		return err
	}
	w.session.use(ctx)
	err = w.execute(ctx, k, params, q, end)
	if e, ok := errors.AsType[*plan.SyntaxError](err); ok && e.Offset >= 0 {
		e.Offset = k.st.original(e.Offset)
	}
	return err
}

// execute runs the statement and sends its rows, up to the query's limits.
func (w *worker) execute(ctx context.Context, k *known, p params, q queryMsg, end *endMsg) error {
	if k.version != w.version {
		k.forget()
	}
	if k.stmt == nil {
		if err := w.prepare(k, k.sql); err != nil {
			return err
		}
	}
	res, err := start(ctx, k.stmt, p)
	if err != nil {
		return err
	}
	cols := res.columns()
	for i := range cols {
		cols[i].name = k.st.named(cols[i].name)
	}
	if slices.ContainsFunc(cols, func(c resultColumn) bool { return c.known.ID == sqltype.Invalid }) {
		// What Weir has no Arrow form for travels as text.
		res.close()
		defer k.forget()
		k.forget()
		if err := w.prepare(k, asText(k.sql, cols)); err != nil {
			return err
		}
		if res, err = start(ctx, k.stmt, p); err != nil {
			return err
		}
		defer res.close()
		return w.send(res, cols, q, end)
	}
	defer res.close()
	return w.send(res, cols, q, end)
}

// prepare binds a statement to the views as they are now.
func (w *worker) prepare(k *known, sql string) error {
	st, err := w.session.c.prepare(sql)
	if err != nil {
		return syntax(sql, err)
	}
	if w.gate && st.kind() != mapping.StatementTypeSelect && st.kind() != mapping.StatementTypeExplain {
		st.close()
		return &refusal{"a query is one SELECT, or EXPLAIN, DESCRIBE or SUMMARIZE of one", -1}
	}
	k.stmt, k.version = st, w.version
	return nil
}

func start(ctx context.Context, st *stmt, p params) (*result, error) {
	if err := p.bind(st); err != nil {
		return nil, err
	}
	return st.execute(ctx, true)
}

// asText casts the columns that have no Arrow form. The inner names are made up
// because a result may have a name twice.
func asText(sql string, cols []resultColumn) string {
	list, names := make([]string, len(cols)), make([]string, len(cols))
	for i, c := range cols {
		names[i] = fmt.Sprintf("c%d", i)
		list[i] = names[i]
		if c.known.ID == sqltype.Invalid {
			list[i] = "CAST(" + names[i] + " AS VARCHAR)"
		}
	}
	return "SELECT " + strings.Join(list, ", ") + " FROM (\n" + sql + "\n) AS t(" + strings.Join(names, ", ") + ")"
}

var errEnough = errors.New("enough rows")

// Pieces of a result are sent when they have so many rows or bytes.
const (
	pieceRows  = 16 << 10
	pieceBytes = 1 << 20
)

func (w *worker) send(res *result, cols []resultColumn, q queryMsg, end *endMsg) error {
	fs := make([]sqltype.Field, len(cols))
	head := make([]columnMsg, len(cols))
	for i, c := range cols {
		if c.known.ID == sqltype.Invalid {
			c.known = sqltype.Type{ID: sqltype.Varchar}
		}
		fs[i] = sqltype.Field{Name: c.name, Type: c.known}
		head[i] = columnMsg{Name: c.name, Type: c.typ, As: c.known}
	}
	if err := writeJSON(w.control, frameColumns, head); err != nil {
		return err
	}
	out := newCollector(fs)
	var sent int64
	flush := func() error {
		if out.rows == 0 {
			return nil
		}
		b, err := appendBatch(nil, fs, out.batch())
		if err != nil {
			return err
		}
		sent += int64(len(b))
		for part := range slices.Chunk(b, maxFromChild/2) {
			if err := writeFrame(w.control, frameBatch, part); err != nil {
				return err
			}
		}
		return nil
	}
	// Rows are taken few at a time, since each may be large.
	step := chunkRows
	if slices.ContainsFunc(fs, func(f sqltype.Field) bool { return layout(f.Type) != layoutFixed }) {
		step = 32
	}
	err := res.each(func(chunk mapping.DataChunk) error {
		vs, n := out.look(chunk), int(mapping.DataChunkGetSize(chunk))
		for from := 0; from < n && !end.Truncated; from += step {
			m := min(step, n-from)
			if left := q.MaxRows - end.Rows; int64(m) > left {
				m, end.Truncated = int(left), true
			}
			if err := out.add(vs, from, m); err != nil {
				return err
			}
			end.Rows += int64(m)
			over := sent + int64(out.bytes()) - q.MaxBytes
			if over > maxFromChild/2 {
				return &refusal{fmt.Sprintf("%d rows of the result are more than its limit of %d bytes", step, q.MaxBytes), -1}
			}
			end.Truncated = end.Truncated || over > 0
		}
		if !end.Truncated && out.rows < pieceRows && out.bytes() < pieceBytes {
			return nil
		}
		if err := flush(); err != nil {
			return err
		}
		if end.Truncated {
			return errEnough
		}
		return nil
	})
	if err != nil && err != errEnough {
		return err
	}
	return flush()
}
