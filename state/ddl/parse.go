package ddl

import (
	"strings"
	"unicode/utf8"
)

// Parse reads a script: statements that end with `;`, the last one perhaps
// without. The first error ends it and is an [*Error]. Spans point into script.
func Parse(script string) ([]Statement, error) {
	if i := invalidUTF8(script); i >= 0 {
		return nil, newError(script, i, "the script is not valid UTF-8 here", "save it as UTF-8")
	}
	p := &parser{scanner: scanner{script: script}}
	var all []Statement
	for {
		if err := p.advance(); err != nil {
			return nil, err
		}
		if p.tok.kind == end {
			return all, nil
		}
		if p.tok.is(";") {
			continue
		}
		s, err := p.statement()
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
}

func invalidUTF8(s string) int {
	if utf8.ValidString(s) {
		return -1
	}
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd") {
			return i
		}
	}
	return -1
}

// ParseOne reads exactly one statement.
func ParseOne(script string) (Statement, error) {
	all, err := Parse(script)
	if err != nil {
		return nil, err
	}
	switch len(all) {
	case 0:
		return nil, newError(script, 0, "there is no statement here", "write one, for example SHOW VIEWS")
	case 1:
		return all[0], nil
	}
	return nil, newError(script, all[1].span().Start, "more than one statement", "send one at a time")
}

// A parser looks at one token. Statement methods are entered with the
// statement's first word as tok and leave tok at `;` or the end.
type parser struct {
	scanner
	tok  token
	prev int // end of the token before tok
}

func (p *parser) advance() (err error) {
	p.prev = p.tok.end
	p.tok, err = p.next()
	return err
}

// accept moves past the given words when they stand here, all of them.
func (p *parser) accept(words ...string) (bool, error) {
	at := *p
	for _, w := range words {
		if !p.tok.is(w) {
			*p = at
			return false, nil
		}
		if err := p.advance(); err != nil {
			return false, err
		}
	}
	return true, nil
}

// ahead says whether the words stand here.
func (p *parser) ahead(words ...string) bool {
	at := *p
	ok, err := p.accept(words...)
	*p = at
	return ok && err == nil
}

func (p *parser) expect(w, nearest string) error {
	ok, err := p.accept(w)
	if err == nil && !ok {
		err = p.unexpected("expected "+w, nearest)
	}
	return err
}

func (p *parser) unexpected(what, nearest string) error {
	got := "the statement ends"
	if !p.atEnd() {
		got = "found " + show(p.script, p.tok)
	}
	return p.errorAt(p.tok.start, what+", "+got, nearest)
}

func (p *parser) errorAt(offset int, reason, nearest string) error {
	return newError(p.script, offset, reason, nearest)
}

func (p *parser) atEnd() bool { return p.tok.kind == end || p.tok.is(";") }

// rest moves to the end of the statement and gives the span from start to there.
func (p *parser) rest(start int) (Span, error) {
	for !p.atEnd() {
		if err := p.advance(); err != nil {
			return Span{}, err
		}
	}
	return p.spanFrom(start), nil
}

func (p *parser) spanFrom(start int) Span {
	return Span{Script: p.script, Start: start, End: max(start, p.prev)}
}

// finish wants the statement to end here.
func (p *parser) finish(start int, form string) (Span, error) {
	if !p.atEnd() {
		return Span{}, p.unexpected("expected the end of the statement", "the form is "+form)
	}
	return p.spanFrom(start), nil
}

func (p *parser) statement() (Statement, error) {
	start := p.tok.start
	switch {
	case p.tok.is("CREATE"):
		return p.create(start)
	case p.tok.is("DROP"):
		if err := p.foreign(); err != nil {
			return nil, err
		}
		return p.drop(start)
	case p.tok.is("SHOW"):
		return p.show(start)
	case p.ahead("EXPLAIN", "CREATE") || p.ahead("EXPLAIN", "ANALYZE", "CREATE"):
		return p.explain(start)
	case p.ahead("VERIFY"):
		return p.verify(start)
	case p.ahead("CHECKPOINT"), p.ahead("FORCE", "CHECKPOINT"):
		return p.checkpoint(start)
	}
	if err := p.foreign(); err != nil {
		return nil, err
	}
	s, err := p.rest(start)
	return &Query{s}, err
}
