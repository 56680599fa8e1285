package objectstore_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/checkpoint/objectstore"
	"weir/checkpoint/objectstore/fakes3"
)

// leases are programs that lock one place, with one clock that stands still.
type leases struct {
	t     *testing.T
	s     *fakes3.Server
	now   time.Time
	pause func() // instead of waiting, after the clock went on
}

func newLeases(t *testing.T) *leases {
	return &leases{t: t, s: fakes3.Start(t), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

// lease is that of a program, which never renews it by itself.
func (ls *leases) lease(id string) (*objectstore.FS, *objectstore.Lease) {
	fsys := ls.s.FS(ls.t, once, objectstore.Options{})
	l := objectstore.NewLease(fsys, "ck/lock", objectstore.Owner{ID: id, Host: "host-" + id, Dir: "/data", What: "weir test"}, objectstore.LeaseOptions{
		Renew: time.Hour, Stale: 4 * time.Hour,
		Now: func() time.Time { return ls.now },
		Pause: func(_ context.Context, d time.Duration) error {
			ls.now = ls.now.Add(d)
			if ls.pause != nil {
				ls.pause()
			}
			return nil
		},
	})
	ls.t.Cleanup(func() { l.Close() })
	return fsys, l
}

func (ls *leases) mustAcquire(l *objectstore.Lease) {
	ls.t.Helper()
	if err := l.Acquire(); err != nil {
		ls.t.Fatal(err)
	}
	if err := l.Check(); err != nil {
		ls.t.Fatal(err)
	}
}

// heldBy wants an error that names a program.
func heldBy(t *testing.T, err error, id string, lost bool) {
	t.Helper()
	held, ok := errors.AsType[*objectstore.HeldError](err)
	if !ok || held.Lost != lost || held.Place != "s3://weir-test/ck" || !strings.Contains(err.Error(), "weir test on host-"+id+", data directory /data") {
		t.Fatalf("held by %s, lost %v: %v", id, lost, err)
	}
}

// publishes says whether a program publishes a checkpoint and removes it again.
func publishes(fsys *objectstore.FS, id int) error {
	f, err := fsys.Create(fmt.Sprintf("ck/%08d/manifest.json", id), "")
	if err != nil {
		return err
	}
	if _, err := f.Write([]byte("{}")); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return fsys.RemoveAll(fmt.Sprintf("ck/%08d", id))
}

// TestLease: one has the place while it renews its lease, the next one when it was
// given back, or not renewed for long, and the first one then learns of it before it
// publishes or removes anything.
func TestLease(t *testing.T) {
	for _, conditions := range []fakes3.Conditions{fakes3.Kept, fakes3.Ignored, fakes3.Refused, fakes3.Misunderstood} {
		ls := newLeases(t)
		ls.s.Conditional(conditions)
		fsA, a := ls.lease("a")
		fsB, b := ls.lease("b")
		ls.mustAcquire(a)
		if err := publishes(fsA, 1); err != nil {
			t.Fatal(err)
		}
		// b looks on, sees a renew, and is refused.
		waited := 0
		ls.pause = func() {
			if waited++; waited == 2 {
				if err := a.Renew(); err != nil {
					t.Error(err)
				}
			}
		}
		heldBy(t, b.Acquire(), "a", false)
		if waited != 2 {
			t.Errorf("it looked on %d times", waited)
		}
		ls.pause = nil
		heldBy(t, publishes(fsB, 2), "a", false)
		heldBy(t, fsB.RemoveAll("ck/00000001"), "a", false)
		heldBy(t, fsB.Remove("ck/next"), "a", false)
		if _, err := fsA.Stat("ck/00000002"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("what was refused is there: %v", err)
		}

		// a gives it back.
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		ls.mustAcquire(b)

		// c finds b silent and takes over; b learns of it.
		fsC, c := ls.lease("c")
		began := ls.now
		ls.mustAcquire(c)
		if d := ls.now.Sub(began); d < 4*time.Hour {
			t.Errorf("it was taken over after %v", d)
		}
		heldBy(t, publishes(fsB, 3), "c", true)
		heldBy(t, b.Renew(), "c", true)
		heldBy(t, b.Check(), "c", true)
		if err := publishes(fsC, 3); err != nil {
			t.Error(err)
		}
		// Its end does not free what is c's.
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := publishes(fsC, 4); err == nil {
			t.Error("it publishes after it gave the place back")
		}
	}
}

// TestLeaseThatCameBack: another had the place while its holder slept, and is gone.
func TestLeaseThatCameBack(t *testing.T) {
	ls := newLeases(t)
	fsA, a := ls.lease("a")
	ls.mustAcquire(a)
	_, b := ls.lease("b")
	ls.mustAcquire(b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		err := publishes(fsA, 1)
		if held, ok := errors.AsType[*objectstore.HeldError](err); !ok || !held.Lost || !strings.Contains(err.Error(), "somebody who is gone has taken s3://weir-test/ck over") {
			t.Errorf("who slept goes on: %v", err)
		}
	}
	_, c := ls.lease("c")
	ls.mustAcquire(c)
}

// TestLeaseAfterCrash: the same owner goes on at once; a copy of its data directory
// on another machine does not.
func TestLeaseAfterCrash(t *testing.T) {
	ls := newLeases(t)
	_, a := ls.lease("a")
	ls.mustAcquire(a)
	ls.pause = func() { t.Error("it waited for itself") }
	fsAgain, again := ls.lease("a")
	ls.mustAcquire(again)
	if err := publishes(fsAgain, 1); err != nil {
		t.Error(err)
	}
	ls.pause = func() {
		if err := again.Renew(); err != nil {
			t.Error(err)
		}
	}
	fsys := ls.s.FS(t, once, objectstore.Options{})
	copied := objectstore.NewLease(fsys, "ck/lock", objectstore.Owner{ID: "a", Host: "elsewhere", Dir: "/data"}, objectstore.LeaseOptions{
		Renew: time.Hour, Stale: 4 * time.Hour, Now: func() time.Time { return ls.now },
		Pause: func(context.Context, time.Duration) error { ls.pause(); return nil },
	})
	heldBy(t, copied.Acquire(), "a", false)
	if err := copied.Close(); err != nil {
		t.Error(err)
	}
	// Somebody clears the prefix: who holds it puts its lock there again.
	if err := fsAgain.RemoveAll("ck/lock"); err != nil {
		t.Fatal(err)
	}
	if err := again.Check(); err != nil {
		t.Error(err)
	}
	heldBy(t, copiedAgain(t, ls), "a", false)
	put(t, fsAgain, "ck/lock", []byte("hello"))
	_, d := ls.lease("d")
	if err := d.Acquire(); err == nil || !strings.Contains(err.Error(), "this is no lock of Weir") {
		t.Errorf("an object of somebody else: %v", err)
	}
}

func copiedAgain(t *testing.T, ls *leases) error {
	_, l := ls.lease("e")
	defer l.Close()
	return l.Acquire()
}

// TestLeaseUnavailable: a store that does not answer is locked when it does.
func TestLeaseUnavailable(t *testing.T) {
	ls := newLeases(t)
	fsA, a := ls.lease("a")
	ls.s.Fail(func(int, *http.Request) fakes3.Fault { return fakes3.Error500 })
	if err := a.Acquire(); !errors.Is(err, objectstore.ErrUnavailable) {
		t.Fatal(err)
	}
	if err := publishes(fsA, 1); !errors.Is(err, objectstore.ErrUnavailable) {
		t.Error(err)
	}
	ls.s.Fail(nil)
	if err := publishes(fsA, 1); err != nil {
		t.Error(err)
	}
	_, b := ls.lease("b")
	ls.pause = func() { a.Renew() }
	heldBy(t, b.Acquire(), "a", false)
}

// TestLeaseOfMany: of many that try at once, one succeeds, and it succeeds; also when
// answers are lost.
func TestLeaseOfMany(t *testing.T) {
	for round := range 10 {
		ls := newLeases(t)
		const n = 8
		var all []*objectstore.Lease
		for i := range n {
			fsys := ls.s.FS(t, forAll, objectstore.Options{})
			l := objectstore.NewLease(fsys, "ck/lock", objectstore.Owner{ID: fmt.Sprint(i), Host: "h"}, objectstore.LeaseOptions{
				Renew: time.Hour,
				Pause: func(context.Context, time.Duration) error { return errors.New("not to be seen renewed") },
			})
			t.Cleanup(func() { l.Close() })
			all = append(all, l)
		}
		ls.s.Fail(func(call int, r *http.Request) fakes3.Fault {
			if r.Method == http.MethodPut && call%2 == round%2 {
				return fakes3.Answer
			}
			return fakes3.None
		})
		var wg sync.WaitGroup
		got := make([]bool, n)
		for i, l := range all {
			wg.Go(func() { got[i] = l.Acquire() == nil })
		}
		wg.Wait()
		ls.s.Fail(nil)
		winners := 0
		for i, l := range all {
			if got[i] {
				winners++
				if err := l.Check(); err != nil {
					t.Errorf("the winner: %v", err)
				}
			}
		}
		if winners != 1 {
			t.Fatalf("%d hold it", winners)
		}
	}
}
