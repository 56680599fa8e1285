package export_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/google/go-cmp/cmp"

	"weir/export"
	"weir/state/sqltype"
)

// column exports one column and reads it with pqarrow.
func column(t *testing.T, typ string, a arrow.Array) []string {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: a.DataType(), Nullable: true}}, nil)
	rows, err := array.NewRecordReader(schema, []arrow.RecordBatch{array.NewRecordBatch(schema, []arrow.Array{a}, int64(a.Len()))})
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Release()
	var out bytes.Buffer
	if _, err := export.Parquet(t.Context(), &out, []sqltype.Field{{Name: "c", Type: sqltype.MustParse(typ)}}, rows, export.Options{}); err != nil {
		t.Fatal(err)
	}
	f, err := file.NewParquetReader(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	table, err := r.ReadTable(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer table.Release()
	var values []string
	for _, c := range table.Column(0).Data().Chunks() {
		for i := range c.Len() {
			values = append(values, c.ValueStr(i))
		}
	}
	return values
}

// TestElementsUnderNull has lists that are NULL and yet hold elements, as a value
// that did not fit its column leaves them, also in slices and within each other.
func TestElementsUnderNull(t *testing.T) {
	ints := array.NewInt32Builder(memory.DefaultAllocator)
	for i := range 12 {
		ints.Append(int32(i))
	}
	elements := ints.NewArray()
	inner := func(valid byte, offsets ...int32) arrow.ArrayData {
		return array.NewData(arrow.ListOf(arrow.PrimitiveTypes.Int32), len(offsets)-1,
			[]*memory.Buffer{memory.NewBufferBytes([]byte{valid}), memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))},
			[]arrow.ArrayData{elements.Data()}, array.UnknownNullCount, 0)
	}
	lists := array.MakeFromData(inner(0b110101, 0, 2, 5, 5, 9, 11, 12)) // rows 1 and 3 are NULL
	if d := cmp.Diff([]string{"[0,1]", "(null)", "[]", "(null)", "[9,10]", "[11]"}, column(t, "INTEGER[]", lists)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"(null)", "[]", "(null)", "[9,10]"}, column(t, "INTEGER[]", array.NewSlice(lists, 1, 5))); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"(null)"}, column(t, "INTEGER[]", array.NewSlice(lists, 3, 4))); d != "" {
		t.Error(d)
	}

	fixed := array.MakeFromData(array.NewData(arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int32), 6,
		[]*memory.Buffer{memory.NewBufferBytes([]byte{0b101110})}, []arrow.ArrayData{elements.Data()}, array.UnknownNullCount, 0))
	if d := cmp.Diff([]string{"(null)", "[2,3]", "[4,5]", "[6,7]", "(null)", "[10,11]"}, column(t, "INTEGER[2]", fixed)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"[6,7]", "(null)"}, column(t, "INTEGER[2]", array.NewSlice(fixed, 3, 5))); d != "" {
		t.Error(d)
	}

	outer := array.MakeFromData(array.NewData(arrow.ListOf(lists.DataType()), 3,
		[]*memory.Buffer{memory.NewBufferBytes([]byte{0b101}), memory.NewBufferBytes(arrow.Int32Traits.CastToBytes([]int32{0, 2, 4, 6}))},
		[]arrow.ArrayData{lists.Data()}, array.UnknownNullCount, 0))
	if d := cmp.Diff([]string{"[[0,1],null]", "(null)", "[[9,10],[11]]"}, column(t, "INTEGER[][]", outer)); d != "" {
		t.Error(d)
	}
}

// TestExtensionArrays gives a UUID as the two arrays in which it may come: bare,
// and of the extension type that IPC makes of it in this process.
func TestExtensionArrays(t *testing.T) {
	b := array.NewFixedSizeBinaryBuilder(memory.DefaultAllocator, &arrow.FixedSizeBinaryType{ByteWidth: 16})
	b.Append([]byte("0123456789abcdef"))
	b.AppendNull()
	bare := b.NewArray()
	want := []string{"30313233-3435-3637-3839-616263646566", "(null)"}
	for _, a := range []arrow.Array{bare, array.NewExtensionArrayWithStorage(extensions.NewUUIDType(), bare)} {
		if d := cmp.Diff(want, column(t, "UUID", a)); d != "" {
			t.Errorf("%s: %s", a.DataType(), d)
		}
	}
}

// TestWrongArraysAreRefused has a column that is not of the type announced.
func TestWrongArraysAreRefused(t *testing.T) {
	b := array.NewInt32Builder(memory.DefaultAllocator)
	b.Append(1)
	a := b.NewArray()
	schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: a.DataType()}}, nil)
	for _, typ := range []string{"BIGINT", "VARCHAR", "INTEGER[]", "DATE"} {
		rows, err := array.NewRecordReader(schema, []arrow.RecordBatch{array.NewRecordBatch(schema, []arrow.Array{a}, 1)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := export.Parquet(t.Context(), &bytes.Buffer{}, []sqltype.Field{{Name: "c", Type: sqltype.MustParse(typ)}}, rows, export.Options{}); err == nil {
			t.Errorf("an array of %s was taken for %s", a.DataType(), typ)
		}
		rows.Release()
	}
	if _, err := export.Columns(schema); err == nil {
		t.Error("a file that does not say its types was taken for one that does")
	}
}
