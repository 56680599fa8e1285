package ddl

import "strings"

type kind uint8

const (
	end    kind = iota
	word        // an identifier or keyword, unquoted
	quoted      // "an identifier"
	text        // 'a string', E'a string' or $$a string$$
	number
	mark // one character of anything else
)

// A token is script[start:end]; value is what it means: a word as written, the
// contents of a string or a quoted identifier.
type token struct {
	kind       kind
	start, end int
	value      string
}

// is says whether t is the given keyword or mark.
func (t token) is(s string) bool {
	return (t.kind == word || t.kind == mark) && strings.EqualFold(t.value, s)
}

// A scanner cuts a script into tokens as DuckDB's lexer does, as far as the
// ends of strings, quoted names and comments go.
type scanner struct {
	script string
	i      int
}

func (s *scanner) at(i int) byte {
	if i < len(s.script) {
		return s.script[i]
	}
	return 0
}

// space skips white space and comments; block comments nest.
func (s *scanner) space() error {
	for s.i < len(s.script) {
		switch c := s.script[s.i]; {
		case c == ' ' || c >= '\t' && c <= '\r':
			s.i++
		case c == '-' && s.at(s.i+1) == '-':
			for s.i < len(s.script) && s.script[s.i] != '\n' {
				s.i++
			}
		case c == '/' && s.at(s.i+1) == '*':
			if err := s.comment(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

func (s *scanner) comment() error {
	start, depth := s.i, 0
	for s.i < len(s.script) {
		switch {
		case s.script[s.i] == '/' && s.at(s.i+1) == '*':
			depth++
			s.i += 2
		case s.script[s.i] == '*' && s.at(s.i+1) == '/':
			depth--
			s.i += 2
		default:
			s.i++
		}
		if depth == 0 {
			return nil
		}
	}
	return newError(s.script, start, "comment without an end", "close it with */")
}

func letter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80 }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

// next reads one token. At the end of the script it gives end for ever.
func (s *scanner) next() (token, error) {
	if err := s.space(); err != nil {
		return token{}, err
	}
	t := token{start: s.i}
	var err error
	switch c := s.at(s.i); {
	case s.i >= len(s.script):
		t.kind = end
	case (c == 'e' || c == 'E') && s.at(s.i+1) == '\'':
		s.i++
		t.kind = text
		t.value, err = s.escaped(t.start)
	case letter(c):
		for letter(s.at(s.i)) || digit(s.at(s.i)) || s.at(s.i) == '$' {
			s.i++
		}
		t.kind, t.value = word, s.script[t.start:s.i]
	case digit(c) || c == '.' && digit(s.at(s.i+1)):
		s.number()
		t.kind, t.value = number, s.script[t.start:s.i]
	case c == '\'':
		t.kind = text
		t.value, err = s.quotedBy('\'', "string")
	case c == '"':
		t.kind = quoted
		t.value, err = s.quotedBy('"', "quoted name")
	case c == '$':
		t.kind = mark
		if tag := s.dollarTag(); tag != "" {
			t.kind = text
			t.value, err = s.dollar(tag)
		} else {
			s.i++
			t.value = "$"
		}
	default:
		s.i++
		t.kind, t.value = mark, s.script[t.start:s.i]
	}
	t.end = s.i
	return t, err
}

func (s *scanner) number() {
	for c := s.at(s.i); letter(c) || digit(c) || c == '.'; c = s.at(s.i) {
		s.i++
		if (c == 'e' || c == 'E') && (s.at(s.i) == '+' || s.at(s.i) == '-') && digit(s.at(s.i+1)) {
			s.i++
		}
	}
}

// quotedBy reads up to the closing quote; a doubled quote stands for one.
func (s *scanner) quotedBy(q byte, what string) (string, error) {
	start := s.i
	var b strings.Builder
	for s.i++; s.i < len(s.script); s.i++ {
		if s.script[s.i] == q {
			if s.at(s.i+1) != q {
				s.i++
				return b.String(), nil
			}
			s.i++
		}
		b.WriteByte(s.script[s.i])
	}
	return "", newError(s.script, start, what+" without an end", "close it with "+string(q))
}

// escaped reads E'...'. The value is only approximate, since Weir's own
// statements refuse such strings; the end is exact.
func (s *scanner) escaped(start int) (string, error) {
	for s.i++; s.i < len(s.script); s.i++ {
		switch s.script[s.i] {
		case '\\':
			s.i++
		case '\'':
			if s.at(s.i+1) != '\'' {
				s.i++
				return s.script[start:s.i], nil
			}
			s.i++
		}
	}
	s.i = len(s.script)
	return "", newError(s.script, start, "string without an end", "close it with '")
}

// dollarTag gives $tag$ when the script has one here. In $1 it has none.
func (s *scanner) dollarTag() string {
	j := s.i + 1
	if digit(s.at(j)) {
		return ""
	}
	for letter(s.at(j)) || digit(s.at(j)) {
		j++
	}
	if s.at(j) != '$' {
		return ""
	}
	return s.script[s.i : j+1]
}

func (s *scanner) dollar(tag string) (string, error) {
	start := s.i
	body := s.i + len(tag)
	n := strings.Index(s.script[body:], tag)
	if n < 0 {
		return "", newError(s.script, start, "string without an end", "close it with "+tag)
	}
	s.i = body + n + len(tag)
	return s.script[body : body+n], nil
}
