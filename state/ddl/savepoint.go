package ddl

import "fmt"

func (p *parser) createSavepoint(start int) (Statement, error) {
	const form = "CREATE SAVEPOINT [IF NOT EXISTS] 'name'"
	s := &CreateSavepoint{}
	err := p.advance()
	if err != nil {
		return nil, err
	}
	if s.IfNotExists, err = p.ifNotExists(); err != nil {
		return nil, err
	}
	if s.Name, err = p.savepointName(form); err != nil {
		return nil, err
	}
	s.Span, err = p.finish(start, form)
	return s, err
}

func (p *parser) dropSavepoint(start int) (Statement, error) {
	const form = "DROP SAVEPOINT [IF EXISTS] 'name'"
	s := &DropSavepoint{}
	err := p.advance()
	if err != nil {
		return nil, err
	}
	if s.IfExists, err = p.accept("IF", "EXISTS"); err != nil {
		return nil, err
	}
	if s.Name, err = p.savepointName(form); err != nil {
		return nil, err
	}
	s.Span, err = p.finish(start, form)
	return s, err
}

// savepointName reads a string. What a name may be is the checkpoint's to say.
func (p *parser) savepointName(form string) (Name, error) {
	t := p.tok
	switch {
	case t.kind == text && p.script[t.start]|0x20 == 'e':
		return Name{}, p.errorAt(t.start, "a savepoint's name can't be written with escapes", "use a plain string in single quotes")
	case t.kind == text:
	case t.kind == word || t.kind == quoted:
		return Name{}, p.errorAt(t.start, "a savepoint's name is a string", fmt.Sprintf("write '%s'", t.value))
	default:
		return Name{}, p.unexpected("expected a savepoint's name", "the form is "+form)
	}
	return Name{Text: t.value, Offset: t.start}, p.advance()
}
