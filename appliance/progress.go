package appliance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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

// watchFreshness measures each commit that brought newer records.
func (a *Appliance) watchFreshness(ctx context.Context) error {
	seen := map[state.SourceID]int64{}
	for {
		next := a.store.Changed()
		a.committed.Store(time.Now().UnixMilli())
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

// watchCatchUp notes when every view has reached the ends that its topic had at
// the start. A source that cannot is no reason to stop the others.
func (a *Appliance) watchCatchUp(ctx context.Context) error {
	err := a.waitCaughtUp(ctx)
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
func (a *Appliance) waitCaughtUp(ctx context.Context) error {
	ends, err := a.ends(ctx)
	if err != nil {
		return err
	}
	for {
		next := a.store.Changed()
		ok, err := a.passed(ends)
		if ok || err != nil {
			return err
		}
		select {
		case <-next:
		case <-time.After(time.Second): // a source that stops commits nothing
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ends asks for the ends of all topics, and waits for brokers and topics.
func (a *Appliance) ends(ctx context.Context) (map[state.SourceID][]state.Position, error) {
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
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	return ends, nil
}

// passed says whether the committed positions of all views are at or beyond
// some ends. Those of a topic that was created again since are at no end: its
// offsets mean something else.
func (a *Appliance) passed(ends map[state.SourceID][]state.Position) (bool, error) {
	sn, err := a.store.Snapshot()
	if err != nil {
		return false, err
	}
	defer sn.Close()
	cat := sn.Catalog()
	all := true
	for i := range cat.Views {
		v := &cat.Views[i]
		at := map[int32]state.Position{}
		for _, p := range sn.Positions(v.Cursor) {
			at[p.Partition] = p
		}
		for _, end := range ends[v.Source] {
			p := at[end.Partition]
			other := p.TopicID != end.TopicID && p.TopicID != [16]byte{} && end.TopicID != [16]byte{}
			if p.Next < end.Next || other {
				all = false
			}
		}
	}
	if all {
		return true, nil
	}
	for i := range cat.Sources {
		src := &cat.Sources[i]
		if s, _ := a.pipeline.Status(src); s.State == "stopped" && len(ends[src.ID]) > 0 {
			return false, s.Err
		}
	}
	return false, nil
}
