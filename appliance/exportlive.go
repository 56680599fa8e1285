package appliance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"weir/export"
	"weir/queryable"
	"weir/state"
)

const (
	// exportFresh is how long a file of a live view serves those who begin to read,
	// though the view goes on. Readers of many ranges begin with HEAD, and do not
	// send what they got there: so it must not be another file a moment later.
	exportFresh = 5 * time.Second
	// exportIdle is how long a file is kept that nobody reads.
	exportIdle = 10 * time.Minute
	// exportEpochs is how many files are kept of one view.
	exportEpochs = 4
	// mostTries is how often a reader has a file made anew that others' files have
	// pushed out before it could be opened.
	mostTries = 5
)

// liveFiles are the files of live views, each of one epoch.
type liveFiles struct {
	mu    sync.Mutex
	next  int
	views map[state.ViewID][]*liveFile // by view id, the newest last; guarded by mu
}

// A liveFile is the file of one epoch, or one that is being made.
type liveFile struct {
	key   string
	began time.Time
	used  time.Time        // guarded by liveFiles.mu
	whole bool             // guarded by liveFiles.mu, as are those below
	from  queryable.Answer // when it is whole
	young []string         // the view, if it was not whole
	etag  string
}

// errNotKept says that a file went out of the cache before it was read.
var errNotKept = errors.New("the file is not kept any more")

// ScanParquet gives a file of a live view. Who has a part of one, and says which,
// gets that one or learns that it has gone.
func (e *exporter) ScanParquet(ctx context.Context, r queryable.ExportRequest) (*queryable.File, error) {
	for tries := 0; ; tries++ {
		v, ok := e.b.store.Catalog().View(r.View)
		if !ok {
			return nil, noGroups(e.b.store.Catalog(), r.View)
		}
		l, old, err := e.choose(v, r, tries > 0)
		if err != nil {
			return nil, err
		}
		write := func(ctx context.Context, w io.Writer) error { return e.writeFile(ctx, w, v, l) }
		if old {
			write = func(context.Context, io.Writer) error { return errNotKept }
		}
		f, err := e.made(ctx, &queryable.File{}, l.key, write)
		if err != nil {
			if ctx.Err() == nil { // others may still wait for it
				e.remove(v.ID, l)
			}
			if errors.Is(err, errNotKept) || errors.Is(err, export.ErrDropped) && tries < mostTries {
				continue
			}
			return nil, err
		}
		f.Answer, f.Backfilling = e.use(l, f.ETag)
		switch {
		case r.Epoch != nil && f.Epoch != *r.Epoch:
			return nil, errors.Join(e.gone(v, *r.Epoch), f.Close())
		case f.Epoch < r.MinEpoch && !slices.Contains(r.ETags, f.ETag):
			if err := f.Close(); err != nil {
				return nil, err
			}
			continue
		}
		return f, nil
	}
}

func (e *exporter) gone(v *state.View, epoch uint64) error {
	return queryable.Errorf(queryable.Gone, "there is no file of view %s at epoch %d any more: read it again from its beginning, without epoch", v.Plan.Name, epoch)
}

// choose finds the file to be given, or adds one that is to be made. fresh makes
// one in any case but that of a file asked for by name.
func (e *exporter) choose(v *state.View, r queryable.ExportRequest, fresh bool) (l *liveFile, old bool, err error) {
	now := e.b.store.Epoch()
	fs := &e.live
	fs.mu.Lock()
	defer fs.mu.Unlock()
	files := fs.views[v.ID]
	for _, f := range slices.Backward(files) {
		if f.whole && (r.Epoch != nil && f.from.Epoch == *r.Epoch || r.Epoch == nil && slices.Contains(r.ETags, f.etag)) {
			return f, true, nil
		}
	}
	if r.Epoch != nil && *r.Epoch != now {
		return nil, false, e.gone(v, *r.Epoch)
	}
	for i, f := range slices.Backward(files) {
		if fresh || r.Epoch != nil {
			break
		}
		newest := i == len(files)-1
		switch {
		case !f.whole && newest && r.Begins:
			return f, false, nil // it is younger than the request, or nearly
		case !f.whole || f.from.Epoch < r.MinEpoch:
		case !r.Begins || newest && (f.from.Epoch == now || time.Since(f.began) < exportFresh):
			return f, true, nil
		}
	}
	fs.next++
	l = &liveFile{key: fmt.Sprintf("live/%d/%d", v.ID, fs.next), began: time.Now(), used: time.Now()}
	var idle *liveFile // of those that nobody waits for
	for _, f := range files {
		if f.whole && (idle == nil || f.used.Before(idle.used)) {
			idle = f
		}
	}
	if len(files) >= exportEpochs && idle != nil {
		files = slices.DeleteFunc(files, func(f *liveFile) bool { return f == idle })
		e.cache.Drop(func(key string) bool { return key == idle.key })
	}
	if fs.views == nil {
		fs.views = map[state.ViewID][]*liveFile{}
	}
	fs.views[v.ID] = append(files, l)
	return l, false, nil
}

// writeFile makes a file and notes what it is of.
func (e *exporter) writeFile(ctx context.Context, w io.Writer, v *state.View, l *liveFile) error {
	from, young, err := e.writeLive(ctx, w, v.Plan.Name)
	if err != nil {
		return err
	}
	e.live.mu.Lock()
	defer e.live.mu.Unlock()
	l.from, l.young = from, young
	return nil
}

// use notes that a file is read, and says what it is of.
func (e *exporter) use(l *liveFile, etag string) (from queryable.Answer, backfilling []string) {
	e.live.mu.Lock()
	defer e.live.mu.Unlock()
	l.whole, l.etag, l.used = true, etag, time.Now()
	return l.from, l.young
}

// remove forgets a file that could not be made, or has gone.
func (e *exporter) remove(view state.ViewID, l *liveFile) {
	e.live.mu.Lock()
	defer e.live.mu.Unlock()
	e.live.views[view] = slices.DeleteFunc(e.live.views[view], func(f *liveFile) bool { return f == l })
}

// run drops what is idle, and what belongs to views and checkpoints that are gone.
func (e *exporter) run(ctx context.Context) error {
	t := time.NewTicker(10 * time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-t.C:
			e.sweep()
			e.expire(now)
		}
	}
}

// expire drops the files of live views that are idle or whose view is gone.
func (e *exporter) expire(now time.Time) {
	views := e.b.store.Catalog()
	old := map[string]bool{}
	e.live.mu.Lock()
	for id, files := range e.live.views {
		_, known := views.ViewByID(id)
		files = slices.DeleteFunc(files, func(f *liveFile) bool {
			gone := !known || f.whole && now.Sub(f.used) > exportIdle
			old[f.key] = old[f.key] || gone
			return gone
		})
		if e.live.views[id] = files; len(files) == 0 {
			delete(e.live.views, id)
		}
	}
	e.live.mu.Unlock()
	e.cache.Drop(func(key string) bool { return old[key] })
}

func (e *exporter) close() error { return e.cache.Close() }
