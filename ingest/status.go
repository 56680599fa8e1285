package ingest

import (
	"weir/ingest/kafka"
	"weir/state"
)

// States of a source.
const (
	Running = "running"
	Waiting = "waiting" // for its topic, its brokers, or a view to feed
	Stopped = "stopped" // Err says why
)

// SourceStatus is how a source is doing.
type SourceStatus struct {
	State      string
	Err        error
	Rate       float64 // records a second, over the last few seconds
	Newest     int64   // timestamp of the newest record folded, ms, -1 when none
	Partitions []PartitionStatus
}

// PartitionStatus is how far the shared cursor, or the farthest one, has come in
// one partition. End is the end of what is stable, -1 while unknown.
type PartitionStatus struct {
	Partition int32
	Next, End int64
	Lag       int64
}

// Status describes a source. ok is false when it is not fed here.
func (p *Pipeline) Status(src *state.Source) (s SourceStatus, ok bool) {
	p.mu.Lock()
	f := p.feeds[src.ID]
	p.mu.Unlock()
	if f == nil {
		return SourceStatus{State: Waiting, Newest: -1}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s = SourceStatus{State: Running, Err: f.err, Rate: f.meter.rate(), Newest: -1}
	if f.err != nil {
		s.State, s.Rate = Stopped, 0
	} else if len(f.lanes) == 0 {
		s.State, s.Err = Waiting, f.waiting
	}
	lane := f.lanes[src.Cursor]
	for _, l := range f.lanes {
		s.Newest = max(s.Newest, l.stats.newest.Load())
		if lane == nil {
			lane = l
		}
	}
	if lane == nil {
		for _, at := range p.o.Store.Positions(src.Cursor) {
			s.Partitions = append(s.Partitions, PartitionStatus{Partition: at.Partition, Next: at.Next, End: -1})
		}
		return s, true
	}
	next := lane.stats.positions()
	r := lane.reader.Status()
	if s.Err == nil {
		s.Err = r.Err
	}
	if r.State == kafka.StateWaiting || r.State == kafka.StateConnecting {
		s.State = Waiting
	}
	for _, q := range r.Partitions {
		at, seen := next[q.Partition]
		if !seen {
			at = q.Position
		}
		s.Partitions = append(s.Partitions, PartitionStatus{Partition: q.Partition, Next: at, End: q.LastStable, Lag: max(0, q.LastStable-at)})
	}
	return s, true
}

// Lag is how many records a view is behind the stable ends of its topic; false
// when that is not known.
func (p *Pipeline) Lag(v *state.View) (lag int64, ok bool) {
	p.mu.Lock()
	f := p.feeds[v.Source]
	p.mu.Unlock()
	if f == nil {
		return 0, false
	}
	f.mu.Lock()
	l := f.lanes[v.Cursor]
	f.mu.Unlock()
	if l == nil {
		return 0, false
	}
	next := l.stats.positions()
	for _, q := range l.reader.Status().Partitions {
		if q.LastStable < 0 {
			return 0, false
		}
		lag += max(0, q.LastStable-next[q.Partition])
	}
	return lag, true
}
