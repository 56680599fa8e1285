package ddl

import (
	"slices"
	"strings"
)

// foreign refuses statements in the form of Flink or ksqlDB with Weir's form of
// the same. It is entered at a statement's first word and moves nothing.
func (p *parser) foreign() error {
	at := *p
	err := p.foreignStatement()
	*p = at
	return err
}

func (p *parser) foreignStatement() error {
	start := p.tok.start
	switch {
	case p.ahead("INSERT", "INTO"), p.ahead("INSERT", "OVERWRITE"):
		return p.errorAt(start, "INSERT is not supported: results live in views, not in sinks",
			"use CREATE MATERIALIZED VIEW name AS SELECT ..., and read it over SQL or HTTP")
	case p.ahead("PRINT"):
		return p.errorAt(start, "PRINT is ksqlDB's", "use SELECT * FROM source, which shows its newest records")
	case p.ahead("LIST", "TOPICS"), p.ahead("LIST", "STREAMS"), p.ahead("LIST", "TABLES"):
		return p.errorAt(start, "LIST is ksqlDB's", "use SHOW SOURCES or SHOW VIEWS")
	case p.ahead("TERMINATE"), p.ahead("PAUSE"), p.ahead("RESUME"):
		return p.errorAt(start, strings.ToUpper(p.tok.value)+" is ksqlDB's", "use DROP MATERIALIZED VIEW to end one")
	case p.ahead("DROP", "STREAM"), p.ahead("DROP", "TABLE"):
		return p.errorAt(start, "there are no streams or tables to drop", "use DROP SOURCE or DROP MATERIALIZED VIEW")
	case !p.tok.is("CREATE"):
		return nil
	}
	for _, skip := range []string{"CREATE", "OR", "REPLACE", "SOURCE", "TEMPORARY", "TEMP"} {
		if p.tok.is(skip) {
			if err := p.advance(); err != nil {
				return err
			}
		}
	}
	if !p.ahead("TABLE") && !p.ahead("STREAM") {
		return nil
	}
	return p.foreignTable(start)
}

// foreignTable is entered at TABLE or STREAM of a CREATE.
func (p *parser) foreignTable(start int) error {
	what := strings.ToUpper(p.tok.value)
	if err := p.advance(); err != nil {
		return err
	}
	if p.tok.kind != word && p.tok.kind != quoted {
		return nil // CREATE SOURCE table ...: the name's own error is better
	}
	if _, err := p.ifNotExists(); err != nil {
		return err
	}
	name := nameOr(p.tok.value, "orders")
	isSelect, topic := false, "..."
	for !p.atEnd() {
		if p.ahead("AS", "SELECT") {
			isSelect = true
		}
		if key := strings.Trim(strings.ToLower(p.script[p.tok.start:p.tok.end]), "'"); key == "topic" || key == "kafka_topic" {
			rest := *p
			if rest.advance() == nil && rest.tok.is("=") && rest.advance() == nil && rest.tok.kind == text {
				topic = rest.tok.value
			}
		}
		if err := p.advance(); err != nil {
			return err
		}
	}
	if isSelect {
		return p.errorAt(start, "CREATE "+what+" ... AS SELECT is not Weir's form",
			"use CREATE MATERIALIZED VIEW "+name+" AS SELECT ... FROM source GROUP BY ...")
	}
	return p.errorAt(start, "CREATE "+what+" is not Weir's form",
		"use CREATE SOURCE "+name+" (column TYPE, ...) WITH (connector = 'kafka', brokers = 'host:9092', topic = '"+topic+"', format = 'json')")
}

// byBucket is what stands for the windows of others.
const byBucket = "group by a bucket of time: SELECT time_bucket(INTERVAL '1 minute', placed_at) AS bucket, ... FROM orders GROUP BY bucket"

// foreignClause refuses, within a view's SELECT, clauses that DuckDB would
// report as bare syntax errors. It is entered at every token.
func (p *parser) foreignClause() error {
	t := p.tok
	if t.kind != word {
		return nil
	}
	switch {
	case p.ahead("EMIT", "CHANGES") || p.ahead("EMIT", "FINAL"):
		rest := *p
		if _, err := rest.accept("EMIT"); err != nil || rest.advance() != nil || !rest.atEnd() {
			return nil // a column called emit
		}
		return p.errorAt(t.start, "EMIT is ksqlDB's: a view is always current", "leave it out")
	case p.ahead("TUMBLE", "(", "TABLE"), p.ahead("HOP", "(", "TABLE"), p.ahead("SESSION", "(", "TABLE"), p.ahead("CUMULATE", "(", "TABLE"):
		return p.errorAt(t.start, strings.ToUpper(t.value)+"(TABLE ...) is Flink's", byBucket)
	case p.windowCall():
		return p.errorAt(t.start, strings.ToUpper(t.value)+"(column, INTERVAL ...) is Flink's", byBucket)
	case p.ahead("WINDOW", "TUMBLING"), p.ahead("WINDOW", "HOPPING"), p.ahead("WINDOW", "SESSION"):
		return p.errorAt(t.start, "WINDOW ... is ksqlDB's", byBucket)
	}
	return nil
}

// windowCall says whether a window function of Flink's older form stands here, as in
// TUMBLE(placed_at, INTERVAL '1' MINUTE). DuckDB has no such functions, but names and
// lists of columns may look much the same.
func (p *parser) windowCall() bool {
	name, part, _ := strings.Cut(strings.ToUpper(p.tok.value), "_")
	if !slices.Contains([]string{"TUMBLE", "HOP", "SESSION", "CUMULATE"}, name) || !slices.Contains([]string{"", "START", "END", "ROWTIME", "PROCTIME"}, part) {
		return false
	}
	at := *p
	if ok, err := at.accept(p.tok.value, "("); !ok || err != nil {
		return false
	}
	for !at.atEnd() && !at.tok.is(",") && !at.tok.is(")") && at.advance() == nil {
	}
	ok, err := at.accept(",", "INTERVAL")
	return ok && err == nil && at.tok.kind == text
}

// foreignColumn refuses, within a source's column list, what is not a column.
func (p *parser) foreignColumn() error {
	switch {
	case p.ahead("WATERMARK", "FOR"):
		return p.errorAt(p.tok.start, "WATERMARK FOR is Flink's; event time is not supported yet", "leave it out, and group by a bucket of the column")
	case p.ahead("PRIMARY", "KEY"), p.ahead("UNIQUE", "("), p.ahead("CONSTRAINT"), p.ahead("FOREIGN", "KEY"):
		return p.errorAt(p.tok.start, "a source has no keys: it is a log of records", "leave it out, and GROUP BY in the view")
	}
	return nil
}
