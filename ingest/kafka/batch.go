package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A record batch, format 2, is a header of 61 bytes and its records:
//
//	 0 first offset          int64
//	 8 length of what follows int32
//	12 leader epoch          int32
//	16 format (2)            int8
//	17 CRC-32C of the rest   uint32
//	21 attributes            int16   codec 0-2, log append time 3, transactional 4, control 5
//	23 last offset - first   int32
//	27 first timestamp       int64
//	35 last timestamp        int64
//	43 producer              int64
//	51 producer epoch, sequence
//	57 number of records     int32
//
// A compacted batch keeps its offsets: it may hold fewer records than they
// span, or none.
const (
	batchHeader = 61
	batchPrefix = 12 // what the length does not count

	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
)

// minRecord is the size of the smallest record: seven one-byte fields.
const minRecord = 7

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type header struct {
	size               int // of the whole batch
	first, last        int64
	epoch              int32
	attributes         uint16
	firstTime, maxTime int64
	producer           int64
	count              int32
}

// readHeader reads the header of the batch that b begins with. The broker cuts
// the last batch of an answer; ok is false at that one. The CRC is not checked.
func readHeader(b []byte) (h header, ok bool, err error) {
	if len(b) < 17 {
		return h, false, nil
	}
	be := binary.BigEndian
	if b[16] != 2 {
		return h, false, &formatError{b[16]}
	}
	length := int(int32(be.Uint32(b[8:])))
	if length < batchHeader-batchPrefix {
		return h, false, fmt.Errorf("batch of %d bytes", length)
	}
	if length > len(b)-batchPrefix {
		return h, false, nil
	}
	h = header{
		size:       batchPrefix + length,
		first:      int64(be.Uint64(b)),
		epoch:      int32(be.Uint32(b[12:])),
		attributes: be.Uint16(b[21:]),
		firstTime:  int64(be.Uint64(b[27:])),
		maxTime:    int64(be.Uint64(b[35:])),
		producer:   int64(be.Uint64(b[43:])),
		count:      int32(be.Uint32(b[57:])),
	}
	delta := int32(be.Uint32(b[23:]))
	h.last = h.first + int64(delta)
	if h.first < 0 || delta < 0 || h.last < 0 || h.count < 0 || int64(h.count) > int64(delta)+1 {
		return h, false, fmt.Errorf("batch of %d records for offsets %d to %d", h.count, h.first, h.last)
	}
	return h, true, nil
}

// formatError is a record format before 2, which brokers stopped writing with
// Kafka 0.11, or after it.
type formatError struct{ format byte }

func (e *formatError) Error() string {
	return fmt.Sprintf("record format %d, and only 2 (Kafka 0.11 and later) can be read", e.format)
}

// survey walks the headers of a partition's bytes: the offset to fetch next,
// the bytes of whole batches, the leader epoch of the last one. An error
// says what is wrong after those.
func survey(b []byte, from int64, epoch int32) (next int64, size int, lastEpoch int32, err error) {
	next = from
	after := int64(0)
	for {
		h, ok, err := readHeader(b[size:])
		if err != nil || !ok {
			return next, size, epoch, err
		}
		if h.first < after {
			return next, size, epoch, fmt.Errorf("batch at offset %d after one that ends at %d", h.first, after-1)
		}
		after = h.last + 1
		next = max(next, after)
		size += h.size
		epoch = h.epoch
	}
}

var (
	errCRC    = errors.New("checksum mismatch")
	errRecord = errors.New("record does not parse")
)

func checkCRC(b []byte) error {
	if crc32.Checksum(b[21:], castagnoli) != binary.BigEndian.Uint32(b[17:]) {
		return errCRC
	}
	return nil
}

// appendRecords decodes a batch's records at or after from. body is what
// follows the header, decompressed.
func appendRecords(dst []Record, h *header, body []byte, from int64) ([]Record, error) {
	if int64(h.count) > int64(len(body)/minRecord) {
		return nil, errRecord
	}
	logAppend := h.attributes&attrLogAppendTime != 0
	least := h.first
	for range h.count {
		r, rest, ok := varbytes(body)
		if !ok || len(r) < minRecord-1 {
			return nil, errRecord
		}
		body = rest
		r = r[1:] // attributes: none are in use
		timeDelta, n := varint(r)
		if n <= 0 {
			return nil, errRecord
		}
		r = r[n:]
		offsetDelta, n := varint(r)
		if n <= 0 {
			return nil, errRecord
		}
		r = r[n:]
		rec := Record{Offset: h.first + offsetDelta, Timestamp: h.firstTime + timeDelta}
		if logAppend {
			rec.Timestamp = h.maxTime
		}
		if offsetDelta < 0 || rec.Offset < least || rec.Offset > h.last {
			return nil, fmt.Errorf("record at offset %d in a batch of %d to %d", rec.Offset, h.first, h.last)
		}
		least = rec.Offset + 1
		if rec.Key, r, ok = varbytes(r); !ok {
			return nil, errRecord
		}
		if rec.Value, r, ok = varbytes(r); !ok {
			return nil, errRecord
		}
		if len(r) != 1 || r[0] != 0 {
			if !validHeaders(r) {
				return nil, errRecord
			}
			rec.headers = r
		}
		if rec.Offset >= from {
			dst = append(dst, rec)
		}
	}
	if len(body) != 0 {
		return nil, errRecord
	}
	return dst, nil
}

// isAbort reads a control batch's one record: its key is a version and a type.
func isAbort(recs []Record) (bool, error) {
	if len(recs) != 1 || len(recs[0].Key) < 4 {
		return false, errors.New("control record does not parse")
	}
	return binary.BigEndian.Uint16(recs[0].Key[2:]) == 0, nil
}
