package kafka

import (
	"bytes"
	"encoding/binary"
	"iter"
)

// Record is one record of a topic. Its bytes belong to the Batch it came in.
type Record struct {
	Offset    int64
	Timestamp int64 // milliseconds since 1970

	// Nil is Kafka's null (in Value: a tombstone); an empty one is not nil.
	Key, Value []byte

	headers []byte // encoded and known to be valid; nil for none
}

// Headers gives the record's headers in their order, repeated keys included.
// A nil value is null.
func (r *Record) Headers() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		n, rest := r.headerCount()
		for range n {
			var key, value []byte
			key, rest, _ = varbytes(rest)
			value, rest, _ = varbytes(rest)
			if !yield(string(key), value) {
				return
			}
		}
	}
}

// HeaderCount is the number of headers.
func (r *Record) HeaderCount() int {
	n, _ := r.headerCount()
	return n
}

func (r *Record) headerCount() (int, []byte) {
	if r.headers == nil {
		return 0, nil
	}
	n, k := varint(r.headers)
	return int(n), r.headers[k:]
}

// validHeaders says whether b is nothing but a count of headers and those.
func validHeaders(b []byte) bool {
	n, k := varint(b)
	if k <= 0 || n < 0 || n > int64(len(b)-k)/2 {
		return false
	}
	b = b[k:]
	for range n {
		key, rest, ok := varbytes(b)
		if !ok || key == nil {
			return false
		}
		if _, rest, ok = varbytes(rest); !ok {
			return false
		}
		b = rest
	}
	return len(b) == 0
}

// varint reads a zig-zag number; its size is 0 or less when there is none.
func varint(b []byte) (v int64, size int) {
	if len(b) > 0 && b[0] < 0x80 { // most are one byte
		return int64(b[0]>>1) ^ -int64(b[0]&1), 1
	}
	return binary.Varint(b)
}

// varbytes reads a length, where -1 is null, and that many bytes.
func varbytes(b []byte) (v, rest []byte, ok bool) {
	n, k := varint(b)
	if k <= 0 || n < -1 || n > int64(len(b)-k) {
		return nil, nil, false
	}
	if n < 0 {
		return nil, b[k:], true
	}
	end := k + int(n)
	return b[k:end:end], b[end:], true
}

// Clone copies a record, so that it outlives its Batch.
func (r *Record) Clone() Record {
	return Record{
		Offset: r.Offset, Timestamp: r.Timestamp,
		Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), headers: bytes.Clone(r.headers),
	}
}
