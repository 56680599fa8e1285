package kafka

import "bytes"

// Clone copies a record, so that it outlives its Batch.
func (r *Record) Clone() Record {
	return Record{
		Offset: r.Offset, Timestamp: r.Timestamp,
		Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), headers: bytes.Clone(r.headers),
	}
}
