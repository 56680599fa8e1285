package sqltype

import (
	"fmt"
	"strconv"
	"strings"
)

var aliases = map[string]ID{
	"BOOL": Boolean, "LOGICAL": Boolean,
	"INT1": TinyInt, "INT2": SmallInt, "SHORT": SmallInt, "INT": Integer, "INT4": Integer, "SIGNED": Integer,
	"INT8": BigInt, "LONG": BigInt, "INT16": SmallInt, "INT32": Integer, "INT64": BigInt, "INT128": HugeInt,
	"UINT8": UTinyInt, "UINT16": USmallInt, "UINT32": UInteger, "UINT64": UBigInt, "UINT128": UHugeInt,
	"FLOAT4": Float, "REAL": Float, "FLOAT8": Double, "DOUBLE PRECISION": Double,
	"TEXT": Varchar, "STRING": Varchar, "CHAR": Varchar, "BPCHAR": Varchar,
	"BYTEA": Blob, "VARBINARY": Blob, "BINARY": Blob,
	"DATETIME": Timestamp, "TIMESTAMP_US": Timestamp, "TIMESTAMP WITHOUT TIME ZONE": Timestamp,
	"TIME WITHOUT TIME ZONE": Time, "TIMESTAMPTZ": TimestampTZ,
}

// refused are DuckDB types that would not survive a trip through Weir, with the
// nearest type that does.
var refused = map[string]string{
	"TIMETZ": "use TIME and a column for the offset", "TIME WITH TIME ZONE": "use TIME and a column for the offset",
	"TIME_NS": "use TIME", "BIT": "use BLOB or VARCHAR", "BITSTRING": "use BLOB or VARCHAR", "ENUM": "use VARCHAR",
	"UNION": "use STRUCT", "VARIANT": "use JSON", "BIGNUM": "use HUGEINT or DECIMAL(38,0)", "VARINT": "use HUGEINT or DECIMAL(38,0)",
	"GEOMETRY": "use BLOB or VARCHAR", "NULL": "cast it, for example NULL::VARCHAR", `"NULL"`: "cast it, for example NULL::VARCHAR",
}

// UnsupportedError says that DuckDB has a type and Weir does not.
type UnsupportedError struct{ Type, Hint string }

func (e *UnsupportedError) Error() string {
	if e.Hint == "" {
		return "unknown type " + e.Type
	}
	return "type " + e.Type + " is not supported: " + e.Hint
}

// Parse reads a type in DuckDB's spelling, aliases such as INT or TEXT included.
// The error of a type that Weir refuses is an [UnsupportedError].
func Parse(s string) (Type, error) {
	p := &parser{s: s}
	t, err := p.parse()
	if err != nil {
		return Type{}, err
	}
	if p.space(); p.i < len(s) {
		return Type{}, fmt.Errorf("type %s: unexpected %q", s, s[p.i:])
	}
	return t, nil
}

// MustParse is Parse for types known to be right, such as those of a test.
func MustParse(s string) Type {
	t, err := Parse(s)
	if err != nil {
		panic(err)
	}
	return t
}

type parser struct {
	s string
	i int
}

func (p *parser) space() {
	for p.i < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.i]) >= 0 {
		p.i++
	}
}

func (p *parser) accept(c byte) bool {
	p.space()
	if p.i < len(p.s) && p.s[p.i] == c {
		p.i++
		return true
	}
	return false
}

func (p *parser) expect(c byte) error {
	if !p.accept(c) {
		return fmt.Errorf("type %s: expected %q at %d", p.s, c, p.i+1)
	}
	return nil
}

// word reads a bare or quoted word.
func (p *parser) word() (w string, quoted bool) {
	p.space()
	if p.i < len(p.s) && p.s[p.i] == '"' {
		var b strings.Builder
		for i := p.i + 1; i < len(p.s); i++ {
			if p.s[i] == '"' {
				if i+1 < len(p.s) && p.s[i+1] == '"' {
					i++
				} else {
					p.i = i + 1
					return b.String(), true
				}
			}
			b.WriteByte(p.s[i])
		}
		return "", true
	}
	start := p.i
	for p.i < len(p.s) {
		c := p.s[p.i]
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c < 0x80 {
			break
		}
		p.i++
	}
	return p.s[start:p.i], false
}

func (p *parser) number() (int, error) {
	p.space()
	start := p.i
	for p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '9' {
		p.i++
	}
	n, err := strconv.Atoi(p.s[start:p.i])
	if err != nil {
		return 0, fmt.Errorf("type %s: expected a number at %d", p.s, start+1)
	}
	return n, nil
}

func (p *parser) parse() (Type, error) {
	t, err := p.scalar()
	for err == nil && p.accept('[') {
		elem := t
		if p.accept(']') {
			t = Type{ID: List, Elem: &elem}
			continue
		}
		n, err := p.number()
		if err != nil {
			return Type{}, err
		}
		if err := p.expect(']'); err != nil {
			return Type{}, err
		}
		if n < 1 || n > 100000 {
			return Type{}, fmt.Errorf("type %s: array size %d is not in 1 to 100000", p.s, n)
		}
		t = Type{ID: Array, Size: n, Elem: &elem}
	}
	return t, err
}

// phrase joins the words of a type's name, such as TIMESTAMP WITH TIME ZONE.
func (p *parser) phrase() string {
	w, quoted := p.word()
	name := strings.ToUpper(w)
	if quoted {
		return `"` + name + `"`
	}
	for _, tail := range []string{" WITH TIME ZONE", " WITHOUT TIME ZONE", " PRECISION"} {
		at := p.i
		ok := true
		for want := range strings.FieldsSeq(tail) {
			if got, q := p.word(); q || !strings.EqualFold(got, want) {
				ok = false
				break
			}
		}
		if ok {
			return name + tail
		}
		p.i = at
	}
	return name
}

func (p *parser) scalar() (Type, error) {
	name := p.phrase()
	switch name {
	case "":
		return Type{}, fmt.Errorf("type %q: expected a type's name at %d", p.s, p.i+1)
	case "DECIMAL", "NUMERIC", "DEC":
		return p.decimal()
	case "STRUCT", "ROW":
		fs, err := p.fields()
		return Type{ID: Struct, Fields: fs}, err
	case "MAP":
		return p.mapType()
	case "VARCHAR", "CHAR", "BPCHAR", "TEXT", "STRING":
		return Type{ID: Varchar}, p.ignoredLength()
	}
	for id, n := range names {
		if n == name && n != "" {
			return Type{ID: ID(id)}, nil
		}
	}
	if id, ok := aliases[name]; ok {
		return Type{ID: id}, nil
	}
	return Type{}, &UnsupportedError{Type: name, Hint: refused[name]}
}

// ignoredLength reads the length of VARCHAR(n), which DuckDB ignores too.
func (p *parser) ignoredLength() error {
	if !p.accept('(') {
		return nil
	}
	if _, err := p.number(); err != nil {
		return err
	}
	return p.expect(')')
}

func (p *parser) decimal() (Type, error) {
	t := Type{ID: Decimal, Width: 18, Scale: 3}
	if !p.accept('(') {
		return t, nil
	}
	w, err := p.number()
	if err != nil {
		return t, err
	}
	s := 0
	if p.accept(',') {
		if s, err = p.number(); err != nil {
			return t, err
		}
	}
	if w < 1 || w > 38 || s > w {
		return t, fmt.Errorf("type %s: DECIMAL has 1 to 38 digits and no more of them behind the point", p.s)
	}
	t.Width, t.Scale = uint8(w), uint8(s)
	return t, p.expect(')')
}

func (p *parser) fields() ([]Field, error) {
	if err := p.expect('('); err != nil {
		return nil, err
	}
	var fs []Field
	for {
		name, quoted := p.word()
		if name == "" && !quoted {
			return nil, fmt.Errorf("type %s: expected a field's name at %d", p.s, p.i+1)
		}
		t, err := p.parse()
		if err != nil {
			return nil, err
		}
		fs = append(fs, Field{Name: name, Type: t})
		if !p.accept(',') {
			return fs, p.expect(')')
		}
	}
}

func (p *parser) mapType() (Type, error) {
	if err := p.expect('('); err != nil {
		return Type{}, err
	}
	k, err := p.parse()
	if err != nil {
		return Type{}, err
	}
	if err := p.expect(','); err != nil {
		return Type{}, err
	}
	v, err := p.parse()
	if err != nil {
		return Type{}, err
	}
	return Type{ID: Map, Fields: []Field{{"key", k}, {"value", v}}}, p.expect(')')
}
