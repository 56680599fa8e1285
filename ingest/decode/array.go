package decode

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/sqltype"
)

// Array hands out what was appended and starts the column anew. The array owns
// its memory, which its last Release returns to the pool.
func (c *Column) Array() arrow.Array {
	d := c.take()
	defer d.Release()
	return array.MakeFromData(d)
}

func (c *Column) take() *array.Data {
	var valid, data, offs *memory.Buffer
	if c.nulls > 0 {
		valid = c.buffer(&c.valid, (c.n+7)/8)
	}
	var bufs []*memory.Buffer
	switch c.typ.ID {
	case sqltype.Varchar, sqltype.JSON, sqltype.Blob:
		if c.n == 0 {
			c.offset(0)
		}
		offs = c.buffer(&c.offs, 4*(c.n+1))
		data = c.buffer(&c.data, c.used)
		bufs = []*memory.Buffer{valid, offs, data}
	case sqltype.List, sqltype.Map:
		if c.n == 0 {
			c.offset(0)
		}
		offs = c.buffer(&c.offs, 4*(c.n+1))
		bufs = []*memory.Buffer{valid, offs}
	case sqltype.Struct, sqltype.Array:
		bufs = []*memory.Buffer{valid}
	default:
		data = c.buffer(&c.data, c.n*c.width)
		bufs = []*memory.Buffer{valid, data}
	}
	var kids []arrow.ArrayData
	for _, k := range c.kids {
		kids = append(kids, k.take())
	}
	if c.typ.ID == sqltype.Map {
		entries := array.NewData(c.arrow.(*arrow.MapType).Elem(), kids[0].Len(), []*memory.Buffer{nil}, kids, 0, 0)
		for _, k := range kids {
			k.Release()
		}
		kids = []arrow.ArrayData{entries}
	}
	d := array.NewData(c.arrow, c.n, bufs, kids, c.nulls, 0)
	for _, b := range bufs {
		if b != nil {
			b.Release()
		}
	}
	for _, k := range kids {
		k.Release()
	}
	if c.valid != nil {
		c.mem.Free(c.valid)
		c.valid = nil
	}
	// The next batch starts with room for one like this; one huge batch is
	// forgotten after some more.
	for i, size := range []int{max(c.n*c.width, c.used), 4 * (c.n + 1), c.n/8 + 1} {
		c.hint[i] = max(size, c.hint[i]-c.hint[i]/4)
	}
	c.n, c.nulls, c.used = 0, 0, 0
	return d
}

// buffer hands a block over to Arrow.
func (c *Column) buffer(b *[]byte, n int) *memory.Buffer {
	if *b == nil {
		*b = c.mem.Allocate(0)
	}
	buf := memory.NewBufferWithAllocator((*b)[:n], c.mem)
	*b = nil
	return buf
}
