package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"weir/ingest/decode"
	"weir/ingest/kafka"
	"weir/internal/recordbatch"
	"weir/state"
	"weir/state/sqltype"
)

// gather is how long a batch waits for more records after its first: short beside
// the commit interval, long beside the cost of running a statement.
const gather = 50 * time.Millisecond

// A lane reads one cursor and feeds the views that follow it. Its set of views
// is fixed: a change stops the lane and starts another from the positions that
// were folded.
//
// Two goroutines share the work, so that a batch is fetched and decoded while
// the one before is evaluated and folded:
//
//	read:  Reader -> builder -> batches
//	fold:  batches -> programs -> state.Fold
//
// Only fold moves the cursor. What read has in hand when the lane ends is thrown
// away and fetched again.
type lane struct {
	p      *Pipeline
	source *state.Source
	cursor state.CursorID
	views  []*view
	// upTo, when not nil, ends the lane once the cursor stands exactly there. It
	// never passes it.
	upTo map[int32]int64

	wanted  []sqltype.Field
	at      map[int32]state.Position // of read: what was put into batches
	opened  func(*kafka.Reader)      // is told of the reader
	trouble func(error)              // is told what keeps it from opening

	from  atomic.Pointer[kafka.Reader]
	stats *laneStats
	slot  *slot // of fold
}

// laneStats are what a lane tells others while it runs.
type laneStats struct {
	records atomic.Int64
	newest  atomic.Int64 // ms, timestamp of the newest record folded

	mu   sync.Mutex
	next map[int32]state.Position // folded
}

func (s *laneStats) set(at []state.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range at {
		s.next[p.Partition] = p
	}
}

func (s *laneStats) positions() map[int32]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := make(map[int32]int64, len(s.next))
	for p, at := range s.next {
		m[p] = at.Next
	}
	return m
}

// A suspectError ends a lane whose batch the next one evaluates with care.
type suspectError struct{ error }

func (e *suspectError) Unwrap() error { return e.error }

// errReached ends a lane at its upTo.
var errReached = errors.New("positions reached")

// run reads until the context ends, upTo is reached (both are nil), or an error
// that must stop the source.
func (l *lane) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if l.reached(l.at) {
		return nil
	}
	pool := decode.NewPool(l.p.o.Mem)
	defer pool.Close()
	b, err := newBuilder(l.source, l.wanted, pool)
	if err != nil {
		return fmt.Errorf("source %s: %w", l.source.Name, err)
	}
	defer b.close()
	r, err := l.open(ctx)
	if ctx.Err() != nil { // stopped while it waited for its broker
		if r != nil {
			r.Close()
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("source %s: %w", l.source.Name, err)
	}
	defer r.Close()
	l.slot = l.p.inflight.take(l.cursor)
	defer l.p.inflight.giveBack(l.slot)
	if l.slot == nil && l.p.inflight != nil {
		l.p.log.Warn("too many cursors are read at once: should DuckDB crash on a batch of this one, it is not found", "source", l.source.Name, "cursor", l.cursor)
	}
	if l.slot.suspect() && !l.slot.passed(l.stats.next) {
		l.p.log.Warn("a batch did not come to its end: its records are evaluated in a process of their own", "source", l.source.Name, "cursor", l.cursor, "up_to", l.slot.left.upTo)
	}

	batches := make(chan *batch, 1)
	var wg sync.WaitGroup
	var readErr, foldErr error
	wg.Go(func() {
		defer close(batches)
		readErr = l.read(ctx, b, batches)
	})
	for t := range batches {
		if foldErr == nil {
			if foldErr = l.fold(ctx, t); foldErr != nil {
				cancel(foldErr)
			}
		}
		b.giveBack(t)
	}
	wg.Wait()
	if _, ok := errors.AsType[*MemoryError](foldErr); ok && l.slot != nil && !l.slot.suspect() {
		return fmt.Errorf("source %s: %w", l.source.Name, &suspectError{foldErr}) // its note is in the slot
	}
	for _, err := range []error{foldErr, readErr} {
		if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, errReached) && !errors.Is(err, kafka.ErrClosed) {
			return fmt.Errorf("source %s: %w", l.source.Name, err)
		}
	}
	return nil
}

// reader is nil before the lane has opened it.
func (l *lane) reader() *kafka.Reader { return l.from.Load() }

// caughtUp says whether the lane stands at the stable end of every partition.
func (l *lane) caughtUp() bool {
	s := l.reader().Status()
	at := l.stats.positions()
	for _, p := range s.Partitions {
		if p.LastStable < 0 || at[p.Partition] < p.LastStable {
			return false
		}
	}
	return s.State == kafka.StateReading && len(s.Partitions) > 0
}

// read fills batches. One is handed on when it is full, when it has gathered long
// enough and no more records are at hand, and at the lane's end.
func (l *lane) read(ctx context.Context, b *builder, out chan<- *batch) error {
	b.begin()
	for {
		f, err := next(ctx, l.reader(), b)
		if errors.Is(err, errGathered) {
			if err := l.hand(ctx, b, out); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		err = l.take(ctx, b, f, out)
		f.Release()
		if err != nil {
			return err
		}
		if l.reached(l.at) {
			if err := l.hand(ctx, b, out); err != nil {
				return err
			}
			return errReached
		}
	}
}

var errGathered = errors.New("the batch has waited long enough")

// A queue gives records in their order, as kafka.Reader does.
type queue interface {
	Next(context.Context) (*kafka.Fetched, error)
	Ready() (*kafka.Fetched, error)
}

// next waits for records, but no longer than a batch that has some may gather. After
// that it takes what is there already, so that batches grow when records come faster
// than they are folded.
func next(ctx context.Context, r queue, b *builder) (*kafka.Fetched, error) {
	if b.empty() {
		return r.Next(ctx)
	}
	left := gather - time.Since(b.batch.began)
	if left <= 0 {
		f, err := r.Ready()
		if f == nil && err == nil {
			err = errGathered
		}
		return f, err
	}
	wait, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	f, err := r.Next(wait)
	return f, waited(ctx, err)
}

// waited is what an error of a wait shorter than ctx means: when both have ended, the
// end of the wait is no news.
func waited(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return errGathered
	}
	return err
}

// take puts one fetched run into batches.
func (l *lane) take(ctx context.Context, b *builder, f *kafka.Fetched, out chan<- *batch) error {
	limit, bounded := l.upTo[f.Partition]
	if l.upTo != nil && !bounded {
		return nil // a partition of which the lane's end says nothing is for the next lane
	}
	pos, known := l.at[f.Partition]
	if !known {
		pos = state.Position{Topic: f.Topic, TopicID: f.TopicID, Partition: f.Partition, Next: f.From, LeaderEpoch: f.LeaderEpoch}
		if err := l.p.o.Store.Start(l.cursor, []state.Position{pos}); err != nil {
			return err
		}
		l.at[f.Partition] = pos
	}
	move := func(next int64, epoch int32) {
		if bounded {
			next = min(next, limit)
		}
		if next <= pos.Next {
			return
		}
		pos.Next = next
		if epoch >= 0 {
			pos.LeaderEpoch = epoch
		}
		l.at[f.Partition] = pos
		b.moved(pos)
	}
	for {
		rb, err := f.Batch()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		for i := range rb.Records {
			r := &rb.Records[i]
			if bounded && r.Offset >= limit {
				break
			}
			if b.full() {
				move(r.Offset, rb.LeaderEpoch) // what comes before r is in the batch
				if err := l.hand(ctx, b, out); err != nil {
					return err
				}
			}
			if err := b.add(f.Partition, r); err != nil {
				return fmt.Errorf("topic %s partition %d offset %d: %w", f.Topic, f.Partition, r.Offset, err)
			}
		}
		move(rb.Next, rb.LeaderEpoch)
	}
	move(f.Next, f.LeaderEpoch)
	return nil
}

// hand gives the batch to fold.
func (l *lane) hand(ctx context.Context, b *builder, out chan<- *batch) error {
	if b.empty() {
		return nil
	}
	t := b.take()
	select {
	case out <- t:
		return nil
	case <-ctx.Done():
		t.release()
		return context.Cause(ctx)
	}
}

// reached says whether the lane has come to its end.
func (l *lane) reached(at map[int32]state.Position) bool {
	if l.upTo == nil {
		return false
	}
	for p, next := range l.upTo {
		if at[p].Next < next {
			return false
		}
	}
	return true
}

// fold evaluates a batch for every view and moves the cursor.
func (l *lane) fold(ctx context.Context, b *batch) error {
	f := state.Fold{Cursor: l.cursor, Records: b.records, Refused: b.refused, Behind: b.full()}
	for _, p := range b.next {
		f.Positions = append(f.Positions, p)
	}
	defer func() {
		for _, p := range f.Partials {
			if p.Rows != nil {
				p.Rows.Release()
			}
		}
	}()
	if len(b.rows) > 0 && !l.slot.suspect() {
		l.slot.note(b.next)
	}
	crashed := false
	for _, v := range l.views {
		part := state.Partial{View: v.id}
		if len(b.rows) > 0 {
			rows, o, err := l.partial(ctx, v, b)
			crashed = crashed || o.crashed
			if err != nil {
				if cause := context.Cause(ctx); cause != nil && (errors.Is(err, cause) || errors.Is(err, ctx.Err())) && !l.slot.suspect() {
					l.slot.clear() // it was stopped; nothing is wrong with the batch
				}
				return err
			}
			part.Rows = rows
			f.Refused = append(f.Refused, o.refused...)
		}
		f.Partials = append(f.Partials, part)
	}
	if !l.slot.suspect() {
		l.slot.clear()
	}
	if err := l.p.o.Store.Fold(ctx, f); err != nil {
		return err
	}
	l.stats.records.Add(b.records)
	l.stats.newest.Store(max(l.stats.newest.Load(), b.newest))
	l.stats.mu.Lock()
	maps.Copy(l.stats.next, b.next)
	l.stats.mu.Unlock()
	if l.slot.suspect() {
		l.settle(crashed)
	}
	return nil
}

// settle ends the evaluation with care when the cursor is past what was suspect.
func (l *lane) settle(crashed bool) {
	l.slot.left.evaluated(crashed)
	l.slot.left.see(l.reader().Status().Partitions)
	if !l.slot.passed(l.stats.next) {
		return
	}
	for _, v := range l.views {
		if err := v.carefree(); err != nil {
			l.p.log.Warn("close view's programs", "view", v.plan.Name, "error", err)
		}
	}
	l.p.log.Info("the batch that did not come to its end has been evaluated", "source", l.source.Name, "cursor", l.cursor)
}

// partial evaluates a batch for one view. The outcome's own partials are gone.
func (l *lane) partial(ctx context.Context, v *view, b *batch) (arrow.RecordBatch, outcome, error) {
	with := v.usual
	if l.slot.suspect() {
		var err error
		if with, err = v.carefully(ctx, l.p.o.Careful); err != nil {
			return nil, outcome{}, err
		}
	}
	o, err := v.evaluate(ctx, with, b, l.p.o.Mem)
	if err != nil {
		return nil, outcome{}, err
	}
	defer o.release()
	rows, err := recordbatch.Concat(o.partials, l.p.o.Mem)
	return rows, o, err
}
