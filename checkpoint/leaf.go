package checkpoint

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/sqltype"
)

func leafToFile(c *conversion, t sqltype.Type, d arrow.ArrayData) (arrow.ArrayData, []int) {
	switch t.ID {
	case sqltype.Boolean:
		if storage(d.DataType()).ID() == arrow.BOOL {
			return nil, nil
		}
		in := arrow.Int8Traits.CastFromBytes(bytesOf(d, 1))
		buf := c.buffer(int(bitutil.BytesForBits(int64(d.Offset() + d.Len()))))
		for i := d.Offset(); i < d.Offset()+d.Len(); i++ {
			bitutil.SetBitTo(buf.Bytes(), i, in[i] != 0)
		}
		return c.primitive(t, d, buf), nil
	case sqltype.HugeInt, sqltype.UHugeInt:
		// Both forms are the same 16 bytes, little-endian two's complement, as
		// long as the value is within the decimal's 38 digits.
		return c.checked(t, d, func(b []byte) bool {
			lo, hi := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
			if t.ID == sqltype.HugeInt && int64(hi) < 0 {
				lo, hi = -lo, ^hi
				if lo == 0 {
					hi++
				}
			}
			return hi < tenTo38Hi || hi == tenTo38Hi && lo < tenTo38Lo
		})
	case sqltype.TimestampS:
		return c.scaled(t, d, 1_000_000)
	case sqltype.TimestampMS:
		return c.scaled(t, d, 1_000)
	case sqltype.Interval:
		return c.intervalToStruct(d), nil
	}
	return nil, nil
}

func leafToInside(c *conversion, t sqltype.Type, d arrow.ArrayData) (arrow.ArrayData, []int) {
	switch t.ID {
	case sqltype.Boolean:
		in := bytesOf(d, 1)
		buf := c.buffer(d.Offset() + d.Len())
		for i := d.Offset(); i < d.Offset()+d.Len(); i++ {
			if bitutil.BitIsSet(in, i) {
				buf.Bytes()[i] = 1
			}
		}
		return c.primitive(t, d, buf), nil
	case sqltype.UHugeInt:
		return c.checked(t, d, func(b []byte) bool { return int8(b[15]) >= 0 })
	case sqltype.TimestampS:
		return c.scaled(t, d, -1_000_000)
	case sqltype.TimestampMS:
		return c.scaled(t, d, -1_000)
	case sqltype.Interval:
		return c.structToInterval(d)
	}
	return nil, nil
}

// 10^38 as two words: the first magnitude beyond 38 digits.
const (
	tenTo38Hi = 0x4b3b4ca85a86c47a
	tenTo38Lo = 0x098a224000000000
)

// checked shares the 16-byte values of d unless one of them does not fit.
func (c *conversion) checked(t sqltype.Type, d arrow.ArrayData, fits func([]byte) bool) (arrow.ArrayData, []int) {
	in := bytesOf(d, 1)
	var misfits []int
	for i := range d.Len() {
		if at := (d.Offset() + i) * 16; !fits(in[at:at+16]) && valid(d, i) {
			misfits = append(misfits, i)
		}
	}
	if misfits == nil {
		return nil, nil
	}
	buf := c.buffer((d.Offset() + d.Len()) * 16)
	copy(buf.Bytes(), in)
	for _, i := range misfits {
		clear(buf.Bytes()[(d.Offset()+i)*16:][:16])
	}
	return c.primitive(t, d, buf), misfits
}

// scaled multiplies int64 values by by, or divides them by -by when it is
// negative. The infinities of DuckDB (the extremes of int64) stay what they are.
func (c *conversion) scaled(t sqltype.Type, d arrow.ArrayData, by int64) (arrow.ArrayData, []int) {
	in := arrow.Int64Traits.CastFromBytes(bytesOf(d, 1))
	buf := c.buffer((d.Offset() + d.Len()) * 8)
	out := arrow.Int64Traits.CastFromBytes(buf.Bytes())
	var misfits []int
	for i := range d.Len() {
		at := d.Offset() + i
		switch v := in[at]; {
		case v == math.MaxInt64 || v == -math.MaxInt64:
			out[at] = v
		case by < 0 && v%by == 0:
			out[at] = v / -by
		case by > 0 && v <= (math.MaxInt64-1)/by && v >= -(math.MaxInt64-1)/by:
			out[at] = v * by
		case valid(d, i):
			misfits = append(misfits, i)
		}
	}
	return c.primitive(t, d, buf), misfits
}

func (c *conversion) intervalToStruct(d arrow.ArrayData) arrow.ArrayData {
	n := d.Offset() + d.Len()
	in := arrow.MonthDayNanoIntervalTraits.CastFromBytes(bytesOf(d, 1))
	months, days, micros := c.buffer(4*n), c.buffer(4*n), c.buffer(8*n)
	m, dd := arrow.Int32Traits.CastFromBytes(months.Bytes()), arrow.Int32Traits.CastFromBytes(days.Bytes())
	u := arrow.Int64Traits.CastFromBytes(micros.Bytes())
	for i := d.Offset(); i < n; i++ {
		m[i], dd[i], u[i] = in[i].Months, in[i].Days, in[i].Nanoseconds/1000
	}
	var children []arrow.ArrayData
	for i, buf := range []*memory.Buffer{months, days, micros} {
		typ := c.to(sqltype.Type{ID: sqltype.Interval}).(*arrow.StructType).Field(i).Type
		children = append(children, array.NewData(typ, n, []*memory.Buffer{nil, buf}, nil, 0, 0))
		buf.Release()
	}
	out := array.NewData(c.to(sqltype.Type{ID: sqltype.Interval}), d.Len(), d.Buffers()[:1], children, nulls(d), d.Offset())
	for _, ch := range children {
		ch.Release()
	}
	return out
}

func (c *conversion) structToInterval(d arrow.ArrayData) (arrow.ArrayData, []int) {
	n := d.Offset() + d.Len()
	buf := c.buffer(n * arrow.MonthDayNanoIntervalSizeBytes)
	out := arrow.MonthDayNanoIntervalTraits.CastFromBytes(buf.Bytes())
	m, dd, u := d.Children()[0], d.Children()[1], d.Children()[2]
	months := arrow.Int32Traits.CastFromBytes(bytesOf(m, 1))[m.Offset():]
	days := arrow.Int32Traits.CastFromBytes(bytesOf(dd, 1))[dd.Offset():]
	micros := arrow.Int64Traits.CastFromBytes(bytesOf(u, 1))[u.Offset():]
	var misfits []int
	for i := d.Offset(); i < n; i++ {
		if v := micros[i]; v > math.MaxInt64/1000 || v < math.MinInt64/1000 {
			if !valid(d, i-d.Offset()) {
				continue
			}
			misfits = append(misfits, i-d.Offset())
			continue
		}
		out[i] = arrow.MonthDayNanoInterval{Months: months[i], Days: days[i], Nanoseconds: micros[i] * 1000}
	}
	return c.primitive(sqltype.Type{ID: sqltype.Interval}, d, buf), misfits
}

// primitive wraps a fixed-width value buffer, which it takes, with the validity
// of d.
func (c *conversion) primitive(t sqltype.Type, d arrow.ArrayData, values *memory.Buffer) arrow.ArrayData {
	defer values.Release()
	return array.NewData(c.to(t), d.Len(), []*memory.Buffer{d.Buffers()[0], values}, nil, nulls(d), d.Offset())
}

// buffer allocates zeroed bytes.
func (c *conversion) buffer(n int) *memory.Buffer {
	b := memory.NewResizableBuffer(c.mem)
	b.Resize(n)
	clear(b.Bytes())
	return b
}

// nulls counts the NULLs of d. Arrow's maps want to know that they have none.
func nulls(d arrow.ArrayData) int {
	if n := d.NullN(); n >= 0 {
		return n
	}
	if bits := bytesOf(d, 0); len(bits) > 0 {
		return d.Len() - bitutil.CountSetBits(bits, d.Offset(), d.Len())
	}
	return 0
}

// valid says whether the value at i is not NULL. What stands under a NULL is
// whatever its maker left there, in elements of lists too.
func valid(d arrow.ArrayData, i int) bool {
	bits := bytesOf(d, 0)
	return len(bits) == 0 || bitutil.BitIsSet(bits, d.Offset()+i)
}

// bytesOf is a buffer's content; a missing buffer is empty.
func bytesOf(d arrow.ArrayData, i int) []byte {
	if b := d.Buffers()[i]; b != nil {
		return b.Bytes()
	}
	return nil
}

// storage is the type whose layout an extension type has.
func storage(t arrow.DataType) arrow.DataType {
	if e, ok := t.(arrow.ExtensionType); ok {
		return e.StorageType()
	}
	return t
}

// deepStorage is storage at every depth of t.
func deepStorage(t arrow.DataType) arrow.DataType {
	bare := func(f arrow.Field) arrow.Field {
		f.Type = deepStorage(f.Type)
		return f
	}
	switch t := storage(t).(type) {
	case *arrow.ListType:
		return arrow.ListOfField(bare(t.ElemField()))
	case *arrow.FixedSizeListType:
		return arrow.FixedSizeListOfField(t.Len(), bare(t.ElemField()))
	case *arrow.MapType:
		return arrow.MapOfFields(bare(t.KeyField()), bare(t.ItemField()))
	case *arrow.StructType:
		fs := make([]arrow.Field, t.NumFields())
		for i, f := range t.Fields() {
			fs[i] = bare(f)
		}
		return arrow.StructOf(fs...)
	default:
		return t
	}
}

// bareData is d without extension types at any depth. The caller releases it.
func bareData(d arrow.ArrayData) arrow.ArrayData {
	var children []arrow.ArrayData
	for _, ch := range d.Children() {
		children = append(children, bareData(ch))
	}
	out := array.NewData(deepStorage(d.DataType()), d.Len(), d.Buffers(), children, nulls(d), d.Offset())
	for _, ch := range children {
		ch.Release()
	}
	return out
}

// sameLayout compares what decides the meaning of the buffers, one level deep:
// not metadata, names or time zones.
func sameLayout(a, b arrow.DataType) bool {
	if a.ID() != b.ID() {
		return false
	}
	switch a := a.(type) {
	case *arrow.FixedSizeBinaryType:
		return a.ByteWidth == b.(*arrow.FixedSizeBinaryType).ByteWidth
	case *arrow.Decimal128Type:
		return a.Scale == b.(*arrow.Decimal128Type).Scale
	case *arrow.TimestampType:
		return a.Unit == b.(*arrow.TimestampType).Unit
	case *arrow.FixedSizeListType:
		return a.Len() == b.(*arrow.FixedSizeListType).Len()
	case *arrow.StructType:
		return a.NumFields() == b.(*arrow.StructType).NumFields()
	}
	return true
}
