package duckext

import (
	"regexp"
	"strings"
)

// named is the name of a result's column in the user's words. DuckDB names a column
// without an alias by its expression, in which a reference that was replaced has its
// made-up name. A statement that has such names of its own keeps what DuckDB says.
func (s *statement) named(column string) string {
	const made = "__at_"
	if len(s.spans) == 0 || !strings.Contains(column, made) || strings.Contains(strings.ToLower(s.sql), made) {
		return column
	}
	// As DuckDB prints a table: its name, its alias and the names of its columns.
	printed := regexp.MustCompile(`\b__at_\d+( AS ("([^"]|"")*"|\w+)(\(("([^"]|"")*"|[^()"])*\))?)?`)
	return printed.ReplaceAllStringFunc(column, s.written)
}

// written is the user's text of a reference that DuckDB printed.
func (s *statement) written(printed string) string {
	plain := func(text string) string { return strings.ReplaceAll(text, `"`, "") }
	name, alias, _ := strings.Cut(printed, " ")
	if alias != "" {
		alias = " " + alias
	}
	out := printed
	for _, sp := range s.spans {
		text := s.sql[sp.start:sp.end]
		switch {
		case plain(sp.with) == plain(printed):
			return text
		case sp.with == quote(name): // its alias stands behind it
			out = text + alias
		}
	}
	return out
}
