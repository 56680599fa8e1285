package ddl

import (
	"fmt"
	"strings"
)

// SameStatement says whether two statements are written alike but for white
// space, comments, a semicolon at the end and the case of unquoted words.
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
// "" when they are the same statement.
func Difference(now, was string) string {
	a, b := &scanner{script: now}, &scanner{script: was}
	for {
		x, xErr := a.significant()
		y, yErr := b.significant()
		if xErr != nil || yErr != nil {
			if now == was {
				return ""
			}
			return "one of the two does not read as SQL"
		}
		if x.kind == end && y.kind == end {
			return ""
		}
		if sameToken(now, was, x, y) {
			continue
		}
		line, col := Position(now, x.start)
		return fmt.Sprintf("line %d, column %d: %s was %s", line, col, show(now, x), show(was, y))
	}
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
