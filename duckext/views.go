//go:build duckdb_arrow

package duckext

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/state/sqltype"
)

// warmed is a view as it was last declared.
type warmed struct {
	key     string // lower-case name
	def     ViewDef
	text    string // of the definition, as it came
	edition int    // of the worker when it was declared
	a       *attachment
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
	err = st.run(ctx, out.addAll)
	if err != nil {
		return nil, false, ctx.Err()
	}
	arr := out.batch().Column(0)
	return arr, arr.NullN() == 0 && arr.Len() == len(vals), nil
}
