package duckext

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/sqltype"
)

// What a query process sends to the parent is not an Arrow IPC stream: reading
// one from a hostile writer ends the process that reads (a length in a schema is
// enough), and no check of ours could stand before the reader. It is Arrow's
// buffers alone, in the order that the columns' types prescribe, which both sides
// know. No length is sent that could lie:
//
//	piece  = rows as uint64, then each column
//	column = number of NULLs as uint64, the validity bits if there are any, then
//	         strings: offsets, bytes; lists and maps: offsets, elements;
//	         arrays and structs: parts; others: values
//
// Each buffer is padded to 8 bytes.

func marshal(v any) ([]byte, error) { return json.Marshal(v) }

// appendBatch adds a piece to b. The batch is in the inside form of cols.
func appendBatch(b []byte, cols []sqltype.Field, rec arrow.RecordBatch) ([]byte, error) {
	b = binary.LittleEndian.AppendUint64(b, uint64(rec.NumRows()))
	for i, c := range cols {
		var err error
		if b, err = appendArray(b, c.Type, rec.Column(i).Data()); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// appendArray adds a column to b. Its arrays must not be slices of others.
func appendArray(b []byte, t sqltype.Type, d arrow.ArrayData) ([]byte, error) {
	if d.Offset() != 0 {
		return nil, errors.New("a slice of an array cannot be sent")
	}
	n, bufs := d.Len(), d.Buffers()
	nulls := d.NullN()
	if nulls < 0 { // not counted yet
		nulls = 0
		if bufs[0] != nil {
			nulls = n - bitutil.CountSetBits(bufs[0].Bytes(), 0, n)
		}
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(nulls))
	if nulls > 0 {
		b = appendPadded(b, bufs[0], (n+7)/8)
	}
	var err error
	switch l := layout(t); l {
	case layoutStrings, layoutLists:
		offsets := []int32{0}
		if bufs[1] != nil && bufs[1].Len() > 0 {
			offsets = arrow.Int32Traits.CastFromBytes(bufs[1].Bytes())[:n+1]
		}
		b = pad(append(b, arrow.Int32Traits.CastToBytes(offsets)...))
		if l == layoutStrings {
			return appendPadded(b, bufs[2], int(offsets[n])), nil
		}
		if d.Children()[0].Len() != int(offsets[n]) {
			return nil, errors.New("a list with more elements than it shows cannot be sent")
		}
		return appendArray(b, element(t), d.Children()[0])
	case layoutParts:
		for i, p := range parts(t) {
			if b, err = appendArray(b, p, d.Children()[i]); err != nil {
				return nil, err
			}
		}
		return b, nil
	}
	return appendPadded(b, bufs[1], n*width(t)), nil
}

func pad(b []byte) []byte {
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

func appendPadded(b []byte, buf *memory.Buffer, n int) []byte {
	if n > 0 {
		b = append(b, buf.Bytes()[:n]...)
	}
	return pad(b)
}

const (
	layoutFixed = iota
	layoutStrings
	layoutLists
	layoutParts
)

func layout(t sqltype.Type) int {
	switch t.ID {
	case sqltype.Varchar, sqltype.JSON, sqltype.Blob:
		return layoutStrings
	case sqltype.List, sqltype.Map:
		return layoutLists
	case sqltype.Struct, sqltype.Array:
		return layoutParts
	}
	return layoutFixed
}

// element is the type of a list's or a map's elements.
func element(t sqltype.Type) sqltype.Type {
	if t.ID == sqltype.List {
		return *t.Elem
	}
	return sqltype.Type{ID: sqltype.Struct, Fields: t.Fields}
}

func parts(t sqltype.Type) []sqltype.Type {
	if t.ID == sqltype.Array {
		return []sqltype.Type{*t.Elem}
	}
	ts := make([]sqltype.Type, len(t.Fields))
	for i, f := range t.Fields {
		ts[i] = f.Type
	}
	return ts
}

func width(t sqltype.Type) int { return t.Inside().(arrow.FixedWidthDataType).BitWidth() / 8 }

var errBroken = errors.New("broken answer: data is missing, or an offset leads out of it")

// decodeBatches reads pieces that an untrusted process wrote. Nothing of the
// result leads out of its buffers, which are b's.
func decodeBatches(cols []sqltype.Field, b []byte) ([]arrow.RecordBatch, error) {
	r := &wireReader{b: b}
	schema := insideSchema(cols)
	var recs []arrow.RecordBatch
	for r.at < len(b) {
		n, err := r.number()
		if err != nil {
			return nil, err
		}
		arrs := make([]arrow.Array, len(cols))
		for i, c := range cols {
			d, err := r.array(c.Type, c.Type.Inside(), n)
			if err != nil {
				return nil, fmt.Errorf("column %q: %w", c.Name, err)
			}
			arrs[i] = array.MakeFromData(d)
		}
		recs = append(recs, array.NewRecordBatch(schema, arrs, int64(n)))
	}
	return recs, nil
}

type wireReader struct {
	b  []byte
	at int
}

// take is the next n bytes, and skips what pads them.
func (r *wireReader) take(n int) ([]byte, error) {
	if n < 0 || n > len(r.b)-r.at {
		return nil, errBroken
	}
	out := r.b[r.at : r.at+n : r.at+n]
	r.at = min(r.at+(n+7)/8*8, len(r.b))
	return out, nil
}

// number is a count; each thing counted takes at least an eighth of a byte.
func (r *wireReader) number() (int, error) {
	b, err := r.take(8)
	if err != nil {
		return 0, err
	}
	n := binary.LittleEndian.Uint64(b)
	if n > uint64(len(r.b))*8 {
		return 0, errBroken
	}
	return int(n), nil
}

func (r *wireReader) array(t sqltype.Type, dt arrow.DataType, n int) (arrow.ArrayData, error) {
	nulls, err := r.number()
	if err != nil {
		return nil, err
	}
	var valid *memory.Buffer
	if nulls > 0 {
		bits, err := r.take((n + 7) / 8)
		if err != nil {
			return nil, err
		}
		valid = memory.NewBufferBytes(bits)
		nulls = n - bitutil.CountSetBits(bits, 0, n)
	}
	bufs := []*memory.Buffer{valid}
	var children []arrow.ArrayData
	switch l := layout(t); l {
	case layoutStrings, layoutLists:
		raw, last, err := r.offsets(n)
		if err != nil {
			return nil, err
		}
		bufs = append(bufs, memory.NewBufferBytes(raw))
		if l == layoutStrings {
			text, err := r.take(last)
			if err != nil {
				return nil, err
			}
			bufs = append(bufs, memory.NewBufferBytes(text))
			break
		}
		child, err := r.array(element(t), dt.(arrow.ListLikeType).Elem(), last)
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	case layoutParts:
		for i, p := range parts(t) {
			m, pt := n, arrow.DataType(nil)
			if t.ID == sqltype.Array {
				m, pt = n*t.Size, dt.(*arrow.FixedSizeListType).Elem()
			} else {
				pt = dt.(*arrow.StructType).Field(i).Type
			}
			child, err := r.array(p, pt, m)
			if err != nil {
				return nil, err
			}
			children = append(children, child)
		}
	default:
		vals, err := r.take(n * width(t))
		if err != nil {
			return nil, err
		}
		bufs = append(bufs, memory.NewBufferBytes(vals))
	}
	return array.NewData(dt, n, bufs, children, nulls, 0), nil
}

// offsets reads n+1 rising offsets from 0, and returns the last.
func (r *wireReader) offsets(n int) ([]byte, int, error) {
	raw, err := r.take(4 * (n + 1))
	if err != nil {
		return nil, 0, err
	}
	last := int32(0)
	for i, o := range arrow.Int32Traits.CastFromBytes(raw) {
		if o < last || i == 0 && o != 0 {
			return nil, 0, errBroken
		}
		last = o
	}
	return raw, int(last), nil
}

// encodeArray and decodeArray carry one column by itself.
func encodeArray(t sqltype.Type, arr arrow.Array) ([]byte, error) {
	b := binary.LittleEndian.AppendUint64(nil, uint64(arr.Len()))
	return appendArray(b, t, arr.Data())
}

func decodeArray(t sqltype.Type, b []byte) (arrow.Array, error) {
	recs, err := decodeBatches([]sqltype.Field{{Name: "v", Type: t}}, b)
	if err != nil {
		return nil, err
	}
	if len(recs) != 1 {
		return nil, errBroken
	}
	return recs[0].Column(0), nil
}

// insideSchema is the Arrow schema of columns in the inside form.
func insideSchema(cols []sqltype.Field) *arrow.Schema {
	fs := make([]arrow.Field, len(cols))
	for i, c := range cols {
		fs[i] = c.Type.InsideField(c.Name)
	}
	return arrow.NewSchema(fs, nil)
}
