package state

import (
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"weir/state/codec"
)

// Keys of the store's own begin with view id 0 and a kind.
//
//	00000000 01                    format version
//	00000000 02                    epoch, and when it was committed
//	00000000 03                    catalogue, JSON
//	00000000 04 cursor             positions and records counted
//	00000000 05 view               counts of groups, bytes, errors
//	00000000 06 source             counts of refused records
//	00000000 07 source seq         one refused record
//	00000000 08                    marks of the change index
//	00000000 09 view               how far back its index goes
//	00000000 0a view epoch         keys that a commit changed
const (
	kindFormat = iota + 1
	kindEpoch
	kindCatalog
	kindCursor
	kindStats
	kindQuarantine
	kindRefused
	kindMarks
	kindRecorded
	kindChanged
)

// formatVersion is that of everything this package stores. Opening a directory
// of an older version raises it to this one:
//
//	1  the first
//	2  has the change index; without marks nothing is recorded in it, so a
//	   directory of version 1 is one as soon as it says so
const formatVersion = 2

// encodeEpoch has the time behind the epoch, in milliseconds since 1970: programs
// that do not know of it read the epoch and pass over the rest.
func encodeEpoch(epoch uint64, at time.Time) []byte {
	return binary.AppendVarint(binary.AppendUvarint(nil, epoch), at.UnixMilli())
}

// decodeEpoch gives a zero time where there is none.
func decodeEpoch(b []byte) (epoch uint64, at time.Time, err error) {
	epoch, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, at, errors.New("damaged")
	}
	if ms, n := binary.Varint(b[n:]); n > 0 {
		at = time.UnixMilli(ms)
	}
	return epoch, at, nil
}

func sysKey(kind byte, ids ...uint32) []byte {
	k := append(make([]byte, 4, 32), kind)
	for _, id := range ids {
		k = binary.BigEndian.AppendUint32(k, id)
	}
	return k
}

func refusedKey(source SourceID, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(sysKey(kindRefused, uint32(source)), seq)
}

// cursorState is where a cursor stands; it is replaced, never changed.
type cursorState struct {
	positions []Position // sorted by topic and partition
	records   int64
}

func comparePositions(a, b Position) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

func (c cursorState) encode() []byte {
	b := binary.AppendVarint(nil, c.records)
	b = binary.AppendUvarint(b, uint64(len(c.positions)))
	for _, p := range c.positions {
		b = codec.AppendBytes(b, []byte(p.Topic))
		b = append(b, p.TopicID[:]...)
		b = binary.AppendVarint(b, int64(p.Partition))
		b = binary.AppendVarint(b, p.Next)
		b = binary.AppendVarint(b, int64(p.LeaderEpoch))
	}
	return b
}

func decodeCursor(b []byte) (c cursorState, err error) {
	r := reader{b: b}
	c.records = r.varint()
	for range r.count() {
		p := Position{Topic: string(r.bytes())}
		copy(p.TopicID[:], r.take(16))
		p.Partition = int32(r.varint())
		p.Next = r.varint()
		p.LeaderEpoch = int32(r.varint())
		c.positions = append(c.positions, p)
	}
	return c, r.end()
}

func (s ViewStats) encode() []byte {
	b := binary.AppendVarint(nil, s.Groups)
	return binary.AppendVarint(binary.AppendVarint(b, s.Bytes), s.Errors)
}

func decodeStats(b []byte) (s ViewStats, err error) {
	r := reader{b: b}
	s.Groups, s.Bytes, s.Errors = r.varint(), r.varint(), r.varint()
	return s, r.end()
}

// refusedState counts the refused records of a source. What is kept lies in two
// generations: when the younger reaches half of the bound the older goes.
type refusedState struct {
	RefusedCount
	seq       uint64 // of the newest record
	older     uint64 // first seq of the older generation
	younger   uint64 // and of the younger
	olderSize int64  // bytes of the older
	size      int64  // and of the younger
}

func (q *refusedState) encode() []byte {
	b := binary.AppendVarint(nil, q.Total)
	for _, v := range []uint64{q.seq, q.older, q.younger, uint64(q.olderSize), uint64(q.size), uint64(len(q.ByView))} {
		b = binary.AppendUvarint(b, v)
	}
	for _, id := range slices.Sorted(maps.Keys(q.ByView)) {
		b = binary.AppendVarint(binary.AppendUvarint(b, uint64(id)), q.ByView[id])
	}
	return b
}

func decodeRefusedState(b []byte) (q refusedState, err error) {
	r := reader{b: b}
	q.Total = r.varint()
	q.seq, q.older, q.younger = r.uvarint(), r.uvarint(), r.uvarint()
	q.olderSize, q.size = int64(r.uvarint()), int64(r.uvarint())
	q.ByView = map[ViewID]int64{}
	for range r.count() {
		id := ViewID(r.uvarint())
		q.ByView[id] = r.varint()
	}
	q.Kept, q.Bytes = int64(q.seq-q.older+1), q.olderSize+q.size
	if q.seq == 0 {
		q.Kept = 0
	}
	return q, r.end()
}

func (f *Refused) encode(epoch uint64) []byte {
	b := binary.AppendUvarint(nil, epoch)
	b = binary.AppendUvarint(b, uint64(f.View))
	b = codec.AppendBytes(b, []byte(f.Topic))
	for _, v := range []int64{int64(f.Partition), f.Offset, f.Timestamp} {
		b = binary.AppendVarint(b, v)
	}
	b = codec.AppendBytes(b, []byte(f.Column))
	b = codec.AppendBytes(b, []byte(f.Reason))
	for _, v := range [][]byte{f.Key, f.Value} {
		if v == nil {
			b = append(b, 0)
		} else {
			b = codec.AppendBytes(append(b, 1), v)
		}
	}
	return b
}

func decodeRefused(source SourceID, seq uint64, b []byte) (f RefusedRecord, err error) {
	r := reader{b: b}
	f.Source, f.Seq, f.Epoch = source, seq, r.uvarint()
	f.View = ViewID(r.uvarint())
	f.Topic = string(r.bytes())
	f.Partition = int32(r.varint())
	f.Offset, f.Timestamp = r.varint(), r.varint()
	f.Column, f.Reason = string(r.bytes()), string(r.bytes())
	for _, v := range []*[]byte{&f.Key, &f.Value} {
		if t := r.take(1); t != nil && t[0] == 1 {
			*v = append([]byte{}, r.bytes()...)
		}
	}
	return f, r.end()
}

// A reader takes values from bytes until it meets damage, and then gives zeros.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.bad = true
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count is the number of entries that follow, each of a byte at least.
func (r *reader) count() uint64 {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.bad = true
		return 0
	}
	return n
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	return r.take(int(n))
}

func (r *reader) end() error {
	if r.bad || len(r.b) != 0 {
		return codec.ErrCorrupt
	}
	return nil
}
