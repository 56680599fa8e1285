package kafka

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/segmentio/kafka-go/protocol"
)

// At names a place in a log: one of the constants, or a time in milliseconds
// since 1970, which is the first record at or after it.
type At int64

const (
	Earliest     At = -2 // the oldest record the log holds
	Latest       At = -1 // where the next record will be
	LatestStable At = -3 // like Latest, but before the oldest open transaction
)

// Offsets looks a place up in some partitions of a topic. A time that no record
// has reached is Latest. The answer is that of the topic with t's id: if
// the topic was created again, it is a RecreatedError.
func (c *Cluster) Offsets(ctx context.Context, t TopicInfo, partitions []int32, at At) (map[int32]int64, error) {
	return retrying(ctx, func() (map[int32]int64, error) { return c.offsets(ctx, t.Name, t.ID, partitions, at) })
}

func (c *Cluster) offsets(ctx context.Context, name string, id TopicID, partitions []int32, at At) (map[int32]int64, error) {
	t, err := c.topic(ctx, name)
	if err != nil {
		return nil, err
	}
	byBroker := map[int32][]int32{}
	for _, p := range partitions {
		i, ok := slices.BinarySearch(t.Partitions, p)
		if !ok {
			return nil, fmt.Errorf("topic %q has no partition %d", name, p)
		}
		if t.leaders[i].broker < 0 {
			return nil, fmt.Errorf("topic %q partition %d: %w", name, p, codeNoLeader)
		}
		byBroker[t.leaders[i].broker] = append(byBroker[t.leaders[i].broker], p)
	}
	found := make(map[int32]int64, len(partitions))
	for broker, parts := range byBroker {
		if err := c.listOffsets(ctx, broker, name, parts, at, found); err != nil {
			return nil, err
		}
	}
	var late []int32
	for p, o := range found {
		if o < 0 {
			late = append(late, p)
		}
	}
	if len(late) > 0 {
		ends, err := c.offsets(ctx, name, id, late, Latest)
		if err != nil {
			return nil, err
		}
		maps.Copy(found, ends)
	}
	// The request goes by name. Ids never come back, so the same one now
	// means that the answer was of that topic.
	after, err := c.topic(ctx, name)
	if err != nil {
		return nil, err
	}
	if after.ID != id {
		return nil, &RecreatedError{Topic: name, Old: id, New: after.ID}
	}
	return found, nil
}

func (c *Cluster) listOffsets(ctx context.Context, broker int32, topic string, partitions []int32, at At, found map[int32]int64) error {
	res, err := c.do(ctx, requestTimeout, func(ctx context.Context) protocol.Message {
		return &offsetsRequest{ctx: ctx, broker: broker, topic: topic, partitions: partitions, at: at}
	})
	if err != nil {
		return err
	}
	for _, p := range res.(*offsetsResponse).partitions {
		switch {
		case p.code == codeTopicDenied:
			return &AuthError{Brokers: c.brokers, Topic: topic, Err: p.code}
		case p.code != codeNone:
			return fmt.Errorf("list offsets of topic %q partition %d: %w", topic, p.id, p.code)
		}
		found[p.id] = p.offset
	}
	for _, p := range partitions {
		if _, ok := found[p]; !ok {
			return &garbledError{"list offsets"}
		}
	}
	return nil
}

// offsetsRequest is ListOffsets version 5, which every broker since Kafka 2.2 has.
type offsetsRequest struct {
	ctx        context.Context
	broker     int32
	topic      string
	partitions []int32
	at         At
}

type offsetsResponse struct {
	partitions []struct {
		id     int32
		code   errorCode
		offset int64
	}
}

func (*offsetsRequest) ApiKey() protocol.ApiKey                 { return protocol.ListOffsets }
func (*offsetsRequest) Required(map[protocol.ApiKey]int16) bool { return true }
func (*offsetsResponse) ApiKey() protocol.ApiKey                { return protocol.ListOffsets }

func (r *offsetsRequest) Broker(c protocol.Cluster) (protocol.Broker, error) {
	return route(c, r.broker)
}

// route finds a broker among those the transport knows.
func route(c protocol.Cluster, id int32) (protocol.Broker, error) {
	if len(c.Brokers) == 0 {
		return protocol.Broker{ID: -1}, errNoBrokers
	}
	b, ok := c.Brokers[id]
	if !ok {
		return protocol.Broker{ID: -1}, errUnknownBroker
	}
	return b, nil
}

func (r *offsetsRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	return interruptible(r.ctx, rw, func() (protocol.Message, error) {
		b, err := exchange(rw, r.encode(), maxAnswer, heap)
		if err != nil {
			return nil, err
		}
		return parseOffsets(b)
	})
}

func (r *offsetsRequest) encode() []byte {
	at, isolation := int64(r.at), int8(1)
	switch r.at {
	case Latest:
		isolation = 0
	case LatestStable:
		at = int64(Latest)
	}
	e := newRequest(protocol.ListOffsets, 5, false)
	e.i32(-1) // a consumer
	e.i8(isolation)
	e.array(1)
	e.str(r.topic)
	e.array(len(r.partitions))
	for _, p := range r.partitions {
		e.i32(p)
		e.i32(-1) // whatever the leader's epoch
		e.i64(at)
	}
	return e.b
}

func parseOffsets(b []byte) (*offsetsResponse, error) {
	d := &decoder{b: b}
	id := d.i32()
	d.i32() // throttle time
	res := &offsetsResponse{}
	topics := d.count(6)
	d.str()
	res.partitions = make([]struct {
		id     int32
		code   errorCode
		offset int64
	}, d.count(26))
	for i := range res.partitions {
		p := &res.partitions[i]
		p.id, p.code = d.i32(), errorCode(d.i16())
		d.i64() // timestamp of the record
		p.offset = d.i64()
		d.i32() // its leader epoch
	}
	if d.bad || id != correlationID || topics != 1 {
		return nil, &garbledError{"list offsets"}
	}
	return res, nil
}
