package checkpoint

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"
)

// TestCrash fails every call that Write makes of the file system, one run each,
// and cuts the power right after: what was not synced is lost, or half of it at
// random. The old checkpoint is always whole; the new one is whole or is not
// there; it is there when Write said so; and the next Write succeeds.
func TestCrash(t *testing.T) {
	r := rng(t)
	f := newFake()
	f.add(r, revenue(), 60, 30, true)
	next := newFake() // the same view, moved on: nothing to share
	next.add(r, revenue(), 80, 40, true)
	next.records++

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
		failing := &failAt{at: at}
		_, err = Write(t.Context(), errorfs.Wrap(mem, failing), dir, next, &finals{}, Options{Now: clock})
		if err != nil && !strings.Contains(err.Error(), "injected error") {
			t.Fatalf("call %d: %v", at, err)
		}
		for _, lost := range []int{0, 50} { // percent of the unsynced that survives
			crashed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: lost, RNG: rand.New(rand.NewPCG(uint64(at), 3))})
			ids := whole(t, crashed)
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
			write(t, crashed, next)
			whole(t, crashed)
		}
		// The process may also go on after the error.
		write(t, mem, next)
		whole(t, mem)
		if !failing.met {
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

// failAt fails one call, counted from 0.
type failAt struct {
	at, calls int
	met       bool
}

func (f *failAt) String() string { return "fail once" }

func (f *failAt) MaybeError(errorfs.Op) error {
	f.calls++
	if f.calls-1 != f.at {
		return nil
	}
	f.met = true
	return errorfs.ErrInjected
}

// whole lists the checkpoints and reads every value of each.
func whole(t *testing.T, fsys vfs.FS) []uint64 {
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
	}
	return ids
}

// TestRetainCrash does the same to Retain: every checkpoint that is still listed
// is whole, and the newest ones are.
func TestRetainCrash(t *testing.T) {
	r, f := rng(t), newFake()
	f.add(r, revenue(), 30, 30, false)
	for at, failing := 0, (&failAt{met: true}); failing.met; at++ {
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
		failing = &failAt{at: at}
		_, err = Retain(errorfs.Wrap(mem, failing), dir, 2)
		if err != nil && !failing.met {
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
		if !failing.met && at < 10 {
			t.Fatalf("only %d calls were failed", at)
		}
	}
}
