package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"weir/ingest/kafka"
	"weir/state"
	"weir/state/sqltype"
)

// look is how often a feed checks whether a view that reads old records has
// come near enough to join, and how often rates are measured.
const look = 100 * time.Millisecond

// near is how many records a view may be behind when it is made to join: they
// are read while the source's other views stand still.
const near = 2 * maxRows

// feed runs the lanes of one source. Its run goroutine alone starts and stops
// them, so that a change to the catalogue finds them all at rest.
type feed struct {
	p       *Pipeline
	id      state.SourceID
	running bool // guarded by Pipeline.mu
	changes chan change
	gone    chan struct{} // closed when run has returned
	views   map[state.ViewID]*view
	outage  outage

	mu      sync.Mutex
	err     error // why the source stands still
	waiting error // what a lane is waiting for before it can begin
	lanes   map[state.CursorID]*laneView
	meter   meter
}

// laneView is what Status sees of a lane.
type laneView struct {
	reader *kafka.Reader
	stats  *laneStats
	views  []state.ViewID
}

type change struct {
	do   func() error
	done chan error
}

func newFeed(p *Pipeline, id state.SourceID) *feed {
	return &feed{
		p: p, id: id, changes: make(chan change), gone: make(chan struct{}),
		views: map[state.ViewID]*view{}, lanes: map[state.CursorID]*laneView{},
	}
}

// change runs do between lanes.
func (f *feed) change(ctx context.Context, do func() error) error {
	c := change{do, make(chan error, 1)}
	select {
	case f.changes <- c:
	case <-f.gone:
		return errors.New("the source is gone, or the appliance is stopping")
	case <-ctx.Done():
		return ctx.Err()
	}
	return <-c.done
}

func (f *feed) run(ctx context.Context) {
	defer close(f.gone)
	defer f.closeViews(func(*view) bool { return true })
	for ctx.Err() == nil {
		src, ok := f.p.o.Store.Catalog().SourceByID(f.id)
		if !ok {
			return
		}
		lanes, err := f.plan(ctx, src, nil)
		if err == nil {
			err = f.watchLanes(ctx, src, lanes)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if _, again := errors.AsType[*suspectError](err); again {
			f.p.log.Warn("a batch needs more memory than there is for it", "source", src.Name, "error", err)
			continue
		}
		f.fail(err)
		select {
		case <-ctx.Done():
		case c := <-f.changes:
			c.done <- c.do()
		}
		f.fail(nil)
	}
}

// fail notes why the source stands still, and says so once.
func (f *feed) fail(err error) {
	f.mu.Lock()
	f.err = err
	if err != nil {
		f.lanes = map[state.CursorID]*laneView{}
	}
	f.mu.Unlock()
	if err != nil {
		f.p.log.Error("source stopped", "source", f.id, "error", err)
	}
}

// plan makes the lanes that the catalogue asks for. upTo bounds them all.
func (f *feed) plan(ctx context.Context, src *state.Source, upTo map[int32]int64) ([]*lane, error) {
	cat := f.p.o.Store.Catalog()
	f.closeViews(func(v *view) bool { _, ok := cat.ViewByID(v.id); return !ok })
	byCursor := map[state.CursorID][]*view{}
	for i := range cat.Views {
		v := &cat.Views[i]
		if v.Source != src.ID {
			continue
		}
		w := f.views[v.ID]
		if w == nil {
			var err error
			if w, err = newView(ctx, v, f.p.o.Evaluator); err != nil {
				return nil, err
			}
			w.halving = f.p.o.Halving
			f.views[v.ID] = w
		}
		byCursor[v.Cursor] = append(byCursor[v.Cursor], w)
	}
	var lanes []*lane
	for _, c := range slices.Sorted(maps.Keys(byCursor)) {
		lanes = append(lanes, f.lane(src, c, byCursor[c], upTo))
	}
	return lanes, nil
}

func (f *feed) lane(src *state.Source, cursor state.CursorID, views []*view, upTo map[int32]int64) *lane {
	l := &lane{p: f.p, source: src, cursor: cursor, views: views, upTo: upTo, at: map[int32]state.Position{}}
	for _, at := range f.p.o.Store.Positions(cursor) {
		l.at[at.Partition] = at
	}
	l.stats = &laneStats{next: maps.Clone(l.at)}
	l.stats.newest.Store(-1)
	l.wanted = wanted(views)
	l.opened = func(r *kafka.Reader) {
		lv := &laneView{reader: r, stats: l.stats}
		for _, v := range views {
			lv.views = append(lv.views, v.id)
		}
		f.mu.Lock()
		f.lanes[cursor] = lv
		f.waiting = nil
		f.mu.Unlock()
	}
	l.trouble = func(err error) {
		f.mu.Lock()
		f.waiting = err
		f.mu.Unlock()
	}
	return l
}

// wanted is the union of what some views read.
func wanted(views []*view) []sqltype.Field {
	var cols []sqltype.Field
	for _, v := range views {
		for _, c := range v.plan.Inputs {
			if !slices.ContainsFunc(cols, func(h sqltype.Field) bool { return h.Name == c.Name }) {
				cols = append(cols, c)
			}
		}
	}
	return cols
}

func (f *feed) closeViews(which func(*view) bool) {
	for id, v := range f.views {
		if which(v) {
			if err := v.close(); err != nil {
				f.p.log.Warn("close view's programs", "view", v.plan.Name, "error", err)
			}
			delete(f.views, id)
		}
	}
}

// watchLanes runs lanes until something must change, and returns when they all
// stand still and the change is made. An error stops the source.
func (f *feed) watchLanes(ctx context.Context, src *state.Source, lanes []*lane) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	f.mu.Lock()
	f.lanes = map[state.CursorID]*laneView{}
	f.mu.Unlock()
	failed := make(chan error, len(lanes))
	var wg sync.WaitGroup
	for _, l := range lanes {
		wg.Go(func() {
			if err := l.run(ctx); err != nil {
				failed <- err
			}
		})
	}
	rest := func() error {
		stop()
		wg.Wait()
		select {
		case err := <-failed:
			return err
		default:
			return nil
		}
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return rest()
		case err := <-failed:
			stop()
			wg.Wait()
			return err
		case c := <-f.changes:
			err := rest()
			c.done <- c.do()
			return err
		case now := <-tick.C:
			f.measure(now, lanes)
			s, _ := f.p.Status(src)
			f.outage.tell(f.p.log, now, src.Name, &s)
			if l := joinable(src, lanes); l != nil {
				if err := rest(); err != nil {
					return err
				}
				return f.join(context.WithoutCancel(ctx), src, l.views[0].id)
			}
		}
	}
}

// joinable finds a lane whose view has nearly caught up with the shared cursor.
func joinable(src *state.Source, lanes []*lane) *lane {
	var shared map[int32]int64
	var leader *laneStats
	for _, l := range lanes {
		if l.cursor == src.Cursor {
			leader, shared = l.stats, l.stats.positions()
		}
	}
	for _, l := range lanes {
		if l.cursor == src.Cursor || l.reader() == nil {
			continue
		}
		own := l.stats.positions()
		if shared == nil { // nobody follows the shared cursor: the view may have it once it has read what there is
			if len(own) > 0 && l.caughtUp() {
				return l
			}
			continue
		}
		if len(own) != len(shared) || !sameTopic(l.stats, leader) {
			continue
		}
		var behind int64
		for p, next := range shared {
			behind += max(0, next-own[p])
		}
		if behind <= near {
			return l
		}
	}
	return nil
}

// sameTopic is false when a topic was created again between the beginnings of
// two cursors: offsets of one mean nothing to the other. The lane of the older
// will find that out, and stop the source.
func sameTopic(a, b *laneStats) bool {
	ids := a.topics()
	for p, id := range b.topics() {
		if mine := ids[p]; mine != id && mine != [16]byte{} && id != [16]byte{} { // brokers before 2.8 know no ids
			return false
		}
	}
	return true
}

func (s *laneStats) topics() map[int32][16]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := make(map[int32][16]byte, len(s.next))
	for p, at := range s.next {
		m[p] = at.TopicID
	}
	return m
}

// join gives a view the shared cursor: both read up to the farther of the two
// in each partition, then one commit switches the view. Every lane rests. A
// change comes first: the brokers may be gone, and the join is tried again.
func (f *feed) join(ctx context.Context, src *state.Source, id state.ViewID) error {
	store := f.p.o.Store
	cat := store.Catalog()
	v, ok := cat.ViewByID(id)
	if !ok {
		return nil
	}
	own := store.Positions(v.Cursor)
	if len(cat.Following(src.Cursor)) == 0 {
		if err := store.Fold(ctx, state.Fold{Cursor: src.Cursor, Positions: own, Reset: true}); err != nil {
			return fmt.Errorf("source %s: move shared cursor: %w", src.Name, err)
		}
		return store.Join(id)
	}
	upTo := map[int32]int64{}
	for _, at := range slices.Concat(own, store.Positions(src.Cursor)) {
		upTo[at.Partition] = max(upTo[at.Partition], at.Next)
	}
	lanes, err := f.plan(ctx, src, upTo)
	if err != nil {
		return err
	}
	lanes = slices.DeleteFunc(lanes, func(l *lane) bool { return l.cursor != src.Cursor && l.cursor != v.Cursor })
	runCtx, stop := context.WithCancel(f.p.ctx)
	defer stop()
	errs := make([]error, len(lanes))
	var wg sync.WaitGroup
	for i, l := range lanes {
		wg.Go(func() {
			if errs[i] = l.run(runCtx); errs[i] != nil {
				stop()
			}
		})
	}
	rest := make(chan struct{})
	go func() { wg.Wait(); close(rest) }()
	select {
	case <-rest:
	case c := <-f.changes:
		stop()
		<-rest
		c.done <- c.do()
		return errors.Join(errs...)
	}
	if err := errors.Join(errs...); err != nil || f.p.ctx.Err() != nil {
		return err
	}
	if err := store.Join(id); err != nil {
		return fmt.Errorf("source %s: %w", src.Name, err)
	}
	f.p.log.Info("view caught up", "view", v.Plan.Name)
	return nil
}

// measure updates the source's rate.
func (f *feed) measure(now time.Time, lanes []*lane) {
	var n int64
	for _, l := range lanes {
		n += l.stats.records.Load()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.meter.add(now, n)
}
