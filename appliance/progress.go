package appliance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"weir/ingest"
	"weir/ingest/kafka"
	"weir/state"
)

// freshness keeps how old the newest record of a commit was when the commit
// became visible, for the last minute or so of commits.
type freshness struct {
	mu   sync.Mutex
	last [256]time.Duration
	n    int
}

func (f *freshness) add(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last[f.n%len(f.last)] = d
	f.n++
}

// p99 is over the commits kept; 0 when there were none.
func (f *freshness) p99() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := slices.Clone(f.last[:min(f.n, len(f.last))])
	if len(s) == 0 {
		return 0
	}
	slices.Sort(s)
	return s[len(s)*99/100]
}

// seen keeps since when readers see what they see: the time of the newest commit that
// brought records, or that came while no source waited. Other commits, as of a
// checkpoint without a broker, make nothing younger.
type seen struct {
	mu      sync.Mutex
	begun   bool
	epoch   uint64
	records int64 // read through all cursors
	at      time.Time
}

// committed is the newest epoch, and that time. Both are of a process before this one
// until there is a commit.
func (a *Appliance) committed() (uint64, time.Time) {
	a.seen.mu.Lock()
	defer a.seen.mu.Unlock()
	waits := len(a.waiting()) > 0 // asked before the epoch: of a source that waits no more
	sn, err := a.store.Snapshot()
	if err != nil { // the store has failed, or is closed
		return a.seen.epoch, a.seen.at
	}
	defer sn.Close()
	epoch, at := sn.Epoch(), sn.Committed()
	if a.seen.begun && epoch == a.seen.epoch {
		return epoch, a.seen.at
	}
	cat, cursors := sn.Catalog(), map[state.CursorID]bool{}
	for i := range cat.Sources {
		cursors[cat.Sources[i].Cursor] = true
	}
	for i := range cat.Views {
		cursors[cat.Views[i].Cursor] = true
	}
	records := int64(0)
	for c := range cursors {
		records += sn.Records(c)
	}
	if !a.seen.begun || records > a.seen.records || !waits {
		a.seen.at = at
	}
	a.seen.begun, a.seen.epoch, a.seen.records = true, epoch, records
	return epoch, a.seen.at
}

// waiting are the sources that wait for their broker or topic, or have stopped.
func (a *Appliance) waiting() (names []string) {
	cat := a.store.Catalog()
	for i := range cat.Sources {
		if s, _ := a.pipeline.Status(&cat.Sources[i]); s.State == ingest.Waiting || s.State == ingest.Stopped {
			names = append(names, cat.Sources[i].Name)
		}
	}
	return names
}

// watchFreshness measures each commit that brought newer records.
func (a *Appliance) watchFreshness(ctx context.Context) error {
	seen := map[state.SourceID]int64{}
	for {
		next := a.store.Changed()
		a.committed()
		cat := a.store.Catalog()
		for i := range cat.Sources {
			s, _ := a.pipeline.Status(&cat.Sources[i])
			if id := cat.Sources[i].ID; s.Newest > seen[id] {
				seen[id] = s.Newest
				a.freshness.add(max(0, time.Since(time.UnixMilli(s.Newest))))
			}
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil
		}
	}
}

// progress tells people how far a wait has come: a text that is new, and one every
// pause at most. Nil tells nobody.
type progress struct {
	out   io.Writer
	pause time.Duration
	said  string
	at    time.Time
}

func (p *progress) say(format string, args ...any) {
	if p == nil || time.Since(p.at) < p.pause {
		return
	}
	if text := fmt.Sprintf(format, args...); text != p.said {
		p.said, p.at = text, time.Now()
		fmt.Fprintln(p.out, text)
	}
}

// watchCatchUp notes when every view has reached the ends that its topic had at
// the start. A source that cannot is no reason to stop the others.
func (a *Appliance) watchCatchUp(ctx context.Context) error {
	err := a.waitCaughtUp(ctx, nil)
	if err == nil {
		a.caughtUp.Store(true)
	} else if ctx.Err() == nil {
		a.log.Warn("not caught up", "error", err)
	}
	return nil
}

// waitCaughtUp waits until all views that are there now have committed
// everything up to the stable ends of their topics, as these stand now. A
// source that stopped is an error.
func (a *Appliance) waitCaughtUp(ctx context.Context, p *progress) error {
	ends, err := a.ends(ctx, p)
	if err != nil {
		return err
	}
	for {
		next := a.store.Changed()
		behind, err := a.passed(ends)
		if behind == nil || err != nil {
			return err
		}
		a.tell(p, behind)
		select {
		case <-next:
		case <-time.After(time.Second): // a source that stops commits nothing
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tell says how far the view that is the farthest behind has to go, or what its
// source waits for.
func (a *Appliance) tell(p *progress, b *behind) {
	s, _ := a.pipeline.Status(b.source)
	if s.State == ingest.Waiting && s.Err != nil {
		p.say("waiting: source %s: %v", b.source.Name, s.Err)
		return
	}
	p.say("catching up: view %s has %d records to go, and source %s reads %.0f records/s", b.view, b.records, b.source.Name, s.Rate)
}

// ends asks for the ends of all topics, and waits for brokers and topics.
func (a *Appliance) ends(ctx context.Context, p *progress) (map[state.SourceID][]state.Position, error) {
	ends := map[state.SourceID][]state.Position{}
	cat := a.store.Catalog()
	for i := range cat.Sources {
		src := &cat.Sources[i]
		if !slices.ContainsFunc(cat.Views, func(v state.View) bool { return v.Source == src.ID }) {
			continue
		}
		for {
			e, err := a.pipeline.Ends(ctx, src)
			if err == nil {
				ends[src.ID] = e
				break
			}
			_, connect := errors.AsType[*kafka.ConnectError](err)
			_, unknown := errors.AsType[*kafka.UnknownTopicError](err)
			if !connect && !unknown {
				return nil, fmt.Errorf("source %s: %w", src.Name, err)
			}
			p.say("waiting: source %s: %v", src.Name, err)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	return ends, nil
}

// behind is a view that has not reached some ends, and how many offsets it lacks.
type behind struct {
	view    string
	source  *state.Source
	records int64
}

// passed compares the committed positions of all views with some ends. It returns
// the view that is the farthest behind, nil when none is. Positions in a topic that
// was created again since are at no end: its offsets mean something else.
func (a *Appliance) passed(ends map[state.SourceID][]state.Position) (*behind, error) {
	sn, err := a.store.Snapshot()
	if err != nil {
		return nil, err
	}
	defer sn.Close()
	cat := sn.Catalog()
	var worst *behind
	for i := range cat.Views {
		v := &cat.Views[i]
		at := map[int32]state.Position{}
		for _, p := range sn.Positions(v.Cursor) {
			at[p.Partition] = p
		}
		left := int64(0)
		for _, end := range ends[v.Source] {
			p := at[end.Partition]
			left += max(0, end.Next-p.Next)
			if other(p, end) {
				left = max(left, 1)
			}
		}
		if src, ok := cat.SourceByID(v.Source); ok && left > 0 && (worst == nil || left > worst.records) {
			worst = &behind{v.Plan.Name, src, left}
		}
	}
	if worst == nil {
		return nil, nil
	}
	for i := range cat.Sources {
		src := &cat.Sources[i]
		if s, _ := a.pipeline.Status(src); s.State == ingest.Stopped && len(ends[src.ID]) > 0 {
			return worst, s.Err
		}
	}
	return worst, nil
}
