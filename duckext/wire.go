package duckext

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	flatbuffers "github.com/google/flatbuffers/go"

	"weir/state/sqltype"
)

func marshal(v any) ([]byte, error) { return json.Marshal(v) }

// encodeArray writes one column of type t as an Arrow stream.
func encodeArray(t sqltype.Type, arr arrow.Array) ([]byte, error) {
	schema := insideSchema([]sqltype.Field{{Name: "v", Type: t}})
	rec := array.NewRecordBatch(schema, []arrow.Array{arr}, int64(arr.Len()))
	defer rec.Release()
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(schema))
	if err := w.Write(rec); err != nil {
		return nil, err
	}
	return b.Bytes(), w.Close()
}

// decodeArray reads what an untrusted process wrote with encodeArray.
func decodeArray(t sqltype.Type, b []byte) (arrow.Array, error) {
	recs, err := decodeStream([]sqltype.Field{{Name: "v", Type: t}}, b)
	if err != nil {
		return nil, err
	}
	if len(recs) != 1 {
		return nil, errors.New("an array came in several pieces")
	}
	return recs[0].Column(0), nil
}

// decodeStream reads an Arrow stream of columns in the inside form, written by
// an untrusted process. Nothing of the result leads out of its buffers, and its
// types are exactly those of cols. The batches live on the Go heap.
func decodeStream(cols []sqltype.Field, b []byte) (recs []arrow.RecordBatch, err error) {
	defer func() {
		if p := recover(); p != nil {
			recs, err = nil, fmt.Errorf("broken Arrow stream: %v", p)
		}
	}()
	if err := checkFraming(b); err != nil {
		return nil, fmt.Errorf("broken Arrow stream: %w", err)
	}
	rd, err := ipc.NewReader(bytes.NewReader(b), ipc.WithAllocator(&bounded{left: 2*len(b) + 1<<16}))
	if err != nil {
		return nil, fmt.Errorf("broken Arrow stream: %w", err)
	}
	defer rd.Release()
	schema := insideSchema(cols)
	if got := rd.Schema(); len(got.Fields()) != len(cols) {
		return nil, fmt.Errorf("broken Arrow stream: %d columns instead of %d", len(got.Fields()), len(cols))
	}
	for rd.Next() {
		rec := rd.RecordBatch()
		arrs := make([]arrow.Array, len(cols))
		for i, c := range cols {
			data := rec.Column(i).Data()
			if ext, ok := rec.Column(i).(array.ExtensionArray); ok {
				data = ext.Storage().Data()
			}
			if err := checkArray(c.Type, data, int(rec.NumRows())); err != nil {
				return nil, fmt.Errorf("broken Arrow stream: column %q: %w", c.Name, err)
			}
			arrs[i] = array.MakeFromData(retype(c.Type, data))
		}
		recs = append(recs, array.NewRecordBatch(schema, arrs, rec.NumRows()))
	}
	if err := rd.Err(); err != nil {
		return nil, fmt.Errorf("broken Arrow stream: %w", err)
	}
	return recs, nil
}

// checkFraming verifies that no message of a stream claims more than is there,
// since a reader allocates what is claimed.
func checkFraming(b []byte) error {
	for len(b) > 0 {
		if len(b) < 8 || binary.LittleEndian.Uint32(b) != 0xffffffff {
			return errors.New("no message where one should begin")
		}
		n := int(int32(binary.LittleEndian.Uint32(b[4:])))
		b = b[8:]
		if n == 0 {
			return nil // the end mark
		}
		if n < 8 || n > len(b) {
			return errors.New("a message is longer than the stream")
		}
		meta := flatbuffers.Table{Bytes: b[:n], Pos: flatbuffers.GetUOffsetT(b)}
		const bodyLength = 10 // the fourth field of Message
		body := int64(0)
		if o := meta.Offset(bodyLength); o != 0 {
			body = meta.GetInt64(meta.Pos + flatbuffers.UOffsetT(o))
		}
		b = b[n:]
		if body < 0 || body > int64(len(b)) {
			return errors.New("a message's body is longer than the stream")
		}
		b = b[body:]
	}
	return nil
}

// bounded is the Go heap, up to a number of bytes in all. Beyond it panics,
// which decodeStream turns into an error.
type bounded struct {
	memory.GoAllocator
	left int
}

func (a *bounded) take(n int) {
	if a.left -= n; n < 0 || a.left < 0 {
		panic("more memory than the stream is long")
	}
}

func (a *bounded) Allocate(n int) []byte { a.take(n); return a.GoAllocator.Allocate(n) }

func (a *bounded) Reallocate(n int, b []byte) []byte {
	a.take(n)
	return a.GoAllocator.Reallocate(n, b)
}

// retype gives data the exact Arrow type of t, whose layout it has.
func retype(t sqltype.Type, data arrow.ArrayData) arrow.ArrayData {
	var parts []arrow.ArrayData
	switch t.ID {
	case sqltype.List, sqltype.Array:
		parts = []arrow.ArrayData{retype(*t.Elem, data.Children()[0])}
	case sqltype.Map:
		parts = []arrow.ArrayData{retype(sqltype.Type{ID: sqltype.Struct, Fields: t.Fields}, data.Children()[0])}
		dt := t.Inside()
		return array.NewData(dt, data.Len(), data.Buffers(), []arrow.ArrayData{array.NewData(dt.(*arrow.MapType).Elem(),
			parts[0].Len(), parts[0].Buffers(), parts[0].Children(), parts[0].NullN(), parts[0].Offset())}, data.NullN(), data.Offset())
	case sqltype.Struct:
		for i, f := range t.Fields {
			parts = append(parts, retype(f.Type, data.Children()[i]))
		}
	}
	return array.NewData(t.Inside(), data.Len(), data.Buffers(), parts, data.NullN(), data.Offset())
}

// checkArray verifies that data has the layout of t, n values, and no offset or
// length that leads beyond its buffers.
func checkArray(t sqltype.Type, data arrow.ArrayData, n int) error {
	want := t.Inside()
	if data.Len() != n || data.Offset() != 0 || data.NullN() < 0 || data.NullN() > n {
		return fmt.Errorf("%d values instead of %d", data.Len(), n)
	}
	if got := data.DataType(); got.ID() != want.ID() && !(got.ID() == arrow.EXTENSION) {
		return fmt.Errorf("Arrow type %s instead of %s", got, want)
	}
	bufs := data.Buffers()
	if data.NullN() > 0 && (len(bufs) == 0 || size(bufs[0]) < (n+7)/8) {
		return errors.New("too few marks of NULL")
	}
	switch t.ID {
	case sqltype.Varchar, sqltype.JSON, sqltype.Blob:
		if len(bufs) != 3 {
			return errors.New("no text")
		}
		_, err := checkOffsets(bufs[1], n, size(bufs[2]))
		return err
	case sqltype.List, sqltype.Map:
		if len(bufs) < 2 || len(data.Children()) != 1 {
			return errors.New("no elements")
		}
		child := data.Children()[0]
		if _, err := checkOffsets(bufs[1], n, child.Len()); err != nil {
			return err
		}
		if t.ID == sqltype.Map {
			return checkArray(sqltype.Type{ID: sqltype.Struct, Fields: t.Fields}, child, child.Len())
		}
		return checkArray(*t.Elem, child, child.Len())
	case sqltype.Array:
		if len(data.Children()) != 1 {
			return errors.New("no elements")
		}
		if l, ok := data.DataType().(*arrow.FixedSizeListType); !ok || int(l.Len()) != t.Size {
			return errors.New("arrays of another size")
		}
		return checkArray(*t.Elem, data.Children()[0], n*t.Size)
	case sqltype.Struct:
		if len(data.Children()) != len(t.Fields) {
			return errors.New("a struct of other fields")
		}
		for i, f := range t.Fields {
			if err := checkArray(f.Type, data.Children()[i], n); err != nil {
				return err
			}
		}
		return nil
	}
	width := want.(arrow.FixedWidthDataType).BitWidth() / 8
	if f, ok := data.DataType().(*arrow.FixedSizeBinaryType); ok && f.ByteWidth != width {
		return errors.New("values of another width")
	}
	if len(bufs) != 2 || size(bufs[1]) < n*width {
		return errors.New("too few values")
	}
	return nil
}

func size(b *memory.Buffer) int {
	if b == nil {
		return 0
	}
	return b.Len()
}

// checkOffsets verifies that n+1 offsets rise and stay within limit.
func checkOffsets(b *memory.Buffer, n, limit int) (int32, error) {
	if n == 0 {
		return 0, nil
	}
	if size(b) < 4*(n+1) {
		return 0, errors.New("too few offsets")
	}
	last := int32(0)
	for _, o := range arrow.Int32Traits.CastFromBytes(b.Bytes())[:n+1] {
		if o < last || int(o) > limit {
			return 0, errors.New("an offset leads out of the data")
		}
		last = o
	}
	return last, nil
}

// insideSchema is the Arrow schema of columns in the inside form.
func insideSchema(cols []sqltype.Field) *arrow.Schema {
	fs := make([]arrow.Field, len(cols))
	for i, c := range cols {
		fs[i] = c.Type.InsideField(c.Name)
	}
	return arrow.NewSchema(fs, nil)
}
