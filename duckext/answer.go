//go:build duckdb_arrow

package duckext

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
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

// warmed is a view as it was last declared.
type warmed struct {
	key     string // lower-case name
	def     ViewDef
	text    string // of the definition, as it came
	edition int    // of the worker when it was declared
	a       *attachment
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
	if err := writeJSON(w.control, frameNames, namesMsg{Refs: k.st.refs}); err != nil {
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

// A known statement has passed the gate and is kept, since dashboards and
// lookups send the same text over and over.
type known struct {
	st      *statement
	sql     string // what runs
	stmt    *stmt  // nil until prepared
	version int    // of the worker when stmt was prepared
}

// maxKnown is how many statements are kept. When there are more, all go.
const maxKnown = 64

// known passes a statement through the gate, or finds it.
func (w *worker) known(sql string) (*known, error) {
	if k := w.statements[sql]; k != nil {
		return k, nil
	}
	st, err := inspect(sql, w.serialize)
	if err != nil {
		if w.gate {
			return nil, err
		}
		st = &statement{sql: sql}
	}
	k := &known{st: st, sql: st.rewritten()}
	if len(st.spans) > 0 {
		// What replaced an AT clause must not have made it another statement.
		again, err := inspect(k.sql, w.serialize)
		if err != nil || len(again.spans) > 0 || again.bases != st.bases {
			return nil, &refusal{"the AT clause cannot be read: write the view's name, then AT (VERSION => n)", -1}
		}
	}
	if len(w.statements) >= maxKnown {
		for _, old := range w.statements {
			old.forget()
		}
		clear(w.statements)
	}
	w.statements[sql] = k
	return k, nil
}

func (k *known) forget() {
	if k.stmt != nil {
		k.stmt.close()
		k.stmt = nil
	}
}

// declare brings the views of the lease into the instance, those that changed. A
// plain view is declared again when any view has changed, since DuckDB refuses
// one whose parts are no longer what they were.
func (w *worker) declare(ctx context.Context, lease leaseMsg) error {
	for i, text := range lease.Views {
		if old := w.texts[string(text)]; old != nil && w.views[old.key] == old && (old.a != nil || old.edition == w.edition) {
			if old.a != nil {
				old.def.Rows = lease.Rows[i]
				w.aim(old, nil)
			}
			continue
		}
		var d ViewDef
		if err := json.Unmarshal(text, &d); err != nil {
			return err
		}
		d.Rows = lease.Rows[i]
		key := strings.ToLower(d.Name)
		if w.views[key] != nil && d.Table != "" {
			w.edition++
		}
		if err := w.declareOne(key, d, string(text)); err != nil {
			return fmt.Errorf("view %s: %w", d.Name, err)
		}
	}
	return ctx.Err()
}

func (w *worker) declareOne(key string, d ViewDef, text string) error {
	w.version++
	v := &warmed{key: key, def: d, text: text, edition: w.edition}
	sql := d.SQL
	if d.Table != "" {
		v.a = w.session.attach(key, d.Columns, w.parts)
		v.a.rows = d.Rows
		w.aim(v, nil)
		sql = scanSQL(v.a)
		if d.SQL != "" {
			sql = "WITH " + quote(d.Relation) + " AS NOT MATERIALIZED (" + sql + ") SELECT * FROM (\n" + d.SQL + "\n)"
		}
	}
	old := w.views[key]
	delete(w.views, key)
	if old != nil {
		delete(w.texts, old.text)
	}
	if err := w.session.c.exec("CREATE OR REPLACE TEMP VIEW " + quote(d.Name) + " AS " + sql); err != nil {
		return err
	}
	w.views[key], w.texts[text] = v, v
	if old != nil && old.a != nil {
		w.engine.tables.detach(old.a)
	}
	return nil
}

// aim points a view's scans at the lease of the running query.
func (w *worker) aim(v *warmed, filters []Filter) {
	v.a.mu.Lock()
	defer v.a.mu.Unlock()
	v.a.open = openTable(&remoteTable{line: w.line, def: v.def}, filters)
	v.a.parts = w.parts
	for _, f := range filters {
		if f.In != nil {
			v.a.parts = 1 // few rows: one answer brings them
		}
	}
}

// pushDown hands what WHERE says of the key columns to the scan.
func (w *worker) pushDown(ctx context.Context, st *statement, params params) error {
	found := st.predicates(params.named)
	if len(found) == 0 {
		return nil
	}
	v := w.views[strings.ToLower(st.refs[0].As)]
	if v == nil || v.a == nil {
		return nil
	}
	var filters []Filter
	for _, p := range found {
		i := slices.IndexFunc(v.def.Keys, func(k Passed) bool { return strings.EqualFold(k.Name, p.column) })
		if i < 0 {
			continue
		}
		col := v.def.Keys[i].Column
		if col < 0 || col >= len(v.def.Columns) {
			continue
		}
		f, ok, err := w.filter(ctx, p, col, v.def.Columns[col].Type)
		if err != nil {
			return err
		}
		if ok {
			filters = append(filters, f)
		}
	}
	if len(filters) > 0 {
		w.aim(v, filters)
	}
	return nil
}

func (w *worker) filter(ctx context.Context, p predicate, col int, t sqltype.Type) (f Filter, ok bool, err error) {
	f.Column = col
	for _, part := range []struct {
		to   *arrow.Array
		vals []constant
	}{{&f.In, p.in}, {&f.Min, constants(p.low)}, {&f.Max, constants(p.high)}} {
		if len(part.vals) == 0 {
			continue
		}
		arr, ok, err := w.cast(ctx, part.vals, t)
		if err != nil || !ok {
			return f, false, err
		}
		*part.to = arr
	}
	return f, true, nil
}

func constants(c *constant) []constant {
	if c == nil {
		return nil
	}
	return []constant{*c}
}

// cast evaluates constants as values of type t, or says that one does not fit.
func (w *worker) cast(ctx context.Context, vals []constant, t sqltype.Type) (arrow.Array, bool, error) {
	texts := array.NewStringBuilder(decodeMemory)
	list := make([]string, len(vals))
	for i, v := range vals {
		if !v.comparesAs(t) {
			return nil, false, nil
		}
		texts.Append(v.text)
		list[i] = "TRY_CAST('" + strings.ReplaceAll(v.text, "'", "''") + "' AS " + typeSQL(t) + ")"
	}
	if t.ID == sqltype.Varchar {
		return texts.NewArray(), true, nil
	}
	if t.ID == sqltype.BigInt && vals[0].kind != stringLiteral {
		return integers(vals)
	}
	st, err := w.session.c.prepare("SELECT unnest([" + strings.Join(list, ", ") + "])")
	if err != nil {
		return nil, false, nil
	}
	defer st.close()
	out := newCollector([]sqltype.Field{{Name: "v", Type: t}})
	err = st.run(ctx, func(c mapping.DataChunk) error { return out.add(c, int(mapping.DataChunkGetSize(c))) })
	if err != nil {
		return nil, false, ctx.Err()
	}
	arr := out.batch().Column(0)
	return arr, arr.NullN() == 0 && arr.Len() == len(vals), nil
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
	err := res.each(func(chunk mapping.DataChunk) error {
		n := int64(mapping.DataChunkGetSize(chunk))
		if end.Rows+n > q.MaxRows {
			n, end.Truncated = q.MaxRows-end.Rows, true
		}
		if err := out.add(chunk, int(n)); err != nil {
			return err
		}
		end.Rows += n
		if size := out.bytes(); sent+int64(size) > q.MaxBytes {
			end.Truncated = true
		} else if !end.Truncated && out.rows < pieceRows && size < pieceBytes {
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
