package duckext

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"weir/state/sqltype"
)

const (
	maxRefs  = 256     // names of a query
	maxScans = 256     // open scans of a query
	answer   = 1 << 18 // bytes after which an answer is sent
	rowsOnce = 8 << 10 // rows of a batch as it is sent
)

// A lending is a lease while a process reads from it.
type lending struct {
	lease  Lease
	tables map[string]ViewDef
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	busy   sync.WaitGroup
	next   uint64
	scans  map[uint64]*lentScan
}

// A lentScan is a reader that a process has open.
type lentScan struct {
	mu     sync.Mutex
	rd     array.RecordReader // nil once released
	buf    bytes.Buffer
	enc    *ipc.Writer
	schema *arrow.Schema
}

// lend takes the lease that a query asks for. An error is a breach of the
// protocol; the catalogue's own goes into refused.
func (c *child) lend(ctx context.Context, body []byte, refused *error) error {
	var m namesMsg
	if err := json.Unmarshal(body, &m); err != nil {
		return err
	}
	c.mu.Lock()
	again := c.lent != nil
	c.mu.Unlock()
	if again || len(m.Refs) > maxRefs {
		return errors.New("a second lease, or one of too many names")
	}
	lease, err := c.pool.catalog.Lease(ctx, m.Refs)
	if err != nil {
		*refused = placed(err, m.Refs)
		return writeJSON(c.control, frameLease, leaseMsg{Refused: true})
	}
	l := &lending{lease: lease, tables: map[string]ViewDef{}, scans: map[uint64]*lentScan{}}
	l.ctx, l.cancel = context.WithCancel(ctx)
	c.mu.Lock()
	c.lent = l
	c.mu.Unlock()
	var out leaseMsg
	for _, v := range lease.Views() {
		if v.Table != "" {
			l.tables[v.Table] = v
		}
		out.Rows = append(out.Rows, v.Rows)
		v.Rows = 0
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		out.Views = append(out.Views, text)
	}
	return writeJSON(c.control, frameLease, out)
}

// placed sets where an unknown name stands.
func placed(err error, refs []Ref) error {
	e, ok := errors.AsType[*UnknownNameError](err)
	if !ok {
		return err
	}
	for _, r := range refs {
		if r.Name == e.Name {
			e.Offset = r.Offset
			return err
		}
	}
	e.Offset = -1
	return err
}

// endLease waits for what is being read and frees the lease. It returns the
// epoch that was read, 0 if there was no lease.
func (c *child) endLease() (epoch uint64) {
	c.mu.Lock()
	l := c.lent
	c.lent = nil
	c.mu.Unlock()
	if l == nil {
		return 0
	}
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.busy.Wait()
	for _, s := range l.scans {
		s.release()
	}
	epoch = l.lease.Epoch()
	l.lease.Release()
	return epoch
}

func (s *lentScan) release() {
	if s.rd != nil {
		s.rd.Release()
		s.rd = nil
	}
}

// serve answers the questions of one data socket until it closes.
func (c *child) serve(conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		kind, body, err := readFrame(r, maxFromChild)
		if err != nil {
			return
		}
		kind, body = c.answer(kind, body)
		if kind == 0 {
			continue
		}
		if err := writeFrame(conn, kind, body); err != nil {
			return
		}
	}
}

// answer answers one question. Whatever goes wrong is an answer too.
func (c *child) answer(kind byte, body []byte) (byte, []byte) {
	c.mu.Lock()
	l := c.lent
	c.mu.Unlock()
	if l == nil || !l.enter() {
		if kind == frameClose {
			return 0, nil
		}
		return frameFailed, []byte("the query is over")
	}
	defer l.busy.Done()
	out, err := l.handle(kind, body)
	switch {
	case err != nil:
		return frameFailed, []byte(err.Error())
	case kind == frameClose:
		return 0, nil
	}
	return frameData, out
}

func (l *lending) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.busy.Add(1)
	return true
}

func (l *lending) handle(kind byte, body []byte) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("weir: panic while scanning: %v", p)
		}
	}()
	var id uint64
	switch kind {
	case frameScan:
		if id, err = l.open(body); err != nil {
			return nil, err
		}
	case frameMore, frameClose:
		if len(body) != 8 {
			return nil, errors.New("no scan's number")
		}
		id = binary.LittleEndian.Uint64(body)
	default:
		return nil, fmt.Errorf("frame %q", kind)
	}
	l.mu.Lock()
	s := l.scans[id]
	l.mu.Unlock()
	if s == nil {
		if kind == frameClose {
			return nil, nil
		}
		return nil, errors.New("no such scan")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if kind == frameClose {
		l.drop(id, s)
		return nil, nil
	}
	last, err := s.fill(id)
	if err != nil || last {
		l.drop(id, s)
	}
	return s.buf.Bytes(), err
}

func (l *lending) drop(id uint64, s *lentScan) {
	s.release()
	l.mu.Lock()
	delete(l.scans, id)
	l.mu.Unlock()
}

// open checks a question against the lease and opens its reader.
func (l *lending) open(body []byte) (uint64, error) {
	var m scanMsg
	if err := json.Unmarshal(body, &m); err != nil {
		return 0, err
	}
	def, ok := l.tables[m.Table]
	if !ok || m.From < 0 || m.To > Slots || m.From >= m.To || len(m.Columns) > len(def.Columns) {
		return 0, errors.New("a scan outside of the lease")
	}
	spec := ScanSpec{Columns: m.Columns, FromSlot: m.From, ToSlot: m.To}
	if spec.Columns == nil {
		spec.Columns = []int{}
	}
	var cols []sqltype.Field
	for _, i := range m.Columns {
		if i < 0 || i >= len(def.Columns) {
			return 0, errors.New("a scan of no column")
		}
		cols = append(cols, def.Columns[i])
	}
	for _, fm := range m.Filters {
		f, err := fm.decode(def.Columns)
		if err != nil {
			return 0, err
		}
		spec.Filters = append(spec.Filters, f)
	}
	rd, err := l.lease.Scan(l.ctx, m.Table, spec)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.scans) >= maxScans {
		rd.Release()
		return 0, errors.New("a query reads too many tables at once")
	}
	l.next++
	l.scans[l.next] = &lentScan{rd: rd, schema: insideSchema(cols)}
	return l.next, nil
}

func (m filterMsg) decode(cols []sqltype.Field) (f Filter, err error) {
	if m.Column < 0 || m.Column >= len(cols) {
		return f, errors.New("a filter of no column")
	}
	f.Column = m.Column
	t := cols[m.Column].Type
	for _, part := range []struct {
		to *arrow.Array
		b  []byte
		n  int
	}{{&f.In, m.In, -1}, {&f.Min, m.Min, 1}, {&f.Max, m.Max, 1}} {
		if part.b == nil {
			continue
		}
		arr, err := decodeArray(t, part.b)
		if err != nil {
			return f, fmt.Errorf("filter: %w", err)
		}
		if part.n > 0 && arr.Len() != part.n || arr.NullN() > 0 {
			return f, errors.New("filter: not one value")
		}
		*part.to = arr
	}
	return f, nil
}

// fill writes the next answer into the scan's buffer: its number, whether it is
// the last, and a piece of the Arrow stream.
func (s *lentScan) fill(id uint64) (last bool, err error) {
	s.buf.Reset()
	s.buf.Write(binary.LittleEndian.AppendUint64(nil, id))
	s.buf.WriteByte(0)
	for s.buf.Len() < answer {
		if s.rd == nil {
			return false, errors.New("no such scan")
		}
		if !s.rd.Next() {
			if err := s.rd.Err(); err != nil {
				return false, err
			}
			if err := s.encoder(s.schema).Close(); err != nil {
				return false, err
			}
			s.buf.Bytes()[8] = 1
			return true, nil
		}
		if err := s.encode(s.rd.RecordBatch()); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (s *lentScan) encoder(schema *arrow.Schema) *ipc.Writer {
	if s.enc == nil {
		s.schema = schema
		s.enc = ipc.NewWriter(&s.buf, ipc.WithSchema(schema))
	}
	return s.enc
}

func (s *lentScan) encode(rec arrow.RecordBatch) error {
	if int(rec.NumCols()) != s.schema.NumFields() {
		return fmt.Errorf("a reader of %d columns delivered %d", s.schema.NumFields(), rec.NumCols())
	}
	enc := s.encoder(rec.Schema())
	for from := int64(0); from < rec.NumRows(); from += rowsOnce {
		part := rec.NewSlice(from, min(from+rowsOnce, rec.NumRows()))
		err := enc.Write(part)
		part.Release()
		if err != nil {
			return err
		}
	}
	return nil
}
