package ddl

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// An Error says where a script is wrong, why, and what would work instead.
type Error struct {
	Offset  int    // in bytes from the start of the script
	Line    int    // from 1
	Column  int    // in characters, from 1
	Reason  string // what is wrong
	Nearest string // what would work; may be empty
}

func newError(script string, offset int, reason, nearest string) *Error {
	offset = min(max(offset, 0), len(script))
	line, col := Position(script, offset)
	return &Error{Offset: offset, Line: line, Column: col, Reason: reason, Nearest: nearest}
}

// Position tells line and column (in characters) of a byte of a script, both from 1.
func Position(script string, offset int) (line, column int) {
	before := script[:min(max(offset, 0), len(script))]
	start := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1
}

func (e *Error) Error() string {
	s := fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Reason)
	if e.Nearest != "" {
		s += "; " + e.Nearest
	}
	return s
}

// Caret shows the line of the script that e speaks of, with a caret below the
// place:
//
//	line 2, column 8: unknown option "bootstrap"; did you mean brokers?
//	  2 | WITH (bootstrap = 'localhost')
//	            ^
func (e *Error) Caret(script string) string {
	offset := min(e.Offset, len(script))
	start := strings.LastIndexByte(script[:offset], '\n') + 1
	end := len(script)
	if i := strings.IndexByte(script[offset:], '\n'); i >= 0 {
		end = offset + i
	}
	// A line of a generated script can be very long: show what is around the place.
	cut := ""
	const before, after = 100, 60
	if offset-start > before {
		start, cut = offset-before, "..."
		for !utf8.RuneStart(script[start]) {
			start++
		}
	}
	if end-offset > after {
		end = offset + after
		for end < len(script) && !utf8.RuneStart(script[end]) {
			end++
		}
	}
	head := fmt.Sprintf("  %d | %s", e.Line, cut)
	var b strings.Builder
	b.WriteString(e.Error() + "\n" + head + strings.TrimSuffix(script[start:end], "\r") + "\n")
	b.WriteString(strings.Repeat(" ", utf8.RuneCountInString(head)))
	for _, r := range script[start:offset] {
		if r == '\t' { // keeps its width, whatever that is
			b.WriteByte('\t')
		} else {
			b.WriteByte(' ')
		}
	}
	b.WriteByte('^')
	return b.String()
}

// Nearest picks the candidate that word is most likely a slip of, or "".
func Nearest(word string, candidates []string) string {
	best, bestDistance := "", len(word)/3+2
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance counts the edits (insert, delete, replace, swap of neighbours)
// between two words.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 1 << 20
	}
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := range len(a) {
		older, old, now := rows[0], rows[1], rows[2]
		now[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			now[j+1] = min(old[j]+cost, old[j+1]+1, now[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				now[j+1] = min(now[j+1], older[j-1]+1)
			}
		}
		rows[0], rows[1], rows[2] = old, now, older
	}
	return rows[1][len(b)]
}
