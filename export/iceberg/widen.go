package iceberg

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/sqltype"
)

// widened gives batches with the integers that Iceberg has.
type widened struct {
	array.RecordReader
	schema *arrow.Schema
	types  []sqltype.Type // of the reader
	rec    arrow.RecordBatch
}

func newWidened(rows array.RecordReader, columns []sqltype.Field) *widened {
	w := &widened{RecordReader: rows}
	meta := rows.Schema().Metadata()
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		w.types = append(w.types, c.Type)
		fields[i] = physicalDeep(c.Type).FileField(c.Name)
	}
	w.schema = arrow.NewSchema(fields, &meta)
	return w
}

func (w *widened) Schema() *arrow.Schema          { return w.schema }
func (w *widened) RecordBatch() arrow.RecordBatch { return w.rec }

func (w *widened) drop() {
	if w.rec != nil {
		w.rec.Release()
		w.rec = nil
	}
}

func (w *widened) Next() bool {
	w.drop()
	if !w.RecordReader.Next() {
		return false
	}
	in := w.RecordReader.RecordBatch()
	cols := make([]arrow.Array, len(w.types))
	for i, t := range w.types {
		d := widen(t, in.Column(i).Data())
		cols[i] = array.MakeFromData(d)
		d.Release()
	}
	fields := w.schema.Fields()
	for i := range fields {
		fields[i].Type = cols[i].DataType() // extension types included
	}
	w.rec = array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, in.NumRows())
	for _, c := range cols {
		c.Release()
	}
	return true
}

// widen rewrites the integers in d, an array of t in file form. Validity and
// offsets are shared. The caller releases the result.
func widen(t sqltype.Type, d arrow.ArrayData) arrow.ArrayData {
	values := func(to arrow.DataType, width int, put func(out []byte)) arrow.ArrayData {
		out := make([]byte, width*(d.Offset()+d.Len()))
		put(out)
		return array.NewData(to, d.Len(), []*memory.Buffer{d.Buffers()[0], memory.NewBufferBytes(out)}, nil, d.NullN(), d.Offset())
	}
	in := func() []byte {
		if d.Buffers()[1] == nil { // of no values
			return nil
		}
		return d.Buffers()[1].Bytes()
	}
	switch t.ID {
	case sqltype.TinyInt:
		return values(arrow.PrimitiveTypes.Int32, 4, func(out []byte) {
			copyInts(arrow.Int32Traits.CastFromBytes(out), arrow.Int8Traits.CastFromBytes(in()))
		})
	case sqltype.SmallInt:
		return values(arrow.PrimitiveTypes.Int32, 4, func(out []byte) {
			copyInts(arrow.Int32Traits.CastFromBytes(out), arrow.Int16Traits.CastFromBytes(in()))
		})
	case sqltype.UTinyInt:
		return values(arrow.PrimitiveTypes.Int32, 4, func(out []byte) {
			copyInts(arrow.Int32Traits.CastFromBytes(out), arrow.Uint8Traits.CastFromBytes(in()))
		})
	case sqltype.USmallInt:
		return values(arrow.PrimitiveTypes.Int32, 4, func(out []byte) {
			copyInts(arrow.Int32Traits.CastFromBytes(out), arrow.Uint16Traits.CastFromBytes(in()))
		})
	case sqltype.UInteger:
		return values(arrow.PrimitiveTypes.Int64, 8, func(out []byte) {
			copyInts(arrow.Int64Traits.CastFromBytes(out), arrow.Uint32Traits.CastFromBytes(in()))
		})
	case sqltype.UBigInt:
		return values(&arrow.Decimal128Type{Precision: 20}, 16, func(out []byte) {
			to := arrow.Decimal128Traits.CastFromBytes(out)
			for i, v := range arrow.Uint64Traits.CastFromBytes(in())[:len(to)] {
				to[i] = decimal128.New(0, v)
			}
		})
	}
	if !t.Nested() {
		d.Retain()
		return d
	}
	parts := t.Fields
	switch t.ID {
	case sqltype.List, sqltype.Array:
		parts = []sqltype.Field{{Type: *t.Elem}}
	case sqltype.Map:
		parts = []sqltype.Field{{Type: sqltype.Type{ID: sqltype.Struct, Fields: t.Fields}}}
	}
	var children []arrow.ArrayData
	for i, ch := range d.Children() {
		children = append(children, widen(parts[i].Type, ch))
	}
	out := array.NewData(physicalDeep(t).File(), d.Len(), d.Buffers(), children, d.NullN(), d.Offset())
	for _, ch := range children {
		ch.Release()
	}
	return out
}

func copyInts[T int32 | int64, F int8 | int16 | uint8 | uint16 | uint32](to []T, from []F) {
	for i := range to {
		to[i] = T(from[i])
	}
}
