package state

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// withError is the rows of a reader, all in error for a reason.
func withError(in array.RecordReader, reason string) array.RecordReader {
	in.Next()
	rec := in.RecordBatch()
	b := array.NewStringBuilder(memory.DefaultAllocator)
	for range rec.NumRows() {
		b.Append(reason)
	}
	fields := append(rec.Schema().Fields(), arrow.Field{Name: ErrorColumn, Type: arrow.BinaryTypes.String, Nullable: true})
	rec = array.NewRecordBatch(arrow.NewSchema(fields, nil), append(rec.Columns(), b.NewArray()), rec.NumRows())
	rd, err := array.NewRecordReader(rec.Schema(), []arrow.RecordBatch{rec})
	if err != nil {
		panic(err)
	}
	return rd
}

// A group in error has a reason, by which readers know that it is in error: one
// without is taken in nowhere.
func TestNoErrorWithoutAReason(t *testing.T) {
	p := planOf("by_id")
	for reason, want := range map[string]string{"": "__error is '' where the key is id = 7", "overflow": ""} {
		_, err := drained(p, t, withError(byID([2]int64{7, 1}), reason))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("regroup with the reason %q: %v", reason, err)
		}
	}
	for reason, want := range map[string]string{"": "does not say why", "overflow": ""} {
		fsys := vfs.NewMem()
		s := mustOpen(t, fsys, Options{})
		withViews(t, s, "by_id")
		cat := s.Catalog()
		do(t, s.Close())
		d := Dump{Epoch: 5, Sources: cat.Sources, Views: cat.Views, Rows: func(ViewID) (array.RecordReader, error) {
			return withError(byID([2]int64{7, 1}), reason), nil
		}}
		err := Load("other", Options{FS: fsys}, d)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("load with the reason %q: %v", reason, err)
		}
	}
	// Nor is a stored one shown as none: an earlier version may have written it.
	_, failed, msg, rest, err := readHeader(append(appendHeader(nil, 3, true, ""), 9))
	if !failed || string(msg) != unsaid || len(rest) != 1 || err != nil {
		t.Errorf("a stored group in error: %v %q %d, %v", failed, msg, len(rest), err)
	}
}
