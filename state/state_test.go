package state

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

func mustOpen(t testing.TB, fsys vfs.FS, o Options) *Store {
	t.Helper()
	o.FS = fsys
	if o.Fatal == nil {
		o.Fatal = func(msg string) { t.Error("the store failed:", msg) }
	}
	s, err := Open("data", o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// withViews creates the source and views, and returns the shared cursor.
func withViews(t testing.TB, s *Store, views ...string) CursorID {
	t.Helper()
	_, err := s.CreateSource(Source{Name: "orders", SQL: "CREATE SOURCE orders"})
	do(t, err)
	for _, name := range views {
		createView(t, s, name, false)
	}
	src, _ := s.Catalog().Source("ORDERS")
	return src.Cursor
}

func createView(t testing.TB, s *Store, name string, own bool) *View {
	t.Helper()
	p := planOf(name)
	initial := partial(p, nil)
	_, err := s.CreateView("CREATE "+name, p, own, initial)
	do(t, err)
	v, ok := s.Catalog().View(name)
	if !ok {
		t.Fatal("the new view is not in the catalogue")
	}
	return v
}

func TestFoldCommitReopen(t *testing.T) {
	fsys := vfs.NewMem()
	s := mustOpen(t, fsys, Options{})
	c := withViews(t, s, "by_city", "by_id", "total")
	verifyStore(t, s)
	for i := range 20 {
		do(t, foldNext(t.Context(), s, c, int32(i%3), 40))
		if i%3 == 0 {
			_, err := s.Commit(t.Context())
			do(t, err)
		}
		verifyStore(t, s)
	}
	epoch, err := s.Commit(t.Context())
	do(t, err)
	do(t, s.Close())

	s = mustOpen(t, fsys, Options{})
	if s.Epoch() != epoch {
		t.Errorf("epoch %d after reopening, %d before", s.Epoch(), epoch)
	}
	verifyStore(t, s)
	do(t, foldNext(t.Context(), s, c, 1, 500)) // groups are not resident now
	if again, err := s.Commit(t.Context()); err != nil || again != epoch+1 {
		t.Error(again, err)
	}
	if again, err := s.Commit(t.Context()); err != nil || again != epoch+1 {
		t.Error("an empty commit counted", again, err)
	}
	verifyStore(t, s)
	sn, err := s.Snapshot()
	do(t, err)
	if n := sn.Records(c); n != 20*40+500 {
		t.Error(n, "records counted")
	}
	sn.Close()
	do(t, s.Close())
}

// With room for almost nothing groups come and go between folds, and a fold may
// have to commit by itself.
func TestSmallMemory(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), Options{Memory: 1})
	c := withViews(t, s, "by_city", "by_id", "total")
	for i := range 30 {
		do(t, foldNext(t.Context(), s, c, int32(i%3), 25))
	}
	_, err := s.Commit(t.Context())
	do(t, err)
	verifyStore(t, s)
	if s.Epoch() < 30 {
		t.Error("folds beyond the budget did not commit")
	}
	do(t, s.Close())
}

func TestSecondOpenIsRefused(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	do(t, err)
	_, err = Open(dir, Options{})
	if !errors.Is(err, ErrInUse) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), dir) {
		t.Errorf("second open: %v", err)
	}
	do(t, s.Close())
	s, err = Open(dir, Options{})
	do(t, err)
	do(t, s.Close())
}

func TestFoldIsAllOrNothing(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), Options{})
	c := withViews(t, s, "by_city", "by_id")
	do(t, foldNext(t.Context(), s, c, 0, 50))
	views := s.Catalog().Views
	ok := partial(views[0].Plan, []record{recordAt(0, 999)})
	other := partial(views[1].Plan, []record{recordAt(0, 999)})
	good := []Partial{{views[0].ID, ok}, {views[1].ID, other}}
	pos := func(next int64) []Position {
		return []Position{{Topic: "orders", TopicID: [16]byte{1}, Partition: 0, Next: next}}
	}
	for name, c := range map[string]struct {
		f     Fold
		stale bool
	}{
		"a view is missing":      {Fold{Cursor: c, Partials: good[:1], Positions: pos(60)}, true},
		"a view comes twice":     {Fold{Cursor: c, Partials: append(good, good[0]), Positions: pos(60)}, true},
		"a view is unknown":      {Fold{Cursor: c, Partials: append(good, Partial{99, ok}), Positions: pos(60)}, true},
		"another cursor":         {Fold{Cursor: 77, Positions: pos(60)}, true},
		"another view's columns": {Fold{Cursor: c, Partials: []Partial{{views[0].ID, ok}, {views[1].ID, ok}}, Positions: pos(60)}, false},
		"back in the log":        {Fold{Cursor: c, Partials: good, Positions: pos(49)}, false},
		"refused by no source":   {Fold{Cursor: c, Partials: good, Positions: pos(60), Refused: []Refused{{Source: 99}}}, true},
	} {
		if err := s.Fold(t.Context(), c.f); err == nil || errors.Is(err, ErrStale) != c.stale {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := s.Commit(t.Context())
	do(t, err)
	verifyStore(t, s)
	if err := s.Fold(t.Context(), Fold{Cursor: c, Partials: []Partial{{views[0].ID, nil}, {views[1].ID, nil}}, Positions: pos(10), Reset: true}); err != nil {
		t.Error("a reset:", err)
	}
	do(t, s.Close())
}

// The points are where faults are put; their order is what they promise.
func TestPoints(t *testing.T) {
	var points []string
	s := mustOpen(t, vfs.NewMem(), Options{Hook: func(p string) { points = append(points, p) }})
	expect := func(want ...string) {
		t.Helper()
		if !slices.Equal(points, want) {
			t.Errorf("points %v, not %v", points, want)
		}
		points = nil
	}
	expect(PointCreate, PointCreated, PointRenamed)
	_, err := s.CreateSource(Source{Name: "orders"})
	do(t, err)
	expect(PointCommit, PointCut, PointCatalog, PointBuilt, PointCommitted, PointPublished)
	v := createView(t, s, "by_id", true)
	points = nil
	do(t, s.Join(v.ID))
	expect(PointCommit, PointCut, PointJoin, PointBuilt, PointCommitted, PointPublished)
	do(t, s.Drop("by_id"))
	expect(PointCommit, PointCut, PointDrop, PointBuilt, PointCommitted, PointPublished)
	_, err = s.Commit(t.Context())
	do(t, err)
	expect(PointCommit)
	do(t, s.Close())
}

// TestCommitted: when the newest epoch was committed is known after the next start, too,
// and not of a state that does not say so.
func TestCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		start := func() *Store {
			t.Helper()
			s, err := Open("d", Options{FS: mem})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		committed := func(s *Store, epoch uint64, at time.Time) {
			t.Helper()
			if e, got := s.Committed(); e != epoch || !got.Equal(at) {
				t.Errorf("epoch %d at %v, want %d at %v", e, got, epoch, at)
			}
		}
		s := start()
		committed(s, 0, time.Time{})
		time.Sleep(time.Hour)
		at := time.Now().Truncate(time.Millisecond)
		if _, err := s.CreateSource(Source{Name: "s"}); err != nil {
			t.Fatal(err)
		}
		committed(s, 1, at)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		s = start()
		committed(s, 1, at)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}

		db, err := pebble.Open("d/db", &pebble.Options{FS: mem, FormatMajorVersion: pebble.FormatNewest})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Set([]byte{0, 0, 0, 0, 2}, []byte{1}, pebble.Sync), db.Close()); err != nil {
			t.Fatal(err)
		}
		s = start()
		defer s.Close()
		committed(s, 1, time.Time{}) // as a version wrote it that did not note the time
	})
}
