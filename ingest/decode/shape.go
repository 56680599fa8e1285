package decode

import (
	"encoding/binary"
	"math"
)

// shape remembers the keys of past documents and which key follows which, with
// the punctuation between them byte by byte: documents of one producer look
// alike. It only ever saves work: a key that it does not foretell is scanned.
type shape struct {
	members []member
	byText  map[string]int32
}

// member is the text from behind one value to the beginning of the next, such
// as `,"city": `, and what its key means.
type member struct {
	text  string
	id    int32
	col   int32 // the wanted column, or -1
	exact bool
	next  [2]int32 // the members that came next, the latest first

	first, mask uint64 // the first word of the text, as far as it goes
	last        uint64 // the last word, if the text is longer than one
}

func newMember(text string, id int32, col int, exact bool) member {
	m := member{text: text, id: id, col: int32(col), exact: exact, mask: math.MaxUint64}
	var w [8]byte
	n := copy(w[:], text)
	m.first = binary.LittleEndian.Uint64(w[:])
	m.mask >>= 8 * (8 - n)
	if len(text) > 8 {
		m.last = binary.LittleEndian.Uint64([]byte(text[len(text)-8:]))
	}
	return m
}

// at says whether the member's text stands at b[i:]. Less than a word before
// the end of the document it may say no.
func (m *member) at(b []byte, i int) bool {
	n := len(m.text)
	if i+8 > len(b) || binary.LittleEndian.Uint64(b[i:])&m.mask != m.first {
		return false
	}
	if n <= 8 {
		return true
	}
	return i+n <= len(b) && binary.LittleEndian.Uint64(b[i+n-8:]) == m.last &&
		(n <= 16 || string(b[i+8:i+n-8]) == m.text[8:n-8])
}

// A topic whose keys are data, such as ids, must not fill the memory.
const (
	maxMembers = 512
	maxText    = 256
)

// Two members are no keys and never found in a document: a key that was not
// learned, which is also what follows as long as nothing is known, and the start
// of the document.
const (
	memberUnknown = iota
	memberStart
)

func (s *shape) init() {
	// No word is 1 where no bit of it is looked at.
	s.members = []member{{id: memberUnknown, col: -1, first: 1}, {id: memberStart, col: -1, first: 1}}
	s.byText = map[string]int32{}
}

// learn notes that the member of text follows last.
func (s *shape) learn(last int32, text []byte, col int, exact bool) *member {
	id, ok := s.byText[string(text)]
	if !ok {
		if len(s.members) == maxMembers || len(text) > maxText {
			return &member{id: memberUnknown, col: int32(col), exact: exact}
		}
		id = int32(len(s.members))
		t := string(text)
		s.members = append(s.members, newMember(t, id, col, exact))
		s.byText[t] = id
	}
	if l := &s.members[last]; l.next[0] != id {
		l.next[0], l.next[1] = id, l.next[0]
	}
	return &s.members[id]
}

// surprise scans what stands at i when it is not what the shape foretold: the
// other member that used to come, one never seen here, or the end.
func (d *JSON) surprise(b []byte, i int, last int32) (m *member, at int, end bool) {
	sh, s := &d.shape, &d.scan
	l := &sh.members[last]
	if m = &sh.members[l.next[1]]; m.at(b, i) {
		l.next[0], l.next[1] = l.next[1], l.next[0]
		return m, i + len(m.text), false
	}
	start := i
	i = space(b, i)
	first := last == memberStart
	switch {
	case first && (i >= len(b) || b[i] != '{'):
		return nil, s.noObject(b, i), false
	case first:
		if i = space(b, i+1); i < len(b) && b[i] == '}' {
			return nil, d.finish(b, i), true
		}
	case i >= len(b):
		return nil, s.unexpected(b, i, "a comma or the closing brace"), false
	case b[i] == '}':
		return nil, d.finish(b, i), true
	case b[i] == ',':
		i = space(b, i+1)
	default:
		return nil, s.unexpected(b, i, "a comma or the closing brace"), false
	}
	at, k := s.key(b, i)
	if at < 0 {
		return nil, -1, false
	}
	col, exact := d.field(d.nodes, new(int), keyText(b[i:at]), k)
	return sh.learn(last, b[start:at], col, exact), at, false
}

// finish checks that nothing but space follows the brace at i.
func (d *JSON) finish(b []byte, i int) int {
	if i = space(b, i+1); i < len(b) {
		return d.scan.fail(i, "more text behind the document")
	}
	return i
}
