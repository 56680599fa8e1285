package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
)

// A request here is a protocol.RawExchanger: kafka-go finds it a connection and
// it does the rest. One request at a time is on a connection, so that all can
// have the same correlation id.
const correlationID = 1

// maxAnswer bounds the answers to metadata and offset requests.
const maxAnswer = 64 << 20

// garbledError is an answer that is not what the protocol says.
type garbledError struct{ what string }

func (e *garbledError) Error() string { return "the broker's answer is garbled: " + e.what }

// interruptible runs f, which reads and writes rw, and ends it when ctx does.
// kafka-go leaves a request on the wire when its context is canceled; here
// the connection is given up at once, with the goroutine that waits on it.
func interruptible(ctx context.Context, rw io.ReadWriter, f func() (protocol.Message, error)) (protocol.Message, error) {
	conn, ok := rw.(interface{ SetDeadline(time.Time) error })
	if !ok {
		return f()
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		conn.SetDeadline(time.Unix(1, 0))
	})
	res, err := f()
	if !stop() {
		<-done
		return nil, ctx.Err() // an error, so that kafka-go closes the connection
	}
	return res, err
}

// versions asks the broker for its range of an API, on the connection that the
// request itself will use: kafka-go knows it only up to its own maximum.
func versions(rw io.ReadWriter, key protocol.ApiKey) (lo, hi int16, err error) {
	m, err := protocol.RoundTrip(rw, 0, correlationID, "weir", new(apiversions.Request))
	if err != nil {
		return 0, 0, err
	}
	res, ok := m.(*apiversions.Response)
	if !ok {
		return 0, 0, &garbledError{"api versions"}
	}
	for _, a := range res.ApiKeys {
		if a.ApiKey == int16(key) {
			return a.MinVersion, a.MaxVersion, nil
		}
	}
	return 0, 0, &UnsupportedError{Reason: fmt.Sprintf("it has no %v request", key)}
}

// exchange sends a request, whose first 4 bytes are left for its length, and
// reads the answer into memory from alloc.
func exchange(rw io.ReadWriter, req []byte, limit int, alloc func(int) []byte) ([]byte, error) {
	binary.BigEndian.PutUint32(req, uint32(len(req)-4))
	if _, err := rw.Write(req); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(rw, head[:]); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	if size > limit {
		return nil, &TooLargeError{Size: size, Limit: limit}
	}
	buf := alloc(size)[:size]
	if _, err := io.ReadFull(rw, buf); err != nil {
		return nil, err
	}
	return buf, nil
}

func heap(n int) []byte { return make([]byte, n) }

// encoder writes a request. In flexible versions lengths are varints of n+1 and
// every structure ends in tagged fields, of which requests here have none.
type encoder struct {
	b    []byte
	flex bool
}

func newRequest(key protocol.ApiKey, version int16, flex bool) *encoder {
	e := &encoder{b: make([]byte, 4, 256), flex: flex}
	e.i16(int16(key))
	e.i16(version)
	e.i32(correlationID)
	e.i16(int16(len("weir"))) // the client id has the old form in every version
	e.b = append(e.b, "weir"...)
	e.tags()
	return e
}

func (e *encoder) i8(v int8)   { e.b = append(e.b, byte(v)) }
func (e *encoder) i16(v int16) { e.b = binary.BigEndian.AppendUint16(e.b, uint16(v)) }
func (e *encoder) i32(v int32) { e.b = binary.BigEndian.AppendUint32(e.b, uint32(v)) }
func (e *encoder) i64(v int64) { e.b = binary.BigEndian.AppendUint64(e.b, uint64(v)) }

func (e *encoder) array(n int) {
	if e.flex {
		e.b = binary.AppendUvarint(e.b, uint64(n+1))
		return
	}
	e.i32(int32(n))
}

func (e *encoder) str(s string) {
	if e.flex {
		e.b = binary.AppendUvarint(e.b, uint64(len(s)+1))
	} else {
		e.i16(int16(len(s)))
	}
	e.b = append(e.b, s...)
}

func (e *encoder) tags() {
	if e.flex {
		e.b = append(e.b, 0)
	}
}

// decoder reads an answer. Past its end it gives zeros and sets bad, so callers
// check once, after reading, and never trust a length for an allocation.
type decoder struct {
	b         []byte
	flex, bad bool
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.b, d.bad = nil, true
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) i8() int8 {
	if v := d.take(1); v != nil {
		return int8(v[0])
	}
	return 0
}

func (d *decoder) i16() int16 {
	if v := d.take(2); v != nil {
		return int16(binary.BigEndian.Uint16(v))
	}
	return 0
}

func (d *decoder) i32() int32 {
	if v := d.take(4); v != nil {
		return int32(binary.BigEndian.Uint32(v))
	}
	return 0
}

func (d *decoder) i64() int64 {
	if v := d.take(8); v != nil {
		return int64(binary.BigEndian.Uint64(v))
	}
	return 0
}

func (d *decoder) uvarint() int {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > 1<<31 {
		d.b, d.bad = nil, true
		return 0
	}
	d.b = d.b[n:]
	return int(v)
}

// array is the length of an array or of bytes; -1 is null.
func (d *decoder) array() int {
	if d.flex {
		return d.uvarint() - 1
	}
	return int(d.i32())
}

// count is the length of an array whose elements have at least size bytes.
// Null is 0.
func (d *decoder) count(size int) int {
	n := max(0, d.array())
	if n > len(d.b)/size {
		d.b, d.bad = nil, true
		return 0
	}
	return n
}

// str is a string; null is "".
func (d *decoder) str() []byte {
	n := 0
	if d.flex {
		n = d.uvarint() - 1
	} else {
		n = int(d.i16())
	}
	return d.take(max(0, n))
}

func (d *decoder) tags() {
	if !d.flex {
		return
	}
	for n := d.uvarint(); n > 0 && !d.bad; n-- {
		d.uvarint()
		d.take(d.uvarint())
	}
}
