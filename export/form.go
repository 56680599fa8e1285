package export

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/sqltype"
)

// sqlTypeKey is the metadata of a field of a checkpoint's file that has its SQL
// type.
const sqlTypeKey = "weir.sql_type"

// Columns reads names and SQL types out of the schema of a checkpoint's file.
func Columns(s *arrow.Schema) ([]sqltype.Field, error) {
	out := make([]sqltype.Field, s.NumFields())
	for i, f := range s.Fields() {
		text, ok := f.Metadata.GetValue(sqlTypeKey)
		if !ok {
			return nil, fmt.Errorf("column %s does not say its SQL type", f.Name)
		}
		t, err := sqltype.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Name, err)
		}
		out[i] = sqltype.Field{Name: f.Name, Type: t}
	}
	return out, nil
}

// parquetType is the type that pqarrow is given for t: the file form, but UUID
// and JSON as extension types, by which Parquet's own annotations come about.
func parquetType(t sqltype.Type) arrow.DataType {
	switch t.ID {
	case sqltype.UUID:
		return extensions.NewUUIDType()
	case sqltype.JSON:
		u, err := extensions.NewJSONType(arrow.BinaryTypes.String)
		if err != nil {
			panic("export: " + err.Error()) // a string is storage of JSON
		}
		return u
	case sqltype.List, sqltype.Array:
		return arrow.ListOfField(parquetField("element", *t.Elem))
	case sqltype.Struct:
		fs := make([]arrow.Field, len(t.Fields))
		for i, f := range t.Fields {
			fs[i] = parquetField(f.Name, f.Type)
		}
		return arrow.StructOf(fs...)
	case sqltype.Map:
		k := parquetField("key", t.Fields[0].Type)
		k.Nullable = false
		return arrow.MapOfFields(k, parquetField("value", t.Fields[1].Type))
	}
	return t.File()
}

func parquetField(name string, t sqltype.Type) arrow.Field {
	return arrow.Field{Name: name, Type: parquetType(t), Nullable: true}
}

// retype gives an array of the file form a type that parquetType has for it.
// Buffers are shared. The caller releases the result.
func retype(want arrow.DataType, a arrow.Array) (arrow.Array, error) {
	if err := sameShape(a.DataType(), want); err != nil {
		return nil, err
	}
	d := typed(want, a.Data())
	defer d.Release()
	return array.MakeFromData(d), nil
}

// typed gives d, and what is in it, the type want. Lists come out as pqarrow
// takes them: a NULL has no elements, and lists of a fixed size are plain lists
// (of the same type in Parquet), which may be NULL.
func typed(want arrow.DataType, d arrow.ArrayData) arrow.ArrayData {
	buffers, children := d.Buffers(), d.Children()
	if isList(want) {
		offsets, child := compacted(d)
		defer child.Release()
		buffers, children = []*memory.Buffer{buffers[0], offsets}, []arrow.ArrayData{child}
	}
	var parts []arrow.ArrayData
	for i, ch := range children {
		parts = append(parts, typed(childType(want, i), ch))
	}
	out := array.NewData(want, d.Len(), buffers, parts, d.NullN(), d.Offset())
	for _, ch := range parts {
		ch.Release()
	}
	return out
}

func isList(t arrow.DataType) bool { return t.ID() == arrow.LIST || t.ID() == arrow.MAP }

// compacted gives the offsets and the elements of a list without those that
// stand under a NULL. The caller releases the elements.
func compacted(d arrow.ArrayData) (*memory.Buffer, arrow.ArrayData) {
	from, to := bounds(d)
	child := d.Children()[0]
	offsets := make([]int32, d.Offset()+d.Len()+1) // zeros up to the first row
	var runs []arrow.Array
	begin := -1
	elements := array.MakeFromData(child)
	defer elements.Release()
	flush := func(end int) {
		if begin >= 0 && end > begin {
			runs = append(runs, array.NewSlice(elements, int64(begin), int64(end)))
		}
		begin = -1
	}
	end, last := int32(0), 0
	for i := range d.Len() {
		at := d.Offset() + i
		if isValid(d, at) {
			if f := from(at); begin < 0 || f != last {
				flush(last)
				begin = f
			}
			last = to(at)
			end += int32(to(at) - from(at))
		}
		offsets[at+1] = end
	}
	flush(last)
	buf := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))
	if len(runs) == 0 {
		return buf, array.NewSliceData(child, 0, 0)
	}
	defer func() {
		for _, r := range runs {
			r.Release()
		}
	}()
	if len(runs) == 1 {
		out := runs[0].Data()
		out.Retain()
		return buf, out
	}
	whole, err := array.Concatenate(runs, memory.DefaultAllocator)
	if err != nil {
		panic("export: " + err.Error()) // slices of one array have one type
	}
	defer whole.Release()
	out := whole.Data()
	out.Retain()
	return buf, out
}

// bounds says where the elements of a row begin and end, counted like the
// elements' array. Rows are counted from the beginning of the buffers.
func bounds(d arrow.ArrayData) (from, to func(row int) int) {
	if t, ok := d.DataType().(*arrow.FixedSizeListType); ok {
		n := int(t.Len())
		return func(row int) int { return row * n }, func(row int) int { return (row + 1) * n }
	}
	var offsets []int32
	if b := d.Buffers()[1]; b != nil { // nil where there are no rows
		offsets = arrow.Int32Traits.CastFromBytes(b.Bytes())
	}
	return func(row int) int { return int(offsets[row]) }, func(row int) int { return int(offsets[row+1]) }
}

func isValid(d arrow.ArrayData, row int) bool {
	b := d.Buffers()[0]
	return b == nil || b.Len() == 0 || bitutil.BitIsSet(b.Bytes(), row)
}

func childType(t arrow.DataType, i int) arrow.DataType {
	switch t := t.(type) {
	case *arrow.StructType:
		return t.Field(i).Type
	case *arrow.MapType:
		return t.Elem() // the struct of key and value
	}
	return t.(arrow.ListLikeType).Elem()
}

// sameShape wants the buffers of two types to mean the same at every depth.
func sameShape(a, b arrow.DataType) error {
	a, b = storage(a), storage(b)
	if a.ID() != b.ID() && (a.ID() != arrow.FIXED_SIZE_LIST || b.ID() != arrow.LIST) {
		return fmt.Errorf("%s is not %s", a, b)
	}
	nested := func(as, bs []arrow.Field) error {
		if len(as) != len(bs) {
			return fmt.Errorf("%d parts are not %d", len(as), len(bs))
		}
		for i := range as {
			if err := sameShape(as[i].Type, bs[i].Type); err != nil {
				return err
			}
		}
		return nil
	}
	if a, ok := a.(arrow.NestedType); ok {
		return nested(a.Fields(), b.(arrow.NestedType).Fields())
	}
	if !arrow.TypeEqual(a, b) {
		return fmt.Errorf("%s is not %s", a, b)
	}
	return nil
}

func storage(t arrow.DataType) arrow.DataType {
	if e, ok := t.(arrow.ExtensionType); ok {
		return e.StorageType()
	}
	return t
}
