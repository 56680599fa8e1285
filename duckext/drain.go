//go:build duckdb_arrow

package duckext

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/duckdb/duckdb-go/v2/mapping"

	"weir/state/sqltype"
)

// A view is a vector of a result's chunk, resolved once a chunk so that reading
// values makes no further call into C. It is valid as long as the chunk.
type view struct {
	data     unsafe.Pointer
	validity *uint64 // nil: all values are valid
	parts    []view
}

func newView(v mapping.Vector, t sqltype.Type) view {
	w := view{data: mapping.VectorGetData(v), validity: (*uint64)(mapping.VectorGetValidity(v))}
	switch t.ID {
	case sqltype.List:
		w.parts = []view{newView(mapping.ListVectorGetChild(v), *t.Elem)}
	case sqltype.Map:
		w.parts = []view{newView(mapping.ListVectorGetChild(v), element(t))}
	case sqltype.Array:
		w.parts = []view{newView(mapping.ArrayVectorGetChild(v), *t.Elem)}
	case sqltype.Struct:
		for i, f := range t.Fields {
			w.parts = append(w.parts, newView(mapping.StructVectorGetChild(v, mapping.IdxT(i)), f.Type))
		}
	}
	return w
}

func (w view) valid(i int) bool {
	if w.validity == nil {
		return true
	}
	return *(*uint64)(unsafe.Add(unsafe.Pointer(w.validity), i/64*8))>>(i%64)&1 == 1
}

// bytes is the string at i. It points into DuckDB's memory.
func (w view) bytes(i int) []byte {
	p := (*duckString)(unsafe.Add(w.data, 16*i))
	if p.length <= inPlace {
		return unsafe.Slice((*byte)(unsafe.Pointer(&p.prefix)), p.length)
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&p.data)), p.length)
}

// A column collects the values of one result column as an Arrow array in the
// inside form of its type, on the Go heap.
type column struct {
	t       sqltype.Type
	n       int
	nulls   int
	valid   []byte // a bit per value; kept from the first NULL on
	data    []byte // fixed width values, or the bytes of strings
	offsets []int32
	parts   []*column
}

func newColumn(t sqltype.Type) *column {
	c := &column{t: t}
	switch t.ID {
	case sqltype.Varchar, sqltype.JSON, sqltype.Blob:
		c.offsets = []int32{0}
	case sqltype.List:
		c.offsets, c.parts = []int32{0}, []*column{newColumn(*t.Elem)}
	case sqltype.Map:
		c.offsets, c.parts = []int32{0}, []*column{newColumn(element(t))}
	case sqltype.Array:
		c.parts = []*column{newColumn(*t.Elem)}
	case sqltype.Struct:
		for _, f := range t.Fields {
			c.parts = append(c.parts, newColumn(f.Type))
		}
	}
	return c
}

// append adds values from:from+n of w.
func (c *column) append(w view, from, n int) error {
	if n == 0 {
		return nil
	}
	c.appendValidity(w, from, n)
	c.n += n
	switch c.t.ID {
	case sqltype.Varchar, sqltype.JSON, sqltype.Blob:
		for i := from; i < from+n; i++ {
			if w.valid(i) {
				c.data = append(c.data, w.bytes(i)...)
			}
			if len(c.data) > math.MaxInt32 {
				return fmt.Errorf("a column of the result has more than 2 GiB of text")
			}
			c.offsets = append(c.offsets, int32(len(c.data)))
		}
	case sqltype.List, sqltype.Map:
		return c.appendLists(w, from, n)
	case sqltype.Array:
		return c.parts[0].append(w.parts[0], from*c.t.Size, n*c.t.Size)
	case sqltype.Struct:
		for i, p := range c.parts {
			if err := p.append(w.parts[i], from, n); err != nil {
				return err
			}
		}
	default:
		return c.appendFixed(w, from, n)
	}
	return nil
}

func (c *column) appendLists(w view, from, n int) error {
	child, end := c.parts[0], int32(c.parts[0].n)
	for _, e := range unsafe.Slice((*listEntry)(unsafe.Add(w.data, 16*from)), n) {
		if w.valid(from) && e.length > 0 {
			if e.length > math.MaxInt32-uint64(end) {
				return fmt.Errorf("a column of the result has more than %d list elements", math.MaxInt32)
			}
			if err := child.append(w.parts[0], int(e.offset), int(e.length)); err != nil {
				return err
			}
			end = int32(child.n)
		}
		c.offsets = append(c.offsets, end)
		from++
	}
	return nil
}

func (c *column) appendValidity(w view, from, n int) {
	if w.validity == nil && c.valid == nil {
		return
	}
	for len(c.valid) < (c.n+n+7)/8 {
		c.valid = append(c.valid, 0xff)
	}
	for i := range n {
		if !w.valid(from + i) {
			c.valid[(c.n+i)/8] &^= 1 << ((c.n + i) % 8)
			c.nulls++
		}
	}
}

// appendFixed copies values of one width, widened to Arrow's where they differ.
func (c *column) appendFixed(w view, from, n int) error {
	switch c.t.ID {
	case sqltype.Decimal:
		c.widen(w, from, n)
	case sqltype.UUID:
		for _, u := range unsafe.Slice((*[2]uint64)(unsafe.Add(w.data, 16*from)), n) {
			c.data = binary.BigEndian.AppendUint64(c.data, u[1]^1<<63)
			c.data = binary.BigEndian.AppendUint64(c.data, u[0])
		}
	case sqltype.Interval:
		for i, v := range unsafe.Slice((*duckInterval)(unsafe.Add(w.data, 16*from)), n) {
			nanos := v.micros * 1000
			if w.valid(from+i) && nanos/1000 != v.micros {
				return &EvalError{Kind: "Out of Range", Message: "an interval's time part is longer than 292 years"}
			}
			c.data = binary.LittleEndian.AppendUint32(c.data, uint32(v.months))
			c.data = binary.LittleEndian.AppendUint32(c.data, uint32(v.days))
			c.data = binary.LittleEndian.AppendUint64(c.data, uint64(nanos))
		}
	default:
		width := c.t.Inside().(arrow.FixedWidthDataType).BitWidth() / 8
		c.data = append(c.data, unsafe.Slice((*byte)(unsafe.Add(w.data, width*from)), width*n)...)
	}
	return nil
}

func (c *column) widen(w view, from, n int) {
	if c.t.Width > 18 {
		c.data = append(c.data, unsafe.Slice((*byte)(unsafe.Add(w.data, 16*from)), 16*n)...)
		return
	}
	for i := from; i < from+n; i++ {
		var v int64
		switch {
		case c.t.Width <= 4:
			v = int64(*(*int16)(unsafe.Add(w.data, 2*i)))
		case c.t.Width <= 9:
			v = int64(*(*int32)(unsafe.Add(w.data, 4*i)))
		default:
			v = *(*int64)(unsafe.Add(w.data, 8*i))
		}
		c.data = binary.LittleEndian.AppendUint64(c.data, uint64(v))
		c.data = binary.LittleEndian.AppendUint64(c.data, uint64(v>>63))
	}
}

// array makes the Arrow data of what was collected. The column is then spent.
func (c *column) array() *array.Data {
	var valid *memory.Buffer
	if c.nulls > 0 {
		valid = memory.NewBufferBytes(c.valid)
	}
	bufs := []*memory.Buffer{valid}
	if c.offsets != nil {
		bufs = append(bufs, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(c.offsets)))
	}
	if !c.t.Nested() {
		bufs = append(bufs, memory.NewBufferBytes(c.data))
	}
	var parts []arrow.ArrayData
	for _, p := range c.parts {
		parts = append(parts, p.array())
	}
	return array.NewData(c.t.Inside(), c.n, bufs, parts, c.nulls, 0)
}

// A collector gathers the chunks of a result into record batches.
type collector struct {
	fields []sqltype.Field
	schema *arrow.Schema
	cols   []*column
	rows   int
}

func newCollector(fields []sqltype.Field) *collector {
	c := &collector{fields: fields, schema: insideSchema(fields)}
	c.restart()
	return c
}

func (c *collector) restart() {
	c.rows = 0
	c.cols = make([]*column, len(c.fields))
	for i, f := range c.fields {
		c.cols[i] = newColumn(f.Type)
	}
}

// look resolves the columns of a chunk.
func (c *collector) look(chunk mapping.DataChunk) []view {
	vs := make([]view, len(c.cols))
	for i, col := range c.cols {
		vs[i] = newView(mapping.DataChunkGetVector(chunk, mapping.IdxT(i)), col.t)
	}
	return vs
}

// add copies rows from:from+n of a chunk.
func (c *collector) add(vs []view, from, n int) error {
	for i, col := range c.cols {
		if err := col.append(vs[i], from, n); err != nil {
			return fmt.Errorf("column %q: %w", c.fields[i].Name, err)
		}
	}
	c.rows += n
	return nil
}

// addAll copies a chunk.
func (c *collector) addAll(chunk mapping.DataChunk) error {
	return c.add(c.look(chunk), 0, int(mapping.DataChunkGetSize(chunk)))
}

// bytes is the size of what was gathered.
func (c *collector) bytes() int {
	n := 0
	for _, col := range c.cols {
		n += col.bytes()
	}
	return n
}

func (c *column) bytes() int {
	n := len(c.data) + len(c.valid) + 4*len(c.offsets)
	for _, p := range c.parts {
		n += p.bytes()
	}
	return n
}

// batch makes one record batch of what was gathered and starts anew.
func (c *collector) batch() arrow.RecordBatch {
	arrs := make([]arrow.Array, len(c.cols))
	for i, col := range c.cols {
		d := col.array()
		arrs[i] = array.MakeFromData(d)
		d.Release()
	}
	rec := array.NewRecordBatch(c.schema, arrs, int64(c.rows))
	for _, a := range arrs {
		a.Release()
	}
	c.restart()
	return rec
}
