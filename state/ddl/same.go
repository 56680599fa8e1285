package ddl

import (
	"fmt"
	"slices"
	"strings"
)

// SameStatement says whether two statements make the same thing, written alike but
// for what [Difference] passes over.
func SameStatement(a, b string) bool { return Difference(a, b) == "" }

// SameView says whether two statements make the same materialized view, and whether
// they also export it alike.
func SameView(a, b *CreateMaterializedView) (view, export bool) {
	with := func(v *CreateMaterializedView) string {
		if v.Export == nil {
			return ""
		}
		return v.Export.With.Text()
	}
	return strings.EqualFold(a.Name.Text, b.Name.Text) && SameStatement(a.Select.Text(), b.Select.Text()), SameStatement(with(a), with(b))
}

// Difference tells the first place where two statements differ, as
// `line 3, column 5: "sum" was "avg"`, where line and column are those of now;
// "" when they are the same statement but for white space, comments, a semicolon at
// the end and the case of unquoted words. OR REPLACE, IF NOT EXISTS and the options
// of a materialized view say nothing about what is made, and are passed over.
func Difference(now, was string) string {
	a, aErr := made(now)
	b, bErr := made(was)
	if aErr != nil || bErr != nil {
		if now == was {
			return ""
		}
		return "one of the two does not read as SQL"
	}
	for i, x := range a { // each ends with a token that is end
		y := b[i]
		if !sameToken(now, was, x, y) {
			line, col := Position(now, x.start)
			return fmt.Sprintf("line %d, column %d: %s was %s", line, col, show(now, x), show(was, y))
		}
	}
	return ""
}

// made are the tokens of a statement that say what it makes, and then end.
func made(script string) ([]token, error) {
	s := &scanner{script: script}
	var ts []token
	for len(ts) == 0 || ts[len(ts)-1].kind != end {
		t, err := s.significant()
		if err != nil {
			return nil, err
		}
		ts = append(ts, t)
	}
	follow := func(i int, words ...string) bool {
		for n, w := range words {
			if i+n >= len(ts) || !ts[i+n].is(w) {
				return false
			}
		}
		return true
	}
	if !follow(0, "CREATE") {
		return ts, nil
	}
	at := 1
	if follow(at, "OR", "REPLACE") {
		ts = slices.Delete(ts, at, at+2)
	}
	view := follow(at, "MATERIALIZED", "VIEW")
	switch {
	case view:
		at += 2
	case follow(at, "SOURCE"), follow(at, "VIEW"):
		at++
	default:
		return ts, nil
	}
	if follow(at, "IF", "NOT", "EXISTS") {
		ts = slices.Delete(ts, at, at+3)
	}
	at++ // its name
	if view && follow(at, "WITH", "(") {
		for to := at; to < len(ts); to++ {
			if ts[to].is(")") {
				return slices.Delete(ts, at, to+1), nil
			}
		}
	}
	return ts, nil
}

// significant skips semicolons that nothing follows.
func (s *scanner) significant() (token, error) {
	t, err := s.next()
	if err != nil || !t.is(";") {
		return t, err
	}
	rest := *s
	for n := t; err == nil; n, err = rest.next() {
		if n.kind == end {
			return n, nil
		}
		if !n.is(";") {
			break
		}
	}
	return t, nil
}

func sameToken(now, was string, x, y token) bool {
	if x.kind != y.kind {
		return false
	}
	if x.kind == word {
		return strings.EqualFold(x.value, y.value)
	}
	return now[x.start:x.end] == was[y.start:y.end]
}

func show(script string, t token) string {
	if t.kind == end {
		return "the end"
	}
	s := script[t.start:t.end]
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "..."
	}
	return "`" + s + "`"
}
