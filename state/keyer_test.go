package state

import (
	"bytes"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A keyer writes what a scan shows as __key, in rising order.
func TestKeyerWritesStoredKeys(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), Options{})
	c := withViews(t, s, "by_city")
	do(t, foldNext(t.Context(), s, c, 0, 200))
	_, err := s.Commit(t.Context())
	do(t, err)
	sn, err := s.Snapshot()
	do(t, err)
	defer sn.Close()
	v, _ := sn.Catalog().View("by_city")
	k, err := NewKeyer(&v.Plan)
	do(t, err)
	rd, err := sn.Scan(t.Context(), ScanRequest{View: v.ID, Extra: Extra{Key: true}, BatchRows: 7})
	do(t, err)
	defer rd.Release()
	n := len(v.Plan.Keys)
	var last []byte
	rows := 0
	for rd.Next() {
		rec := rd.RecordBatch()
		stored := rec.Column(int(rec.NumCols()) - 1).(*array.Binary)
		key, err := k.Bind(rec.Columns()[:n])
		do(t, err)
		for i := range stored.Len() {
			got := key(nil, i)
			if !bytes.Equal(got, stored.Value(i)) {
				t.Fatalf("row %d: %x, stored %x", rows, got, stored.Value(i))
			}
			if bytes.Compare(last, got) >= 0 {
				t.Fatalf("row %d: %x does not follow %x", rows, got, last)
			}
			last = got
			rows++
		}
	}
	do(t, rd.Err())
	if rows == 0 {
		t.Fatal("no groups")
	}
	if _, err := k.Bind(nil); err == nil {
		t.Error("a keyer bound to no columns")
	}
}
