package objectstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"time"
)

// How often who holds a [Lease] says that it lives, and after how long a silence
// another takes it for dead.
const (
	leaseRenew = 20 * time.Second
	leaseStale = 70 * time.Second
	leaseClose = 3 * time.Second // for giving it back; a store that is away then is told nothing
)

// LeaseOptions are the settings of a [Lease]; zero values are the usual ones.
type LeaseOptions struct {
	Renew, Stale time.Duration // see [Lease]
	Log          *slog.Logger
	// Now and Pause are for tests.
	Now   func() time.Time
	Pause func(context.Context, time.Duration) error
}

// A Lease is the right to write under a prefix, which one program has at a time. It
// is an object that says who holds it. Whoever holds it writes it anew every Renew,
// reads it back before it publishes or removes anything, and removes it at the end.
//
// Nobody is asked whether a holder is dead: another takes the lease over when it has
// not seen it renewed for Stale, by its own clock, and at once when the holder was
// the same Owner. Objects are put on condition that nobody was faster, so of several
// that try one succeeds. With a store that ignores conditions two that start in the same
// instant may both believe it for as long as a Renew takes.
//
// It is no fence: a holder that stands still between reading the lease and a request
// for longer than Stale makes that one request although it has lost the lease.
type Lease struct {
	fs   *FS
	key  string
	who  Owner
	o    LeaseOptions
	stop context.CancelFunc
	done chan struct{}

	mu     sync.Mutex
	mine   *leaseText // nil while it is not held
	etag   string
	put    time.Time // when it was written last, by the clock on the wall
	lost   error
	seen   []byte // of another, and since when it is this
	seenAt time.Time
}

// NewLease makes the lease of the object named, which nobody holds yet. From now on f
// publishes and removes nothing unless the lease is held, and tries to acquire it then.
func NewLease(f *FS, name string, who Owner, o LeaseOptions) *Lease {
	o.Renew, o.Stale = cmp.Or(o.Renew, leaseRenew), cmp.Or(o.Stale, leaseStale)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Pause == nil {
		o.Pause = pause
	}
	ctx, stop := context.WithCancel(f.ctx)
	l := &Lease{fs: f, key: key(name), who: who, o: o, stop: stop, done: make(chan struct{})}
	go l.run(ctx)
	check := l.Check
	f.fence.Store(&check)
	return l
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Lease) place() string { return Scheme + l.fs.bucket + "/" + l.fs.PathDir(l.key) }

// Acquire takes the lease. When another has it, that one is watched until it shows that
// it lives, and Acquire fails with a [*HeldError], or has been silent for Stale.
func (l *Lease) Acquire() error {
	for first := true; ; first = false {
		l.mu.Lock()
		err := l.acquire()
		l.mu.Unlock()
		if first && errors.Is(err, fs.ErrNotExist) {
			continue // it was given back between two requests
		}
		held, ok := errors.AsType[*HeldError](err)
		if !ok || !held.quiet {
			return err
		}
		if first {
			l.o.Log.Info("another has locked this place; seeing whether it still runs", "place", held.Place, "by", held.By.String(), "for", l.o.Stale)
		}
		if err := l.o.Pause(l.fs.ctx, l.o.Renew/4); err != nil {
			return err
		}
	}
}

// acquire is one try of Acquire.
func (l *Lease) acquire() error {
	body, etag, err := l.fs.fetch(l.key)
	if errors.Is(err, fs.ErrNotExist) {
		return l.take("")
	}
	if err != nil {
		return err
	}
	other, err := l.parse(body)
	if err != nil {
		return err
	}
	now := l.o.Now()
	switch {
	case l.who.ID != "" && other.ID == l.who.ID && other.Host == l.who.Host && other.Dir == l.who.Dir:
		return l.take(etag)
	case l.seen == nil:
		l.seen, l.seenAt = body, now
		return l.held(other, true)
	case !bytes.Equal(l.seen, body):
		l.seen, l.seenAt = body, now
		return l.held(other, false)
	case now.Sub(l.seenAt) < l.o.Stale:
		return l.held(other, true)
	}
	l.o.Log.Warn("taking over a place whose holder is silent", "place", l.place(), "by", other.String(), "for", l.o.Stale)
	return l.take(etag)
}

func (l *Lease) held(by *leaseText, quiet bool) *HeldError {
	return &HeldError{Place: l.place(), By: by.Owner, Since: by.Since, quiet: quiet}
}

// take puts the object in the place of the one with the ETag old.
func (l *Lease) take(old string) error {
	mine := &leaseText{Owner: l.who, Format: leaseFormat, Nonce: rand.Text(), Since: l.o.Now().UTC().Truncate(time.Second)}
	err := l.write(mine, old)
	changed := errors.Is(err, errChanged)
	if err != nil && !changed {
		return err
	}
	l.mine = mine
	err = l.look()
	if held, ok := errors.AsType[*HeldError](err); ok { // it was faster
		l.mine, held.Lost = nil, false
	}
	if changed && errors.Is(err, fs.ErrNotExist) { // it was faster, and gave it back
		l.mine = nil
	}
	l.seen = nil
	return err
}

func (l *Lease) write(t *leaseText, old string) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	now := l.o.Now().Round(0) // a machine that slept counts the time
	if err := l.fs.swap(l.key, append(text, '\n'), old); err != nil {
		return err
	}
	l.put = now
	return nil
}

// look reads back whether the lease is still ours.
func (l *Lease) look() error {
	body, etag, err := l.fs.fetch(l.key)
	if err != nil {
		return err
	}
	t, err := l.parse(body)
	if err != nil {
		return err
	}
	if t.Nonce != l.mine.Nonce {
		e := l.held(t, false)
		e.Lost = true
		return e
	}
	l.etag = etag
	return nil
}

// Check says whether the lease is held, by asking the store. It takes it when that was
// not possible before, or somebody has removed the object. What was lost to another
// stays lost; so does what another may have had and given back.
func (l *Lease) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.check()
}

func (l *Lease) check() error {
	if l.lost != nil {
		return l.lost
	}
	if l.mine == nil {
		return l.acquire()
	}
	err := l.look()
	if errors.Is(err, fs.ErrNotExist) {
		now := l.o.Now().Round(0)
		if now.Sub(l.put) < l.o.Stale {
			return l.take("")
		}
		err = &HeldError{Place: l.place(), By: Owner{What: "somebody who is gone"}, Since: now, Lost: true}
	}
	if _, ok := errors.AsType[*HeldError](err); ok {
		l.lost, l.mine = err, nil
	}
	return err
}

// Renew shows others that the holder lives. The lease calls it itself.
func (l *Lease) Renew() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mine == nil || l.lost != nil {
		return l.lost
	}
	if err := l.check(); err != nil {
		return err
	}
	next := *l.mine
	next.Beat++
	if err := l.write(&next, l.etag); err != nil {
		return err // errChanged: the next look names who it was
	}
	l.mine = &next
	return nil
}

// run renews until the lease is closed.
func (l *Lease) run(ctx context.Context) {
	defer close(l.done)
	t := time.NewTicker(l.o.Renew)
	defer t.Stop()
	for told := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		err := l.Renew()
		if err != nil && !told && ctx.Err() == nil {
			l.o.Log.Error("the lock on the place of checkpoints was not renewed", "error", err)
		}
		told = err != nil
	}
}

// Close gives the lease back, also when the context of the FS has ended. What the store
// makes of that is no error: at worst another has to wait for it.
func (l *Lease) Close() error {
	l.stop()
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mine == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.fs.ctx), leaseClose)
	defer cancel()
	l.fs = l.fs.detached(ctx)
	err := l.look()
	if err == nil {
		err = l.fs.remove(l.key)
	}
	l.mine, l.lost = nil, errors.New("the lease was given back")
	if _, ok := errors.AsType[*HeldError](err); err != nil && !ok && !errors.Is(err, fs.ErrNotExist) {
		l.o.Log.Warn("the lock on the place of checkpoints stays behind; whoever comes next waits for it", "for", l.o.Stale, "error", err)
	}
	return nil
}
