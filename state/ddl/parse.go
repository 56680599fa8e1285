package ddl

import (
	"fmt"
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

func (p *parser) create(start int) (Statement, error) {
	if err := p.foreign(); err != nil {
		return nil, err
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	replace, err := p.accept("OR", "REPLACE")
	if err != nil {
		return nil, err
	}
	switch {
	case p.tok.is("SOURCE"):
		return p.createSource(start, replace)
	case p.ahead("MATERIALIZED", "VIEW"):
		if replace {
			return nil, p.errorAt(start, "CREATE OR REPLACE MATERIALIZED VIEW is not supported: it would throw the state away",
				"use DROP MATERIALIZED VIEW, then CREATE MATERIALIZED VIEW")
		}
		return p.createMaterialized(start)
	case p.tok.is("VIEW"):
		return p.createView(start, replace)
	case p.ahead("TEMP"), p.ahead("TEMPORARY"), p.ahead("RECURSIVE"):
		return nil, p.errorAt(p.tok.start, "CREATE "+strings.ToUpper(p.tok.value)+" is not supported: there are no sessions",
			"use CREATE VIEW name AS SELECT ...")
	case p.ahead("SAVEPOINT"):
		return nil, p.errorAt(p.tok.start, "CREATE SAVEPOINT is not supported yet", "use CHECKPOINT")
	}
	return nil, p.unexpected("expected SOURCE, MATERIALIZED VIEW or VIEW after CREATE",
		"tables come from Kafka: use CREATE SOURCE name (columns) WITH (connector = 'kafka', topic = '...')")
}

func (p *parser) ifNotExists() (bool, error) { return p.accept("IF", "NOT", "EXISTS") }

func (p *parser) createMaterialized(start int) (Statement, error) {
	v, err := p.materialized(start)
	if err != nil {
		return nil, err
	}
	return v, nil
}

const materializedForm = "CREATE MATERIALIZED VIEW name AS SELECT ... FROM source GROUP BY ..."

func (p *parser) materialized(start int) (*CreateMaterializedView, error) {
	if _, err := p.accept("MATERIALIZED", "VIEW"); err != nil {
		return nil, err
	}
	v := &CreateMaterializedView{}
	var err error
	if v.IfNotExists, err = p.ifNotExists(); err != nil {
		return nil, err
	}
	if v.Name, err = p.name(materializedForm); err != nil {
		return nil, err
	}
	if p.tok.is("WITH") {
		if err := p.viewOptions(); err != nil {
			return nil, err
		}
	}
	if v.Select, err = p.selectAfterAs(materializedForm); err != nil {
		return nil, err
	}
	v.Span = p.spanFrom(start)
	return v, nil
}

func (p *parser) createView(start int, replace bool) (Statement, error) {
	const form = "CREATE VIEW name AS SELECT ..."
	v := &CreateView{OrReplace: replace}
	err := p.advance()
	if err != nil {
		return nil, err
	}
	if v.IfNotExists, err = p.ifNotExists(); err != nil {
		return nil, err
	}
	if replace && v.IfNotExists {
		return nil, p.errorAt(start, "OR REPLACE and IF NOT EXISTS exclude each other", "keep one of them")
	}
	if v.Name, err = p.name(form); err != nil {
		return nil, err
	}
	if v.Select, err = p.selectAfterAs(form); err != nil {
		return nil, err
	}
	v.Span = p.spanFrom(start)
	return v, nil
}

// selectAfterAs reads AS and the rest of the statement.
func (p *parser) selectAfterAs(form string) (Span, error) {
	if p.tok.is("(") {
		return Span{}, p.errorAt(p.tok.start, "a list of column names is not supported here", "name columns in the SELECT: expr AS name")
	}
	if err := p.expect("AS", "the form is "+form); err != nil {
		return Span{}, err
	}
	if p.atEnd() {
		return Span{}, p.unexpected("expected a SELECT", "the form is "+form)
	}
	start := p.tok.start
	for !p.atEnd() {
		if err := p.foreignClause(); err != nil {
			return Span{}, err
		}
		if err := p.advance(); err != nil {
			return Span{}, err
		}
	}
	return p.spanFrom(start), nil
}

func (p *parser) drop(start int) (Statement, error) {
	const form = "DROP SOURCE | VIEW | MATERIALIZED VIEW [IF EXISTS] name"
	d := &Drop{}
	err := p.advance()
	if err != nil {
		return nil, err
	}
	for _, k := range []Kind{MaterializedView, View, Source} {
		ok, err := p.accept(strings.Fields(string(k))...)
		if err != nil {
			return nil, err
		}
		if ok {
			d.Kind = k
			break
		}
	}
	if d.Kind == "" {
		return nil, p.unexpected("expected SOURCE, VIEW or MATERIALIZED VIEW after DROP", "the form is "+form)
	}
	if d.IfExists, err = p.accept("IF", "EXISTS"); err != nil {
		return nil, err
	}
	if d.Name, err = p.name(form); err != nil {
		return nil, err
	}
	if p.tok.is("CASCADE") {
		return nil, p.errorAt(p.tok.start, "DROP ... CASCADE is not supported", "drop the views that use it first; the error without CASCADE names them")
	}
	if _, err := p.accept("RESTRICT"); err != nil { // what DROP does anyway
		return nil, err
	}
	d.Span, err = p.finish(start, form)
	return d, err
}

func (p *parser) show(start int) (Statement, error) {
	at := *p
	if err := p.advance(); err != nil {
		return nil, err
	}
	what := []string{"SOURCES", "VIEWS", "CHECKPOINTS"}
	for _, w := range what {
		if p.ahead(w) {
			if err := p.advance(); err != nil {
				return nil, err
			}
			s, err := p.finish(start, "SHOW "+w)
			return &Show{Span: s, What: w}, err
		}
	}
	if p.ahead("SAVEPOINTS") {
		return nil, p.errorAt(p.tok.start, "SHOW SAVEPOINTS is not supported yet", "use SHOW CHECKPOINTS")
	}
	if p.ahead("MATERIALIZED", "VIEWS") {
		return nil, p.errorAt(p.tok.start, "SHOW MATERIALIZED VIEWS is not a statement", "use SHOW VIEWS")
	}
	if p.ahead("STREAMS") || p.ahead("TOPICS") || p.ahead("QUERIES") {
		return nil, p.errorAt(p.tok.start, "SHOW "+strings.ToUpper(p.tok.value)+" is not a statement of Weir", "use SHOW SOURCES or SHOW VIEWS")
	}
	*p = at
	s, err := p.rest(start)
	return &Query{s}, err
}

func (p *parser) explain(start int) (Statement, error) {
	const form = "EXPLAIN CREATE MATERIALIZED VIEW name AS SELECT ..."
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.tok.is("ANALYZE") {
		return nil, p.errorAt(p.tok.start, "EXPLAIN ANALYZE of a CREATE is not supported: EXPLAIN creates nothing", "the form is "+form)
	}
	created := p.tok.start
	if err := p.advance(); err != nil {
		return nil, err
	}
	if !p.ahead("MATERIALIZED", "VIEW") {
		return nil, p.unexpected("expected MATERIALIZED VIEW after EXPLAIN CREATE", "the form is "+form)
	}
	v, err := p.materialized(created)
	if err != nil {
		return nil, err
	}
	return &Explain{Span: p.spanFrom(start), View: *v}, nil
}

func (p *parser) verify(start int) (Statement, error) {
	const form = "VERIFY VIEW name"
	v := &Verify{}
	err := p.advance()
	if err != nil {
		return nil, err
	}
	if _, err := p.accept("MATERIALIZED"); err != nil {
		return nil, err
	}
	if err := p.expect("VIEW", "the form is "+form); err != nil {
		return nil, err
	}
	if v.Name, err = p.name(form); err != nil {
		return nil, err
	}
	v.Span, err = p.finish(start, form)
	return v, err
}

func (p *parser) checkpoint(start int) (Statement, error) {
	if p.tok.is("FORCE") {
		return nil, p.errorAt(start, "FORCE CHECKPOINT is DuckDB's and has nothing to force here", "use CHECKPOINT")
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	s, err := p.finish(start, "CHECKPOINT")
	return &Checkpoint{s}, err
}

const maxName = 200

// name reads the name of a source or a view.
func (p *parser) name(form string) (Name, error) {
	t := p.tok
	n := Name{Text: t.value, Offset: t.start}
	switch {
	case t.kind == word && reserved(t.value):
		return n, p.errorAt(t.start, fmt.Sprintf("%s is a reserved word of SQL, not a name", strings.ToUpper(t.value)),
			fmt.Sprintf("quote it: %q, or choose another", strings.ToLower(t.value)))
	case t.kind != word && t.kind != quoted:
		return n, p.unexpected("expected a name", "the form is "+form)
	case t.value == "":
		return n, p.errorAt(t.start, "a name can't be empty", "the form is "+form)
	case strings.HasPrefix(t.value, "__"):
		return n, p.errorAt(t.start, "names that start with __ are Weir's own", "choose another name, for example "+nameOr(strings.TrimLeft(t.value, "_"), "orders"))
	case len(t.value) > maxName:
		return n, p.errorAt(t.start, fmt.Sprintf("a name of %d bytes is too long", len(t.value)), fmt.Sprintf("use at most %d", maxName))
	case strings.ContainsFunc(t.value, func(r rune) bool { return r < ' ' || r == 0x7f || r == '/' || r == '\\' || r == '\ufffd' }) || t.value[0] == '.':
		return n, p.errorAt(t.start, "a name can't hold / \\ or control characters, nor start with a dot: it names files too", "use letters, digits and _")
	}
	if err := p.advance(); err != nil {
		return n, err
	}
	if p.tok.is(".") {
		return n, p.errorAt(p.tok.start, "there are no schemas: a name has one part", "use "+nameOr(n.Text, "orders")+" alone")
	}
	return n, nil
}

func nameOr(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// reservedWords are DuckDB's: they need quotes to be names.
const reservedWords = " all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create " +
	"default deferrable desc describe distinct do else end except false fetch for foreign from group having in initially " +
	"intersect into lambda lateral leading limit not null offset on only or order pivot pivot_longer pivot_wider placing " +
	"primary qualify references returning select show some summarize symmetric table then to trailing true union unique " +
	"unpivot using variadic when where window with "

func reserved(w string) bool {
	return strings.Contains(reservedWords, " "+strings.ToLower(w)+" ")
}
