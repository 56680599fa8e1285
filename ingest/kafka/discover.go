package kafka

import (
	"context"
	"errors"
	"slices"
	"time"
)

// recreatedAfter is how long the topic must be another one. A broker that has
// fallen behind may for a moment tell the id before the one that is known;
// meanwhile fetches of the known id deliver nothing that is not its own.
const recreatedAfter = time.Second

// discover follows the topic's metadata: its identity, leaders and partitions.
// It alone decides that a topic was deleted or created again, and that
// an offset is out of range.
func (r *Reader) discover(ctx context.Context) {
	var b backoff
	var suspect time.Time // since when every look finds another topic
	for {
		err := r.look(ctx)
		pause := r.o.Discover
		_, recreated := errors.AsType[*RecreatedError](err)
		switch {
		case !recreated:
			suspect = time.Time{}
		case suspect.IsZero():
			suspect = time.Now()
		}
		switch {
		case ctx.Err() != nil:
			return
		case recreated && time.Since(suspect) < recreatedAfter:
			pause = min(b.next(), pause)
		case stops(err):
			r.stop(err)
			return
		case err != nil:
			r.c.log.Debug("kafka metadata", "topic", r.o.Topic, "error", err)
			pause = min(b.next(), pause)
		default:
			b = backoff{}
		}
		r.passing(err)

		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
		case <-r.refresh:
		}
		t.Stop()
	}
}

func (r *Reader) passing(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.passing = err
	if err != nil && !isUnknown(err) {
		r.mu.missing = time.Time{} // not known to be missing
	}
	switch {
	case r.mu.final != nil:
	case err == nil:
		r.mu.state = StateReading
	case isUnknown(err):
		r.mu.state = StateWaiting
	case r.mu.state == StateWaiting:
		r.mu.state = StateConnecting
	}
}

func isUnknown(err error) bool {
	_, ok := errors.AsType[*UnknownTopicError](err)
	return ok
}

// look asks once for the topic and acts on what it finds.
func (r *Reader) look(ctx context.Context) error {
	t, err := r.c.topic(ctx, r.o.Topic)
	if isUnknown(err) {
		return r.gone(err)
	}
	if err != nil {
		return err
	}
	if err := r.adopt(t); err != nil {
		return err
	}
	if err := r.checkRange(ctx, t); err != nil {
		return err
	}
	if err := r.begin(ctx, t); err != nil {
		return err
	}
	return r.lead(ctx, t)
}

// gone waits a while for a known topic to come back, and for ever for one that
// was never there.
func (r *Reader) gone(unknown error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.mu.missing.IsZero() {
		r.mu.missing = now
	}
	r.mu.absent = true
	r.start = Earliest
	if r.mu.adopted && now.Sub(r.mu.missing) >= r.o.DeletedAfter {
		return &DeletedError{Topic: r.o.Topic, ID: r.mu.id}
	}
	return unknown
}

// adopt checks the topic's identity, or takes it.
func (r *Reader) adopt(t TopicInfo) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.mu.id
	recreated := &RecreatedError{Topic: t.Name, Old: known, New: t.ID}
	switch {
	case known != TopicID{} && known != t.ID:
		return recreated
	case known == TopicID{} && t.ID == TopicID{} && r.mu.adopted && r.mu.absent:
		return recreated // without ids, absence is the only sign
	}
	for p, pos := range r.o.Positions {
		i, ok := slices.BinarySearch(t.Partitions, p)
		// A log's leader epoch never falls, and partitions are never removed.
		if !ok || t.ID == (TopicID{}) && t.leaders[i].broker >= 0 && t.leaders[i].epoch < pos.LeaderEpoch {
			return recreated
		}
	}
	r.mu.id, r.mu.adopted, r.mu.absent, r.mu.missing = t.ID, true, false, time.Time{}
	return nil
}

// begin finds out where partitions that are not read yet begin.
func (r *Reader) begin(ctx context.Context, t TopicInfo) error {
	var added []*partition
	var unplaced []int32
	r.mu.Lock()
	for _, id := range t.Partitions {
		if r.find(id) != nil {
			continue
		}
		pos, ok := r.o.Positions[id]
		if !ok {
			pos = Position{Offset: -1, LeaderEpoch: -1}
			unplaced = append(unplaced, id)
		}
		added = append(added, &partition{
			id: id, next: pos.Offset, delivered: pos.Offset, epoch: pos.LeaderEpoch, leader: leader{-1, -1},
			highWatermark: -1, lastStable: -1, logStart: -1, heldAt: -1,
		})
	}
	r.mu.Unlock()
	if len(added) == 0 {
		return nil
	}
	var starts map[int32]int64
	if len(unplaced) > 0 {
		var err error
		if starts, err = r.c.offsets(ctx, t.Name, t.ID, unplaced, r.start); err != nil {
			return err
		}
	}

	r.start = Earliest

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.final != nil {
		return nil
	}
	for _, p := range added {
		if start, ok := starts[p.id]; ok {
			p.next, p.delivered = start, start
			r.push(&Fetched{
				Topic: t.Name, TopicID: t.ID, Partition: p.id, From: start, Next: start,
				LeaderEpoch: -1, HighWatermark: -1, LastStable: -1,
			})
		}
		r.mu.parts = append(r.mu.parts, p)
	}
	slices.SortFunc(r.mu.parts, func(a, b *partition) int { return int(a.id) - int(b.id) })
	return nil
}

// push gives Next something. mu must be held.
func (r *Reader) push(f *Fetched) {
	r.mu.queue = append(r.mu.queue, f)
	signal(r.ready)
}

// lead gives each partition its leader and each leader a fetcher.
func (r *Reader) lead(ctx context.Context, t TopicInfo) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.final != nil {
		return nil
	}
	var leaderless error
	for i, id := range t.Partitions {
		p, l := r.find(id), t.leaders[i]
		if p == nil {
			continue
		}
		if l.broker < 0 {
			p.err, leaderless = codeNoLeader, codeNoLeader
			continue
		}
		if l != p.leader {
			p.leader, p.retry = l, time.Time{}
		}
		f := r.mu.fetchers[l.broker]
		if f == nil {
			f = &fetcher{r: r, broker: l.broker, wake: make(chan struct{}, 1)}
			r.mu.fetchers[l.broker] = f
			r.wg.Go(func() { f.run(ctx) })
		}
		signal(f.wake)
	}
	return leaderless
}

// checkRange finds out about partitions whose offset a broker has refused. The
// refusal itself does not say what the log holds.
func (r *Reader) checkRange(ctx context.Context, t TopicInfo) error {
	refused := map[int32]int64{}
	var ids []int32
	r.mu.Lock()
	for _, p := range r.mu.parts {
		if p.outOfRange {
			refused[p.id] = p.next
			ids = append(ids, p.id)
		}
	}
	r.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	first, err := r.c.offsets(ctx, t.Name, t.ID, ids, Earliest)
	if err != nil {
		return err
	}
	last, err := r.c.offsets(ctx, t.Name, t.ID, ids, Latest)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if at := refused[id]; at < first[id] || at > last[id] {
			return &OutOfRangeError{Topic: t.Name, Partition: id, Offset: at, Earliest: first[id], Latest: last[id]}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		r.find(id).outOfRange = false // it was of a log that is catching up
	}
	return nil
}
