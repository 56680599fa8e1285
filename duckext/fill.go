//go:build duckdb_arrow

package duckext

/*
#include <stdlib.h>
*/
import "C"

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/duckdb/duckdb-go/v2/mapping"

	"weir/state/sqltype"
)

// duckString is DuckDB's string_t: up to 12 bytes in place, else four of them
// and an address.
type duckString struct {
	length uint32
	prefix [4]byte
	data   uintptr // or eight more bytes in place
}

const inPlace = 12

// listEntry is DuckDB's list_entry_t.
type listEntry struct{ offset, length uint64 }

// duckInterval is DuckDB's interval_t.
type duckInterval struct {
	months, days int32
	micros       int64
}

// An arena holds the bytes of long strings in C memory, where DuckDB's vectors
// point to them until the next chunk.
type arena struct {
	blocks [][]byte
	used   int // bytes of the last block
}

func (a *arena) alloc(n int) []byte {
	if len(a.blocks) == 0 || a.used+n > len(a.blocks[len(a.blocks)-1]) {
		size := max(n, 64<<10)
		a.blocks = append(a.blocks, unsafe.Slice((*byte)(C.malloc(C.size_t(size))), size))
		a.used = 0
	}
	b := a.blocks[len(a.blocks)-1][a.used:][:n:n]
	a.used += n
	return b
}

// reset forgets the strings and keeps one block.
func (a *arena) reset() {
	for i, b := range a.blocks {
		if i > 0 || len(b) > 1<<20 {
			C.free(unsafe.Pointer(&b[0]))
		}
	}
	if len(a.blocks) > 0 && len(a.blocks[0]) <= 1<<20 {
		a.blocks = a.blocks[:1]
	} else {
		a.blocks = nil
	}
	a.used = 0
}

func (a *arena) free() {
	for _, b := range a.blocks {
		C.free(unsafe.Pointer(&b[0]))
	}
	*a = arena{}
}

// fill copies rows from:from+n of arr into the first n values of v. t is the type of v; arr is in t's inside form, or has plain
// Arrow booleans.
func (a *arena) fill(v mapping.Vector, t sqltype.Type, arr arrow.Array, from, n int) error {
	if n == 0 {
		return nil
	}
	if ext, ok := arr.(array.ExtensionArray); ok {
		arr = ext.Storage()
	}
	copyValidity(v, arr, from, n)
	dst := mapping.VectorGetData(v)
	switch t.ID {
	case sqltype.Varchar, sqltype.JSON, sqltype.Blob:
		return a.fillStrings(unsafe.Slice((*duckString)(dst), n), arr, from)
	case sqltype.List, sqltype.Map:
		return a.fillList(v, unsafe.Slice((*listEntry)(dst), n), t, arr, from)
	case sqltype.Array:
		return a.fillArray(v, t, arr, from, n)
	case sqltype.Struct:
		return a.fillStruct(v, t, arr, from, n)
	case sqltype.Boolean:
		if b, ok := arr.(*array.Boolean); ok {
			for i, out := 0, unsafe.Slice((*bool)(dst), n); i < n; i++ {
				out[i] = b.Value(from + i)
			}
			return nil
		}
	}
	return fillFixed(dst, t, arr, from, n)
}

// copyValidity marks the NULLs of arr. Both sides keep a bit per value, set when
// valid. DuckDB does not clear the marks of a struct's parts between chunks.
func copyValidity(v mapping.Vector, arr arrow.Array, from, n int) {
	if arr.NullN() == 0 {
		if old := mapping.VectorGetValidity(v); old != nil {
			words := unsafe.Slice((*uint64)(old), (n+63)/64)
			for i := range words {
				words[i] = ^uint64(0)
			}
		}
		return
	}
	mapping.VectorEnsureValidityWritable(v)
	words := unsafe.Slice((*uint64)(mapping.VectorGetValidity(v)), (n+63)/64)
	bits := arr.NullBitmapBytes()
	if len(bits) == 0 { // an array of type null
		for i := range words {
			words[i] = 0
		}
		return
	}
	at := arr.Data().Offset() + from
	for i := range words {
		words[i] = loadBits(bits, at+64*i)
	}
}

// loadBits reads 64 bits from bit at on, with zeros behind the end.
func loadBits(bits []byte, at int) uint64 {
	i, shift := at/8, uint(at%8)
	if i+9 <= len(bits) {
		w := binary.LittleEndian.Uint64(bits[i:])
		if shift > 0 {
			w = w>>shift | uint64(bits[i+8])<<(64-shift)
		}
		return w
	}
	var w uint64
	for j := 0; j < 9 && i+j < len(bits); j++ {
		switch {
		case j == 0:
			w = uint64(bits[i]) >> shift
		case j == 8:
			w |= uint64(bits[i+8]) << (64 - shift)
		default:
			w |= uint64(bits[i+j]) << (uint(8*j) - shift)
		}
	}
	return w
}

func mismatch(t sqltype.Type, arr arrow.Array) error {
	return fmt.Errorf("column of type %s arrived as Arrow %s", t, arr.DataType())
}

// fillFixed copies values of one width.
func fillFixed(dst unsafe.Pointer, t sqltype.Type, arr arrow.Array, from, n int) error {
	want := t.Inside()
	if !arrow.TypeEqual(arr.DataType(), want) {
		// A zone's name does not change the value.
		a, ok1 := arr.DataType().(*arrow.TimestampType)
		b, ok2 := want.(*arrow.TimestampType)
		if !ok1 || !ok2 || a.Unit != b.Unit {
			return mismatch(t, arr)
		}
	}
	width := want.(arrow.FixedWidthDataType).BitWidth() / 8
	at := (arr.Data().Offset() + from) * width
	src := arr.Data().Buffers()[1].Bytes()[at : at+n*width]
	switch t.ID {
	case sqltype.Decimal:
		narrow(dst, src, t.Width)
	case sqltype.UUID:
		// DuckDB keeps a UUID as a HUGEINT whose order is that of the text.
		for i, out := 0, unsafe.Slice((*[2]uint64)(dst), n); i < n; i++ {
			out[i] = [2]uint64{binary.BigEndian.Uint64(src[16*i+8:]), binary.BigEndian.Uint64(src[16*i:]) ^ 1<<63}
		}
	case sqltype.Interval:
		for i, out := 0, unsafe.Slice((*duckInterval)(dst), n); i < n; i++ {
			s := src[16*i:]
			out[i] = duckInterval{
				months: int32(binary.LittleEndian.Uint32(s)), days: int32(binary.LittleEndian.Uint32(s[4:])),
				micros: int64(binary.LittleEndian.Uint64(s[8:])) / 1000,
			}
		}
	default:
		copy(unsafe.Slice((*byte)(dst), len(src)), src)
	}
	return nil
}

// narrow copies 128-bit decimals into the width that DuckDB stores them in.
func narrow(dst unsafe.Pointer, src []byte, digits uint8) {
	n := len(src) / 16
	switch {
	case digits <= 4:
		for i, out := 0, unsafe.Slice((*int16)(dst), n); i < n; i++ {
			out[i] = int16(binary.LittleEndian.Uint16(src[16*i:]))
		}
	case digits <= 9:
		for i, out := 0, unsafe.Slice((*int32)(dst), n); i < n; i++ {
			out[i] = int32(binary.LittleEndian.Uint32(src[16*i:]))
		}
	case digits <= 18:
		for i, out := 0, unsafe.Slice((*int64)(dst), n); i < n; i++ {
			out[i] = int64(binary.LittleEndian.Uint64(src[16*i:]))
		}
	default:
		copy(unsafe.Slice((*byte)(dst), len(src)), src)
	}
}

// fillStrings writes string values. The bytes of the whole range are copied at
// once, since Arrow keeps them side by side.
func (a *arena) fillStrings(dst []duckString, arr arrow.Array, from int) error {
	switch arr.DataType().ID() {
	case arrow.STRING, arrow.BINARY:
	default:
		return mismatch(sqltype.Type{ID: sqltype.Varchar}, arr)
	}
	bufs := arr.Data().Buffers()
	offs := arrow.Int32Traits.CastFromBytes(bufs[1].Bytes())[arr.Data().Offset()+from:][:len(dst)+1]
	var data []byte
	if bufs[2] != nil {
		data = bufs[2].Bytes()
	}
	first, last := offs[0], offs[len(dst)]
	var long uintptr // address of data[first:last] in the arena, once needed
	for i := range dst {
		p := &dst[i]
		val := data[offs[i]:offs[i+1]]
		p.length = uint32(len(val))
		if len(val) <= inPlace {
			b := (*[inPlace]byte)(unsafe.Pointer(&p.prefix))
			*b = [inPlace]byte{}
			copy(b[:], val)
			continue
		}
		if long == 0 {
			block := a.alloc(int(last - first))
			copy(block, data[first:last])
			long = uintptr(unsafe.Pointer(&block[0]))
		}
		copy(p.prefix[:], val)
		p.data = long + uintptr(offs[i]-first)
	}
	return nil
}

func (a *arena) fillList(v mapping.Vector, dst []listEntry, t sqltype.Type, arr arrow.Array, from int) error {
	lst, ok := arr.(array.ListLike)
	if id := arr.DataType().ID(); !ok || id != arrow.LIST && id != arrow.MAP {
		return mismatch(t, arr)
	}
	start, _ := lst.ValueOffsets(from)
	end := start
	for i := range dst {
		s, e := lst.ValueOffsets(from + i)
		dst[i] = listEntry{uint64(s - start), uint64(e - s)}
		end = e
	}
	n := mapping.IdxT(end - start)
	if mapping.ListVectorReserve(v, n) == mapping.StateError || mapping.ListVectorSetSize(v, n) == mapping.StateError {
		return fmt.Errorf("duckdb: no memory for %d list elements", n)
	}
	return a.fill(mapping.ListVectorGetChild(v), element(t), lst.ListValues(), int(start), int(n))
}

func (a *arena) fillArray(v mapping.Vector, t sqltype.Type, arr arrow.Array, from, n int) error {
	lst, ok := arr.(*array.FixedSizeList)
	if !ok || int(arr.DataType().(*arrow.FixedSizeListType).Len()) != t.Size {
		return mismatch(t, arr)
	}
	start, _ := lst.ValueOffsets(from)
	child := mapping.ArrayVectorGetChild(v)
	if err := a.fill(child, *t.Elem, lst.ListValues(), int(start), n*t.Size); err != nil {
		return err
	}
	if arr.NullN() > 0 {
		for i := range n {
			if arr.IsNull(from + i) {
				nullOut(child, *t.Elem, i*t.Size, (i+1)*t.Size)
			}
		}
	}
	return nil
}

func (a *arena) fillStruct(v mapping.Vector, t sqltype.Type, arr arrow.Array, from, n int) error {
	s, ok := arr.(*array.Struct)
	if !ok || s.NumField() != len(t.Fields) {
		return mismatch(t, arr)
	}
	for i, f := range t.Fields {
		child := mapping.StructVectorGetChild(v, mapping.IdxT(i))
		if err := a.fill(child, f.Type, s.Field(i), from, n); err != nil {
			return err
		}
		if arr.NullN() == 0 {
			continue
		}
		for j := range n {
			if arr.IsNull(from + j) {
				nullOut(child, f.Type, j, j+1)
			}
		}
	}
	return nil
}

// nullOut makes values from:to NULL. DuckDB reads the parts of a NULL struct or
// array without looking at the whole, so they must be NULL as well.
func nullOut(v mapping.Vector, t sqltype.Type, from, to int) {
	mapping.VectorEnsureValidityWritable(v)
	words := unsafe.Slice((*uint64)(mapping.VectorGetValidity(v)), (to+63)/64)
	for i := from; i < to; i++ {
		words[i/64] &^= 1 << (i % 64)
	}
	switch t.ID {
	case sqltype.Struct:
		for i, f := range t.Fields {
			nullOut(mapping.StructVectorGetChild(v, mapping.IdxT(i)), f.Type, from, to)
		}
	case sqltype.Array:
		nullOut(mapping.ArrayVectorGetChild(v), *t.Elem, from*t.Size, to*t.Size)
	}
}
