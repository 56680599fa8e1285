package duckext

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"time"
)

// at reads an AT clause. Its value must be a constant.
func (w *walker) at(clause object, offset int) (*At, error) {
	expr, _ := clause["expr"].(object)
	unit, _ := clause["unit"].(string)
	value := constantOf(expr)
	switch strings.ToUpper(unit) {
	case "VERSION":
		if n, ok := value.(json.Number); ok {
			if v, err := n.Int64(); err == nil && v > 0 {
				return &At{Version: v}, nil
			}
		}
		return nil, &refusal{"AT (VERSION => n) needs a checkpoint's number: SHOW CHECKPOINTS lists them", offset}
	case "TIMESTAMP":
		if s, ok := value.(string); ok {
			if t, ok := parseTime(s); ok {
				return &At{Timestamp: t}, nil
			}
		}
		return nil, &refusal{"AT (TIMESTAMP => t) needs a time such as '2026-01-31 12:00:00' (UTC)", offset}
	}
	return nil, &refusal{fmt.Sprintf("AT (%s => …) is not known: use VERSION or TIMESTAMP", unit), offset}
}

// constantOf is the value of a constant, also within casts: a string, a
// json.Number, or nil.
func constantOf(o object) any {
	for o["type"] == "OPERATOR_CAST" {
		o, _ = o["child"].(object)
	}
	if o["type"] != "VALUE_CONSTANT" {
		return nil
	}
	v, _ := o["value"].(object)
	switch c := v["value"].(type) {
	case string:
		return c
	case json.Number:
		if t, _ := v["type"].(object); t["id"] == "DECIMAL" { // its digits without the point
			return nil
		}
		return c
	}
	return nil
}

func parseTime(s string) (time.Time, bool) {
	for _, layout := range []string{
		"2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999-07",
		"2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04", "2006-01-02",
	} {
		if t, err := time.Parse(layout, strings.TrimSpace(s)); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// stateAt reads state_at('view', name := 'savepoint'), or version := n.
func (w *walker) stateAt(o, f object) error {
	offset := w.location(o)
	form := &refusal{"state_at takes a view's name and name := 'savepoint' or version := n, as constants", offset}
	args, _ := f["children"].([]any)
	var view string
	var at At
	for i, a := range args {
		arg, _ := a.(object)
		value := constantOf(arg)
		alias, _ := arg["alias"].(string)
		text, isText := value.(string)
		switch {
		case i == 0 && alias == "" && isText:
			view = text
		case i == 1 && strings.EqualFold(alias, "name") && isText:
			at.Savepoint = text
		case i == 1 && strings.EqualFold(alias, "version"):
			n, ok := value.(json.Number)
			v, err := n.Int64()
			if !ok || err != nil || v < 1 {
				return form
			}
			at.Version = v
		default:
			return form
		}
	}
	if view == "" || len(args) != 2 {
		return form
	}
	return w.s.replace(view, &at, offset, o["alias"] == "")
}

// replace notes that the reference at offset stands for a view as it was. The
// text from there to the closing parenthesis gives way to the made-up name.
func (s *statement) replace(name string, at *At, offset int, bare bool) error {
	as := s.add(Ref{Name: name, At: at, Offset: offset})
	if offset < 0 {
		return fmt.Errorf("the place of %s in the statement is not known", name)
	}
	t := lex(s.sql, offset)
	for t.kind != 0 && (t.kind != 'p' || s.sql[t.start] != '(') {
		t = lex(s.sql, t.end)
	}
	end := parens(s.sql, t)
	if end < 0 {
		return fmt.Errorf("the end of %s in the statement is not known", name)
	}
	with := quote(as)
	if bare {
		with += " AS " + quote(name)
	}
	s.spans = append(s.spans, span{offset, end, with})
	return nil
}

// rewritten is the statement with its replacements.
func (s *statement) rewritten() string {
	sort.Slice(s.spans, func(i, j int) bool { return s.spans[i].start < s.spans[j].start })
	var b strings.Builder
	at := 0
	for _, sp := range s.spans {
		b.WriteString(s.sql[at:sp.start] + sp.with)
		at = sp.end
	}
	return b.String() + s.sql[at:]
}

// original is the offset in the user's text of an offset in the rewritten one.
func (s *statement) original(offset int) int {
	for _, sp := range s.spans {
		if offset < sp.start {
			break
		}
		if offset < sp.start+len(sp.with) {
			return sp.start
		}
		offset += sp.end - sp.start - len(sp.with)
	}
	return offset
}

// quote writes a name so that DuckDB reads exactly it.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
