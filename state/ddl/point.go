package ddl

import (
	"strconv"
	"strings"
)

// A Point is a query for one group of one view by its whole key:
//
//	SELECT * | column [[AS] alias], … FROM view [[AS] alias]
//	WHERE key = literal [AND key = literal …] [LIMIT n] [;]
//
// Whether the names mean a view, its columns and its keys is for the caller to
// find out.
type Point struct {
	Columns []PointColumn // nil: *
	View    string
	Keys    []PointKey
	Empty   bool // LIMIT 0
}

// PointColumn is a column and what the answer calls it.
type PointColumn struct{ Name, As string }

// PointKey is a column and the value that it must have.
type PointKey struct {
	Name  string
	Kind  PointKind
	Value string // digits with an optional -, the string's contents, or the parameter's name
}

// PointKind says what stands for a value.
type PointKind uint8

// The kinds. The name of a parameter by place is its number, from 1.
const (
	PointInteger PointKind = iota
	PointString
	PointParam
)

// PointQuery reads a statement of exactly that form. Whatever is not of it for
// certain, comments and all but the simplest spellings of a value included, is
// not: false says no more than that the statement must be read by DuckDB.
// keywords are DuckDB's; unreserved ones, for which they say true, may be names
// of columns and views.
func PointQuery(sql string, keywords map[string]bool) (*Point, bool) {
	if len(sql) > 4096 {
		return nil, false
	}
	r := pointReader{sql: sql, keywords: keywords}
	p := r.query()
	return p, !r.wrong
}

// A pointReader reads one token ahead. wrong is for good.
type pointReader struct {
	sql      string
	keywords map[string]bool
	i        int
	tok      token
	apart    bool // white space stands before tok
	wrong    bool
	places   int  // parameters ? so far
	named    bool // $name or $1 was seen
}

func (r *pointReader) query() *Point {
	r.next()
	if !r.word("SELECT") {
		return r.fail()
	}
	p := &Point{}
	if r.mark("*") {
		if !r.apart {
			return r.fail()
		}
	} else {
		p.Columns = r.columns()
	}
	if !r.word("FROM") {
		return r.fail()
	}
	p.View = r.name()
	if r.word("AS") || !r.tok.is("WHERE") {
		r.alias()
	}
	if !r.word("WHERE") {
		return r.fail()
	}
	for more := true; more; more = r.word("AND") {
		p.Keys = append(p.Keys, r.key())
	}
	if r.word("LIMIT") {
		n := r.digits()
		p.Empty = n == "0"
	}
	r.mark(";")
	if r.tok.kind != end {
		return r.fail()
	}
	return p
}

func (r *pointReader) fail() *Point {
	r.wrong = true
	return nil
}

func (r *pointReader) columns() (cs []PointColumn) {
	for more := true; more && !r.wrong; more = r.mark(",") {
		c := PointColumn{Name: r.name()}
		c.As = c.Name
		if r.word("AS") || !r.tok.is(",") && !r.tok.is("FROM") {
			c.As = r.alias()
		}
		cs = append(cs, c)
	}
	return cs
}

func (r *pointReader) key() PointKey {
	k := PointKey{Name: r.name()}
	if !r.mark("=") {
		r.wrong = true
	}
	switch t := r.tok; {
	case t.kind == text:
		k.Kind, k.Value = PointString, t.value
		r.next()
	case r.apart && t.is("?"):
		r.places++
		k.Kind, k.Value = PointParam, strconv.Itoa(r.places)
		r.next()
	case r.apart && t.is("$"):
		r.named = true
		k.Kind = PointParam
		r.next()
		if r.apart || r.tok.kind != word && r.tok.kind != number || strings.ToLower(r.tok.value) != r.tok.value {
			r.wrong = true
		}
		k.Value = r.tok.value
		r.next()
	case r.apart && t.is("-"):
		r.next()
		if r.apart {
			r.wrong = true
		}
		k.Value = "-" + r.digits()
	default:
		k.Value = r.digits()
	}
	if r.places > 0 && r.named {
		r.wrong = true
	}
	return k
}

// digits reads a number that has nothing but at most 18 digits.
func (r *pointReader) digits() string {
	s := r.tok.value
	if r.tok.kind != number || len(s) > 18 || len(s) > 1 && s[0] == '0' || strings.Trim(s, "0123456789") != "" {
		r.wrong = true
	}
	r.next()
	return s
}

// name reads the name of a column or a view.
func (r *pointReader) name() string {
	t := r.tok
	unreserved, keyword := r.keywords[strings.ToLower(t.value)]
	if t.kind != quoted && (t.kind != word || keyword && !unreserved) {
		r.wrong = true
	}
	r.next()
	return t.value
}

// alias reads a name that is no keyword at all.
func (r *pointReader) alias() string {
	t := r.tok
	if _, keyword := r.keywords[strings.ToLower(t.value)]; t.kind != quoted && (t.kind != word || keyword) {
		r.wrong = true
	}
	r.next()
	return t.value
}

func (r *pointReader) word(s string) bool {
	if r.tok.kind != word || !strings.EqualFold(r.tok.value, s) {
		return false
	}
	r.next()
	return true
}

func (r *pointReader) mark(s string) bool {
	if r.tok.kind != mark || r.tok.value != s {
		return false
	}
	r.next()
	return true
}

// next moves to the next token. DuckDB takes some marks that stand together for
// one; those are refused.
func (r *pointReader) next() {
	start := r.i
	for r.i < len(r.sql) && strings.IndexByte(" \t\r\n", r.sql[r.i]) >= 0 {
		r.i++
	}
	r.apart = r.i > start
	last := r.tok
	r.tok = token{start: r.i}
	if r.i == len(r.sql) {
		r.apart = true
		return
	}
	switch c := r.sql[r.i]; {
	case c < 0x80 && letter(c):
		r.tok.kind, r.tok.value = word, r.run(func(c byte) bool { return c < 0x80 && letter(c) || digit(c) })
	case digit(c):
		r.tok.kind, r.tok.value = number, r.run(digit)
		if r.i < len(r.sql) && strings.IndexByte(" \t\r\n;", r.sql[r.i]) < 0 {
			r.wrong = true // 1e3, 0x1F, 1_000, 1.5
		}
	case c == '\'' || c == '"':
		r.quoted(c)
		if last.kind == word && !r.apart { // E'…' and the like
			r.wrong = true
		}
	case strings.IndexByte("*,=;?$-", c) >= 0:
		r.i++
		r.tok.kind, r.tok.value = mark, string(c)
		if last.kind == mark && !r.apart {
			r.wrong = true
		}
	default:
		r.wrong = true
	}
}

func (r *pointReader) run(of func(byte) bool) string {
	start := r.i
	for r.i < len(r.sql) && of(r.sql[r.i]) {
		r.i++
	}
	return r.sql[start:r.i]
}

// quoted reads a string or a quoted name without a NUL.
func (r *pointReader) quoted(q byte) {
	s := scanner{script: r.sql, i: r.i}
	value, err := s.quotedBy(q, "")
	if err != nil || strings.IndexByte(value, 0) >= 0 || q == '"' && (value == "" || len(value) > 63) {
		r.wrong = true
		r.i = len(r.sql)
		return
	}
	r.i = s.i
	r.tok.kind, r.tok.value = text, value
	if q == '"' {
		r.tok.kind = quoted
	}
}
