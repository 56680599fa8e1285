package checkpoint

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/minio/minio-go/v7"

	"weir/checkpoint/objectstore"
	"weir/checkpoint/objectstore/fakes3"
)

// minio-go rests after its one try, too.
func TestMain(m *testing.M) {
	minio.DefaultRetryUnit = 0
	os.Exit(m.Run())
}

// onEvery runs a test on every kind of storage.
func onEvery(t *testing.T, test func(*testing.T, vfs.FS)) {
	t.Run("memory", func(t *testing.T) { test(t, vfs.NewMem()) })
	t.Run("disk", func(t *testing.T) {
		t.Chdir(t.TempDir())
		test(t, vfs.Default)
	})
	t.Run("object storage", func(t *testing.T) { test(t, inBucket(t, fakes3.Start(t))) })
}

// inBucket writes parts that are small enough for files to have several.
func inBucket(t *testing.T, s *fakes3.Server) vfs.FS {
	return s.FS(t, time.Minute, objectstore.Options{Last: ManifestName, Part: 50_000})
}

var faults = []fakes3.Fault{fakes3.Cut, fakes3.Answer, fakes3.Half, fakes3.Error500, fakes3.SlowDown}

// from makes requests fail from one on: times of them, or all when times is 0.
func from(at, times int, fault fakes3.Fault) func(int, *http.Request) fakes3.Fault {
	return func(call int, _ *http.Request) fakes3.Fault {
		if call >= at && (times == 0 || call < at+times) {
			return fault
		}
		return fakes3.None
	}
}

// TestCrashInBucket fails every request that Write makes of an object store, in
// every way: once, so that it is made again; once, with nobody to try again; and
// from then on, as when Weir is killed or the store goes away. The old checkpoint
// is always whole, the new one whole or absent, and there when Write said so.
func TestCrashInBucket(t *testing.T) {
	r := rng(t)
	f := newFake()
	f.add(r, revenue(), 20, 20, true)
	f.add(r, revenueNamed("same"), 20, 20, true) // its file is shared
	next := newFake()
	next.add(r, revenue(), 100, 50, true)
	next.catalog.Views = append(next.catalog.Views, f.catalog.Views[1])
	next.catalog.NextID = f.catalog.NextID
	next.rows[2] = f.rows[2]
	next.catalog.Views[0].CreatedEpoch = 99 // another view: nothing to share
	for _, fault := range faults {
		for what, c := range map[string]struct {
			times int
			retry time.Duration
		}{"once": {1, time.Minute}, "once, not tried again": {1, time.Nanosecond}, "from then on": {0, time.Nanosecond}} {
			if fault >= fakes3.Error500 && c.times == 1 && c.retry < time.Minute {
				continue // the same as cut
			}
			t.Run(fault.String()+" "+what, func(t *testing.T) {
				t.Parallel()
				written, n := 0, 1
				for at := -1; at < n; at++ { // the first time all goes well
					s := fakes3.Start(t)
					fsys := s.FS(t, c.retry, objectstore.Options{Last: ManifestName, Part: 10_000})
					write(t, fsys, f)
					if s.Fail(nil); at >= 0 {
						s.Fail(from(at, c.times, fault))
					}
					_, err := Write(t.Context(), fsys, dir, next, &finals{}, Options{Now: clock})
					if calls := s.Fail(nil); at < 0 {
						n = calls
					}
					if err != nil && c.retry == time.Minute {
						t.Fatalf("request %d: %v", at, err)
					}
					ids := whole(t, fsys)
					if !slices.Equal(ids, []uint64{1}) && !slices.Equal(ids, []uint64{1, 2}) || err == nil && len(ids) != 2 {
						t.Fatalf("request %d: checkpoints %v, %v", at, ids, err)
					}
					if err == nil {
						written++
					}
					if _, err := Sweep(fsys, dir); err != nil {
						t.Fatal(err)
					}
					if names, err := fsys.List(dir); err != nil || len(names) != len(ids) {
						t.Fatalf("request %d: %v after the sweep, %v", at, names, err)
					}
					if m := write(t, fsys, next); m.BasedOn == nil {
						t.Fatalf("request %d: the file of a view that stands is not shared", at)
					}
					whole(t, fsys)
				}
				if n < 12 || (written == n+1) != (c.retry == time.Minute) {
					t.Errorf("%d of %d were written", written, n)
				}
			})
		}
	}
}

// TestRetainCrashInBucket does the same to Retain.
func TestRetainCrashInBucket(t *testing.T) {
	for _, fault := range []fakes3.Fault{fakes3.Cut, fakes3.Answer} {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			f := newFake()
			f.add(rng(t), revenue(), 10, 10, false)
			failed := 0
			for at, n := 0, 1; at < n; at++ {
				s := fakes3.Start(t)
				fsys := s.FS(t, time.Nanosecond, objectstore.Options{Last: ManifestName})
				for range 4 {
					write(t, fsys, f)
					f.records++
				}
				if at == 0 { // what all of it takes
					s.Fail(func(int, *http.Request) fakes3.Fault { n++; return fakes3.None })
					if removed, err := Retain(fsys, dir, 2); err != nil || len(removed) != 2 {
						t.Fatal(removed, err)
					}
					continue
				}
				s.Fail(from(at-1, 0, fault))
				if _, err := Retain(fsys, dir, 2); err != nil {
					failed++
				}
				s.Fail(nil)
				for range 2 {
					if ids := whole(t, fsys); len(ids) < 2 || !slices.Equal(ids[len(ids)-2:], []uint64{3, 4}) {
						t.Fatalf("request %d: checkpoints %v", at-1, ids)
					}
					if _, err := Sweep(fsys, dir); err != nil {
						t.Fatal(err)
					}
				}
			}
			if failed < 5 { // the others are looks at manifests
				t.Errorf("only %d failed", failed)
			}
		})
	}
}

// TestSweepOfSharedBucket: what is no checkpoint stays, though its name may be
// eight digits.
func TestSweepOfSharedBucket(t *testing.T) {
	r, f := rng(t), newFake()
	fsys := inBucket(t, fakes3.Start(t))
	f.add(r, revenue(), 30, 30, false)
	write(t, fsys, f)
	for _, name := range []string{"20261129/data.csv", "00000007/views/a.arrow", "00000007/views/b/000-base.arrow", "notes/x"} {
		put(t, fsys, dir+"/"+name, []byte(name))
	}
	if swept, err := Sweep(fsys, dir); err != nil || !slices.Equal(swept, []string{"00000007"}) {
		t.Errorf("swept %v, %v", swept, err)
	}
	if names, err := fsys.List(dir); err != nil || !slices.Equal(names, []string{"00000001", "20261129", "notes"}) {
		t.Errorf("left %v, %v", names, err)
	}
}

// TestCompactInBucket fails requests of Compact, which replaces the manifest of a
// published checkpoint: that is the old or the new one, and reads the same.
func TestCompactInBucket(t *testing.T) {
	for _, fault := range []fakes3.Fault{fakes3.Cut, fakes3.Answer} {
		for _, times := range []int{1, 0} {
			t.Run(fmt.Sprintf("%s, %d times", fault, times), func(t *testing.T) {
				t.Parallel()
				r, f := rng(t), newFake()
				change := f.addChanging(t, r, revenue(), 60)
				before := f.rows[1]
				change()
				after, changed := f.rows[1], f.changed
				failed := 0
				for at, n := -1, 1; at < n; at++ { // the first time all goes well
					s := fakes3.Start(t)
					fsys := s.FS(t, time.Nanosecond, objectstore.Options{Last: ManifestName})
					f.rows[1], f.changed, f.records = before, nil, 1
					write(t, fsys, f)
					f.rows[1], f.changed, f.records = after, changed, 2
					if m := write(t, fsys, f); m.Views[0].Whole() {
						t.Fatal("there is nothing to compact")
					}
					want := map[uint64]account{1: accountOf(t, fsys, Path(fsys, dir, 1)), 2: accountOf(t, fsys, Path(fsys, dir, 2))}
					if s.Fail(nil); at >= 0 {
						s.Fail(from(at, times, fault))
					}
					_, err := Compact(t.Context(), fsys, dir, 2, Options{})
					if calls := s.Fail(nil); at < 0 {
						n = calls
					}
					if err != nil {
						failed++
					}
					for range 2 {
						if ids := wholeAs(t, fsys, want); len(ids) != 2 || err == nil && !open(t, fsys, 2).Manifest.Views[0].Whole() {
							t.Fatalf("request %d: checkpoints %v, %v", at, ids, err)
						}
						if _, err := Sweep(fsys, dir); err != nil {
							t.Fatal(err)
						}
					}
				}
				if failed < 3 { // what is removed in the end may stay
					t.Errorf("only %d failed", failed)
				}
			})
		}
	}
}

// TestCompactLeavesWhatIsRead: the caller says when the files that were replaced go.
func TestCompactLeavesWhatIsRead(t *testing.T) {
	r, f := rng(t), newFake()
	change := f.addChanging(t, r, revenue(), 60)
	s := fakes3.Start(t)
	fsys := inBucket(t, s)
	f.records = 1
	write(t, fsys, f)
	change()
	f.records = 2
	write(t, fsys, f)
	want := map[uint64]account{1: accountOf(t, fsys, Path(fsys, dir, 1)), 2: accountOf(t, fsys, Path(fsys, dir, 2))}
	old := open(t, fsys, 2)
	parts := old.Manifest.Views[0].Parts
	var remove func() error
	if _, err := Compact(t.Context(), fsys, dir, 2, Options{Replaced: func(f func() error) { remove = f }}); err != nil {
		t.Fatal(err)
	}
	there := func() (n int) {
		for _, p := range parts {
			if _, err := fsys.Stat(old.path(p)); err == nil {
				n++
			}
		}
		return n
	}
	if n := there(); n != 2 || len(parts) != 2 {
		t.Fatalf("%d of %d parts are there", n, len(parts))
	}
	if err := remove(); err != nil {
		t.Fatal(err)
	}
	if n := there(); n != 0 {
		t.Errorf("%d parts are there", n)
	}
	wholeAs(t, fsys, want)
}
