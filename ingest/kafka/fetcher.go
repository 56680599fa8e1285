package kafka

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// Pauses between requests, so that a trickle of records or a broker that
// answers before it has any does not turn into a busy loop.
const (
	smallAnswer = 64 << 10
	trickle     = 5 * time.Millisecond
	tooEarly    = 100 * time.Millisecond
)

// minPartBytes is the least that is asked of each partition when there are so many
// that PartitionBytes of all would be over the budget.
const minPartBytes = 256 << 10

// fetcher asks one broker for all partitions it leads, one request after the
// other. While more than half of its share of the budget is held it asks for
// nothing.
type fetcher struct {
	r      *Reader
	broker int32
	wake   chan struct{}

	version int16 // of Fetch, 0 while not known
	turn    int   // rotates the partitions, so that each is first at times

	held int // bytes of answers that are not released; r.mu guards it
}

func (f *fetcher) run(ctx context.Context) {
	for {
		req, pause, ok := f.plan(time.Now())
		if !ok {
			return
		}
		if req == nil {
			t := time.NewTimer(pause)
			select {
			case <-f.wake:
			case <-t.C:
			case <-ctx.Done():
			}
			t.Stop()
			if ctx.Err() != nil {
				return
			}
			continue
		}
		start := time.Now()
		res, err := f.r.c.fetch(ctx, req)
		if ctx.Err() != nil {
			return
		}
		pause, err = f.apply(req, res, err, time.Since(start))
		if err != nil {
			f.r.stop(err)
			return
		}
		if pause > 0 && wait(ctx, pause) != nil {
			return
		}
	}
}

func (c *Cluster) fetch(ctx context.Context, req *fetchRequest) (*fetchResponse, error) {
	res, err := c.do(ctx, req.wait+requestTimeout, func(ctx context.Context) protocol.Message {
		req.ctx = ctx
		return req
	})
	if err != nil {
		return nil, c.name(err)
	}
	return res.(*fetchResponse), nil
}

// plan makes the next request. Without one there is nothing to ask for until
// wake, or the pause is over. It is not ok to go on when the broker leads no
// partition any more.
func (f *fetcher) plan(now time.Time) (req *fetchRequest, pause time.Duration, ok bool) {
	r := f.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.final != nil {
		return nil, 0, false
	}
	maxWait := r.o.MaxWait
	led := 0
	var hungry, parts []fetchPartition
	for i := range r.mu.parts {
		p := r.mu.parts[(i+f.turn)%len(r.mu.parts)]
		if p.leader.broker != f.broker {
			continue
		}
		led++
		if p.inFlight || p.outOfRange {
			continue // the leader before still asks for it, or discover
		}
		if wait := p.retry.Sub(now); wait > 0 {
			maxWait = min(maxWait, wait)
			continue
		}
		ask := fetchPartition{id: p.id, epoch: p.leader.epoch, offset: p.next}
		if p.hungry {
			hungry = append(hungry, ask)
		} else {
			parts = append(parts, ask)
		}
	}
	if led == 0 {
		delete(r.mu.fetchers, f.broker)
		return nil, 0, false
	}
	parts = append(hungry, parts...)
	share := r.o.BufferBytes / len(r.mu.fetchers)
	switch {
	case f.held > share/2:
		return nil, r.o.Discover, true // until Release
	case len(parts) == 0:
		return nil, max(maxWait, time.Millisecond), true
	}
	f.turn++
	for _, ask := range parts {
		r.find(ask.id).inFlight = true
	}
	each := min(r.o.PartitionBytes, max(share/2/len(parts), minPartBytes))
	return &fetchRequest{
		broker: f.broker, topic: r.o.Topic, id: r.mu.id, version: f.version, parts: parts,
		wait: max(maxWait, time.Millisecond), maxBytes: int32(min(each*len(parts)+1, 1<<30)), partBytes: int32(min(each, 1<<30)),
		committed: !r.o.ReadUncommitted, limit: r.o.MaxResponse, alloc: r.alloc,
	}, 0, true
}

func (r *Reader) alloc(n int) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.memory.alloc(n)
}

// apply takes an answer in. It returns how long to wait before the next
// request, or an error that stops the Reader.
func (f *fetcher) apply(req *fetchRequest, res *fetchResponse, err error, took time.Duration) (time.Duration, error) {
	r := f.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.final != nil {
		return 0, nil
	}
	for _, ask := range req.parts {
		r.find(ask.id).inFlight = false
	}
	if err == nil && res.code != codeNone && len(res.parts) == 0 {
		err = res.code
	}
	if err != nil {
		f.version = 0 // another broker may be there by now
		if stops(err) {
			return 0, r.naming(err)
		}
		for _, ask := range req.parts {
			r.failed(r.find(ask.id), err)
		}
		return 0, nil
	}
	f.version = res.version
	a := &answer{f: f, buf: res.buf}
	got := 0
	for i := range res.parts {
		part := &res.parts[i]
		if !req.asks(part.id, i) {
			continue
		}
		got += len(part.records)
		if err := r.applyPartition(r.find(part.id), part, a); err != nil {
			return 0, err
		}
	}
	switch {
	case a.refs == 0:
		r.mu.memory.free(res.buf)
	default:
		f.held += cap(a.buf)
	}
	switch {
	case got == 0 && took < req.wait/2:
		return min(tooEarly, req.wait-took), nil
	case got < smallAnswer && took < trickle:
		return trickle - took, nil
	}
	return 0, nil
}

// asks says whether the request asks for a partition, most likely as its i-th.
func (r *fetchRequest) asks(id int32, i int) bool {
	return i < len(r.parts) && r.parts[i].id == id ||
		slices.ContainsFunc(r.parts, func(ask fetchPartition) bool { return ask.id == id })
}

// applyPartition takes one partition of an answer in. mu must be held.
func (r *Reader) applyPartition(p *partition, part *fetchedPartition, a *answer) error {
	switch part.code {
	case codeNone:
	case codeOffsetOutOfRange:
		p.outOfRange = true
		r.failed(p, part.code)
		return nil
	case codeCorruptMessage:
		return &CorruptError{Topic: r.o.Topic, Partition: p.id, Offset: p.next, Err: part.code}
	case codeTopicDenied:
		r.failed(p, &AuthError{Brokers: r.c.brokers, Topic: r.o.Topic, Err: part.code})
		return nil
	default:
		r.failed(p, part.code)
		return nil
	}
	p.err, p.retry, p.backoff = nil, time.Time{}, backoff{}
	p.highWatermark, p.lastStable, p.logStart = part.highWatermark, part.lastStable, part.logStart
	from := p.next
	next, size, epoch, err := survey(part.records, from, p.epoch)
	p.hungry = len(part.records) > 0 && size == 0
	if next > from {
		p.next, p.epoch = next, epoch
		a.refs++
		r.push(&Fetched{
			Topic: r.o.Topic, TopicID: r.mu.id, Partition: p.id, From: from, Next: next, LeaderEpoch: epoch,
			HighWatermark: part.highWatermark, LastStable: part.lastStable, Bytes: size,
			answer: a, rest: part.records[:size], at: from, aborted: newAborted(part.aborted),
		})
	} else if !p.hungry && from < part.lastStable {
		p.stalls++
	}
	p.updateHeld(time.Now())
	if format, ok := err.(*formatError); ok {
		return &UnsupportedError{Brokers: r.c.brokers, Reason: fmt.Sprintf("topic %q partition %d has, at offset %d, %v", r.o.Topic, p.id, next, format)}
	}
	if err != nil {
		return &CorruptError{Topic: r.o.Topic, Partition: p.id, Offset: next, Err: err}
	}
	return nil
}

// updateHeld notes since when the end of what is stable has not moved while
// there is more.
func (p *partition) updateHeld(now time.Time) {
	switch {
	case p.lastStable >= p.highWatermark || p.next < p.lastStable:
		p.held, p.heldAt = time.Time{}, -1
	case p.heldAt != p.lastStable:
		p.held, p.heldAt = now, p.lastStable
	}
}

// failed has a partition tried again later, and the metadata looked at now.
// mu must be held.
func (r *Reader) failed(p *partition, err error) {
	p.err = err
	p.errors++
	p.retry = time.Now().Add(p.backoff.next())
	signal(r.refresh)
}

// naming puts the topic into an error that was found below it.
func (r *Reader) naming(err error) error {
	if e, ok := err.(*TooLargeError); ok {
		e.Topic = r.o.Topic
	}
	return err
}

// answer is the memory of one answer, shared by the Fetched it holds.
type answer struct {
	f    *fetcher
	buf  []byte
	refs int // Fetched not released; r.mu guards it
}

func (a *answer) decoder() *batchDecoder {
	r := a.f.r
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.memory.decoder()
}

func (a *answer) release(d *batchDecoder) {
	r := a.f.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if d != nil {
		r.mu.memory.freeDecoder(d)
	}
	if a.refs--; a.refs > 0 {
		return
	}
	a.f.held -= cap(a.buf)
	r.mu.memory.free(a.buf)
	a.buf = nil
	signal(a.f.wake)
}
