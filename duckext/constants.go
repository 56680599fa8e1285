//go:build duckdb_arrow

package duckext

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/state/plan"
	"weir/state/sqltype"
)

// resolved are the references of a statement with what they compute computed.
func (w *worker) resolved(ctx context.Context, refs []Ref) ([]Ref, error) {
	refs = slices.Clone(refs)
	for i := range refs {
		r := &refs[i]
		if r.At != nil && r.At.expr != "" {
			at, err := w.moment(ctx, r.At.expr, r.Offset)
			if err != nil {
				return nil, err
			}
			r.At = &At{Timestamp: at}
		}
		if r.History != nil {
			key, err := w.key(ctx, r.History.Key, r.Offset)
			if err != nil {
				return nil, err
			}
			r.History = &History{Key: key}
		}
	}
	return refs, nil
}

// moment computes a point in time.
func (w *worker) moment(ctx context.Context, expr string, offset int) (time.Time, error) {
	vals, err := w.compute(ctx, "SELECT CAST(epoch_us(CAST((\n"+expr+"\n) AS TIMESTAMP)) AS VARCHAR)", offset)
	if err != nil {
		return time.Time{}, err
	}
	if vals[0] == nil {
		return time.Time{}, &plan.SyntaxError{Message: "the time to go back to is NULL or infinite", Offset: offset}
	}
	us, err := strconv.ParseInt(*vals[0], 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMicro(us).UTC(), nil
}

// key computes the values of a key, as texts.
func (w *worker) key(ctx context.Context, key []KeyValue, offset int) ([]KeyValue, error) {
	if len(key) == 0 {
		return key, nil
	}
	types := make([]string, len(key))
	for i, k := range key {
		types[i] = "typeof((\n" + k.expr + "\n))"
	}
	kinds, err := w.compute(ctx, "SELECT "+strings.Join(types, ", "), offset)
	if err != nil {
		return nil, err
	}
	out := make([]KeyValue, len(key))
	texts := make([]string, len(key))
	for i, k := range key {
		out[i] = KeyValue{Name: k.Name}
		x := "(\n" + k.expr + "\n)"
		switch t := *kinds[i]; {
		case t == "BLOB":
			x = "to_base64" + x
		case strings.HasSuffix(t, "]"), strings.HasPrefix(t, "STRUCT("), strings.HasPrefix(t, "MAP("):
			if typ, err := sqltype.Parse(t); err == nil {
				if _, blob := typ.Find(isBlob); blob { // to_json writes one as text that may be another's base64
					return nil, &plan.SyntaxError{Message: "a BLOB within a key cannot be given as a value: give the key as text, in JSON, with the BLOB in base64", Offset: offset}
				}
				if _, float := typ.Find(isFloat); float { // to_json writes NaN, which is no JSON
					x = "(CAST(" + x + " AS " + floatsAsText(typ) + "))"
				}
			}
			x, out[i].JSON = "to_json"+x, true
		}
		texts[i] = "CAST(" + x + " AS VARCHAR)"
	}
	vals, err := w.compute(ctx, "SELECT "+strings.Join(texts, ", "), offset)
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i].Text = vals[i]
	}
	return out, nil
}

func isBlob(t sqltype.Type) bool { return t.ID == sqltype.Blob }

func isFloat(t sqltype.Type) bool { return t.ID == sqltype.Float || t.ID == sqltype.Double }

// floatsAsText spells t for a cast, with VARCHAR in the place of each FLOAT and
// DOUBLE, whose text is exact.
func floatsAsText(t sqltype.Type) string {
	return spelled(t, func(t sqltype.Type) string {
		if isFloat(t) {
			return "VARCHAR"
		}
		return t.String()
	})
}

// compute runs a SELECT without FROM that gives one row of texts. Its expressions
// are pieces of a statement that passed the gate; it passes once more, since pieces
// are cut by other rules than DuckDB's.
func (w *worker) compute(ctx context.Context, sql string, offset int) ([]*string, error) {
	st, err := inspect(sql, w.serialize)
	if err == nil && (st.bases > 0 || len(st.spans) > 0) {
		err = fmt.Errorf("it reads a table")
	}
	if err != nil {
		return nil, &refusal{"this expression cannot be computed beforehand: " + err.Error(), offset}
	}
	p, err := w.session.c.prepare(sql)
	if err != nil {
		return nil, &plan.SyntaxError{Message: err.Error(), Offset: offset}
	}
	defer p.close()
	fields, err := p.columns()
	if err != nil {
		return nil, &plan.SyntaxError{Message: err.Error(), Offset: offset}
	}
	for _, f := range fields {
		if f.Type.ID != sqltype.Varchar {
			return nil, fmt.Errorf("a constant came as %s", f.Type)
		}
	}
	out := newCollector(fields)
	if err := p.run(ctx, out.addAll); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, &plan.SyntaxError{Message: err.Error(), Offset: offset}
	}
	b := out.batch()
	if b.NumRows() != 1 {
		return nil, &plan.SyntaxError{Message: "this expression has no single value", Offset: offset}
	}
	vals := make([]*string, b.NumCols())
	for i := range vals {
		if col := b.Column(i).(*array.String); col.IsValid(0) {
			v := strings.Clone(col.Value(0))
			vals[i] = &v
		}
	}
	return vals, nil
}
