package decode

import (
	"errors"
	"fmt"

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
		return errors.New("the type is missing")
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
