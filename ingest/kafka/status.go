package kafka

import "time"

// State is what a Reader is doing.
type State string

const (
	StateConnecting State = "connecting"        // no broker has answered yet
	StateWaiting    State = "waiting for topic" // it is not there
	StateReading    State = "reading"
	StateStopped    State = "stopped"
)

// Status is a Reader's state at a moment.
type Status struct {
	Topic      string
	TopicID    TopicID
	State      State
	Err        error // what stopped the Reader, or what is being retried
	Buffered   int   // bytes fetched and not released
	Partitions []PartitionStatus
}

// PartitionStatus is the state of one partition. Offsets are -1 while unknown.
type PartitionStatus struct {
	Partition int32
	Leader    int32 // broker, -1 for none
	Position  int64 // after what Next has returned
	Fetched   int64 // after what is buffered

	// The log: oldest offset, end of what is stable, end.
	LogStart, LastStable, HighWatermark int64

	// Lag is how far Position is behind what can be read: LastStable, or
	// HighWatermark with ReadUncommitted.
	Lag int64

	// HeldSince is when reading came to stand before an open transaction while
	// there are records after it; zero when it does not.
	HeldSince time.Time

	Err    error // being retried
	Errors int64 // so far
	Stalls int64 // answers without a record where there should be some
}

// Status describes the Reader now.
func (r *Reader) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Status{Topic: r.o.Topic, TopicID: r.mu.id, State: r.mu.state, Err: r.mu.final, Partitions: make([]PartitionStatus, len(r.mu.parts))}
	if s.Err == nil {
		s.Err = r.mu.passing
	}
	for _, f := range r.mu.fetchers {
		s.Buffered += f.held
	}
	for i, p := range r.mu.parts {
		end := p.lastStable
		if r.o.ReadUncommitted {
			end = p.highWatermark
		}
		s.Partitions[i] = PartitionStatus{
			Partition: p.id, Leader: p.leader.broker, Position: p.delivered, Fetched: p.next,
			LogStart: p.logStart, LastStable: p.lastStable, HighWatermark: p.highWatermark,
			Lag: max(0, end-p.delivered), HeldSince: p.held, Err: p.err, Errors: p.errors, Stalls: p.stalls,
		}
		if s.Err == nil {
			s.Err = p.err
		}
	}
	return s
}
