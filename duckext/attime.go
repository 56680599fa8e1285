package duckext

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"time"

	"weir/state/plan"
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
		return nil, &plan.SyntaxError{Message: "AT (VERSION => n) needs a checkpoint's number: SHOW CHECKPOINTS lists them", Offset: offset}
	case "TIMESTAMP":
		_, args := w.s.arguments(w.s.clause(offset))
		if len(args) != 1 {
			return nil, fmt.Errorf("the AT clause at byte %d cannot be read", offset)
		}
		return w.moment(expr, args[0].value, &plan.SyntaxError{Message: "AT (TIMESTAMP => t) needs a time such as '2026-01-31 12:00:00' (UTC), or an expression without columns such as now() - INTERVAL 1 HOUR", Offset: offset})
	}
	return nil, &plan.SyntaxError{Message: fmt.Sprintf("AT (%s => …) is not known: use VERSION or TIMESTAMP", unit), Offset: offset}
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

// moment is a point in time that an expression over constants gives: known now, or
// computed each time the statement runs.
func (w *walker) moment(expr object, text string, otherwise *plan.SyntaxError) (*At, error) {
	if s, ok := constantOf(expr).(string); ok {
		t, ok := parseTime(s)
		if !ok {
			return nil, otherwise
		}
		return &At{Timestamp: t}, nil
	}
	if err := w.constant(expr, otherwise); err != nil {
		return nil, err
	}
	return &At{expr: text}, nil
}

// replace notes that a reference stands for something else than a view as it is.
// The text from its offset to the end of the parenthesis that opens at open gives
// way to the made-up name, and to as, which names it for the statement.
func (s *statement) replace(r Ref, open token, as string) error {
	end, _ := s.arguments(open)
	if r.Offset < 0 || end < 0 {
		return fmt.Errorf("the place of %s in the statement is not known", r.Name)
	}
	s.spans = append(s.spans, span{r.Offset, end, quote(s.add(r)) + as})
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
