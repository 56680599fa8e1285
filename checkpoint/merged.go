package checkpoint

import (
	"bytes"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/internal/recordbatch"
	"weir/state"
)

// merged reads a base and its deltas as one table. All are sorted by slot and
// key, so it walks through them side by side; of rows with one key that of the
// last part counts, and when that says __deleted there is none. A batch of each
// part is in memory, and one that goes out.
type merged struct {
	mem    memory.Allocator
	table  *Table
	parts  []*part
	schema *arrow.Schema
	want   int64 // rows in all, -1 when not all slots are read

	pieces []arrow.RecordBatch // of the next batch
	rows   int64               // in pieces
	bytes  int64
	given  int64

	rec arrow.RecordBatch
	err error
}

// A part is a place in one file.
type part struct {
	in      *batchReader
	path    string
	deleted int // column, -1 in a base

	rec   arrow.RecordBatch // nil at the end
	size  int64             // bytes of rec
	slots []uint16
	keys  [][]byte
	gone  *array.Boolean
	at    int
}

func (t *Table) merged(mem memory.Allocator, from, to int) (_ *merged, err error) {
	m := &merged{mem: mem, table: t, want: -1}
	if from <= 0 && to >= state.Slots {
		m.want = t.View.Groups
	}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	for i, f := range t.parts {
		first, last := f.batches(from, to)
		in, err := f.scan(mem, first, last)
		if err != nil {
			return nil, err
		}
		p := &part{in: in, path: f.path, deleted: -1}
		m.parts = append(m.parts, p)
		want := t.View.Columns
		if i == 0 {
			m.schema = in.Schema()
		} else {
			p.deleted = len(want)
			want = append(want[:len(want):len(want)], deletedColumn())
		}
		if err := sameColumns(in.Schema(), want); err != nil {
			return nil, damaged(f.path, "%v", err)
		}
	}
	for _, p := range m.parts {
		if err := m.load(p); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// load reads the next batch of a part that has rows.
func (m *merged) load(p *part) error {
	lastSlot, lastKey := -1, []byte(nil)
	if n := len(p.slots); n > 0 {
		lastSlot, lastKey = int(p.slots[n-1]), bytes.Clone(p.keys[n-1])
	}
	for {
		p.drop()
		if !p.in.Next() {
			return p.in.Err()
		}
		if p.in.RecordBatch().NumRows() > 0 {
			break
		}
	}
	p.rec = p.in.RecordBatch()
	p.rec.Retain()
	p.size = recordbatch.Bytes(p.rec)
	keys := make([]arrow.Array, len(m.table.View.Plan.Keys))
	defer func() {
		for _, k := range keys {
			if k != nil {
				k.Release()
			}
		}
	}()
	for i := range keys {
		var err error
		if keys[i], err = toInside(m.mem, m.table.fields[i].Type, p.rec.Column(m.table.at[i])); err != nil {
			return damaged(p.path, "key %s: %v", m.table.fields[i].Name, err)
		}
	}
	var err error
	if p.slots, p.keys, err = state.Locate(&m.table.View.Plan, keys); err != nil {
		return damaged(p.path, "%v", err)
	}
	slots := p.rec.Column(m.table.slot).(*array.Uint16)
	if len(p.slots) != slots.Len() {
		return damaged(p.path, "%d rows of a view that has no key", slots.Len())
	}
	if slots.NullN() > 0 {
		return damaged(p.path, "a row has no slot")
	}
	for i, s := range p.slots {
		if slots.Value(i) != s {
			return damaged(p.path, "a row has slot %d, but its key hashes to %d", slots.Value(i), s)
		}
		if int(s) < lastSlot || int(s) == lastSlot && bytes.Compare(p.keys[i], lastKey) <= 0 {
			return damaged(p.path, "rows are out of order, or one key is there twice")
		}
		lastSlot, lastKey = int(s), p.keys[i]
	}
	if p.deleted >= 0 {
		p.gone = p.rec.Column(p.deleted).(*array.Boolean)
	}
	return nil
}

// compare orders the rows that two parts stand at.
func (p *part) compare(q *part) int {
	if c := int(p.slots[p.at]) - int(q.slots[q.at]); c != 0 {
		return c
	}
	return bytes.Compare(p.keys[p.at], q.keys[q.at])
}

func (p *part) drop() {
	if p.rec != nil {
		p.rec.Release()
	}
	p.rec, p.slots, p.keys, p.gone, p.at = nil, nil, nil, nil, 0
}

// step moves a part to its next row.
func (m *merged) step(p *part) error {
	if p.at++; p.at < len(p.slots) {
		return nil
	}
	return m.load(p)
}

// run takes the next rows that lie side by side in one part.
func (m *merged) run() (more bool, err error) {
	var first *part // with the least key; of several the last
	for _, p := range m.parts {
		if p.rec != nil && (first == nil || p.compare(first) <= 0) {
			first = p
		}
	}
	if first == nil {
		return false, nil
	}
	var next *part // with the least key of the others
	for _, p := range m.parts {
		if p == first || p.rec == nil {
			continue
		}
		if p.compare(first) == 0 {
			if err := m.step(p); err != nil {
				return false, err
			}
		}
		if p.rec != nil && (next == nil || p.compare(next) < 0) {
			next = p
		}
	}
	if first.gone != nil && first.gone.IsValid(first.at) && first.gone.Value(first.at) {
		return true, m.step(first)
	}
	from, end := first.at, min(len(first.slots), first.at+int(batchRows-m.rows))
	for first.at++; first.at < end; first.at++ {
		if next != nil && first.compare(next) >= 0 || first.gone != nil && first.gone.IsValid(first.at) && first.gone.Value(first.at) {
			break
		}
	}
	n := int64(first.at - from)
	m.pieces = append(m.pieces, first.rec.NewSlice(int64(from), int64(first.at)))
	m.rows += n
	m.bytes += first.size * n / first.rec.NumRows()
	first.at--
	return true, m.step(first)
}

func (m *merged) Next() bool {
	m.drop()
	for m.err == nil && m.rows < batchRows && m.bytes < batchBytes {
		more, err := m.run()
		if err != nil {
			m.err = err
			return false
		}
		if !more {
			break
		}
	}
	if m.err != nil {
		return false
	}
	if m.rows == 0 {
		if m.want >= 0 && m.given != m.want {
			m.err = damaged(m.parts[0].path, "with its deltas it has %d groups, not %d", m.given, m.want)
		}
		return false
	}
	m.rec, m.err = m.join()
	return m.err == nil
}

// join makes one batch of the pieces, without the column __deleted.
func (m *merged) join() (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, m.schema.NumFields())
	defer func() {
		for _, c := range cols {
			if c != nil {
				c.Release()
			}
		}
		for _, p := range m.pieces {
			p.Release()
		}
		m.pieces, m.rows, m.bytes = m.pieces[:0], 0, 0
	}()
	list := make([]arrow.Array, len(m.pieces))
	for i := range cols {
		for j, p := range m.pieces {
			list[j] = p.Column(i)
		}
		var err error
		if len(list) == 1 {
			cols[i] = list[0]
			cols[i].Retain()
		} else if cols[i], err = array.Concatenate(list, m.mem); err != nil {
			return nil, fmt.Errorf("column %s: %w", m.schema.Field(i).Name, err)
		}
	}
	m.given += m.rows
	return array.NewRecordBatch(m.schema, cols, m.rows), nil
}

func (m *merged) Schema() *arrow.Schema          { return m.schema }
func (m *merged) RecordBatch() arrow.RecordBatch { return m.rec }
func (m *merged) Err() error                     { return m.err }

func (m *merged) drop() {
	if m.rec != nil {
		m.rec.Release()
		m.rec = nil
	}
}

func (m *merged) close() {
	m.drop()
	for _, p := range m.pieces {
		p.Release()
	}
	m.pieces = nil
	for _, p := range m.parts {
		p.drop()
		p.in.close()
	}
	m.parts = nil
}
