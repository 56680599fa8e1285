package decode

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/apache/arrow-go/v18/arrow"

	"weir/state/sqltype"
)

// ErrFull is answered when a column's text would pass the 2 GiB that Arrow's
// offsets can reach: take the batch and append the record again.
var ErrFull = errors.New(reasonFull)

const reasonFull = "batch is full"

// Column builds one Arrow array of the inside form. It costs no allocation per
// value and writes to memory of its pool alone, so that the array can be handed
// to C. The methods that append fit types as their comments say; a column does
// not check.
type Column struct {
	typ   sqltype.Type
	arrow arrow.DataType
	mem   *Pool

	n     int
	nulls int
	data  []byte // fixed-width values, or the bytes of text
	used  int    // bytes of text
	offs  []byte // text, list, map: n+1 int32
	valid []byte // bitmap; nil while there is no NULL
	width int    // bytes of a fixed-width value
	kids  []*Column
	hint  [3]int // sizes to start a batch with: data, offs, valid
}

// NewColumn returns an empty column of type t.
func NewColumn(t sqltype.Type, mem *Pool) *Column {
	c := &Column{typ: t, arrow: t.Inside(), mem: mem}
	if fw, ok := c.arrow.(arrow.FixedWidthDataType); ok && !t.Nested() {
		c.width = fw.BitWidth() / 8
	}
	switch t.ID {
	case sqltype.List, sqltype.Array:
		c.kids = []*Column{NewColumn(*t.Elem, mem)}
	case sqltype.Struct, sqltype.Map:
		for _, f := range t.Fields {
			c.kids = append(c.kids, NewColumn(f.Type, mem))
		}
	}
	return c
}

// Len is the number of values.
func (c *Column) Len() int { return c.n }

// Child is the column of a list's elements (0), or of a struct's, or of a map's
// keys (0) and values (1). Append to the children first, then to the parent.
func (c *Column) Child(i int) *Column { return c.kids[i] }

// Int appends to a column of an integer, date, time or timestamp of up to 64
// bits, or of a boolean (0 or 1), in the unit of its type.
func (c *Column) Int(v int64) {
	at := c.n * c.width
	if at+8 > len(c.data) {
		c.data = c.grow(c.data, at, at+8, c.hint[0])
	}
	switch c.width {
	case 8:
		binary.LittleEndian.PutUint64(c.data[at:], uint64(v))
	case 4:
		binary.LittleEndian.PutUint32(c.data[at:], uint32(v))
	case 2:
		binary.LittleEndian.PutUint16(c.data[at:], uint16(v))
	default:
		c.data[at] = byte(v)
	}
	c.present()
}

// wide appends 16 bytes: the low half, then the high half.
func (c *Column) wide(lo, hi uint64) {
	at := c.n * 16
	if at+16 > len(c.data) {
		c.data = c.grow(c.data, at, at+16, c.hint[0])
	}
	binary.LittleEndian.PutUint64(c.data[at:], lo)
	binary.LittleEndian.PutUint64(c.data[at+8:], hi)
	c.present()
}

// Bytes appends to a column of VARCHAR, JSON or BLOB; b is copied. The error is
// [ErrFull].
func (c *Column) Bytes(b []byte) error {
	end := c.used + len(b)
	if end > math.MaxInt32 {
		return ErrFull
	}
	if end > len(c.data) {
		c.data = c.grow(c.data, c.used, end, c.hint[0])
	}
	copy(c.data[c.used:end], b)
	c.used = end
	c.offset(end)
	c.present()
	return nil
}

// Nested appends a value made of children: for LIST and MAP those appended
// since the last value, for ARRAY and STRUCT the next of each.
func (c *Column) Nested() error {
	if c.typ.ID == sqltype.List || c.typ.ID == sqltype.Map {
		if c.kids[0].n > math.MaxInt32 {
			return ErrFull
		}
		c.offset(c.kids[0].n)
	}
	c.present()
	return nil
}

// Null appends NULL.
func (c *Column) Null() {
	switch c.typ.ID {
	case sqltype.Varchar, sqltype.JSON, sqltype.Blob:
		c.offset(c.used)
	case sqltype.List, sqltype.Map:
		c.offset(c.kids[0].n)
	case sqltype.Struct:
		for _, k := range c.kids {
			k.Null()
		}
	case sqltype.Array:
		for range c.typ.Size {
			c.kids[0].Null()
		}
	default:
		at := c.n * c.width
		if at+c.width > len(c.data) {
			c.data = c.grow(c.data, at, at+c.width, c.hint[0])
		}
		clear(c.data[at : at+c.width])
	}
	if c.valid == nil {
		c.valid = c.grow(nil, 0, c.n/8+1, c.hint[2])
		for i := range c.n/8 + 1 {
			c.valid[i] = 0xff
		}
	}
	c.mark(false)
}

// present counts a value that has been written.
func (c *Column) present() {
	if c.valid != nil {
		c.mark(true)
		return
	}
	c.n++
}

func (c *Column) mark(ok bool) {
	i := c.n / 8
	if i >= len(c.valid) {
		c.valid = c.grow(c.valid, i, i+1, c.hint[2])
	}
	if c.n%8 == 0 {
		c.valid[i] = 0
	}
	if ok {
		c.valid[i] |= 1 << (c.n % 8)
	} else {
		c.valid[i] &^= 1 << (c.n % 8)
		c.nulls++
	}
	c.n++
}

// offset writes the end of value n.
func (c *Column) offset(end int) {
	at := 4 * (c.n + 1)
	if at+4 > len(c.offs) {
		c.offs = c.grow(c.offs, at, at+4, c.hint[1])
		clear(c.offs[:4])
	}
	binary.LittleEndian.PutUint32(c.offs[at:], uint32(end))
}

func (c *Column) offsetAt(i int) int {
	if len(c.offs) == 0 {
		return 0
	}
	return int(binary.LittleEndian.Uint32(c.offs[4*i:]))
}

// grow returns a block for at least want bytes that keeps the first used ones.
func (c *Column) grow(b []byte, used, want, hint int) []byte {
	n := c.mem.Allocate(max(want+want/2, hint))
	n = n[:cap(n)]
	copy(n, b[:min(used, len(b))])
	c.mem.Free(b)
	return n
}

// truncate forgets the values from n on.
func (c *Column) truncate(n int) {
	if c.valid != nil {
		for i := n; i < c.n; i++ {
			c.nulls -= int(^c.valid[i/8] >> (i % 8) & 1)
		}
	}
	// A value that was refused half way has children but no row of its own yet.
	switch c.typ.ID {
	case sqltype.Varchar, sqltype.JSON, sqltype.Blob:
		c.used = c.offsetAt(min(n, c.n))
	case sqltype.List, sqltype.Map:
		for _, k := range c.kids {
			k.truncate(c.offsetAt(min(n, c.n)))
		}
	case sqltype.Struct:
		for _, k := range c.kids {
			k.truncate(n)
		}
	case sqltype.Array:
		c.kids[0].truncate(n * c.typ.Size)
	}
	c.n = n
}

// Release gives the column's memory back to the pool, with what was appended.
func (c *Column) Release() {
	for _, b := range []*[]byte{&c.data, &c.offs, &c.valid} {
		c.mem.Free(*b)
		*b = nil
	}
	for _, k := range c.kids {
		k.Release()
	}
	c.n, c.nulls, c.used = 0, 0, 0
}

// float appends to a FLOAT or DOUBLE column.
func (c *Column) float(v float64) {
	if c.width == 4 {
		c.Int(int64(math.Float32bits(float32(v))))
		return
	}
	c.Int(int64(math.Float64bits(v)))
}

// interval appends to an INTERVAL column: its month_day_nano.
func (c *Column) interval(months, days int32, nanos int64) {
	c.wide(uint64(uint32(months))|uint64(uint32(days))<<32, uint64(nanos))
}
