package ingest

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/ingest/decode"
	"weir/ingest/kafka"
	"weir/state"
	"weir/state/sqltype"
)

// Bounds of one batch. DuckDB's cost per batch is paid back from a few thousand
// rows on; halving a batch of 65,536 takes 16 steps.
const (
	maxRows  = 65536
	maxBytes = 16 << 20 // keys and values, as read
)

// row is where a record of a batch came from. Its bytes are copies: the
// fetched ones are gone when the batch is evaluated.
type row struct {
	partition         int32
	offset, timestamp int64
	key, value        span
}

// span is a piece of a batch's bytes; end -1 is null.
type span struct{ start, end int }

// batch is a run of records, decoded, of one or more partitions.
type batch struct {
	topic   string
	rows    []row
	bytes   []byte
	names   []string // of columns
	columns []arrow.Array
	refused []state.Refused          // by the decoder: for all views
	bad     map[int][]decode.Refusal // by row: columns that it could not fill
	records int64                    // read, whatever became of them
	next    map[int32]state.Position
	began   time.Time // when next got its first
	newest  int64     // greatest timestamp, ms
}

func (b *batch) release() {
	for _, c := range b.columns {
		c.Release()
	}
	b.columns = nil
}

// recycle makes a released batch an empty one that keeps its memory.
func (b *batch) recycle() {
	b.rows, b.bytes, b.refused, b.bad = b.rows[:0], b.bytes[:0], nil, nil
	b.records, b.newest = 0, -1
	clear(b.next)
}

// project gives some of the batch's columns, in the order asked.
func (b *batch) project(cols []sqltype.Field) arrow.RecordBatch {
	fields := make([]arrow.Field, len(cols))
	arrays := make([]arrow.Array, len(cols))
	for i, c := range cols {
		fields[i] = c.Type.InsideField(c.Name)
		arrays[i] = b.columns[slices.Index(b.names, c.Name)]
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, int64(len(b.rows)))
}

func (b *batch) slice(s span) []byte {
	switch {
	case s.end < 0:
		return nil
	case s.start == s.end:
		return []byte{} // empty is not null
	}
	return b.bytes[s.start:s.end:s.end]
}

// refuse is the quarantine's entry for a row. It outlives the batch.
func (b *batch) refuse(r row, source state.SourceID, view state.ViewID, column, reason string) state.Refused {
	return state.Refused{
		Source: source, View: view, Topic: b.topic, Partition: r.partition, Offset: r.offset, Timestamp: r.timestamp,
		Column: column, Reason: reason, Key: bytes.Clone(b.slice(r.key)), Value: bytes.Clone(b.slice(r.value)),
	}
}

// builder fills batches. It keeps its memory from one batch to the next.
type builder struct {
	source *state.Source
	names  []string
	json   *decode.JSON
	meta   []metadata
	// strict refuses a record for any column that it cannot fill. Otherwise it is
	// refused for the views that read the column, and counts in the others.
	strict  bool
	batch   *batch
	spare   chan *batch // released ones, whose memory is used again
	scratch []decode.Refusal
}

// metadata is a Kafka metadata column.
type metadata struct {
	col  *decode.Column
	fill func(c *decode.Column, topic string, partition int32, r *kafka.Record) error
}

// newBuilder decodes the wanted columns of a source.
func newBuilder(src *state.Source, wanted []sqltype.Field, pool *decode.Pool) (*builder, error) {
	b := &builder{source: src, spare: make(chan *batch, 2)}
	var body []sqltype.Field
	var meta []sqltype.Field
	for _, c := range wanted {
		if _, ok := metadataFill(c.Name); ok {
			meta = append(meta, c)
		} else {
			body = append(body, c)
		}
	}
	for _, c := range body {
		b.names = append(b.names, c.Name)
	}
	for _, c := range meta {
		fill, _ := metadataFill(c.Name)
		b.names = append(b.names, c.Name)
		b.meta = append(b.meta, metadata{decode.NewColumn(c.Type, pool), fill})
	}
	var err error
	b.json, err = decode.NewJSON(body, decode.Options{Mem: pool})
	return b, err
}

func metadataFill(name string) (func(*decode.Column, string, int32, *kafka.Record) error, bool) {
	switch name {
	case "kafka_key":
		return func(c *decode.Column, _ string, _ int32, r *kafka.Record) error { return bytesOrNull(c, r.Key) }, true
	case "kafka_topic":
		return func(c *decode.Column, topic string, _ int32, _ *kafka.Record) error { return c.Bytes([]byte(topic)) }, true
	case "kafka_partition":
		return func(c *decode.Column, _ string, p int32, _ *kafka.Record) error { c.Int(int64(p)); return nil }, true
	case "kafka_offset":
		return func(c *decode.Column, _ string, _ int32, r *kafka.Record) error { c.Int(r.Offset); return nil }, true
	case "kafka_timestamp":
		return func(c *decode.Column, _ string, _ int32, r *kafka.Record) error {
			if r.Timestamp < 0 { // Kafka's "no timestamp"
				c.Null()
			} else {
				c.Int(r.Timestamp * 1000)
			}
			return nil
		}, true
	case "kafka_headers":
		return headers, true
	}
	return nil, false
}

func bytesOrNull(c *decode.Column, b []byte) error {
	if b == nil {
		c.Null()
		return nil
	}
	return c.Bytes(b)
}

// headers keeps all headers of a record, in their order. A key that is not UTF-8
// has its broken bytes replaced, for VARCHAR cannot hold them.
func headers(c *decode.Column, _ string, _ int32, r *kafka.Record) error {
	each := c.Child(0)
	for k, v := range r.Headers() {
		if err := each.Child(0).Bytes([]byte(strings.ToValidUTF8(k, "\uFFFD"))); err != nil {
			return err
		}
		if err := bytesOrNull(each.Child(1), v); err != nil {
			return err
		}
		if err := each.Nested(); err != nil {
			return err
		}
	}
	return c.Nested()
}

// begin starts a batch.
func (b *builder) begin() {
	select {
	case b.batch = <-b.spare:
	default:
		b.batch = &batch{topic: b.source.Options["topic"], names: b.names, next: map[int32]state.Position{}, newest: -1}
	}
}

// giveBack releases a batch that nobody reads any more.
func (b *builder) giveBack(t *batch) {
	t.release()
	t.recycle()
	select {
	case b.spare <- t:
	default:
	}
}

// empty says whether nothing, not even a position, was added.
func (b *builder) empty() bool { return len(b.batch.next) == 0 }

// full says that the batch should be taken.
func (b *builder) full() bool { return b.batch.full() }

func (b *batch) full() bool { return b.records >= maxRows || len(b.bytes) >= maxBytes }

// add decodes one record. ErrFull means that the batch must be taken first. A
// record without a value (a tombstone) adds no row: it is read and counted,
// and changes no aggregate.
func (b *builder) add(partition int32, r *kafka.Record) error {
	t := b.batch
	if r.Value == nil {
		t.records++
		return nil
	}
	at := len(t.bytes)
	w := row{partition: partition, offset: r.Offset, timestamp: r.Timestamp, key: span{end: -1}}
	if r.Key != nil {
		t.bytes = append(t.bytes, r.Key...)
		w.key = span{at, len(t.bytes)}
	}
	w.value = span{len(t.bytes), len(t.bytes) + len(r.Value)}
	t.bytes = append(t.bytes, r.Value...)

	bad, err := b.decode(r.Value)
	if bad, ok := errors.AsType[*decode.Error](err); ok {
		t.refused = append(t.refused, t.refuse(w, b.source.ID, 0, bad.Column, bad.Reason))
		t.records++
		return nil
	}
	if err != nil {
		t.bytes = t.bytes[:at]
		return err
	}
	for _, m := range b.meta {
		if err := m.fill(m.col, t.topic, partition, r); err != nil {
			return err
		}
	}
	t.records++
	t.newest = max(t.newest, r.Timestamp)
	if len(bad) > 0 {
		if t.bad == nil {
			t.bad = map[int][]decode.Refusal{}
		}
		t.bad[len(t.rows)] = slices.Clone(bad)
	}
	t.rows = append(t.rows, w)
	return nil
}

func (b *builder) decode(doc []byte) ([]decode.Refusal, error) {
	if b.strict {
		return nil, b.json.Append(doc)
	}
	bad, err := b.json.AppendEach(doc, b.scratch[:0])
	b.scratch = bad
	return bad, err
}

// moved notes where a partition stands after what was added.
func (b *builder) moved(p state.Position) {
	if b.empty() {
		b.batch.began = time.Now()
	}
	b.batch.next[p.Partition] = p
}

// take ends the batch and starts the next.
func (b *builder) take() *batch {
	t := b.batch
	rec := b.json.Batch()
	defer rec.Release()
	for _, c := range rec.Columns() {
		c.Retain()
		t.columns = append(t.columns, c)
	}
	for _, m := range b.meta {
		t.columns = append(t.columns, m.col.Array())
	}
	b.begin()
	return t
}

func (b *builder) close() {
	b.json.Close()
	for _, m := range b.meta {
		m.col.Release()
	}
}
