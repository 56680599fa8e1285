package client

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// WriteTable prints a result for people: columns as wide as their values, numbers
// to the right, and a last line with the number of rows, the epoch, and the
// checkpoints that they were read from. Values
// come from a stream that anyone may write to, so characters that a terminal
// would obey are shown as escapes.
func WriteTable(w io.Writer, r *Result) error {
	out := bufio.NewWriter(w)
	if len(r.Columns) > 0 {
		writeGrid(out, r)
	}
	noun := "rows"
	if len(r.Rows) == 1 {
		noun = "row"
	}
	fmt.Fprintf(out, "(%d %s, epoch %d", len(r.Rows), noun, r.Epoch)
	for i, c := range r.Checkpoints {
		sep := ", from"
		if i > 0 {
			sep = " and"
		}
		if fmt.Fprintf(out, "%s checkpoint %d", sep, c.ID); c.Savepoint != "" {
			fmt.Fprintf(out, " '%s'", printable(c.Savepoint))
		}
	}
	out.WriteString(")\n")
	for _, v := range r.Backfilling {
		fmt.Fprintf(out, "view %s is not whole yet: it still reads old records\n", printable(v))
	}
	if r.Undecoded > 0 {
		fmt.Fprintln(out, NotDecoded(r.Undecoded))
	}
	for _, why := range NotWhole(r.Truncated, r.RowsCut, r.Partial) {
		fmt.Fprintln(out, why)
	}
	return out.Flush()
}

// NotWhole says why an answer is truncated; nothing when it is not.
func NotWhole(truncated, cut bool, partial []string) (why []string) {
	for _, s := range partial {
		why = append(why, "only the newest 1,000 records of source "+printable(s)+" were read: the answer is one over these")
	}
	if cut || truncated && len(partial) == 0 {
		why = append(why, "the answer was cut at the limit on rows or bytes: there is more")
	}
	return why
}

// NotDecoded says that n of the newest records of a source are not shown.
func NotDecoded(n int64) string {
	if n == 1 {
		return "1 of the newest records could not be decoded and is not shown"
	}
	return fmt.Sprintf("%d of the newest records could not be decoded and are not shown", n)
}

func writeGrid(out *bufio.Writer, r *Result) {
	widths := make([]int, len(r.Columns))
	head := make([]string, len(r.Columns))
	right := make([]bool, len(r.Columns))
	for i, c := range r.Columns {
		head[i] = printable(c.Name)
		widths[i] = runewidth.StringWidth(head[i])
		right[i] = numeric(c.Type)
	}
	cells := make([][]string, len(r.Rows))
	for n, row := range r.Rows {
		cells[n] = make([]string, len(r.Columns))
		for i := range min(len(row), len(r.Columns)) {
			cells[n][i] = Text(row[i])
			widths[i] = max(widths[i], runewidth.StringWidth(cells[n][i]))
		}
	}
	line := func(row []string) {
		for i, cell := range row {
			if i > 0 {
				out.WriteString(" |")
			}
			pad := strings.Repeat(" ", widths[i]-runewidth.StringWidth(cell))
			switch {
			case right[i]:
				out.WriteString(" " + pad + cell)
			case i == len(row)-1:
				out.WriteString(" " + cell)
			default:
				out.WriteString(" " + cell + pad)
			}
		}
		out.WriteByte('\n')
	}
	line(head)
	for i, width := range widths {
		if i > 0 {
			out.WriteByte('+')
		}
		out.WriteString(strings.Repeat("-", width+2))
	}
	out.WriteByte('\n')
	for _, row := range cells {
		line(row)
	}
}

// Text is a value as people read it: a string without its quotes, the rest as
// JSON. It holds no character that a terminal would obey.
func Text(v json.RawMessage) string {
	if len(v) > 0 && v[0] == '"' {
		var s string
		if json.Unmarshal(v, &s) == nil {
			return printable(s)
		}
	}
	if string(v) == "null" {
		return "NULL"
	}
	return printable(string(v))
}

// printable shows control and format characters, which could move the cursor or
// turn text around, as escapes.
func printable(s string) string {
	plain := true
	for _, r := range s {
		plain = plain && unicode.IsPrint(r) && r != utf8.RuneError
	}
	if plain {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String()
}

func numeric(typ string) bool {
	name, _, _ := strings.Cut(typ, "(")
	switch name {
	case "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL":
		return !strings.HasSuffix(typ, "]")
	}
	return false
}

// Point shows where in the SQL an error is: the line, and a caret under the
// place. It is "" when the error has no place.
func (e *Error) Point(sql string) string {
	if e.Position < 0 || e.Position > len(sql) {
		return ""
	}
	start := strings.LastIndexByte(sql[:e.Position], '\n') + 1
	line, _, _ := strings.Cut(sql[start:], "\n")
	number := 1 + strings.Count(sql[:start], "\n")
	prefix := fmt.Sprintf("line %d: ", number)
	before := runewidth.StringWidth(printable(sql[start:e.Position]))
	return prefix + printable(strings.TrimSuffix(line, "\r")) + "\n" + strings.Repeat(" ", len(prefix)+before) + "^"
}
