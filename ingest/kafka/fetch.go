package kafka

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// Fetch by topic id came with version 13 (Kafka 3.1); 18 is the newest known
// here. Version 11 (Kafka 2.3) is the fallback, by name.
const (
	fetchByName = 11
	fetchByID   = 13
	fetchNewest = 18
)

// fetchRequest asks one broker for records of some partitions of a topic.
type fetchRequest struct {
	ctx       context.Context
	broker    int32
	topic     string
	id        TopicID
	version   int16 // of the answer before, 0 to ask the broker
	parts     []fetchPartition
	wait      time.Duration // for the first byte
	maxBytes  int32         // of all partitions
	partBytes int32         // of each; one whole batch comes in any case
	committed bool
	limit     int              // bytes of the answer
	alloc     func(int) []byte // gives its memory
}

type fetchPartition struct {
	id, epoch int32 // the leader epoch known, -1 for none
	offset    int64
}

type fetchResponse struct {
	version int16
	code    errorCode // of the request as a whole; then there are no partitions
	parts   []fetchedPartition
	buf     []byte // what the record bytes point into
}

type fetchedPartition struct {
	id   int32
	code errorCode
	// With any error code these are meaningless (-1).
	highWatermark, lastStable, logStart int64
	aborted                             []abortedTxn // in no order
	records                             []byte
}

// abortedTxn says that a producer's records from an offset on, up to its abort
// marker, are to be dropped.
type abortedTxn struct{ producer, first int64 }

func (*fetchRequest) ApiKey() protocol.ApiKey                 { return protocol.Fetch }
func (*fetchRequest) Required(map[protocol.ApiKey]int16) bool { return true }
func (*fetchResponse) ApiKey() protocol.ApiKey                { return protocol.Fetch }

func (r *fetchRequest) Broker(c protocol.Cluster) (protocol.Broker, error) { return route(c, r.broker) }

func (r *fetchRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	return interruptible(r.ctx, rw, func() (protocol.Message, error) { return r.exchange(rw) })
}

func (r *fetchRequest) exchange(rw io.ReadWriter) (*fetchResponse, error) {
	version := r.version
	if version == 0 {
		lo, hi, err := versions(rw, protocol.Fetch)
		if err != nil {
			return nil, err
		}
		if version, err = fetchVersion(lo, hi, r.id); err != nil {
			return nil, err
		}
	}
	b, err := exchange(rw, r.encode(version), r.limit, r.alloc)
	if err != nil {
		return nil, err
	}
	res, err := parseFetch(b, version, r.id)
	if err != nil || version >= fetchByID || r.id == (TopicID{}) || !res.hasRecords() {
		return res, err
	}
	// These came by name. A topic's id never comes back, so finding it now, on
	// the same broker, means that it was the topic that was read.
	now, err := lookUp(rw, r.topic)
	if err != nil {
		return nil, err
	}
	if now.code != codeNone || now.info.ID != r.id {
		return &fetchResponse{version: version, code: codeUnknownTopicID, buf: res.buf}, nil
	}
	return res, nil
}

func (r *fetchResponse) hasRecords() bool {
	for i := range r.parts {
		if len(r.parts[i].records) > 0 {
			return true
		}
	}
	return false
}

// fetchVersion takes the newest version with topic ids that both sides have.
func fetchVersion(lo, hi int16, id TopicID) (int16, error) {
	switch {
	case id != TopicID{} && lo <= fetchNewest && hi >= fetchByID:
		return min(hi, fetchNewest), nil
	case lo <= fetchByName && hi >= fetchByName:
		return fetchByName, nil
	}
	return 0, &UnsupportedError{Reason: fmt.Sprintf("it has Fetch versions %d to %d, and %d (Kafka 2.3) or one of %d to %d is needed", lo, hi, fetchByName, fetchByID, fetchNewest)}
}

func (r *fetchRequest) encode(version int16) []byte {
	e := newRequest(protocol.Fetch, version, version >= fetchByID)
	if version < 15 {
		e.i32(-1) // a consumer
	}
	e.i32(int32(r.wait.Milliseconds()))
	e.i32(1) // at least one byte
	e.i32(r.maxBytes)
	if r.committed {
		e.i8(1)
	} else {
		e.i8(0)
	}
	e.i32(0)  // no fetch session
	e.i32(-1) // so no epoch of it
	e.array(1)
	if version >= fetchByID {
		e.b = append(e.b, r.id[:]...)
	} else {
		e.str(r.topic)
	}
	e.array(len(r.parts))
	for _, p := range r.parts {
		e.i32(p.id)
		e.i32(p.epoch)
		e.i64(p.offset)
		if version >= 12 {
			e.i32(-1) // epoch of the last record fetched: for followers
		}
		e.i64(-1) // log start: for followers
		e.i32(r.partBytes)
		e.tags()
	}
	e.tags()
	e.array(0) // forgotten topics
	e.str("")  // rack
	e.tags()
	return e.b
}

func parseFetch(b []byte, version int16, id TopicID) (*fetchResponse, error) {
	d := &decoder{b: b, flex: version >= fetchByID}
	res := &fetchResponse{version: version, buf: b}
	correlation := d.i32()
	d.tags()
	d.i32() // throttle time
	res.code = errorCode(d.i16())
	d.i32() // session
	topics := d.count(6)
	if d.bad || correlation != correlationID || topics > 1 {
		return nil, &garbledError{"fetch"}
	}
	if topics == 0 {
		return res, nil
	}
	if d.flex {
		if got := d.take(16); got == nil || TopicID(got) != id {
			return nil, &garbledError{"fetch of another topic"}
		}
	} else {
		d.str()
	}
	res.parts = make([]fetchedPartition, d.count(35))
	for i := range res.parts {
		p := &res.parts[i]
		p.id, p.code = d.i32(), errorCode(d.i16())
		p.highWatermark, p.lastStable, p.logStart = d.i64(), d.i64(), d.i64()
		if n := d.count(16); n > 0 {
			p.aborted = make([]abortedTxn, n)
			for i := range p.aborted {
				p.aborted[i] = abortedTxn{producer: d.i64(), first: d.i64()}
				d.tags()
			}
		}
		d.i32() // preferred replica: none without a rack
		p.records = d.take(max(0, d.array()))
		d.tags() // the current leader, which metadata tells too
	}
	d.tags() // of the topic
	d.tags() // of the answer
	if d.bad {
		return nil, &garbledError{"fetch"}
	}
	return res, nil
}
