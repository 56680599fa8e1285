package ddl

import "strings"

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
		return p.createMaterialized(start, replace)
	case p.tok.is("VIEW"):
		return p.createView(start, replace)
	case p.ahead("TEMP"), p.ahead("TEMPORARY"), p.ahead("RECURSIVE"):
		return nil, p.errorAt(p.tok.start, "CREATE "+strings.ToUpper(p.tok.value)+" is not supported: there are no sessions",
			"use CREATE VIEW name AS SELECT ...")
	case p.ahead("SAVEPOINT"):
		if replace {
			return nil, p.errorAt(start, "CREATE OR REPLACE SAVEPOINT is not supported: it would throw the old one away", "use DROP SAVEPOINT, then CREATE SAVEPOINT")
		}
		return p.createSavepoint(start)
	}
	return nil, p.unexpected("expected SOURCE, MATERIALIZED VIEW, VIEW or SAVEPOINT after CREATE",
		"tables come from Kafka: use CREATE SOURCE name (columns) WITH (connector = 'kafka', topic = '...')")
}

func (p *parser) ifNotExists() (bool, error) { return p.accept("IF", "NOT", "EXISTS") }

func (p *parser) createMaterialized(start int, replace bool) (Statement, error) {
	v, err := p.materialized(start)
	if err != nil {
		return nil, err
	}
	if v.OrReplace = replace; replace && v.IfNotExists {
		return nil, p.errorAt(start, "OR REPLACE and IF NOT EXISTS exclude each other", "keep one of them")
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
		if v.Export, err = p.viewOptions(v.Name); err != nil {
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
	if p.ahead("SAVEPOINT") {
		return p.dropSavepoint(start)
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
		return nil, p.unexpected("expected SOURCE, VIEW, MATERIALIZED VIEW or SAVEPOINT after DROP", "the form is "+form)
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
	what := []string{"SOURCES", "VIEWS", "CHECKPOINTS", "SAVEPOINTS"}
	for _, w := range what {
		if p.ahead(w) {
			if err := p.advance(); err != nil {
				return nil, err
			}
			s, err := p.finish(start, "SHOW "+w)
			return &Show{Span: s, What: w}, err
		}
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
