package decode

import (
	"bytes"
	"encoding/base64"
	"math"
	"strings"

	"weir/state/sqltype"
)

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
		if (k == kInt || k == kNumber) && n.col.typ.Temporal() {
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
		return reasonFull
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
	if why == reasonFull {
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
