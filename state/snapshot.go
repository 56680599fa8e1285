package state

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// published is what readers see: one epoch. Pebble shows a write before it is
// synced, so its snapshot is taken once, when the epoch is durable, and shared.
// All but refs, which pubMu guards, is immutable.
type published struct {
	epoch    uint64
	at       time.Time // of the commit; zero when that is not known
	catalog  *Catalog
	cursors  map[CursorID]cursorState
	stats    map[ViewID]ViewStats
	refused  map[SourceID]RefusedCount
	shapes   map[ViewID]*shape
	marks    []mark
	recorded map[ViewID]recorded
	snap     *pebble.Snapshot
	refs     int
}

// next is what readers will see after a cut, with a reference for the store.
func (p *published) next(c *cut, cat *Catalog, views map[ViewID]*view, cursors map[CursorID]*cursor) *published {
	n := &published{
		epoch: c.epoch, at: c.at, catalog: cat, refs: 1, shapes: p.shapes, marks: c.marks, recorded: maps.Clone(p.recorded),
		cursors: maps.Clone(p.cursors), stats: maps.Clone(p.stats), refused: maps.Clone(p.refused),
	}
	maps.Copy(n.cursors, c.cursors)
	maps.Copy(n.stats, c.stats)
	maps.Copy(n.recorded, c.recorded)
	if c.catalog == nil {
		return n
	}
	n.shapes = map[ViewID]*shape{}
	for id, v := range views {
		n.shapes[id] = v.shape
	}
	maps.DeleteFunc(n.stats, func(id ViewID, _ ViewStats) bool { return views[id] == nil })
	maps.DeleteFunc(n.recorded, func(id ViewID, _ recorded) bool { return views[id] == nil })
	maps.DeleteFunc(n.cursors, func(id CursorID, _ cursorState) bool { return cursors[id] == nil })
	maps.DeleteFunc(n.refused, func(id SourceID, _ RefusedCount) bool {
		_, ok := cat.SourceByID(id)
		return !ok
	})
	return n
}

func (s *Store) unref(p *published) {
	s.pubMu.Lock()
	p.refs--
	last := p.refs == 0
	s.pubMu.Unlock()
	if last {
		_ = p.snap.Close() // never fails
	}
}

// A Snapshot is the whole store at one epoch. It costs nothing to take, but
// keeps old versions of groups on disk: close it.
type Snapshot struct {
	s      *Store
	p      *published
	closed bool
}

// Snapshot takes the newest epoch that is durable. It fails after Close or when
// the store failed.
func (s *Store) Snapshot() (*Snapshot, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	s.pubMu.Lock()
	defer s.pubMu.Unlock()
	s.pub.refs++
	return &Snapshot{s: s, p: s.pub}, nil
}

// share is another handle on the same epoch.
func (sn *Snapshot) share() *Snapshot {
	sn.s.pubMu.Lock()
	defer sn.s.pubMu.Unlock()
	sn.p.refs++
	return &Snapshot{s: sn.s, p: sn.p}
}

// Close frees the snapshot. Scans that are still open keep what they need. A
// second Close does nothing; Close is not for use by two goroutines at once.
func (sn *Snapshot) Close() {
	if !sn.closed {
		sn.closed = true
		sn.s.unref(sn.p)
	}
}

// Epoch is the number of the commit that the snapshot shows.
func (sn *Snapshot) Epoch() uint64 { return sn.p.epoch }

// Committed is when that was, as [Store.Committed] says it.
func (sn *Snapshot) Committed() time.Time { return sn.p.at }

// Catalog is that of the snapshot's epoch.
func (sn *Snapshot) Catalog() *Catalog { return sn.p.catalog }

// Positions are where the cursor stood, sorted by topic and partition.
func (sn *Snapshot) Positions(c CursorID) []Position {
	return slices.Clone(sn.p.cursors[c].positions)
}

// Records is how many records were folded through the cursor.
func (sn *Snapshot) Records(c CursorID) int64 { return sn.p.cursors[c].records }

// Stats counts the groups of a view.
func (sn *Snapshot) Stats(v ViewID) ViewStats { return sn.p.stats[v] }

func (s *Store) current() (*published, <-chan struct{}) {
	s.pubMu.Lock()
	defer s.pubMu.Unlock()
	return s.pub, s.changed
}

// Catalog is the newest one that is durable.
func (s *Store) Catalog() *Catalog {
	p, _ := s.current()
	return p.catalog
}

// Epoch is the newest one that is durable.
func (s *Store) Epoch() uint64 {
	p, _ := s.current()
	return p.epoch
}

// Committed is Epoch, and when it was committed: also by a process before this one. The
// time is zero when there was no commit yet, and of a state that was restored, or written
// by a version that did not note it.
func (s *Store) Committed() (epoch uint64, at time.Time) {
	p, _ := s.current()
	return p.epoch, p.at
}

// Changed is closed when a newer epoch becomes visible.
func (s *Store) Changed() <-chan struct{} {
	_, ch := s.current()
	return ch
}

// WaitEpoch returns when readers see the epoch or a newer one.
func (s *Store) WaitEpoch(ctx context.Context, epoch uint64) error {
	for {
		p, ch := s.current()
		if p.epoch >= epoch {
			return nil
		}
		select {
		case <-ch:
		case <-s.dead:
			return s.failure
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
