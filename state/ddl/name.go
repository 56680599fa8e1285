package ddl

import (
	"fmt"
	"strings"
)

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
