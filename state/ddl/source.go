package ddl

import (
	"errors"
	"fmt"
	"strings"

	"weir/state/sqltype"
)

const sourceForm = "CREATE SOURCE name (column TYPE, ...) WITH (connector = 'kafka', topic = '...', format = 'json')"

func (p *parser) createSource(start int, replace bool) (Statement, error) {
	s := &CreateSource{OrReplace: replace}
	err := p.advance()
	if err != nil {
		return nil, err
	}
	if s.IfNotExists, err = p.ifNotExists(); err != nil {
		return nil, err
	}
	if replace && s.IfNotExists {
		return nil, p.errorAt(start, "OR REPLACE and IF NOT EXISTS exclude each other", "keep one of them")
	}
	if s.Name, err = p.name(sourceForm); err != nil {
		return nil, err
	}
	if p.tok.is("WITH") {
		return nil, p.errorAt(p.tok.start, "a source without columns would infer them, which is not supported yet",
			"list them: CREATE SOURCE "+s.Name.Text+" (column TYPE, ...) WITH (...)")
	}
	if s.Columns, err = p.columns(); err != nil {
		return nil, err
	}
	if p.tok.is("AS") {
		return nil, p.errorAt(p.tok.start, "CREATE SOURCE ... AS SELECT is not supported", "use CREATE MATERIALIZED VIEW over the source")
	}
	if err := p.expect("WITH", "the form is "+sourceForm); err != nil {
		return nil, err
	}
	if s.Options, err = p.sourceOptions(); err != nil {
		return nil, err
	}
	s.Span, err = p.finish(start, sourceForm)
	return s, err
}

// columns reads (name TYPE, ...).
func (p *parser) columns() ([]sqltype.Field, error) {
	if err := p.expect("(", "the form is "+sourceForm); err != nil {
		return nil, err
	}
	taken := map[string]string{}
	for _, m := range MetadataColumns() {
		taken[m.Name] = ""
	}
	var cols []sqltype.Field
	for {
		c, err := p.column(taken)
		if err != nil {
			return nil, err
		}
		cols = append(cols, c)
		more, err := p.accept(",")
		if err != nil {
			return nil, err
		}
		if !more {
			return cols, p.expect(")", "columns are separated by commas: "+sourceForm)
		}
	}
}

// column reads one column. Taken maps names in lower case to how they were
// written, "" for those of Kafka's metadata.
func (p *parser) column(taken map[string]string) (sqltype.Field, error) {
	var c sqltype.Field
	if err := p.foreignColumn(); err != nil {
		return c, err
	}
	t := p.tok
	switch {
	case t.kind != word && t.kind != quoted || t.value == "":
		return c, p.unexpected("expected a column's name", "the form is "+sourceForm)
	case t.kind == word && reserved(t.value):
		return c, p.errorAt(t.start, strings.ToUpper(t.value)+" is a reserved word of SQL, not a column's name", fmt.Sprintf("quote it: %q", t.value))
	case strings.HasPrefix(t.value, "__"):
		return c, p.errorAt(t.start, "columns that start with __ are Weir's own", "a JSON field of that name can't be read yet; ask the producer for another")
	}
	c.Name = t.value
	key := strings.ToLower(c.Name)
	if was, ok := taken[key]; ok && was == "" {
		return c, p.errorAt(t.start, "every Kafka source has a column "+key+" of its own", "use that one without declaring it, or choose another name")
	} else if ok {
		return c, p.errorAt(t.start, fmt.Sprintf("column %s is there twice: %s and %s are one name in SQL", key, was, c.Name), "keep one")
	}
	taken[key] = c.Name
	if err := p.advance(); err != nil {
		return c, err
	}
	var err error
	c.Type, err = p.columnType(c.Name)
	return c, err
}

// columnType reads the tokens of a type, up to the comma or bracket after it.
func (p *parser) columnType(column string) (sqltype.Type, error) {
	start, depth := p.tok.start, 0
	var words []string
	for !p.atEnd() && (depth > 0 || !p.tok.is(",") && !p.tok.is(")")) {
		if depth == 0 && len(words) > 0 {
			if err := p.constraint(column); err != nil {
				return sqltype.Type{}, err
			}
		}
		switch {
		case p.tok.is("("):
			depth++
		case p.tok.is(")"):
			depth--
		}
		words = append(words, p.script[p.tok.start:p.tok.end])
		if err := p.advance(); err != nil {
			return sqltype.Type{}, err
		}
	}
	if len(words) == 0 {
		return sqltype.Type{}, p.unexpected("expected the type of column "+column, "for example "+column+" VARCHAR")
	}
	t, err := sqltype.Parse(strings.Join(words, " "))
	if u, ok := errors.AsType[*sqltype.UnsupportedError](err); ok {
		hint := u.Hint
		reason := "column " + column + ": type " + u.Type + " is not supported"
		if hint == "" {
			reason = "column " + column + ": unknown type " + u.Type
			hint = "types are DuckDB's, for example BIGINT, DOUBLE, DECIMAL(12,2), VARCHAR, BOOLEAN, DATE, TIMESTAMP, STRUCT(a BIGINT), VARCHAR[]"
			if n := Nearest(u.Type, typeWords()); n != "" {
				hint = "did you mean " + n + "?"
			}
		}
		return t, p.errorAt(start, reason, hint)
	}
	if err != nil {
		return t, p.errorAt(start, "column "+column+": "+err.Error(), "")
	}
	return t, nil
}

func typeWords() []string {
	return []string{
		"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
		"FLOAT", "DOUBLE", "DECIMAL", "VARCHAR", "JSON", "BLOB", "UUID", "DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "INTERVAL",
	}
}

// constraint refuses what SQL allows after a column's type.
func (p *parser) constraint(column string) error {
	switch {
	case p.ahead("NOT", "NULL"):
		return p.errorAt(p.tok.start, "NOT NULL is not supported: records decide what is NULL", "leave it out, and write WHERE "+column+" IS NOT NULL in the view")
	case p.ahead("NULL"):
		return p.errorAt(p.tok.start, "NULL after a type says nothing: every column may be NULL", "leave it out")
	case p.ahead("PRIMARY"), p.ahead("KEY"), p.ahead("UNIQUE"):
		return p.errorAt(p.tok.start, "a source has no keys: it is a log of records", "leave it out, and GROUP BY "+column+" in the view")
	case p.ahead("DEFAULT"):
		return p.errorAt(p.tok.start, "DEFAULT is not supported: a field that is absent is NULL", "write coalesce("+column+", ...) in the view")
	case p.ahead("AS"), p.ahead("GENERATED"), p.ahead("METADATA"):
		return p.errorAt(p.tok.start, "computed columns are not supported in a source", "compute it in the view's SELECT; Kafka's metadata are the columns kafka_key, kafka_timestamp, ...")
	case p.ahead("CHECK"), p.ahead("REFERENCES"), p.ahead("COLLATE"), p.ahead("CONSTRAINT"), p.ahead("COMMENT"), p.ahead("HEADER"):
		return p.errorAt(p.tok.start, strings.ToUpper(p.tok.value)+" is not supported in a source", "leave it out")
	}
	return nil
}
