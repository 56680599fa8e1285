package checkpoint

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/state"
)

// A file whose __error says nothing, or whose __error_at does not fit it, is
// refused by every way to read it: none may show the group as right.
func TestErrorsThatSayNothing(t *testing.T) {
	fsys := vfs.NewMem()
	r, f := rng(t), newFake()
	id := f.add(r, revenue(), 30, 30, false)
	rec := f.rows[id][0]
	errs := array.NewStringBuilder(memory.DefaultAllocator)
	for i := range int(rec.NumRows()) {
		if i == 20 {
			errs.Append("")
		} else {
			errs.AppendNull()
		}
	}
	cols := append(rec.Columns()[:rec.NumCols()-1:rec.NumCols()-1], errs.NewArray())
	f.rows[id] = []arrow.RecordBatch{array.NewRecordBatch(rec.Schema(), cols, rec.NumRows())}
	write(t, fsys, f)
	tab := table(t, open(t, fsys, 1), "revenue_by_city")
	for how, read := range map[string]func() (array.RecordReader, error){
		"rows":    func() (array.RecordReader, error) { return tab.Rows(t.Context(), []string{"city"}, nil) },
		"scan":    func() (array.RecordReader, error) { return tab.Scan(t.Context(), state.ScanRequest{Columns: []int{0}}) },
		"results": func() (array.RecordReader, error) { return tab.Results(t.Context(), nil) },
	} {
		in, err := read()
		if err != nil {
			t.Fatal(err)
		}
		for in.Next() {
		}
		if err := in.Err(); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "row 20 of a batch is in error, and __error does not say why") {
			t.Errorf("%s: %v", how, err)
		}
		in.Release()
	}
	if _, err := Restore(context.Background(), Path(fsys, dir, 1), "restored", state.Options{FS: fsys}); !errors.Is(err, ErrDamaged) {
		t.Errorf("restore: %v", err)
	}
}

func TestErrorsAndTheirPlaces(t *testing.T) {
	const null = "\x00"
	for _, c := range []struct{ text, at, want string }{
		{null, null, ""},
		{"overflow", "merge", ""},
		{"ln(0)", "result", ""},
		{"too great", "file", ""},
		{null, null, "__visible is NULL"},
		{"", "merge", "does not say why"},
		{null, "merge", "does not say why"},
		{"ln(0)", null, "__error_at is not"},
		{"ln(0)", "elsewhere", "__error_at is not"},
	} {
		b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: errorColumn, Type: arrow.BinaryTypes.String}, {Name: errorAtColumn, Type: arrow.BinaryTypes.String}, {Name: visibleColumn, Type: arrow.FixedWidthTypes.Boolean}}, nil))
		b.Field(2).(*array.BooleanBuilder).AppendValues([]bool{true, true}, []bool{true, c.want != "__visible is NULL"})
		for i, v := range []string{c.text, c.at} {
			b.Field(i).AppendNull()
			if v == null {
				b.Field(i).AppendNull()
			} else {
				b.Field(i).(*array.StringBuilder).Append(v)
			}
		}
		err := (&saidErrors{err: 0, errAt: 1, visible: 2}).check(b.NewRecordBatch())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q at %q: %v", c.text, c.at, err)
		}
	}
}
