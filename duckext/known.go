//go:build duckdb_arrow

package duckext

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
