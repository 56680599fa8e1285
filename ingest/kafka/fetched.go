package kafka

import (
	"cmp"
	"io"
	"slices"
)

// Fetched is a run of one partition's log as one answer brought it. Its
// records are decoded batch by batch, by whoever calls Batch; different Fetched
// may be decoded by different goroutines. Its memory counts against the
// Reader's budget until Release.
type Fetched struct {
	Topic     string
	TopicID   TopicID
	Partition int32

	// The run covers From up to, not with, Next, though there may be no record
	// at any of these. Both are equal in the first Fetched of a partition that
	// began without a position: it tells where reading begins.
	From, Next  int64
	LeaderEpoch int32 // of the last batch, -1 when none is known

	// The partition's end when this was fetched: all records, and those before
	// the oldest open transaction.
	HighWatermark, LastStable int64
	Bytes                     int // as fetched

	answer  *answer
	rest    []byte // whole batches not yet decoded
	at      int64  // the next offset wanted
	aborted aborted
	decoder *batchDecoder
	batch   Batch
	err     error
}

// Batch is a record batch with the records that a consumer should see.
type Batch struct {
	Records       []Record // never empty, ascending offsets
	Next          int64    // the position after this batch
	LeaderEpoch   int32
	LogAppendTime bool // Timestamp is the broker's clock, not the producer's
}

// Batch decodes the next batch that has records, and returns io.EOF after the
// last. The Batch and all its bytes are valid until the next call or
// Release. Data that does not parse is a CorruptError, and stays one.
func (f *Fetched) Batch() (*Batch, error) {
	for f.err == nil {
		h, ok, err := readHeader(f.rest)
		switch {
		case err != nil:
			f.err = err // survey has passed these bytes, so this is a bug
		case !ok:
			f.err = io.EOF
		default:
			b := f.rest[:h.size]
			f.rest = f.rest[h.size:]
			recs, err := f.visible(&h, b)
			if err != nil {
				f.err = &CorruptError{Topic: f.Topic, Partition: f.Partition, Offset: h.first, Err: err}
				break
			}
			f.at = max(f.at, h.last+1)
			if len(recs) > 0 {
				f.batch = Batch{Records: recs, Next: f.at, LeaderEpoch: h.epoch, LogAppendTime: h.attributes&attrLogAppendTime != 0}
				return &f.batch, nil
			}
		}
	}
	return nil, f.err
}

// visible gives a batch's records, without those that were aborted.
func (f *Fetched) visible(h *header, b []byte) ([]Record, error) {
	if err := checkCRC(b); err != nil {
		return nil, err
	}
	f.aborted.reach(h.last)
	if h.count == 0 { // compacted away, a marker perhaps
		return nil, nil
	}
	control := h.attributes&attrControl != 0
	if !control && h.attributes&attrTransactional != 0 && f.aborted.has(h.producer) {
		return nil, nil
	}
	if f.decoder == nil {
		f.decoder = f.answer.decoder()
	}
	from := f.at
	if control {
		from = 0
	}
	recs, err := f.decoder.records(h, b[batchHeader:], from)
	if err != nil || !control {
		return recs, err
	}
	abort, err := isAbort(recs)
	if err == nil && abort {
		f.aborted.end(h.producer)
	}
	return nil, err
}

// Release gives the memory back. A second call does nothing.
func (f *Fetched) Release() {
	a := f.answer
	if a == nil {
		return
	}
	f.answer, f.rest, f.batch, f.err = nil, nil, Batch{}, io.EOF
	a.release(f.decoder)
	f.decoder = nil
}

// aborted follows, through the batches of one answer, whose records to drop.
// The broker lists aborted transactions by where they end, so they are
// sorted by where they begin first.
type aborted struct {
	txns []abortedTxn
	open []int64 // producers
}

func newAborted(txns []abortedTxn) aborted {
	slices.SortFunc(txns, func(a, b abortedTxn) int { return cmp.Compare(a.first, b.first) })
	return aborted{txns: txns}
}

// reach opens the transactions that began at or before an offset.
func (a *aborted) reach(offset int64) {
	for len(a.txns) > 0 && a.txns[0].first <= offset {
		if !a.has(a.txns[0].producer) {
			a.open = append(a.open, a.txns[0].producer)
		}
		a.txns = a.txns[1:]
	}
}

func (a *aborted) has(producer int64) bool { return slices.Contains(a.open, producer) }

func (a *aborted) end(producer int64) {
	if i := slices.Index(a.open, producer); i >= 0 {
		a.open = slices.Delete(a.open, i, i+1)
	}
}

// batchDecoder is the memory that decoding needs, passed from one Fetched to
// another.
type batchDecoder struct {
	inflater inflater
	recs     []Record
}

func (d *batchDecoder) records(h *header, body []byte, from int64) ([]Record, error) {
	body, err := d.inflater.inflate(h.attributes&attrCodec, body)
	if err != nil {
		return nil, err
	}
	recs, err := appendRecords(slices.Grow(d.recs[:0], min(int(h.count), len(body)/minRecord)), h, body, from)
	if err == nil {
		d.recs = recs
	}
	return recs, err
}
