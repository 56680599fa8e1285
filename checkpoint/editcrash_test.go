package checkpoint_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"weir/checkpoint"
	"weir/state"
)

// fails fails one call of the file system, counted from 0, or with full that and
// all later ones that write.
type fails struct {
	at, calls int
	full, met bool
}

func (f *fails) String() string { return "fail" }

func (f *fails) MaybeError(op errorfs.Op) error {
	f.calls++
	if f.calls-1 != f.at && (!f.full || f.calls <= f.at || op.Kind.ReadOrWrite() != errorfs.OpIsWrite) {
		return nil
	}
	f.met = true
	return errorfs.ErrInjected
}

// Every call that a transform, a merge and a restore make of the file system fails,
// once alone and once with all later writes, and the power goes: there is the old
// or the new, never a half, and the next try succeeds.
func TestEditsCrash(t *testing.T) {
	for _, full := range []bool{false, true} {
		t.Run(fmt.Sprintf("disk full=%v", full), func(t *testing.T) { testEditsCrash(t, full) })
	}
}

func testEditsCrash(t *testing.T, full bool) {
	base := vfs.NewCrashableMem()
	for i, s := range []*shop{newShop(base, "a", 1), newShop(base, "b", 2)} {
		s.sell([][]order{{{"Paris", 10}, {"Rome", 5}}, {{"Paris", 1}}}[i]...)
		s.checkpoint()
		check(s.store.Close())
	}
	syncRoot(t, base)
	for _, dir := range []string{"a", "b"} { // nothing but their checkpoints matters
		check(base.RemoveAll(dir + "/state"))
	}
	for name, step := range map[string]struct {
		run   func(vfs.FS) error
		whole func(*testing.T, vfs.FS) bool // or absent
	}{
		"transform": {
			func(fsys vfs.FS) error {
				c, err := checkpoint.Open(fsys, "a/checkpoints/00000001")
				if err != nil {
					return err
				}
				v, _ := c.Manifest.View("sales")
				rows := checkpoint.Sorted(v, stateRows(order{"Rome", 9}))
				_, err = checkpoint.Transform(t.Context(), c, fsys, "a/checkpoints", map[string]checkpoint.NewState{"sales": rows}, nil, named("new"))
				return err
			},
			func(t *testing.T, fsys vfs.FS) bool { return holds(t, fsys, "a/checkpoints", "new", "Rome 1 9") },
		},
		"merge": {
			func(fsys vfs.FS) error {
				var from []*checkpoint.Checkpoint
				for _, dir := range []string{"a/checkpoints/00000001", "b/checkpoints/00000001"} {
					c, err := checkpoint.Open(fsys, dir)
					if err != nil {
						return err
					}
					from = append(from, c)
				}
				_, err := checkpoint.Merge(t.Context(), from, fsys, "a/checkpoints", nil, checkpoint.Options{Savepoint: "new"})
				return err
			},
			func(t *testing.T, fsys vfs.FS) bool {
				return holds(t, fsys, "a/checkpoints", "new", "Paris 2 11", "Rome 1 5")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := 0
			for failing := (&fails{met: true}); failing.met; at++ {
				mem := base.CrashClone(vfs.CrashCloneCfg{})
				failing = &fails{at: at, full: full}
				err := step.run(errorfs.Wrap(mem, failing))
				if err != nil && !errors.Is(err, errorfs.ErrInjected) && !strings.Contains(err.Error(), "injected error") {
					t.Fatalf("call %d: %v", at, err)
				}
				for _, lost := range []int{0, 50} {
					crashed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: lost, RNG: rand.New(rand.NewPCG(uint64(at), 5))})
					there := step.whole(t, crashed)
					if err == nil && !there {
						t.Fatalf("call %d: it succeeded, and the crash lost it", at)
					}
					if _, err := checkpoint.Sweep(crashed, "a/checkpoints"); err != nil {
						t.Fatal(err)
					}
					if !there {
						check(step.run(crashed))
					}
					if !step.whole(t, crashed) {
						t.Fatalf("call %d: the next try made nothing", at)
					}
				}
			}
			if at < 25 {
				t.Errorf("only %d calls were failed", at)
			}
		})
	}
}

func syncRoot(t *testing.T, fsys vfs.FS) {
	t.Helper()
	root, err := fsys.OpenDir("")
	ok(t, err)
	ok(t, root.Sync())
	ok(t, root.Close())
}

// holds says whether a savepoint is there; if it is, it must hold these groups, and
// so must the checkpoint before it hold its own.
func holds(t *testing.T, fsys vfs.FS, dir, name string, groups ...string) bool {
	t.Helper()
	list, err := checkpoint.List(fsys, dir)
	ok(t, err)
	found := false
	for _, m := range list {
		c := open(fsys, dir, m)
		ok(t, c.Verify(t.Context()))
		got := firsts(salesOf(t, c), 3)
		want := []string{"Paris 1 10", "Rome 1 5"}
		if m.Savepoint == name {
			want, found = groups, true
		}
		if !slices.Equal(got, want) {
			t.Fatalf("checkpoint %d holds %q, not %q", m.Checkpoint, got, want)
		}
	}
	return found
}

// A part is restored whole or not at all.
func TestRestoreSomeIsOneStep(t *testing.T) {
	mem := vfs.NewMem()
	s := newShop(mem, "a", 1)
	s.sell(order{"Paris", 10})
	s.checkpoint()
	check(s.store.Close())
	none := checkpoint.Choice{View: func(*state.View) bool { return false }}
	_, err := checkpoint.RestoreSome(t.Context(), mem, "a/checkpoints/00000001", "new/state", state.Options{FS: mem}, none)
	ok(t, err)
	store, err := state.Open("new/state", state.Options{FS: mem})
	ok(t, err)
	cat := store.Catalog()
	if len(cat.Views) != 0 || len(cat.Sources) != 1 || store.Positions(cat.Sources[0].Cursor)[0].Next != 1 {
		t.Errorf("restored %+v", cat)
	}
	ok(t, store.Close())
}
