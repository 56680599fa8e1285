package state

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
)

// A changedRow is one row of a scan, as text, beside what it is found by.
type changedRow struct {
	epoch   uint64
	key     string
	text    string
	deleted bool
}

// changedRows reads a scan that has __epoch and __key, and __deleted or not.
func changedRows(rows array.RecordReader) (out []changedRow, err error) {
	defer rows.Release()
	for rows.Next() {
		b := rows.RecordBatch()
		at := func(name string) int {
			return slices.IndexFunc(b.Schema().Fields(), func(f arrow.Field) bool { return f.Name == name })
		}
		for i := range int(b.NumRows()) {
			r := changedRow{key: string(b.Column(at(KeyColumn)).(*array.Binary).Value(i))}
			if e := b.Column(at(EpochColumn)).(*array.Uint64); e.IsValid(i) {
				r.epoch = e.Value(i)
			}
			for c := range at(EpochColumn) {
				r.text += " " + b.Column(c).ValueStr(i)
			}
			if d := at(DeletedColumn); d >= 0 {
				r.deleted = b.Column(d).(*array.Boolean).Value(i)
			}
			out = append(out, r)
		}
	}
	return out, rows.Err()
}

// verifyChanges compares what the index says of every mark with the epochs in
// the groups themselves: the very same rows, in the same order.
func verifyChanges(ctx context.Context, sn *Snapshot, v *View) error {
	req := ScanRequest{View: v.ID, Extra: Extra{Epoch: true, Key: true}, BatchRows: 7}
	whole, err := sn.Scan(ctx, req)
	if err != nil {
		return err
	}
	all, err := changedRows(whole)
	if err != nil {
		return err
	}
	for _, m := range sn.p.marks {
		for _, since := range []uint64{m.epoch, (m.epoch + sn.Epoch()) / 2, sn.Epoch()} {
			rows, n, err := sn.Changed(ctx, req, m.token, since)
			if errors.Is(err, ErrUnknown) {
				continue
			}
			if err != nil {
				return err
			}
			got, err := changedRows(rows)
			if err != nil {
				return err
			}
			want := slices.DeleteFunc(slices.Clone(all), func(r changedRow) bool { return r.epoch <= since })
			if !slices.Equal(got, want) || n < int64(len(got)) {
				return fmt.Errorf("%d changes since %d, mark %d: got %v\nwant %v", n, since, m.epoch, got, want)
			}
		}
	}
	return nil
}

// changed says how many groups changed since a mark, -1 for unknown.
func changed(t testing.TB, s *Store, view string, token string) int {
	t.Helper()
	sn, err := s.Snapshot()
	do(t, err)
	defer sn.Close()
	do(t, verify(t.Context(), sn))
	v, ok := sn.Catalog().View(view)
	if !ok {
		t.Fatal("no view", view)
	}
	i := slices.IndexFunc(sn.p.marks, func(m mark) bool { return m.token == token })
	epoch := uint64(1)
	if i >= 0 {
		epoch = sn.p.marks[i].epoch
	}
	rows, _, err := sn.Changed(t.Context(), ScanRequest{View: v.ID, Extra: Extra{Epoch: true, Key: true}}, token, epoch)
	if errors.Is(err, ErrUnknown) {
		return -1
	}
	do(t, err)
	got, err := changedRows(rows)
	do(t, err)
	return len(got)
}

func newestToken(t testing.TB, s *Store) string {
	t.Helper()
	sn, err := s.Snapshot()
	do(t, err)
	defer sn.Close()
	return sn.Mark()
}

// TestChanges: a course of folds, commits, marks, trims, drops, evictions and
// restarts, after each of which the index says what the groups say.
func TestChanges(t *testing.T) {
	fsys := vfs.NewMem()
	r := rand.New(rand.NewPCG(5, 5))
	o := Options{}
	s := mustOpen(t, fsys, o)
	c := withViews(t, s, "by_city", "by_id", "total")
	known := 0
	for range 400 {
		switch n := r.IntN(20); {
		case n < 10:
			do(t, foldNext(t.Context(), s, c, int32(r.IntN(3)), int64(r.IntN(3))))
		case n < 14:
			_, err := s.Commit(t.Context())
			do(t, err)
		case n < 16:
			_, err := s.Mark(t.Context())
			do(t, err)
		case n < 17:
			do(t, s.Trim(s.Epoch()-uint64(r.IntN(8))))
		case n < 18:
			do(t, s.Close())
			o.Memory = []int64{0, 1, 3000}[r.IntN(3)]
			s = mustOpen(t, fsys, o)
		case n < 19 && r.IntN(4) == 0:
			do(t, s.Drop("by_id"))
			createView(t, s, "by_id", false)
		default:
			verifyStore(t, s)
			if n := changed(t, s, "by_city", newestToken(t, s)); n > 0 {
				known++
			}
		}
	}
	verifyStore(t, s)
	if known < 10 {
		t.Errorf("the index had something to say %d times: the test proves nothing", known)
	}
	do(t, s.Close())
}

// TestChangesOnce: a group that changes in many commits is recorded once, and
// what is trimmed takes no room.
func TestChangesOnce(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), Options{})
	c := withViews(t, s, "by_id")
	do(t, foldNext(t.Context(), s, c, 0, 300))
	e, err := s.Mark(t.Context())
	do(t, err)
	for range 5 {
		do(t, foldNext(t.Context(), s, c, 0, 300)) // all 37
		_, err := s.Commit(t.Context())
		do(t, err)
	}
	entries := func() (n int) {
		it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: sysKey(kindChanged), UpperBound: sysKey(kindChanged + 1)})
		do(t, err)
		defer it.Close()
		for ok := it.First(); ok; ok = it.Next() {
			n++
		}
		return n
	}
	if n := entries(); n != 1 {
		t.Errorf("%d entries for five commits of the same groups", n)
	}
	if n := changed(t, s, "by_id", newestToken(t, s)); n != 37 {
		t.Errorf("%d groups changed, want 37", n)
	}
	do(t, s.Trim(e-1))
	if n := entries(); n != 1 {
		t.Errorf("%d entries after a trim below the mark", n)
	}
	_, err = s.Mark(t.Context())
	do(t, err)
	do(t, s.Trim(s.Epoch()))
	if n := entries(); n != 0 {
		t.Errorf("%d entries after a trim", n)
	}
	do(t, s.Close())
}

// TestChangesBounded: a view that changes too much is given up until the next
// mark, and what was recorded of it goes.
func TestChangesBounded(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), Options{ChangeBytes: 200})
	c := withViews(t, s, "by_id", "total")
	do(t, foldNext(t.Context(), s, c, 0, 300))
	_, err := s.Mark(t.Context())
	do(t, err)
	first := newestToken(t, s)
	for i, want := range []int{5, 10, -1, -1} {
		do(t, foldNext(t.Context(), s, c, 1, 5*int64(1+i)))
		_, err := s.Commit(t.Context())
		do(t, err)
		got := changed(t, s, "by_id", first)
		if (got < 0) != (want < 0) || got > 37 {
			t.Errorf("step %d: %d groups changed", i, got)
		}
		if got := changed(t, s, "total", first); got != 1 {
			t.Errorf("step %d: the other view: %d", i, got)
		}
	}
	_, err = s.Mark(t.Context())
	do(t, err)
	do(t, foldNext(t.Context(), s, c, 2, 1))
	_, err = s.Commit(t.Context())
	do(t, err)
	if got := changed(t, s, "by_id", first); got != -1 {
		t.Errorf("since the first mark: %d groups", got)
	}
	if got := changed(t, s, "by_id", newestToken(t, s)); got != 1 {
		t.Errorf("since the second mark: %d groups", got)
	}
	do(t, s.Close())
}

// TestChangesDeleted: a key that was recorded and has no group any more comes
// with its key columns and without a value.
func TestChangesDeleted(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), Options{})
	c := withViews(t, s, "by_id")
	do(t, foldNext(t.Context(), s, c, 0, 300))
	_, err := s.Mark(t.Context())
	do(t, err)
	do(t, foldNext(t.Context(), s, c, 0, 300))
	sn, err := s.Snapshot()
	do(t, err)
	v := sn.Catalog().Views[0]
	scan, err := sn.Scan(t.Context(), ScanRequest{View: v.ID, Extra: Extra{Epoch: true, Key: true}})
	do(t, err)
	all, err := changedRows(scan)
	do(t, err)
	sn.Close()
	gone := all[11]
	do(t, s.db.Delete(append(binary.BigEndian.AppendUint32(nil, uint32(v.ID)), gone.key...), pebble.Sync))
	// The group is resident and dirty: only the disk forgets it.
	s.mu.Lock()
	t1 := s.views[v.ID].table
	t1.dirty = slices.DeleteFunc(t1.dirty, func(r uint32) bool { return string(t1.key(r&^unrecorded)) == gone.key })
	s.mu.Unlock()
	b := s.db.NewBatch()
	do(t, b.Set(changedKey(v.ID, s.openEpoch+1), appendChanged(nil, []byte(gone.key)), nil))
	do(t, b.Commit(pebble.Sync))
	_, err = s.Commit(t.Context())
	do(t, err)
	if sn, err = s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	rows, n, err := sn.Changed(t.Context(), ScanRequest{View: v.ID, Extra: Extra{Slot: true, Epoch: true, Error: true, Key: true}}, sn.Mark(), sn.p.marks[0].epoch)
	do(t, err)
	got, err := changedRows(rows)
	do(t, err)
	sn.Close()
	if len(got) != len(all) || n != int64(len(all)) {
		t.Fatalf("%d rows, %d announced, want %d", len(got), n, len(all))
	}
	for i, r := range got {
		if r.key != all[i].key || r.deleted != (i == 11) {
			t.Errorf("row %d: %+v", i, r)
		}
	}
	id := all[11].text[1 : 1+slices.Index([]byte(all[11].text[1:]), ' ')]
	if want := fmt.Sprintf(" %s (null) (null) (null) %d", id, gone.key[0]); got[11].text != want {
		t.Errorf("the deleted row is %q, want %q", got[11].text, want)
	}
	do(t, s.Close())
}

// TestOlderDirectory: a directory of version 1, which has no index, opens, says
// that it does not know, and is one of this version then. A newer one is refused.
func TestOlderDirectory(t *testing.T) {
	fsys := vfs.NewMem()
	s := mustOpen(t, fsys, Options{})
	c := withViews(t, s, "by_id")
	do(t, foldNext(t.Context(), s, c, 0, 30))
	_, err := s.Commit(t.Context())
	do(t, err)
	version := func(v uint64) {
		do(t, s.db.Set(sysKey(kindFormat), binary.AppendUvarint(nil, v), pebble.Sync))
		do(t, s.Close())
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: sysKey(kindMarks), UpperBound: sysKey(kindChanged + 1)})
	do(t, err)
	if it.First() {
		t.Errorf("a store without a mark has %x, which version 1 had not", it.Key())
	}
	do(t, it.Close())
	version(1)

	s = mustOpen(t, fsys, Options{})
	verifyStore(t, s)
	if got := changed(t, s, "by_id", ""); got != -1 {
		t.Errorf("without an index: %d groups", got)
	}
	_, err = s.Mark(t.Context())
	do(t, err)
	do(t, foldNext(t.Context(), s, c, 0, 1))
	_, err = s.Commit(t.Context())
	do(t, err)
	if got := changed(t, s, "by_id", newestToken(t, s)); got != 1 {
		t.Errorf("after a mark: %d groups", got)
	}
	value, done, err := s.db.Get(sysKey(kindFormat))
	do(t, err)
	if !cmp.Equal(value, []byte{formatVersion}) {
		t.Errorf("the format version is %x", value)
	}
	do(t, done.Close())
	version(formatVersion + 1)
	if _, err := Open("data", Options{FS: fsys}); err == nil || !cmp.Equal(err.Error(), `open state in data: system key 0000000001: format version 3; this program reads versions 1 to 2: use the version of Weir that wrote it, or a newer one`) {
		t.Errorf("a newer directory: %v", err)
	}
}
