package decode

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"

	"weir/state/sqltype"
)

// node is how the values of one column, or of one part of a nested column, are
// converted.
type node struct {
	name string
	key  string // the name as it usually stands in an object, colon included
	col  *Column
	lim  limits
	kids []*node
	fast fast
	days dayCache
}

// usualKey spells a name as a key, if it needs no escapes; else as no key.
func usualKey(name string) string {
	key := `"` + name + `"`
	if end, k := (&scanner{}).str([]byte(key), 0); end != len(key) || k != kString {
		return "\x00"
	}
	return key + ":"
}

// fast is how the usual value of a column is converted without the detour that
// all the others take.
type fast uint8

const (
	fastNone fast = iota
	fastInt       // small integers into up to 64 bits
	fastDecimal
	fastText
	fastTimestamp
)

func fastOf(t sqltype.Type) fast {
	switch {
	case t.ID == sqltype.Decimal:
		return fastDecimal
	case t.ID == sqltype.Varchar:
		return fastText
	case t.ID == sqltype.Timestamp, t.ID == sqltype.TimestampTZ:
		return fastTimestamp
	case t.Integral() && t.ID != sqltype.HugeInt && t.ID != sqltype.UHugeInt:
		return fastInt
	}
	return fastNone
}

// usual appends the value if it is of the most usual form for its type.
func (n *node) usual(raw []byte, k kind) bool {
	switch {
	case n.fast == fastText && k == kString:
		return n.col.Bytes(raw[1:len(raw)-1]) == nil
	case n.fast == fastTimestamp && k == kString:
		v, ok := n.days.stamp(raw[1 : len(raw)-1])
		if ok {
			n.col.Int(v)
		}
		return ok
	case n.fast == fastInt && k == kInt && len(raw) <= 18:
		v := small(raw)
		if v < n.lim.min || v > n.lim.max {
			return false
		}
		n.col.Int(v)
		return true
	case n.fast == fastDecimal && (k == kInt || k == kNumber):
		v, ok := n.short(raw)
		if ok {
			n.col.wide(uint64(v), uint64(v>>63))
		}
		return ok
	}
	return false
}

func newNode(f sqltype.Field, c *Column) *node {
	n := &node{name: f.Name, key: usualKey(f.Name), col: c, lim: limitsOf(f.Type), fast: fastOf(f.Type)}
	switch f.Type.ID {
	case sqltype.List, sqltype.Array:
		n.kids = []*node{newNode(sqltype.Field{Type: *f.Type.Elem}, c.kids[0])}
	case sqltype.Struct, sqltype.Map:
		for i, k := range f.Type.Fields {
			n.kids = append(n.kids, newNode(k, c.kids[i]))
		}
	}
	return n
}

// supported refuses types that no JSON value can fill unambiguously.
func supported(t sqltype.Type) error {
	switch t.ID {
	case sqltype.Invalid:
		return fmt.Errorf("the type is missing")
	case sqltype.List, sqltype.Array:
		return supported(*t.Elem)
	case sqltype.Map:
		switch k := t.Fields[0].Type; {
		case k.Nested(), k.ID == sqltype.Float, k.ID == sqltype.Double, k.ID == sqltype.Interval, k.ID == sqltype.JSON:
			return fmt.Errorf("%s: keys of a JSON object can't be %s, use VARCHAR", t, k)
		}
		return supported(t.Fields[1].Type)
	case sqltype.Struct:
		if err := distinct(t.Fields); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		for _, f := range t.Fields {
			if err := supported(f.Type); err != nil {
				return err
			}
		}
	}
	return nil
}

// distinct refuses names that DuckDB can't tell apart.
func distinct(fs []sqltype.Field) error {
	for i, f := range fs {
		for _, g := range fs[:i] {
			if equalFold(f.Name, []byte(g.Name)) {
				return fmt.Errorf("names %q and %q differ in case at most", g.Name, f.Name)
			}
		}
	}
	return nil
}

// put appends the scanned value raw to n's column.
func (d *JSON) put(n *node, raw []byte, k kind) *Error {
	id := n.col.typ.ID
	if k == kNull && id != sqltype.JSON {
		n.col.Null()
		return nil
	}
	switch id {
	case sqltype.List, sqltype.Array:
		return d.putList(n, raw, k)
	case sqltype.Struct:
		return d.putStruct(n, raw, k)
	case sqltype.Map:
		return d.putMap(n, raw, k)
	case sqltype.Varchar:
		return d.putText(n, raw, k)
	case sqltype.JSON:
		if k == kNumber || k == kInt || !d.scan.lone || !loneSurrogate(raw) {
			return full(n.col.Bytes(raw))
		}
		return refuse("half a surrogate pair, which is no character and which DuckDB's JSON refuses")
	}
	text, quoted := raw, false
	switch k {
	case kString:
		text, quoted = raw[1:len(raw)-1], true
	case kEscaped:
		var ok bool
		if d.text, ok = unescape(d.text[:0], raw[1:len(raw)-1]); !ok {
			return refuse("half a surrogate pair, which is no character")
		}
		text, quoted = d.text, true
	}
	why := ""
	switch {
	case n.col.typ.Numeric():
		why = d.number(n, text, quoted, k)
	case id == sqltype.Boolean:
		why = boolean(n.col, text, quoted, k)
	case !quoted:
		why = "a string is wanted"
		if k == kInt && n.col.typ.Temporal() {
			why = "a number has no unit: declare the column BIGINT and use make_timestamp, make_timestamp_ms or epoch_ms"
		}
	default:
		why = d.quoted(n, text)
	}
	if why == "" {
		return nil
	}
	return d.refuse(n, raw, why)
}

// number converts numbers and strings that hold one.
func (d *JSON) number(n *node, text []byte, quoted bool, k kind) string {
	if quoted {
		end, numeric := number(text, 0)
		if k = numeric; end != len(text) {
			if id := n.col.typ.ID; (id == sqltype.Float || id == sqltype.Double) && n.unbounded(text) {
				return ""
			}
			return "not a number"
		}
	}
	if k != kInt && k != kNumber {
		return "a number is wanted"
	}
	switch n.col.typ.ID {
	case sqltype.Float, sqltype.Double:
		return n.float(text, k)
	case sqltype.Decimal:
		return n.decimal(text, k)
	}
	return n.integer(text, k)
}

// unbounded appends what strings alone can say of floats: NaN and infinity.
func (n *node) unbounded(text []byte) bool {
	sign := 1
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		if text[0] == '-' {
			sign = -1
		}
		text = text[1:]
	}
	switch {
	case equalFold("nan", text):
		n.col.float(math.NaN())
	case equalFold("infinity", text), equalFold("inf", text):
		n.col.float(math.Inf(sign))
	default:
		return false
	}
	return true
}

func boolean(c *Column, text []byte, quoted bool, k kind) string {
	switch {
	case k == kTrue, quoted && equalFold("true", text):
		c.Int(1)
	case k == kFalse, quoted && equalFold("false", text):
		c.Int(0)
	default:
		return "want true or false"
	}
	return ""
}

// quoted converts what only strings can say.
func (d *JSON) quoted(n *node, text []byte) string {
	switch n.col.typ.ID {
	case sqltype.Blob:
		return d.blob(n.col, text)
	case sqltype.UUID:
		return uuid(n.col, text)
	case sqltype.Interval:
		return putInterval(n.col, text)
	}
	return moment(n.col, text)
}

func (d *JSON) putText(n *node, raw []byte, k kind) *Error {
	switch k {
	case kString:
		raw = raw[1 : len(raw)-1]
	case kEscaped:
		var ok bool
		if d.text, ok = unescape(d.text[:0], raw[1:len(raw)-1]); !ok {
			return refuse("half a surrogate pair, which is no character")
		}
		raw = d.text
	}
	return full(n.col.Bytes(raw))
}

func (d *JSON) blob(c *Column, text []byte) string {
	enc := base64.RawStdEncoding
	if bytes.ContainsAny(text, "-_") {
		enc = base64.RawURLEncoding
	}
	if len(text)%4 == 0 {
		for range 2 {
			text = bytes.TrimSuffix(text, []byte("="))
		}
	}
	// The decoder itself skips line breaks, which no encoder of JSON writes.
	if bytes.ContainsAny(text, "\r\n") {
		return "not base64"
	}
	var err error
	if d.bin, err = enc.Strict().AppendDecode(d.bin[:0], text); err != nil {
		return "not base64"
	}
	if c.Bytes(d.bin) != nil {
		return ErrFull.Error()
	}
	return ""
}

func uuid(c *Column, text []byte) string {
	var u [2]uint64
	n := 0
	for i, ch := range text {
		if len(text) == 36 && (i == 8 || i == 13 || i == 18 || i == 23) {
			if ch != '-' {
				return "not a UUID"
			}
			continue
		}
		v, ok := unhex(ch)
		if !ok || n == 32 {
			return "not a UUID"
		}
		u[n/16] = u[n/16]<<4 | uint64(v)
		n++
	}
	if n != 32 {
		return "not a UUID"
	}
	c.wide(swap(u[0]), swap(u[1]))
	return ""
}

func (d *JSON) putList(n *node, raw []byte, k kind) *Error {
	if k != kArray {
		return d.refuse(n, raw, "an array is wanted")
	}
	elem := n.kids[0]
	elems := 0
	for i := space(raw, 1); raw[i] != ']'; {
		var end int
		var err *Error
		if elem.col.typ.ID == sqltype.Struct && raw[i] == '{' {
			end, err = d.putObject(elem, raw, i) // saves a pass over the element
		} else {
			end, k = d.scan.value(raw, i, 0)
			if !elem.usual(raw[i:end], k) {
				err = d.put(elem, raw[i:end], k)
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

func loneSurrogate(raw []byte) bool {
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			i++
			continue
		}
		n, half := escape(raw[i:])
		if half {
			return true
		}
		i += n
	}
	return false
}

func refuse(why string) *Error { return &Error{Reason: why} }

// refuse explains why a value does not fit, showing its beginning.
func (d *JSON) refuse(n *node, raw []byte, why string) *Error {
	if why == ErrFull.Error() {
		return full(ErrFull)
	}
	return refuse(clip(raw) + " does not fit " + n.col.typ.String() + ": " + why)
}

// full turns ErrFull into an *Error on its way to Append.
func full(err error) *Error {
	if err == nil {
		return nil
	}
	return &Error{full: true}
}

func clip(raw []byte) string {
	const most = 64
	if len(raw) <= most {
		return string(raw)
	}
	return strings.ToValidUTF8(string(raw[:most]), "") + "…"
}
