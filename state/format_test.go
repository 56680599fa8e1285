package state

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/state/codec"
	"weir/state/sqltype"
)

// The bytes of docs/state.md. They are a format: when this fails, data
// directories that exist would be misread.
func TestDocumentedBytes(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), Options{})
	_, err := s.CreateSource(Source{Name: "orders"}) // ids 1 and 2 go to other things
	do(t, err)
	createView(t, s, "total", false)
	_, err = s.CreateView("", benchView("BIGINT"), false, nil)
	do(t, err)
	s.openEpoch = 399
	rows := benchRows("BIGINT", 1, func(int) int64 { return 1234 })
	for _, sum := range []int64{1000, 12} { // count 3, sum 1012
		b := array.NewFixedSizeBinaryBuilder(memory.DefaultAllocator, &arrow.FixedSizeBinaryType{ByteWidth: 16})
		b.Append(hugeint(sum))
		n := array.NewInt64Builder(memory.DefaultAllocator)
		n.Append(sum/1000 + 1)
		part := array.NewRecordBatch(rows.Schema(), []arrow.Array{rows.Column(0), n.NewArray(), b.NewArray()}, 1)
		v := s.Catalog().Views
		do(t, s.Fold(t.Context(), Fold{Cursor: v[0].Cursor, Partials: []Partial{{v[0].ID, nil}, {v[1].ID, part}}}))
	}
	_, err = s.Commit(t.Context())
	do(t, err)
	lower, upper := viewSpan(3, 0, Slots)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	do(t, err)
	defer it.Close()
	if !it.First() {
		t.Fatal("no group", it.Error())
	}
	if got, want := fmt.Sprintf("%x %x", it.Key(), it.Value()), "000000037c01"+"80000000000004d2 018f030306e80f"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if slot := slotOf(nil); slot != 0x2d {
		t.Errorf("the slot of no key columns is %#x", slot)
	}
	var key []byte
	text := array.NewStringBuilder(memory.DefaultAllocator)
	text.Append("ab")
	small := array.NewInt16Builder(memory.DefaultAllocator)
	small.Append(5)
	null := array.NewInt64Builder(memory.DefaultAllocator)
	null.AppendNull()
	for i, a := range []arrow.Array{text.NewArray(), small.NewArray(), null.NewArray()} {
		key, err = codec.AppendKey(key, sqltype.MustParse([]string{"VARCHAR", "SMALLINT", "BIGINT"}[i]), a, 0)
		do(t, err)
	}
	if got := fmt.Sprintf("%x", key); got != "0161620001"+"018005"+"02" {
		t.Error(got)
	}
}
