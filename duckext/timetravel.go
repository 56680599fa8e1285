package duckext

import (
	"encoding/json"
	"slices"
	"strings"

	"weir/state/plan"
)

// past reads a call of one of Weir's table functions, which show views as
// checkpoints hold them.
func (w *walker) past(name string, o, f object) (known bool, err error) {
	switch strings.ToLower(name) {
	case "state_at":
		return true, w.stateAt(o, f)
	case "state_diff":
		return true, w.stateDiff(o, f)
	case "state_history":
		return true, w.stateHistory(o, f)
	}
	return false, nil
}

// An argument is one of a call: its text, and its name when it has one.
type argument struct{ name, value string }

// opens says whether a token opens a parenthesis.
func (t token) opens(sql string) bool { return t.kind == 'p' && sql[t.start] == '(' }

// called finds the parenthesis of the call that begins at offset.
func (s *statement) called(offset int) token { return lex(s.sql, lex(s.sql, offset).end) }

// clause finds the parenthesis of the AT clause of the table whose name begins at
// offset. An alias, and its columns, may stand between.
func (s *statement) clause(offset int) token {
	t := s.called(offset)
	for t.kind != 0 {
		next := lex(s.sql, t.end)
		if t.kind == 'w' && strings.EqualFold(t.text(s.sql), "at") && next.opens(s.sql) && assigned(s.sql, lex(s.sql, next.end)) > 0 {
			return next
		}
		if t.opens(s.sql) {
			end := parens(s.sql, t)
			if end < 0 {
				break
			}
			next = lex(s.sql, end)
		}
		t = next
	}
	return token{}
}

// arguments gives what stands in the parenthesis that opens at t, between commas,
// and its end, which is -1 when there is none.
func (s *statement) arguments(t token) (end int, args []argument) {
	if !t.opens(s.sql) {
		return -1, nil
	}
	if end = parens(s.sql, t); end < 0 {
		return -1, nil
	}
	depth := 0
	from := lex(s.sql, t.end)
	for t = from; t.kind != 0; t = lex(s.sql, t.end) {
		if t.kind != 'p' {
			continue
		}
		switch c := s.sql[t.start]; {
		case (c == ')' || c == ',') && depth == 0:
			if t.start > from.start {
				args = append(args, s.argument(from, t.start))
			}
			if c == ')' {
				return end, args
			}
			from = lex(s.sql, t.end)
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			depth--
		}
	}
	return -1, nil
}

// argument splits name := value and name => value.
func (s *statement) argument(first token, end int) argument {
	if first.kind == 'w' || first.kind == 'q' {
		if at := assigned(s.sql, first); at > 0 && at <= end {
			return argument{strings.Trim(first.text(s.sql), `"`), s.sql[at:end]}
		}
	}
	return argument{"", s.sql[first.start:end]}
}

// assigned is where the value begins when := or => follows a name, else 0.
func assigned(sql string, name token) int {
	op := lex(sql, name.end)
	if op.kind == 'p' && (strings.HasPrefix(sql[op.start:], ":=") || strings.HasPrefix(sql[op.start:], "=>")) {
		return op.start + 2
	}
	return 0
}

// moment is what stands for the argument "timestamp" of state_at in the text that
// DuckDB parses: its grammar takes the word for a type. It is as long.
const moment = "at_moment"

// askable is a statement in which state_at's arguments have names that parse.
func askable(sql string) string {
	out := []byte(sql)
	for t := lex(sql, 0); t.kind != 0; t = lex(sql, t.end) {
		open := lex(sql, t.end)
		if t.kind != 'w' || !strings.EqualFold(t.text(sql), "state_at") || !open.opens(sql) {
			continue
		}
		end := parens(sql, open)
		for a := lex(sql, open.end); a.kind != 0 && a.start < end; a = lex(sql, a.end) {
			if a.kind == 'w' && strings.EqualFold(a.text(sql), "timestamp") && assigned(sql, a) > 0 {
				copy(out[a.start:], moment)
			}
		}
	}
	return string(out)
}

// noParameters is added to what a form says when a parameter stands in it: what is read
// of the past is settled before values are bound.
const noParameters = "; parameters cannot stand there: write the value into the statement, text as 'it''s'"

// bound says whether a parameter is in a syntax tree.
func bound(tree any) (found bool) {
	eachObject(tree, func(o object) { found = found || o["class"] == "PARAMETER" })
	return found
}

// call reads the arguments of a table function: the view's name, then others with
// their syntax trees. Its error is form.
func (w *walker) call(o, f object, form *plan.SyntaxError) (view string, trees []object, args []argument, err error) {
	list, _ := f["children"].([]any)
	if bound(list) {
		form.Message += noParameters
		return "", nil, nil, form
	}
	_, args = w.s.arguments(w.s.called(form.Offset))
	if len(list) == 0 || len(list) != len(args) {
		return "", nil, nil, form
	}
	for _, a := range list {
		tree, _ := a.(object)
		trees = append(trees, tree)
	}
	view, ok := constantOf(trees[0]).(string)
	if !ok || view == "" || trees[0]["alias"] != "" {
		return "", nil, nil, form
	}
	return view, trees[1:], args[1:], nil
}

// named notes what a call stands for. Without an alias the statement knows it by
// name.
func (w *walker) named(r Ref, o object, name string) error {
	as := ""
	if o["alias"] == "" {
		as = " AS " + quote(name)
	}
	return w.s.replace(r, w.s.called(r.Offset), as)
}

// stateAt reads state_at('view', name := 'savepoint'), version := n, or timestamp := t.
func (w *walker) stateAt(o, f object) error {
	offset := w.location(o)
	form := &plan.SyntaxError{Message: "state_at takes a view's name and name := 'savepoint', version := n or timestamp := t, as constants", Offset: offset}
	view, trees, args, err := w.call(o, f, form)
	if err != nil || len(trees) != 1 {
		return form
	}
	var at *At
	alias, _ := trees[0]["alias"].(string)
	switch strings.ToLower(alias) {
	case "name":
		text, _ := constantOf(trees[0]).(string)
		if text == "" {
			return form
		}
		at = &At{Savepoint: text}
	case "version":
		n, ok := version(trees[0])
		if !ok {
			return form
		}
		at = &At{Version: n}
	case "timestamp", moment:
		if at, err = w.moment(trees[0], args[0].value, form); err != nil {
			return err
		}
	default:
		return form
	}
	return w.named(Ref{Name: view, At: at, Offset: offset}, o, view)
}

// version is the number of a checkpoint.
func version(tree object) (int64, bool) {
	n, ok := constantOf(tree).(json.Number)
	if !ok {
		return 0, false
	}
	v, err := n.Int64()
	return v, err == nil && v > 0
}

// stateDiff reads state_diff('view', a, b).
func (w *walker) stateDiff(o, f object) error {
	offset := w.location(o)
	form := &plan.SyntaxError{Message: "state_diff takes a view's name and two points, as constants: a checkpoint's number, a savepoint's name, or 'live'", Offset: offset}
	view, trees, _, err := w.call(o, f, form)
	if err != nil || len(trees) != 2 {
		return form
	}
	d := &Diff{}
	for i, to := range []*At{&d.From, &d.To} {
		text, isText := constantOf(trees[i]).(string)
		n, isVersion := version(trees[i])
		switch {
		case trees[i]["alias"] != "":
			return form
		case isText && strings.EqualFold(text, "live"):
			to.Live = true
		case isText && text != "":
			to.Savepoint = text
		case isVersion:
			to.Version = n
		default:
			return form
		}
	}
	return w.named(Ref{Name: view, Diff: d, Offset: offset}, o, "state_diff")
}

// stateHistory reads state_history('view', key, …), where keys stand in the order
// of the view's key columns or have their names.
func (w *walker) stateHistory(o, f object) error {
	offset := w.location(o)
	form := &plan.SyntaxError{Message: "state_history takes a view's name and the key of a group, as constants: state_history('view', 'Paris'), or city := 'Paris'", Offset: offset}
	if bound(f["children"]) {
		form.Message += noParameters + ", or ask GET /api/v1/views/{view}/history?column=value"
		return form
	}
	view, trees, args, err := w.call(o, f, form)
	if err != nil {
		return form
	}
	h := &History{Key: []KeyValue{}}
	for i, tree := range trees {
		if err := w.constant(tree, form); err != nil {
			return err
		}
		name, _ := tree["alias"].(string)
		h.Key = append(h.Key, KeyValue{Name: name, expr: args[i].value})
	}
	return w.named(Ref{Name: view, History: h, Offset: offset}, o, "state_history")
}

// constantClasses are the expressions that need nothing but themselves.
var constantClasses = []string{"CONSTANT", "CAST", "FUNCTION", "OPERATOR", "COMPARISON", "CONJUNCTION", "CASE", "BETWEEN"}

// clocks are functions that the grammar takes for columns.
var clocks = []string{"current_timestamp", "current_date", "current_time", "localtimestamp", "localtime"}

// constant refuses an expression that reads columns, parameters or tables.
func (w *walker) constant(tree object, otherwise *plan.SyntaxError) error {
	if err := w.walk(tree, nil); err != nil {
		return err
	}
	var bad error
	eachObject(tree, func(o object) {
		class, ok := o["class"].(string)
		if !ok || slices.Contains(constantClasses, class) {
			return
		}
		if names, _ := o["column_names"].([]any); class == "COLUMN_REF" && len(names) == 1 {
			if n, _ := names[0].(string); slices.Contains(clocks, strings.ToLower(n)) {
				return
			}
		}
		what := "; columns, parameters and subqueries are not known there"
		if class == "PARAMETER" {
			what = noParameters
		}
		bad = &plan.SyntaxError{Message: otherwise.Message + what, Offset: otherwise.Offset}
	})
	return bad
}
