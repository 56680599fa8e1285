package checkpoint

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"weir/state"
)

// TestCrash fails every call that Write makes of the file system, one run each,
// alone or with all later ones, as a full disk does, and cuts the power right
// after: what was not synced is lost, or half of it at random. The old checkpoint
// is always whole; the new one is whole or is not there; it is there when Write
// said so; and the next Write succeeds. So it is where views are written whole and
// where a delta is.
func TestCrash(t *testing.T) {
	for _, delta := range []bool{false, true} {
		for _, full := range []bool{false, true} {
			t.Run(fmt.Sprintf("delta=%v/disk full=%v", delta, full), func(t *testing.T) { testCrash(t, delta, full) })
		}
	}
}

func testCrash(t *testing.T, delta, full bool) {
	r := rng(t)
	f, next := newFake(), newFake() // the same view, moved on
	if delta {
		change := next.addChanging(t, r, revenue(), 60)
		*f = *next
		f.rows = maps.Clone(next.rows)
		f.pos = map[state.CursorID][]state.Position{1: slices.Clone(next.pos[1])}
		change()
	} else {
		f.add(r, revenue(), 60, 30, true)
		next.add(r, revenue(), 80, 40, true)
		next.records++
	}
	old := map[uint64]account{}
	mem := vfs.NewMem()
	write(t, mem, f)
	old[1] = accountOf(t, mem, Path(mem, dir, 1))
	if m := write(t, mem, next); m.Views[0].Whole() == delta {
		t.Fatal("not what is to be tested")
	}
	old[2] = accountOf(t, mem, Path(mem, dir, 2))

	at, tolerated := 0, 0
	for ; ; at++ {
		mem := vfs.NewCrashableMem()
		if err := mem.MkdirAll("data", 0o755); err != nil {
			t.Fatal(err)
		}
		root, err := mem.OpenDir("")
		if err != nil {
			t.Fatal(err)
		}
		if err := root.Sync(); err != nil {
			t.Fatal(err)
		}
		write(t, mem, f)
		failing := &failAt{at: at, full: full}
		_, err = Write(t.Context(), errorfs.Wrap(mem, failing), dir, next, &finals{}, Options{Now: clock})
		if err != nil && !strings.Contains(err.Error(), "injected error") {
			t.Fatalf("call %d: %v", at, err)
		}
		for _, lost := range []int{0, 50} { // percent of the unsynced that survives
			crashed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: lost, RNG: rand.New(rand.NewPCG(uint64(at), 3))})
			ids := wholeAs(t, crashed, old)
			if !slices.Equal(ids, []uint64{1}) && !slices.Equal(ids, []uint64{1, 2}) {
				t.Fatalf("call %d: checkpoints %v after the crash", at, ids)
			}
			if err == nil && len(ids) != 2 {
				t.Fatalf("call %d: Write succeeded and the crash lost the checkpoint", at)
			}
			if _, err := Sweep(crashed, dir); err != nil {
				t.Fatal(err)
			}
			if names, err := crashed.List(dir); err != nil || len(names) != len(ids) {
				t.Fatalf("call %d: %v after the sweep, %v", at, names, err)
			}
			if len(ids) == 1 {
				write(t, crashed, next)
			}
			if ids := wholeAs(t, crashed, old); len(ids) != 2 {
				t.Fatalf("call %d: checkpoints %v at the end", at, ids)
			}
		}
		// The process may also go on after the error.
		write(t, mem, next)
		whole(t, mem)
		if !failing.met() {
			break // fewer calls than that
		}
		if err == nil {
			tolerated++ // the calls that look at the old checkpoint
		}
	}
	if at-tolerated < 25 {
		t.Fatalf("only %d calls were failed, %d of them without an error", at, tolerated)
	}
}

// TestCompactCrash does the same to Compact: the checkpoint holds what it held, as
// parts or whole, and another try makes it whole, with nothing left over.
func TestCompactCrash(t *testing.T) {
	for _, full := range []bool{false, true} {
		t.Run(fmt.Sprintf("disk full=%v", full), func(t *testing.T) { testCompactCrash(t, full) })
	}
}

func testCompactCrash(t *testing.T, full bool) {
	r, f := rng(t), newFake()
	change := f.addChanging(t, r, revenue(), 60)
	before := f.rows[1]
	change()
	after, changed := f.rows[1], f.changed
	seen := map[bool]int{}
	for at, failing := 0, (&failAt{failed: true}); failing.met(); at++ {
		mem := vfs.NewCrashableMem()
		f.rows[1], f.changed, f.records = before, nil, 1
		write(t, mem, f)
		f.rows[1], f.changed, f.records = after, changed, 2
		write(t, mem, f)
		root, err := mem.OpenDir("")
		if err != nil {
			t.Fatal(err)
		}
		if err := root.Sync(); err != nil {
			t.Fatal(err)
		}
		want := map[uint64]account{}
		for id := range uint64(2) {
			want[id+1] = accountOf(t, mem, Path(mem, dir, id+1))
		}
		failing = &failAt{at: at, full: full}
		_, err = Compact(t.Context(), errorfs.Wrap(mem, failing), dir, 2, Options{})
		if err != nil && !failing.met() {
			t.Fatal(err)
		}
		for _, fsys := range []vfs.FS{mem, mem.CrashClone(vfs.CrashCloneCfg{}), mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(uint64(at), 4))})} {
			if ids := wholeAs(t, fsys, want); len(ids) != 2 {
				t.Fatalf("call %d: checkpoints %v", at, ids)
			}
			done := open(t, fsys, 2).Manifest.Views[0].Whole()
			put(t, fsys, fsys.PathJoin(Path(fsys, dir, 2), "views", "mine.parquet"), nil) // is nobody's to remove
			if err == nil && !done {
				t.Fatalf("call %d: Compact succeeded and the checkpoint is not whole", at)
			}
			seen[done]++
			if _, err := Sweep(fsys, dir); err != nil {
				t.Fatal(err)
			}
			if m, err := Compact(t.Context(), fsys, dir, 2, Options{}); err != nil || !m.Views[0].Whole() {
				t.Fatal(err)
			}
			if _, err := Sweep(fsys, dir); err != nil { // of what the first could not remove
				t.Fatal(err)
			}
			if names, err := fsys.List(fsys.PathJoin(Path(fsys, dir, 2), "views")); err != nil || !cmp.Equal(slices.Sorted(slices.Values(names)), []string{"mine.parquet", "revenue_by_city.arrow"}) {
				t.Fatalf("call %d: views %v, %v", at, names, err)
			}
			wholeAs(t, fsys, want)
		}
		if !failing.met() && at < 20 {
			t.Fatalf("only %d calls were failed", at)
		}
	}
	if seen[false] < 20 || seen[true] < 3 {
		t.Errorf("found it as parts and whole: %v", seen)
	}
}

// failAt fails one call, counted from 0, or that and all later ones that write.
type failAt struct {
	at   int
	full bool

	mu     sync.Mutex // Pebble is on goroutines of its own
	calls  int
	failed bool
}

func (f *failAt) String() string { return "fail once" }

func (f *failAt) MaybeError(op errorfs.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.calls-1 != f.at && (!f.full || f.calls <= f.at || op.Kind.ReadOrWrite() != errorfs.OpIsWrite) {
		return nil
	}
	f.failed = true
	return errorfs.ErrInjected
}

// met says whether a call has failed.
func (f *failAt) met() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// whole lists the checkpoints and reads every value of each.
func whole(t *testing.T, fsys vfs.FS) []uint64 { return wholeAs(t, fsys, nil) }

// wholeAs also wants them to hold what is said.
func wholeAs(t *testing.T, fsys vfs.FS, want map[uint64]account) []uint64 {
	t.Helper()
	list, err := List(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	var ids []uint64
	for _, m := range list {
		ids = append(ids, m.Checkpoint)
		if err := readEverything(t, fsys, Path(fsys, dir, m.Checkpoint)); err != nil {
			t.Fatal(err)
		}
		if w, ok := want[m.Checkpoint]; ok {
			if diff := cmp.Diff(w, accountOf(t, fsys, Path(fsys, dir, m.Checkpoint))); diff != "" {
				t.Fatalf("checkpoint %d: %s", m.Checkpoint, diff)
			}
		}
	}
	return ids
}

// TestRetainCrash does the same to Retain: every checkpoint that is still listed
// is whole, and the newest ones are.
func TestRetainCrash(t *testing.T) {
	for _, full := range []bool{false, true} {
		t.Run(fmt.Sprintf("disk full=%v", full), func(t *testing.T) { testRetainCrash(t, full) })
	}
}

func testRetainCrash(t *testing.T, full bool) {
	r, f := rng(t), newFake()
	f.add(r, revenue(), 30, 30, false)
	for at, failing := 0, (&failAt{failed: true}); failing.met(); at++ {
		mem := vfs.NewCrashableMem()
		for range 4 {
			write(t, mem, f)
			f.records++
		}
		root, err := mem.OpenDir("")
		if err != nil {
			t.Fatal(err)
		}
		if err := root.Sync(); err != nil {
			t.Fatal(err)
		}
		failing = &failAt{at: at, full: full}
		_, err = Retain(errorfs.Wrap(mem, failing), dir, 2)
		if err != nil && !failing.met() {
			t.Fatal(err)
		}
		for _, fsys := range []vfs.FS{mem, mem.CrashClone(vfs.CrashCloneCfg{})} {
			if ids := whole(t, fsys); len(ids) < 2 || !cmp.Equal(ids[len(ids)-2:], []uint64{3, 4}) {
				t.Fatalf("call %d: checkpoints %v", at, ids)
			}
			if _, err := Sweep(fsys, dir); err != nil {
				t.Fatal(err)
			}
			whole(t, fsys)
		}
		if !failing.met() && at < 10 {
			t.Fatalf("only %d calls were failed", at)
		}
	}
}

// TestRemoveCrash does the same to Remove of the newest: it is whole or gone, and its
// number is not given again once it is gone.
func TestRemoveCrash(t *testing.T) {
	r, f := rng(t), newFake()
	f.add(r, revenue(), 30, 30, false)
	gone := 0
	for at, failing := 0, (&failAt{failed: true}); failing.met(); at++ {
		mem := vfs.NewCrashableMem()
		write(t, mem, f)
		f.records++
		write(t, mem, f)
		root, err := mem.OpenDir("")
		must(t, err)
		must(t, root.Sync())
		failing = &failAt{at: at}
		err = Remove(errorfs.Wrap(mem, failing), dir, 2)
		crashed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(uint64(at), 6))})
		for _, fsys := range []vfs.FS{mem, crashed} {
			ids := whole(t, fsys)
			if !slices.Equal(ids, []uint64{1}) && !slices.Equal(ids, []uint64{1, 2}) || err == nil && len(ids) != 1 {
				t.Fatalf("call %d: checkpoints %v, %v", at, ids, err)
			}
			if len(ids) == 1 {
				gone++
			}
			if m := write(t, fsys, f); m.Checkpoint != 3 {
				t.Fatalf("call %d: number %d was given again", at, m.Checkpoint)
			}
		}
	}
	if gone < 4 {
		t.Errorf("it was gone %d times", gone)
	}
}

// TestRestoreCrash fails every so many calls that Restore makes of the disk it
// restores to, alone or with all later ones, and cuts the power: there is the whole
// store, as it was restored, or none, and then another try makes it.
func TestRestoreCrash(t *testing.T) {
	f, fsys := newFake(), vfs.NewMem()
	change := f.addChanging(t, rng(t), revenue(), 60)
	write(t, fsys, f)
	change()
	if m := write(t, fsys, f); m.Views[0].Whole() {
		t.Fatal("no delta")
	}
	restore := func(local vfs.FS) error {
		_, err := RestoreFrom(t.Context(), fsys, Path(fsys, dir, 2), "restored", state.Options{FS: local, Fatal: func(string) {}})
		return err
	}
	good := vfs.NewMem()
	must(t, restore(good))
	holds := func(local vfs.FS) []string {
		s := openStore(t, local, "restored")
		defer s.Close()
		return content(t, s)
	}
	want := holds(good)
	outcomes := map[bool]int{}
	for _, full := range []bool{false, true} {
		for at, failing := 0, (&failAt{failed: true}); failing.met(); at += 1 + at/6 {
			mem := vfs.NewCrashableMem()
			failing = &failAt{at: at, full: full}
			err := restore(errorfs.Wrap(mem, failing))
			if err != nil && !failing.met() {
				t.Fatal(err)
			}
			crashed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(uint64(at), 5))})
			_, statErr := crashed.Stat("restored/db")
			there := statErr == nil
			outcomes[there]++
			if err == nil && !there {
				t.Fatalf("call %d: Restore succeeded and the crash lost the store", at)
			}
			if !there {
				if err := restore(crashed); err != nil {
					t.Fatalf("call %d: another try: %v", at, err)
				}
			}
			if diff := cmp.Diff(want, holds(crashed)); diff != "" {
				t.Fatalf("call %d: %s", at, diff)
			}
		}
	}
	if outcomes[false] < 20 || outcomes[true] < 2 {
		t.Errorf("found a store or not: %v", outcomes)
	}
}
