package state

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// noReuse replaces the one operation of MemFS that deadlocks when another
// goroutine takes a crash clone.
type noReuse struct{ vfs.FS }

func (f noReuse) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.Remove(oldname); err != nil {
		return nil, err
	}
	return f.Create(newname, c)
}

// onWrite calls f before every operation that changes the disk; an error takes
// the operation's place.
func onWrite(fsys vfs.FS, f func() error) vfs.FS {
	return errorfs.Wrap(noReuse{fsys}, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return f()
		}
		return nil
	}))
}

// history is a fixed course of folds, commits and statements. It calls acked
// with each epoch that a commit returned, and stops at the first error.
func history(ctx context.Context, fsys vfs.FS, fatal func(string), acked func(uint64)) error {
	s, err := Open("data", Options{FS: fsys, Fatal: fatal})
	if err != nil {
		return err
	}
	_, err = s.CreateSource(Source{Name: "orders"})
	if err != nil {
		return err
	}
	create := func(name string, own bool) error {
		p := planOf(name)
		_, err := s.CreateView("CREATE", p, own, partial(p, nil))
		acked(s.Epoch())
		return err
	}
	src, _ := s.Catalog().Source("orders")
	c := src.Cursor
	for _, step := range []func() error{
		func() error { return create("by_id", false) },
		func() error { return create("by_city", false) },
		func() error { return foldNext(ctx, s, c, 0, 30) },
		func() error { return create("total1", false) }, // begins to count here
		func() error { return create("by_id2", true) },  // counts from the beginning
		func() error { return foldNext(ctx, s, c, 1, 30) },
		func() error {
			v, _ := s.Catalog().View("by_id2")
			return errors.Join(foldNext(ctx, s, v.Cursor, 0, 30), foldNext(ctx, s, v.Cursor, 1, 30), s.Join(v.ID))
		},
		func() error { return foldNext(ctx, s, c, 2, 60) },
		func() error { return s.Drop("by_city") },
		func() error { return create("by_city", false) },
	} {
		if err := step(); err != nil {
			return err
		}
		acked(s.Epoch())
	}
	for i := range 12 {
		if err := foldNext(ctx, s, c, int32(i%3), 20); err != nil {
			return err
		}
		e, err := s.Commit(ctx)
		if err != nil {
			return err
		}
		acked(e)
		if i%4 == 1 {
			if e, err = s.Mark(ctx); err != nil {
				return err
			}
			acked(e)
		}
		if i%8 == 6 {
			if err := s.Trim(e - 1); err != nil {
				return err
			}
		}
	}
	return s.Close()
}

// checkCrash opens what a crash left and compares every group with the log at
// the stored positions.
func checkCrash(ctx context.Context, fsys vfs.FS, acked uint64) error {
	var failed atomic.Pointer[string]
	s, err := Open("data", Options{FS: fsys, Fatal: func(m string) { failed.Store(&m) }})
	if err != nil {
		return err
	}
	sn, err := s.Snapshot()
	if err != nil {
		return err
	}
	if sn.Epoch() < acked {
		return fmt.Errorf("epoch %d is back, but %d was acknowledged", sn.Epoch(), acked)
	}
	if err := verify(ctx, sn); err != nil {
		return err
	}
	sn.Close()
	if src, ok := s.Catalog().Source("orders"); ok { // and it goes on from there
		if err := foldNext(ctx, s, src.Cursor, 0, 5); err != nil {
			return err
		}
		if _, err := s.Commit(ctx); err != nil {
			return err
		}
		if sn, err = s.Snapshot(); err != nil {
			return err
		}
		if err := verify(ctx, sn); err != nil {
			return fmt.Errorf("after going on: %w", err)
		}
		sn.Close()
	}
	if m := failed.Load(); m != nil {
		return errors.New(*m)
	}
	return s.Close()
}

// Power fails before every write in turn, the creation of the directory
// included; of what was not synced nothing, some or all is left.
func TestCrash(t *testing.T) {
	type crash struct {
		fs    vfs.FS
		acked uint64
		name  string
	}
	var (
		mu      sync.Mutex
		crashes []crash
		acked   atomic.Uint64
		mem     = vfs.NewCrashableMem()
		rng     = rand.New(rand.NewPCG(1, 1))
		writes  int
	)
	fsys := onWrite(mem, func() error {
		mu.Lock()
		defer mu.Unlock()
		writes++
		for _, percent := range []int{0, 40}[:1+writes%2] {
			at := acked.Load() // what was acknowledged before the clone must be in it
			clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
			crashes = append(crashes, crash{clone, at, fmt.Sprintf("write %d, %d%% of unsynced data kept", writes, percent)})
		}
		return nil
	})
	if err := history(t.Context(), fsys, func(m string) { t.Error(m) }, func(e uint64) { acked.Store(e) }); err != nil {
		t.Fatal(err)
	}
	if writes < 100 {
		t.Fatalf("only %d writes: the faults do not land", writes)
	}
	for _, c := range crashes {
		if err := checkCrash(t.Context(), c.fs, c.acked); err != nil {
			t.Errorf("crash at %s: %v", c.name, err)
		}
	}
	t.Logf("%d crash states", len(crashes))
}

// The disk refuses the k-th write and all later ones. The store says so, and
// what is on disk is a whole epoch that is not older than the acknowledged one.
func TestDiskErrors(t *testing.T) {
	broken := errors.New("no space left on device")
	fired := true
	for k := 1; fired; k += 1 + k/16 {
		mem := vfs.NewCrashableMem()
		var n atomic.Int64
		fsys := onWrite(mem, func() error {
			if n.Add(1) >= int64(k) {
				return broken
			}
			return nil
		})
		var acked atomic.Uint64
		err := history(t.Context(), fsys, func(string) {}, acked.Store)
		fired = n.Load() >= int64(k)
		if fired && err == nil {
			t.Fatalf("write %d failed and nobody was told", k)
		}
		if !fired && err != nil {
			t.Fatal(err)
		}
		left := mem.CrashClone(vfs.CrashCloneCfg{})
		if err := checkCrash(t.Context(), left, acked.Load()); err != nil {
			t.Errorf("write %d and later failed: %v", k, err)
		}
	}
}

// After a failed commit the store gives one error to every call.
func TestPoisoned(t *testing.T) {
	mem := vfs.NewCrashableMem()
	var bad atomic.Bool
	var fatal atomic.Int64
	fsys := onWrite(mem, func() error {
		if bad.Load() {
			return errors.New("input/output error")
		}
		return nil
	})
	s := mustOpen(t, fsys, Options{Fatal: func(string) { fatal.Add(1) }})
	c := withViews(t, s, "by_id")
	do(t, foldNext(t.Context(), s, c, 0, 10))
	before := s.Epoch()
	bad.Store(true)
	if _, err := s.Commit(t.Context()); err == nil {
		t.Fatal("a commit that cannot be written succeeded")
	}
	if fatal.Load() != 1 {
		t.Error("Fatal was called", fatal.Load(), "times")
	}
	if s.Epoch() != before {
		t.Error("readers see an epoch that is not durable")
	}
	_, snapErr := s.Snapshot()
	_, commitErr := s.Commit(t.Context())
	for _, err := range []error{snapErr, commitErr, foldNext(t.Context(), s, c, 0, 1), s.WaitEpoch(t.Context(), before+1), s.Run(t.Context())} {
		if err == nil || !errors.Is(err, s.failure) {
			t.Errorf("a failed store answered %v", err)
		}
	}
	do(t, s.Close())
}
