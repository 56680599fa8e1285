package checkpoint

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"weir/internal/atomicfile"
)

// TestFinalizerIsClosed: also when the scan fails; and no Finalizer is needed
// where nothing is computed.
func TestFinalizerIsClosed(t *testing.T) { onEvery(t, testFinalizerIsClosed) }

func testFinalizerIsClosed(t *testing.T, fsys vfs.FS) {
	r, f := rng(t), newFake()
	f.add(r, everything(), 3, 3, false)
	if _, err := Write(t.Context(), vfs.NewMem(), dir, f, nil, Options{}); err != nil {
		t.Fatal(err)
	}
	f.add(r, revenue(), 3, 3, false)
	f.fail = errors.New("disk on fire")
	f.rows[1] = nil
	fin := &finals{}
	if _, err := Write(t.Context(), fsys, dir, f, fin, Options{}); !errors.Is(err, f.fail) {
		t.Fatal(err)
	}
	f.fail = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Write(ctx, fsys, dir, f, fin, Options{}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if fin.prepared != fin.closed {
		t.Errorf("prepared %d, closed %d", fin.prepared, fin.closed)
	}
	if names, err := fsys.List(dir); err != nil || len(names) != 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

// TestShare: a view that stands where it stood shares its file; one whose
// positions moved does not; a damaged file is not shared.
func TestShare(t *testing.T) { onEvery(t, testShare) }

func testShare(t *testing.T, fsys vfs.FS) {
	r, f := rng(t), newFake()
	f.add(r, revenue(), 100, 50, false)
	first := write(t, fsys, f)
	second := write(t, fsys, f)
	if second.BasedOn == nil || second.BasedOn.Checkpoint != 1 || !cmp.Equal(first.Views[0].File, second.Views[0].File) {
		t.Fatalf("not shared: based on %+v", second.BasedOn)
	}
	if err := open(t, fsys, 2).Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(){
		"positions":   func() { f.pos[1][0].Next++ },
		"records":     func() { f.records++ },
		"topic":       func() { f.pos[1][1].TopicID[0]++ },
		"groups":      func() { f.rows[1] = f.rows[1][:1] },
		"fingerprint": func() { f.catalog.Views[0].Plan.Fingerprint = "new" },
		"creation":    func() { f.catalog.Views[0].CreatedEpoch++ },
	} {
		change()
		if m := write(t, fsys, f); m.BasedOn != nil {
			t.Errorf("shared the file of a view with other %s", what)
		}
		if m := write(t, fsys, f); m.BasedOn == nil {
			t.Errorf("not shared after a change of %s", what)
		}
	}
	newest := uint64(14)
	file := fsys.PathJoin(Path(fsys, dir, newest), first.Views[0].File.Name)
	corrupt(t, fsys, file, func(b []byte) []byte {
		if _, ok := fsys.(atomicfile.Direct); ok { // checks its bytes itself
			return b[:len(b)-1]
		}
		b[len(b)/2] ^= 4
		return b
	})
	if m := write(t, fsys, f); m.BasedOn != nil {
		t.Fatal("shared a damaged file")
	}
	if err := open(t, fsys, newest+1).Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestListSweepRetain(t *testing.T) { onEvery(t, testListSweepRetain) }

func testListSweepRetain(t *testing.T, fsys vfs.FS) {
	r, f := rng(t), newFake()
	f.add(r, revenue(), 10, 50, false)
	if list, err := List(fsys, dir); err != nil || list != nil {
		t.Fatalf("list of nothing: %v, %v", list, err)
	}
	for range 5 {
		write(t, fsys, f)
	}
	if err := fsys.MkdirAll(dir+"/.tmp-00000006/views", 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, fsys, dir+"/.tmp-00000006/views/a.arrow", nil)
	if swept, err := Sweep(fsys, dir); err != nil || len(swept) != 1 {
		t.Fatalf("swept %v, %v", swept, err)
	}
	if err := fsys.Remove(dir + "/00000005/" + ManifestName); err != nil {
		t.Fatal(err)
	}
	list, err := List(fsys, dir)
	if _, ok := fsys.(atomicfile.Direct); errors.Is(err, ErrMissing) == ok || len(list) != 4 || list[3].Checkpoint != 4 {
		t.Fatalf("list has %d, %v", len(list), err)
	}
	removed, err := Retain(fsys, dir, 2)
	if err != nil || !cmp.Equal(removed, []uint64{2, 1}) {
		t.Fatalf("removed %v, %v", removed, err)
	}
	if m := write(t, fsys, f); m.Checkpoint != 6 {
		t.Fatalf("the next number is %d, not 6", m.Checkpoint)
	}
}

// TestRetention: by number, age and bytes, of which a shared file counts once;
// savepoints do not count.
func TestRetention(t *testing.T) {
	r := rng(t)
	for _, c := range []struct {
		r    Retention
		want []uint64
	}{
		{Retention{}, []uint64{5, 3, 2, 1}},
		{Retention{Count: 3}, []uint64{2, 1}},
		{Retention{Count: 9}, nil},
		{Retention{Count: 9, Age: 150 * time.Minute}, []uint64{3, 2, 1}},
		{Retention{Count: 9, Age: time.Second}, []uint64{5, 3, 2, 1}},
		// In tenths of a file.
		{Retention{Count: 9, Bytes: 1}, []uint64{5, 3, 2, 1}},
		{Retention{Count: 9, Bytes: 13}, []uint64{3, 2, 1}},
		{Retention{Count: 9, Bytes: 27}, []uint64{2, 1}},
		{Retention{Count: 2, Bytes: 27}, []uint64{3, 2, 1}},
	} {
		f, fsys := newFake(), vfs.NewMem()
		f.add(r, revenue(), 200, 50, false)
		f.refused = nil
		size := int64(0)
		// 1, 2 and 3 are one file each, 4 is a savepoint, 5 and 6 share a file.
		for i, save := range []string{"", "", "", "kept", "", ""} {
			if i < 5 {
				f.records++
				f.epoch++
			}
			m, err := Write(t.Context(), fsys, dir, f, &finals{}, Options{Now: func() time.Time { return clock().Add(time.Duration(i) * time.Hour) }, Savepoint: save})
			if err != nil {
				t.Fatal(err)
			}
			size = m.Bytes()
		}
		c.r.Bytes = c.r.Bytes * size / 10
		removed, err := c.r.Retain(fsys, dir, clock().Add(5*time.Hour))
		if err != nil || !slices.Equal(removed, c.want) {
			t.Errorf("%+v removed %v, want %v (%v)", c.r, removed, c.want, err)
		}
	}
}

func TestFileNames(t *testing.T) {
	for view, want := range map[string]string{
		"revenue_by_city":         "views/revenue_by_city.arrow",
		"../etc/passwd":           "views/%2E.%2Fetc%2Fpasswd.arrow",
		"a b":                     "views/a%20b.arrow",
		"Größe.2":                 "views/Größe.2.arrow",
		"nul\x00":                 "views/nul%00.arrow",
		strings.Repeat("é", 4000): "views/" + strings.Repeat("é", 76) + "-9.arrow",
	} {
		if got := fileName(view, 9); got != want {
			t.Errorf("%q: %s, want %s", view, got, want)
		}
	}
}
