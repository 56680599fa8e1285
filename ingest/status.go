package ingest

import (
	"errors"
	"slices"

	"weir/ingest/kafka"
	"weir/state"
)

// States of a source.
const (
	Running = "running"
	Waiting = "waiting" // for its topic or its brokers
	Idle    = "idle"    // no view reads it, and so its topic is not asked for
	Stopped = "stopped" // Err says why
)

// SourceStatus is how a source is doing.
type SourceStatus struct {
	State      string
	Err        error
	Rate       float64 // records a second, over the last few seconds
	Newest     int64   // timestamp of the newest record folded, ms, -1 when none
	Partitions []PartitionStatus

	cursor state.CursorID // whose they are
}

// PartitionStatus is how far the shared cursor, or the farthest one, has come in
// one partition, with what waits for its commit until Show. End is the end of what is
// stable, and Lag what lies before it; both are -1 while unknown, as they are without a
// broker that answers.
type PartitionStatus struct {
	Partition int32
	Next, End int64
	Lag       int64

	start int64 // oldest offset, -1 while unknown
}

// Show puts the partitions where readers see them: at what is committed, as at says
// of cursors, and not at what was folded and waits for its commit. It must be that of
// a snapshot which was taken before the status, so that no lag is less than it is.
func (s *SourceStatus) Show(at func(state.CursorID) []state.Position) {
	committed := at(s.cursor)
	for i := range s.Partitions {
		p := &s.Partitions[i]
		p.Next = reached(committed, p.Partition, p.start)
		if p.End >= 0 {
			p.Lag = max(0, p.End-p.Next)
		}
	}
}

// reached is where positions stand in a partition: at its log's start when they do not
// name it, for it is not begun.
func reached(at []state.Position, partition int32, start int64) int64 {
	for _, p := range at {
		if p.Partition == partition {
			return p.Next
		}
	}
	return max(0, start)
}

// Lag is how far the source is behind in all partitions; false when that is not
// known.
func (s *SourceStatus) Lag() (lag int64, ok bool) {
	for _, p := range s.Partitions {
		if p.Lag < 0 {
			return 0, false
		}
		lag += p.Lag
	}
	return lag, len(s.Partitions) > 0 && s.State == Running
}

// current says whether what a reader knows of its topic holds now. A partition
// whose leader alone does not answer is no more than a partition of which little is
// known. A reader that was closed stands still for a moment, for a change.
func current(r kafka.Status) bool {
	return errors.Is(r.Err, kafka.ErrClosed) || r.State == kafka.StateReading &&
		(!unreachable(r.Err) || slices.ContainsFunc(r.Partitions, func(p kafka.PartitionStatus) bool { return p.Err == r.Err }))
}

func unreachable(err error) bool {
	_, connect := errors.AsType[*kafka.ConnectError](err)
	_, denied := errors.AsType[*kafka.AuthError](err)
	return connect || denied
}

// end is the stable end of a partition, -1 while it is not known.
func end(p kafka.PartitionStatus) int64 {
	if unreachable(p.Err) {
		return -1
	}
	return p.LastStable
}

// unfed is the state of a source whose topic is not read.
func (p *Pipeline) unfed(src *state.Source) string {
	if slices.ContainsFunc(p.o.Store.Catalog().Views, func(v state.View) bool { return v.Source == src.ID }) {
		return Waiting
	}
	return Idle
}

// Status describes a source. ok is false when it is not fed here.
func (p *Pipeline) Status(src *state.Source) (s SourceStatus, ok bool) {
	p.mu.Lock()
	f := p.feeds[src.ID]
	p.mu.Unlock()
	if f == nil {
		return SourceStatus{State: p.unfed(src), Newest: -1}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s = SourceStatus{State: Running, Err: f.err, Rate: f.meter.rate(), Newest: -1}
	if f.err != nil {
		s.State, s.Rate = Stopped, 0
	} else if len(f.lanes) == 0 {
		s.State, s.Err = p.unfed(src), f.waiting
	}
	lane := f.lanes[src.Cursor]
	s.cursor = src.Cursor
	for cursor, l := range f.lanes {
		s.Newest = max(s.Newest, l.stats.newest.Load())
		if lane == nil {
			lane, s.cursor = l, cursor
		}
	}
	if lane == nil {
		for _, at := range p.o.Store.Positions(src.Cursor) {
			s.Partitions = append(s.Partitions, PartitionStatus{Partition: at.Partition, Next: at.Next, End: -1, Lag: -1, start: -1})
		}
		return s, true
	}
	next := lane.stats.positions()
	r := lane.reader.Status()
	if s.Err == nil && !errors.Is(r.Err, kafka.ErrClosed) {
		s.Err = r.Err
	}
	known := s.State == Running && current(r)
	if s.State == Running && !known {
		s.State = Waiting
	}
	for _, q := range r.Partitions {
		at, seen := next[q.Partition]
		if !seen {
			at = q.Position
		}
		p := PartitionStatus{Partition: q.Partition, Next: at, End: -1, Lag: -1, start: q.LogStart}
		if e := end(q); known && e >= 0 {
			p.End, p.Lag = e, max(0, e-at)
		}
		s.Partitions = append(s.Partitions, p)
	}
	return s, true
}

// Lag is how many records a view whose readers see it at some positions is behind the
// stable ends of its topic, as these were heard of last; false when they are not
// known. See [SourceStatus.Show] for when at is to be taken.
func (p *Pipeline) Lag(v *state.View, at []state.Position) (lag int64, ok bool) {
	p.mu.Lock()
	f := p.feeds[v.Source]
	p.mu.Unlock()
	if f == nil {
		return 0, false
	}
	f.mu.Lock()
	l, stopped := f.lanes[v.Cursor], f.err != nil
	f.mu.Unlock()
	if l == nil || stopped {
		return 0, false
	}
	r := l.reader.Status()
	if !current(r) || len(r.Partitions) == 0 {
		return 0, false
	}
	for _, q := range r.Partitions {
		e := end(q)
		if e < 0 {
			return 0, false
		}
		lag += max(0, e-reached(at, q.Partition, q.LogStart))
	}
	return lag, true
}
