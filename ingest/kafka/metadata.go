package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// TopicInfo is what a cluster says about a topic.
type TopicInfo struct {
	Name       string
	ID         TopicID // zero from brokers before Kafka 2.8
	Partitions []int32 // ascending

	leaders []leader // of Partitions, in the same order
}

// leader is the broker that a partition is read from; -1 while there is none.
type leader struct{ broker, epoch int32 }

// Topic asks for a topic. Nothing is created. It fails with an
// UnknownTopicError, a ConnectError or an AuthError; a topic that is just
// being created is waited for, for the moment that takes.
func (c *Cluster) Topic(ctx context.Context, name string) (TopicInfo, error) {
	return retrying(ctx, func() (TopicInfo, error) { return c.topic(ctx, name) })
}

// topic asks once.
func (c *Cluster) topic(ctx context.Context, name string) (TopicInfo, error) {
	res, err := c.do(ctx, requestTimeout, func(ctx context.Context) protocol.Message {
		return &topicRequest{ctx: ctx, topic: name}
	})
	if err != nil {
		return TopicInfo{}, c.name(err)
	}
	t := res.(*topicResponse)
	switch t.code {
	case codeNone:
		return t.info, nil
	case codeUnknownTopic:
		return TopicInfo{}, &UnknownTopicError{Brokers: c.brokers, Topic: name}
	case codeTopicDenied:
		return TopicInfo{}, &AuthError{Brokers: c.brokers, Topic: name, Err: t.code}
	}
	return TopicInfo{}, fmt.Errorf("look up topic %q: %w", name, t.code)
}

// name puts the brokers into an error that was found below them.
func (c *Cluster) name(err error) error {
	if u, ok := errors.AsType[*UnsupportedError](err); ok {
		u.Brokers = c.brokers
	}
	return err
}

// retrying repeats what failed because the cluster is settling: a partition
// without a leader, a leader that has just moved.
func retrying[T any](ctx context.Context, f func() (T, error)) (T, error) {
	var b backoff
	for {
		v, err := f()
		code, ok := errors.AsType[errorCode](err)
		settling := ok && (code == codeNoLeader || code == codeNotLeader || code == codeFencedEpoch || code == codeUnknownEpoch)
		if !settling && !errors.Is(err, errUnknownBroker) || b.tries > 8 {
			return v, err
		}
		if wait(ctx, b.next()) != nil {
			return v, ctx.Err()
		}
	}
}

// backoff gives growing pauses, from 50 ms to 2 s, each drawn from its upper half.
type backoff struct{ tries int }

func (b *backoff) next() time.Duration {
	d := min(50*time.Millisecond<<min(b.tries, 10), 2*time.Second)
	b.tries++
	return d/2 + rand.N(d/2)
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// topicRequest is Metadata for one topic: version 12, or what an older broker
// has, down to 8 (Kafka 2.3). Topic ids came with 10 (Kafka 2.8).
type topicRequest struct {
	ctx   context.Context // RawExchange is not given one
	topic string
}

type topicResponse struct {
	code errorCode
	info TopicInfo
}

func (*topicRequest) ApiKey() protocol.ApiKey                 { return protocol.Metadata }
func (*topicRequest) Required(map[protocol.ApiKey]int16) bool { return true }
func (*topicResponse) ApiKey() protocol.ApiKey                { return protocol.Metadata }

func (r *topicRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	return interruptible(r.ctx, rw, func() (protocol.Message, error) { return lookUp(rw, r.topic) })
}

func lookUp(rw io.ReadWriter, topic string) (*topicResponse, error) {
	lo, hi, err := versions(rw, protocol.Metadata)
	if err != nil {
		return nil, err
	}
	if lo > 12 || hi < 8 {
		return nil, &UnsupportedError{Reason: fmt.Sprintf("it has Metadata versions %d to %d, and one of 8 to 12 is needed (Kafka 2.3 or later)", lo, hi)}
	}
	version := min(hi, 12)
	b, err := exchange(rw, encodeTopic(topic, version), maxAnswer, heap)
	if err != nil {
		return nil, err
	}
	return parseTopic(b, topic, version)
}

func encodeTopic(topic string, version int16) []byte {
	e := newRequest(protocol.Metadata, version, version >= 9)
	e.array(1)
	if version >= 10 {
		e.b = append(e.b, make([]byte, 16)...) // no id: by name
	}
	e.str(topic)
	e.tags()
	e.i8(0) // do not create it
	if version <= 10 {
		e.i8(0) // no authorized operations of the cluster
	}
	e.i8(0) // nor of the topic
	e.tags()
	return e.b
}

func parseTopic(b []byte, topic string, version int16) (*topicResponse, error) {
	d := &decoder{b: b, flex: version >= 9}
	id := d.i32()
	d.tags()
	d.i32() // throttle time
	for range d.count(10) {
		d.i32() // broker
		d.str()
		d.i32()
		d.str() // rack
		d.tags()
	}
	d.str() // cluster id
	d.i32() // controller
	topics := d.count(5)
	res := &topicResponse{code: errorCode(d.i16()), info: TopicInfo{Name: topic}}
	name := string(d.str())
	if version >= 10 {
		copy(res.info.ID[:], d.take(16))
	}
	d.i8() // internal
	type partition struct {
		id     int32
		leader leader
	}
	parts := make([]partition, d.count(18))
	for i := range parts {
		d.i16() // its error is the leader's absence
		parts[i] = partition{id: d.i32(), leader: leader{d.i32(), d.i32()}}
		for range 3 { // replicas, those in sync, those offline
			d.take(4 * max(0, d.array()))
		}
		d.tags()
	}
	if d.bad || id != correlationID || topics != 1 || name != topic {
		return nil, &garbledError{"metadata"}
	}
	slices.SortFunc(parts, func(a, b partition) int { return cmp.Compare(a.id, b.id) })
	for _, p := range parts {
		res.info.Partitions = append(res.info.Partitions, p.id)
		res.info.leaders = append(res.info.leaders, p.leader)
	}
	return res, nil
}
