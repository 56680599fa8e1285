package appliance

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/state"
)

// sharing keeps the scans of queries from taking the processors from ingest: those
// that read the same at the same time are one scan, and only some of them move
// at once.
type sharing struct {
	limit int64         // bytes that shared scans may hold together
	turns chan struct{} // one for each batch under way

	mu   sync.Mutex
	held int64
	open map[sharedKey]*sharedScan
}

// newSharing lets half of the processors scan.
func newSharing(limit int64) *sharing {
	return &sharing{limit: limit, turns: make(chan struct{}, halfOfProcessors()), open: map[sharedKey]*sharedScan{}}
}

// A sharedKey says what is read and when it was: readers of one key can share.
type sharedKey struct {
	what  string
	epoch uint64
}

// await returns when a new scan of something should begin: at once where none is
// under way or one that began at the newest epoch, which can be shared. It
// waits for one of an older epoch to end, but not longer than patience: scans at
// one time of two epochs read everything twice, and both take twice as long.
func (s *sharing) await(ctx context.Context, what string, newest func() uint64, patience time.Duration) {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		older := s.underWay(what, newest())
		if older == nil {
			return
		}
		select {
		case <-older.over:
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// underWay is a scan that moves, unless one of the epoch does.
func (s *sharing) underWay(what string, epoch uint64) (older *sharedScan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, sc := range s.open {
		switch {
		case k.what != what:
		case k.epoch == epoch:
			return nil
		case !sc.isOver():
			older = sc
		}
	}
	return older
}

// read reads what key names. Readers of one key at one time share the reader
// that open makes, and what it has read, about size bytes in all. A scan too
// large for that is not shared. The context of open does not end with ctx: a
// query that is cancelled is not the end of another's.
func (s *sharing) read(ctx context.Context, key sharedKey, size int64, open func(context.Context) (array.RecordReader, error)) (array.RecordReader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc := s.open[key]
	if sc == nil {
		in, err := open(context.WithoutCancel(ctx))
		if err != nil {
			return nil, err
		}
		sc = &sharedScan{s: s, key: key, size: size, in: in, alone: s.held+size > s.limit, over: make(chan struct{})}
		if !sc.alone {
			s.open[key] = sc
			s.held += size
		}
	}
	sc.readers++
	r := &sharedReader{ctx: ctx, sc: sc}
	r.refs.Store(1)
	return r, nil
}

// live is the present state of a view, read together with other queries of the
// same epoch.
type live struct {
	l *lease
	v *state.View
}

// scan is Scan for a query, which is told of groups in error.
func (v live) scan(ctx context.Context, r state.ScanRequest) (array.RecordReader, error) {
	if v.settle(ctx, &r).Stats(v.v.ID).Errors == 0 {
		return v.Scan(ctx, r)
	}
	return scanChecked(ctx, v, &v.v.Plan, r)
}

func (v live) Scan(ctx context.Context, r state.ScanRequest) (array.RecordReader, error) {
	sn := v.settle(ctx, &r)
	if len(r.Filters) > 0 {
		return sn.Scan(ctx, r)
	}
	st := sn.Stats(v.v.ID)
	size := st.Bytes + 16*st.Groups*int64(len(r.Columns)) // of all slots, which may be more than are read
	return v.l.a.sharing.read(ctx, sharedKey{v.what(&r), sn.Epoch()}, size, func(ctx context.Context) (array.RecordReader, error) { return sn.Scan(ctx, r) })
}

// what names the scans that can be one.
func (v live) what(r *state.ScanRequest) string {
	return fmt.Sprint(v.v.ID, r.Columns, r.Extra, r.FromSlot, r.ToSlot)
}

func (v live) settle(ctx context.Context, r *state.ScanRequest) *state.Snapshot {
	if len(r.Filters) > 0 {
		return v.l.settle()
	}
	return v.l.settleFor(ctx, v.what(r), v.v.ID)
}

// A sharedScan is a reader and the batches that it has delivered.
type sharedScan struct {
	s       *sharing
	key     sharedKey
	size    int64
	alone   bool          // one reader, and nothing is kept
	readers int           // guarded by s.mu
	over    chan struct{} // closed when all is read, or all have left

	mu      sync.Mutex
	in      array.RecordReader
	batches []arrow.RecordBatch
}

func (sc *sharedScan) isOver() bool {
	select {
	case <-sc.over:
		return true
	default:
		return false
	}
}

// at is the batch at an index, with a reference for the caller; nil at the end.
func (sc *sharedScan) at(ctx context.Context, i int) (arrow.RecordBatch, error) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if i >= len(sc.batches) {
		if sc.isOver() {
			return nil, sc.in.Err()
		}
		select {
		case sc.s.turns <- struct{}{}:
			defer func() { <-sc.s.turns }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !sc.in.Next() {
			close(sc.over)
			return nil, sc.in.Err()
		}
		rec := sc.in.RecordBatch()
		rec.Retain()
		if sc.alone {
			return rec, nil
		}
		sc.batches = append(sc.batches, rec)
	}
	rec := sc.batches[i]
	rec.Retain()
	return rec, nil
}

// leave is called once by each reader.
func (sc *sharedScan) leave() {
	sc.s.mu.Lock()
	sc.readers--
	last := sc.readers == 0
	if last && !sc.alone {
		delete(sc.s.open, sc.key)
		sc.s.held -= sc.size
	}
	sc.s.mu.Unlock()
	if last {
		if !sc.isOver() {
			close(sc.over)
		}
		for _, b := range sc.batches {
			b.Release()
		}
		sc.in.Release()
	}
}

// A sharedReader is one reader's place in a shared scan.
type sharedReader struct {
	ctx  context.Context
	sc   *sharedScan
	next int
	rec  arrow.RecordBatch
	err  error
	refs atomic.Int64
}

func (r *sharedReader) Next() bool {
	r.drop()
	if r.err == nil {
		r.err = r.ctx.Err()
	}
	if r.err != nil {
		return false
	}
	r.rec, r.err = r.sc.at(r.ctx, r.next)
	r.next++
	return r.rec != nil
}

func (r *sharedReader) drop() {
	if r.rec != nil {
		r.rec.Release()
		r.rec = nil
	}
}

func (r *sharedReader) Schema() *arrow.Schema          { return r.sc.in.Schema() }
func (r *sharedReader) RecordBatch() arrow.RecordBatch { return r.rec }
func (r *sharedReader) Record() arrow.RecordBatch      { return r.rec }
func (r *sharedReader) Err() error                     { return r.err }
func (r *sharedReader) Retain()                        { r.refs.Add(1) }

func (r *sharedReader) Release() {
	if r.refs.Add(-1) == 0 {
		r.drop()
		r.sc.leave()
	}
}
