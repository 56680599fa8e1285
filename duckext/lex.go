package duckext

import "strings"

// A token is a piece of SQL text. It serves to find the ends of things that
// DuckDB has already parsed and to name what it refuses; it decides nothing.
type token struct {
	start, end int
	kind       byte // 'w' word or number, 'q' quoted name, 's' string, 'p' one other character, 0 at the end
}

func (t token) text(sql string) string { return sql[t.start:t.end] }

// lex reads the token at or after i, past white space and comments.
func lex(sql string, i int) token {
	i = skipSpace(sql, i)
	if i >= len(sql) {
		return token{start: len(sql), end: len(sql)}
	}
	switch c := sql[i]; {
	case c == '"':
		return token{i, quoted(sql, i, false), 'q'}
	case c == '\'':
		return token{i, quoted(sql, i, false), 's'}
	case c == '$':
		if end := dollarQuoted(sql, i); end > 0 {
			return token{i, end, 's'}
		}
	case isWord(c):
		j := i
		for j < len(sql) && isWord(sql[j]) {
			j++
		}
		if j == i+1 && c|0x20 == 'e' && j < len(sql) && sql[j] == '\'' {
			return token{i, quoted(sql, j, true), 's'}
		}
		return token{i, j, 'w'}
	}
	return token{i, i + 1, 'p'}
}

func isWord(c byte) bool {
	return c == '_' || c >= 0x80 || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func skipSpace(sql string, i int) int {
	for i < len(sql) {
		switch {
		case strings.IndexByte(" \t\r\n\f\v", sql[i]) >= 0:
			i++
		case strings.HasPrefix(sql[i:], "--"):
			n := strings.IndexByte(sql[i:], '\n')
			if n < 0 {
				return len(sql)
			}
			i += n + 1
		case strings.HasPrefix(sql[i:], "/*"):
			depth := 1
			for i += 2; i < len(sql) && depth > 0; {
				switch {
				case strings.HasPrefix(sql[i:], "/*"):
					depth, i = depth+1, i+2
				case strings.HasPrefix(sql[i:], "*/"):
					depth, i = depth-1, i+2
				default:
					i++
				}
			}
		default:
			return i
		}
	}
	return i
}

// quoted finds the end of what the quote at i opens.
func quoted(sql string, i int, escapes bool) int {
	q := sql[i]
	for i++; i < len(sql); i++ {
		switch {
		case escapes && sql[i] == '\\':
			i++
		case sql[i] == q && i+1 < len(sql) && sql[i+1] == q:
			i++
		case sql[i] == q:
			return i + 1
		}
	}
	return len(sql)
}

// dollarQuoted finds the end of $tag$text$tag$, or returns 0.
func dollarQuoted(sql string, i int) int {
	j := i + 1
	for j < len(sql) && isWord(sql[j]) {
		j++
	}
	if j >= len(sql) || sql[j] != '$' || j > i+1 && sql[i+1] <= '9' {
		return 0
	}
	tag := sql[i : j+1]
	if n := strings.Index(sql[j+1:], tag); n >= 0 {
		return j + 1 + n + len(tag)
	}
	return len(sql)
}

// parens finds the end of the parenthesis that opens at t, or returns -1.
func parens(sql string, t token) int {
	depth := 0
	for ; t.kind != 0; t = lex(sql, t.end) {
		if t.kind != 'p' {
			continue
		}
		switch sql[t.start] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return t.end
			}
		}
	}
	return -1
}

// trimStatement drops what follows a statement's last token, semicolons included.
func trimStatement(sql string) string {
	end := 0
	for t := lex(sql, 0); t.kind != 0; t = lex(sql, t.end) {
		if t.kind != 'p' || sql[t.start] != ';' {
			end = t.end
		}
	}
	return sql[:end]
}
