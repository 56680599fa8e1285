package decode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// kind is what a scanned value is, as far as its conversion cares.
type kind uint8

const (
	kNone kind = iota
	kNull
	kTrue
	kFalse
	kInt     // -?digits: no point, no exponent
	kNumber  // any other number
	kString  // its bytes stand between the quotes as they are
	kEscaped // a string with at least one backslash
	kObject
	kArray
)

// maxDepth is the deepest nesting that the scanner can follow: one bit each.
const maxDepth = 64

// scanner checks RFC 8259 text and finds where values end. Positions are byte
// offsets into the text that each call is given; -1 is a refusal, explained in
// at and msg.
type scanner struct {
	depth int // levels allowed, at most maxDepth
	at    int
	msg   string
	other bool // the text is of another kind, which msg names; it may be JSON
	lone  bool // a \u escape of half a surrogate pair was seen
}

func (s *scanner) fail(at int, msg string) int {
	s.at, s.msg = at, msg
	return -1
}

// unexpected refuses the byte at i, or the end of the text.
func (s *scanner) unexpected(b []byte, i int, want string) int {
	if i >= len(b) {
		return s.fail(i, "the text ends, want "+want)
	}
	return s.fail(i, fmt.Sprintf("unexpected %q, want %s", b[i], want))
}

// noObject refuses what stands for a document at i and does not begin as one. What may
// be JSON of another kind is called by its name.
func (s *scanner) noObject(b []byte, i int) int {
	if i >= len(b) {
		return s.unexpected(b, i, "an object")
	}
	kind := "a number"
	switch c := b[i]; {
	case c == '[':
		kind = "an array"
	case c == '"':
		kind = "a string"
	case bytes.HasPrefix(b[i:], []byte("null")):
		kind = "null"
	case bytes.HasPrefix(b[i:], []byte("true")), bytes.HasPrefix(b[i:], []byte("false")):
		kind = "a boolean"
	case c != '-' && (c < '0' || c > '9'):
		return s.unexpected(b, i, "an object")
	}
	s.other = true
	return s.fail(i, "the value is "+kind+", want an object")
}

// space passes white space.
func space(b []byte, i int) int {
	if i < len(b) && b[i] > ' ' {
		return i
	}
	return moreSpace(b, i)
}

func moreSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// value scans the value that starts at i, where level containers are open.
func (s *scanner) value(b []byte, i, level int) (int, kind) {
	if i >= len(b) {
		return s.unexpected(b, i, "a value"), kNone
	}
	switch c := b[i]; c {
	case '"':
		return s.str(b, i)
	case '{':
		return s.nested(b, i, level), kObject
	case '[':
		return s.nested(b, i, level), kArray
	case 't':
		return s.literal(b, i, "true"), kTrue
	case 'f':
		return s.literal(b, i, "false"), kFalse
	case 'n':
		return s.literal(b, i, "null"), kNull
	default:
		if c != '-' && c-'0' > 9 {
			return s.unexpected(b, i, "a value"), kNone
		}
		end, k := number(b, i)
		if end < 0 {
			return s.fail(i, malformedNumber), kNone
		}
		return end, k
	}
}

const malformedNumber = "malformed number"

func (s *scanner) literal(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return s.fail(i, "malformed literal, want "+word)
	}
	return i + len(word)
}

// number scans the number at i, or answers -1.
func number(b []byte, i int) (int, kind) {
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i >= len(b) || b[i]-'0' > 9 {
		return -1, kNone
	}
	if b[i] == '0' {
		i++
	} else {
		i = digits(b, i)
	}
	k := kInt
	if i < len(b) && b[i] == '.' {
		end := digits(b, i+1)
		if end == i+1 {
			return -1, kNone
		}
		i, k = end, kNumber
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		end := digits(b, i)
		if end == i {
			return -1, kNone
		}
		i, k = end, kNumber
	}
	return i, k
}

// digits passes digits, eight at a time.
func digits(b []byte, i int) int {
	for i+8 <= len(b) && eightDigits(binary.LittleEndian.Uint64(b[i:])) {
		i += 8
	}
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

func eightDigits(w uint64) bool {
	return (w^ones*'0')&(ones*0xF0) == 0 && (w^ones*'0'+ones*6)&(ones*0xF0) == 0
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks the bytes of a word that a string scan has to look at: quotes,
// backslashes and control characters. The lowest mark is exact, higher ones may
// be false.
func special(w uint64) uint64 {
	q := w ^ ones*'"'
	e := w ^ ones*'\\'
	return ((q-ones)&^q | (e-ones)&^e | (w-ones*' ')&^w) & highs
}

// str scans the string whose opening quote is at i and answers the position
// behind its closing quote.
func (s *scanner) str(b []byte, i int) (int, kind) {
	var high uint64
	j := i + 1
	for j+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[j:])
		high |= w
		if m := special(w); m != 0 {
			j += bits.TrailingZeros64(m) / 8
			if b[j] == '"' && high&highs == 0 {
				return j + 1, kString
			}
			return s.closing(b, i, j, high)
		}
		j += 8
	}
	if len(b) < 8 {
		return s.escaped(b, i, j)
	}
	// The last word of the text, shifted so that it begins at j; the zeros that
	// fill it are special.
	w := binary.LittleEndian.Uint64(b[len(b)-8:]) >> (8 * (8 - uint(len(b)-j)) & 63)
	if j == len(b) {
		w = 0
	}
	return s.closing(b, i, j+bits.TrailingZeros64(special(w))/8, high|w)
}

// closing ends the string at i whose first special byte is at j.
func (s *scanner) closing(b []byte, i, j int, high uint64) (int, kind) {
	if j >= len(b) || b[j] != '"' {
		return s.escaped(b, i, j)
	}
	if high&highs != 0 && !utf8.Valid(b[i+1:j]) {
		return s.fail(i+1, "string is not valid UTF-8"), kNone
	}
	return j + 1, kString
}

// escaped goes on with a string byte by byte from j.
func (s *scanner) escaped(b []byte, i, j int) (int, kind) {
	k := kString
	for j < len(b) {
		switch c := b[j]; {
		case c == '"':
			if !utf8.Valid(b[i+1 : j]) {
				return s.fail(i+1, "string is not valid UTF-8"), kNone
			}
			return j + 1, k
		case c == '\\':
			k = kEscaped
			n, half := escape(b[j:])
			if n == 0 {
				return s.fail(j, "malformed escape"), kNone
			}
			s.lone = s.lone || half
			j += n
		case c < ' ':
			return s.fail(j, "control character in a string"), kNone
		default:
			j++
		}
	}
	return s.fail(j, "the text ends inside a string"), kNone
}

// nested scans the object or array at i, which is inside level others.
func (s *scanner) nested(b []byte, i, level int) int {
	var objects uint64 // bit per open container, the innermost lowest
	open := 0
container:
	if open++; level+open > s.depth {
		return s.fail(i, fmt.Sprintf("nested deeper than %d levels", s.depth))
	}
	objects <<= 1
	if b[i] == '{' {
		objects |= 1
		if i = space(b, i+1); i < len(b) && b[i] == '}' {
			goto closed
		}
		goto key
	}
	if i = space(b, i+1); i < len(b) && b[i] == ']' {
		goto closed
	}
value:
	switch {
	case i < len(b) && b[i] == '"':
		i, _ = s.str(b, i)
	case i < len(b) && (b[i] == '{' || b[i] == '['):
		goto container
	default:
		i, _ = s.value(b, i, level+open)
	}
	if i < 0 {
		return -1
	}
after:
	i = space(b, i)
	switch {
	case i >= len(b):
		return s.unexpected(b, i, "a comma or a closing bracket")
	case b[i] == ',':
		i = space(b, i+1)
		if objects&1 != 0 {
			goto key
		}
		goto value
	case b[i] == '}' && objects&1 != 0, b[i] == ']' && objects&1 == 0:
		goto closed
	default:
		return s.unexpected(b, i, "a comma or the closing bracket")
	}
key:
	if i, _ = s.key(b, i); i < 0 {
		return -1
	}
	goto value
closed:
	i++
	objects >>= 1
	if open--; open == 0 {
		return i
	}
	goto after
}

// key scans a key, its colon and the space around it, from the opening quote to
// the first byte of the value.
func (s *scanner) key(b []byte, i int) (int, kind) {
	if i >= len(b) || b[i] != '"' {
		return s.unexpected(b, i, "a key"), kNone
	}
	i, k := s.str(b, i)
	if i < 0 {
		return -1, kNone
	}
	if i = space(b, i); i >= len(b) || b[i] != ':' {
		return s.unexpected(b, i, "a colon"), kNone
	}
	return space(b, i+1), k
}
