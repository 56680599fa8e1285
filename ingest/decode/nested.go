package decode

import (
	"bytes"
	"fmt"
	"strconv"

	"weir/state/sqltype"
)

// The text that these functions convert has been scanned, so that they need not
// look for its end.

func (d *JSON) putList(n *node, raw []byte, k kind) *Error {
	if k != kArray {
		return d.refuse(n, raw, "an array is wanted")
	}
	elem := n.kids[0]
	elems := 0
	for i := space(raw, 1); raw[i] != ']'; {
		var end int
		var ek kind
		var err *Error
		if elem.col.typ.ID == sqltype.Struct && raw[i] == '{' {
			end, err = d.putObject(elem, raw, i) // saves a pass over the element
		} else {
			end, ek = d.scan.value(raw, i, 0)
			if !elem.usual(raw[i:end], ek) {
				err = d.put(elem, raw[i:end], ek)
			}
		}
		if err != nil {
			err.Column = "[" + strconv.Itoa(elems) + "]" + err.Column
			return err
		}
		elems++
		if i = space(raw, end); raw[i] == ',' {
			i = space(raw, i+1)
		}
	}
	if t := n.col.typ; t.ID == sqltype.Array && elems != t.Size {
		return refuse(fmt.Sprintf("an array of %d elements, want %d", elems, t.Size))
	}
	return full(n.col.Nested())
}

func (d *JSON) putStruct(n *node, raw []byte, k kind) *Error {
	if k != kObject {
		return d.refuse(n, raw, "an object is wanted")
	}
	_, err := d.putObject(n, raw, 0)
	return err
}

// putObject appends the object at i to the struct's column and answers where it
// ends.
func (d *JSON) putObject(n *node, raw []byte, i int) (int, *Error) {
	base := len(d.found)
	for range n.kids {
		d.found = append(d.found, span{})
	}
	end := d.findFields(n, raw, i, base)
	err := d.putFields(n, raw, base)
	d.found = d.found[:base]
	if err != nil {
		return 0, err
	}
	return end, full(n.col.Nested())
}

// findFields notes from d.found[base] on where the values of the struct's fields
// are in the object at i.
func (d *JSON) findFields(n *node, raw []byte, i, base int) int {
	next := 0
	for i = space(raw, i+1); raw[i] != '}'; {
		at, col, exact := i, next, true
		if next < len(n.kids) && n.kids[next].standsAt(raw, i) {
			at = space(raw, i+len(n.kids[next].key))
			next++
		} else {
			var kk kind
			at, kk = d.scan.key(raw, i)
			col, exact = d.field(n.kids, &next, keyText(raw[i:at]), kk)
		}
		end, k := d.scan.value(raw, at, 0)
		if col >= 0 {
			d.found[base+col].claim(at, end, k, exact)
		}
		if i = space(raw, end); raw[i] == ',' {
			i = space(raw, i+1)
		}
	}
	return i + 1
}

// putFields appends what findFields found to the columns of the struct's fields.
func (d *JSON) putFields(n *node, raw []byte, base int) *Error {
	for i, kid := range n.kids {
		s := d.found[base+i]
		err := s.conflict()
		switch {
		case err != nil:
		case s.kind == kNone:
			kid.col.Null()
		case kid.usual(raw[s.start:s.end], s.kind):
		default:
			err = d.put(kid, raw[s.start:s.end], s.kind)
		}
		if err != nil {
			err.Column = "." + kid.name + err.Column
			return err
		}
	}
	return nil
}

// standsAt says whether raw has the field's key and a colon at i, spelled in the
// usual way.
func (n *node) standsAt(raw []byte, i int) bool {
	return len(raw)-i > len(n.key) && string(raw[i:i+len(n.key)]) == n.key
}

// field finds the struct's field of a key, trying the one behind the last first.
func (d *JSON) field(kids []*node, next *int, key []byte, k kind) (int, bool) {
	if k == kEscaped {
		var ok bool
		if d.text, ok = unescape(d.text[:0], key); !ok {
			return -1, false
		}
		key = d.text
	}
	if *next < len(kids) && kids[*next].name == string(key) {
		*next++
		return *next - 1, true
	}
	for i, kid := range kids {
		if kid.name == string(key) {
			*next = i + 1
			return i, true
		}
	}
	for i, kid := range kids {
		if equalFold(kid.name, key) {
			return i, false
		}
	}
	return -1, false
}

func (d *JSON) putMap(n *node, raw []byte, k kind) *Error {
	if k != kObject {
		return d.refuse(n, raw, "an object is wanted")
	}
	key, val := n.kids[0], n.kids[1]
	first := key.col.n
	for i := space(raw, 1); raw[i] != '}'; {
		at, kk := d.scan.key(raw, i)
		quoted := bytes.TrimRight(raw[i:at], " \t\r\n:")
		end, k := d.scan.value(raw, at, 0)
		err := d.put(key, quoted, kk)
		if err == nil {
			err = d.put(val, raw[at:end], k)
		}
		if err != nil {
			err.Column = "[" + clip(quoted) + "]" + err.Column
			return err
		}
		if i = space(raw, end); raw[i] == ',' {
			i = space(raw, i+1)
		}
	}
	if key.col.repeats(first) {
		return d.refuse(n, raw, "a key stands twice in the object")
	}
	return full(n.col.Nested())
}

// repeats says whether two of the values from first on are equal.
func (c *Column) repeats(first int) bool {
	if c.n-first > 16 {
		seen := make(map[string]bool, c.n-first)
		for i := first; i < c.n; i++ {
			seen[string(c.at(i))] = true
		}
		return len(seen) < c.n-first
	}
	for i := first; i < c.n; i++ {
		for j := first; j < i; j++ {
			if bytes.Equal(c.at(i), c.at(j)) {
				return true
			}
		}
	}
	return false
}

// at is the bytes of value i of a column without children.
func (c *Column) at(i int) []byte {
	if c.width > 0 {
		return c.data[i*c.width : (i+1)*c.width]
	}
	return c.data[c.offsetAt(i):c.offsetAt(i+1)]
}

// keyText cuts the quotes, the colon and the space off what scanner.key passed.
func keyText(b []byte) []byte {
	b = bytes.TrimRight(b, " \t\r\n:")
	return b[1 : len(b)-1]
}
