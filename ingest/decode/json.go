package decode

import (
	"bytes"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/sqltype"
)

// Options of a decoder; zero values mean the defaults.
type Options struct {
	Mem      memory.Allocator // a *Pool is used as it is, anything else gets one; default: Go's heap
	MaxDepth int              // levels of nesting, the document's own included; default and most: 64
	MaxBytes int              // of one document; default 16 MiB
}

// JSON decodes documents into the columns of a batch. It is not for concurrent
// use; the batches it hands out are independent of it.
type JSON struct {
	schema *arrow.Schema
	nodes  []*node
	pool   *Pool
	owned  bool // the pool is ours to close
	max    int
	rows   int

	scan  scanner
	shape shape
	found []span // per column, where its value is in the document; then a stack for structs
	text  []byte // of the last escaped string
	bin   []byte // of the last base64
}

// NewJSON returns a decoder of the wanted columns: those of a source that its
// views read. The error names a column whose type or name no document can fill.
func NewJSON(columns []sqltype.Field, o Options) (*JSON, error) {
	if err := distinct(columns); err != nil {
		return nil, err
	}
	d := &JSON{max: o.MaxBytes, found: make([]span, len(columns))}
	if d.max <= 0 {
		d.max = 16 << 20
	}
	if d.scan.depth = o.MaxDepth; d.scan.depth <= 0 || d.scan.depth > maxDepth {
		d.scan.depth = maxDepth
	}
	if o.Mem == nil {
		o.Mem = memory.DefaultAllocator
	}
	var ok bool
	if d.pool, ok = o.Mem.(*Pool); !ok {
		d.pool, d.owned = NewPool(o.Mem), true
	}
	var fields []arrow.Field
	for _, f := range columns {
		if err := supported(f.Type); err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Name, err)
		}
		fields = append(fields, f.Type.InsideField(f.Name))
		d.nodes = append(d.nodes, newNode(f, NewColumn(f.Type, d.pool)))
	}
	d.schema = arrow.NewSchema(fields, nil)
	d.shape.init()
	return d, nil
}

// Schema is that of the batches.
func (d *JSON) Schema() *arrow.Schema { return d.schema }

// Len is the number of rows appended since the last batch.
func (d *JSON) Len() int { return d.rows }

// Append decodes one document and appends a row to every column, or nothing. The
// error is an [*Error] when the document is refused, or [ErrFull]. The document
// is not kept.
func (d *JSON) Append(doc []byte) error {
	if err := d.read(doc); err != nil {
		return err
	}
	for i, n := range d.nodes {
		if err := d.fill(i, doc); err != nil {
			for _, n := range d.nodes[:i+1] {
				n.col.truncate(d.rows)
			}
			if err.full {
				return ErrFull
			}
			err.Column = n.name + err.Column
			return err
		}
	}
	d.rows++
	return nil
}

// A Refusal is a column that a document could not fill.
type Refusal struct {
	Index int // of the column
	*Error
}

// AppendEach is Append for readers that do not all need every column: a column
// that the document cannot fill gets NULL and is added to bad, and the row
// stands. What refuses the document as a whole is the error, as ever.
func (d *JSON) AppendEach(doc []byte, bad []Refusal) ([]Refusal, error) {
	if err := d.read(doc); err != nil {
		return bad, err
	}
	before := len(bad)
	for i, n := range d.nodes {
		err := d.fill(i, doc)
		if err == nil {
			continue
		}
		if err.full {
			for _, n := range d.nodes[:i+1] {
				n.col.truncate(d.rows)
			}
			return bad[:before], ErrFull
		}
		n.col.truncate(d.rows)
		n.col.Null()
		err.Column = n.name + err.Column
		bad = append(bad, Refusal{i, err})
	}
	d.rows++
	return bad, nil
}

// read scans a document and finds the values of the columns.
func (d *JSON) read(doc []byte) error {
	if len(doc) == 0 || len(doc) > d.max {
		return d.oversize(doc)
	}
	d.scan.lone = false
	if !d.members(doc) {
		return d.invalid(doc)
	}
	return nil
}

// fill appends what was found of a column. After an error the column may hold a
// part of the value.
func (d *JSON) fill(i int, doc []byte) *Error {
	n, s := d.nodes[i], &d.found[i]
	if err := s.conflict(); err != nil {
		return err
	}
	if s.kind == kNone {
		n.col.Null()
		return nil
	}
	if n.usual(doc[s.start:s.end], s.kind) {
		return nil
	}
	return d.put(n, doc[s.start:s.end], s.kind)
}

func (d *JSON) oversize(doc []byte) error {
	switch {
	case doc == nil:
		return refuse(ReasonTombstone)
	case len(doc) == 0:
		return refuse(ReasonEmpty)
	}
	return refuse(fmt.Sprintf("a document of %d bytes, the limit is %d", len(doc), d.max))
}

func (d *JSON) invalid(doc []byte) error {
	if bytes.HasPrefix(doc, []byte("\xEF\xBB\xBF")) {
		return refuse("invalid JSON: starts with a byte order mark")
	}
	if d.scan.other {
		d.scan.other = false
		return refuse(d.scan.msg)
	}
	return refuse(fmt.Sprintf("invalid JSON at byte %d: %s", d.scan.at, d.scan.msg))
}

// Batch hands out the rows appended so far and starts anew. The batch owns its
// memory, which its last Release returns to the pool.
func (d *JSON) Batch() arrow.RecordBatch {
	cols := make([]arrow.Array, len(d.nodes))
	for i, n := range d.nodes {
		cols[i] = n.col.Array()
	}
	b := array.NewRecordBatch(d.schema, cols, int64(d.rows))
	for _, c := range cols {
		c.Release()
	}
	d.rows = 0
	return b
}

// Close frees the decoder's memory, rows that were not handed out included.
func (d *JSON) Close() {
	for _, n := range d.nodes {
		n.col.Release()
	}
	d.rows = 0
	if d.owned {
		d.pool.Close()
	}
}

// span is where the value of a column is, and how its key matched.
type span struct {
	start, end int
	kind       kind
	match      match
}

type match uint8

const (
	absent match = iota
	folded       // a key equal up to case
	exact
	ambiguous // several keys equal up to case, none exactly
	twice     // the exact key more than once
)

// claim notes a value for the column. An exact key beats others in any order.
func (s *span) claim(start, end int, k kind, isExact bool) {
	switch {
	case isExact && s.match == exact:
		s.match = twice
	case isExact && s.match != twice:
		*s = span{start, end, k, exact}
	case !isExact && s.match == absent:
		*s = span{start, end, k, folded}
	case !isExact && s.match == folded:
		s.match = ambiguous
	}
}

func (s *span) conflict() *Error {
	switch s.match {
	case ambiguous:
		return refuse("several keys match up to case, none exactly")
	case twice:
		return refuse("the key stands twice in the object")
	}
	return nil
}

// members scans the whole document and finds the wanted values. Keys are taken
// as the shape foretells them.
func (d *JSON) members(b []byte) bool {
	clear(d.found)
	s := &d.scan
	members := d.shape.members
	last := int32(memberStart) // the member before
	i := 0
	for {
		m := &members[members[last].next[0]]
		if m.at(b, i) {
			i += len(m.text)
		} else {
			var end bool
			if m, i, end = d.surprise(b, i, last); i < 0 || end {
				return i >= 0
			}
			members = d.shape.members
		}
		last = m.id
		if i < len(b) && b[i] <= ' ' {
			i = space(b, i) // more of it than last time
		}
		start := i
		var k kind
		switch {
		case i < len(b) && b[i] == '"':
			i, k = s.str(b, i)
		case i < len(b) && b[i]-'0' <= 9:
			if i, k = number(b, i); i < 0 {
				s.fail(start, malformedNumber)
			}
		default:
			i, k = s.value(b, i, 1)
		}
		if i < 0 {
			return false
		}
		if m.col >= 0 {
			f := &d.found[m.col]
			if f.match == absent && m.exact {
				*f = span{start, i, k, exact}
			} else {
				f.claim(start, i, k, m.exact)
			}
		}
		if i+1 == len(b) && b[i] == '}' {
			return true
		}
	}
}
