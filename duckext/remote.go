//go:build duckdb_arrow

package duckext

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/sqltype"
)

// A line is the query process's data sockets. A question and its answer take
// one socket, so as many threads can ask at once. Sockets are blocking files:
// they are used on DuckDB's threads.
type line struct {
	mu   sync.Mutex
	more sync.Cond
	free []*socket
}

type socket struct {
	f *os.File
	r *bufio.Reader
}

func newLine(files []*os.File) *line {
	l := &line{}
	l.more.L = &l.mu
	for _, f := range files {
		l.free = append(l.free, &socket{f: f, r: bufio.NewReaderSize(f, 256<<10)})
	}
	return l
}

func (l *line) ask(kind byte, body []byte, answer bool) (byte, []byte, error) {
	l.mu.Lock()
	for len(l.free) == 0 {
		l.more.Wait()
	}
	s := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.free = append(l.free, s)
		l.mu.Unlock()
		l.more.Signal()
	}()
	if err := writeFrame(s.f, kind, body); err != nil || !answer {
		return 0, nil, err
	}
	return readFrame(s.r, maxFromParent)
}

// A remoteTable is a table of the lease, scanned in the parent.
type remoteTable struct {
	line *line
	def  ViewDef
}

func (t *remoteTable) Columns() []sqltype.Field { return t.def.Columns }
func (t *remoteTable) Rows() int64              { return t.def.Rows }

func (t *remoteTable) Scan(_ context.Context, s ScanSpec) (array.RecordReader, error) {
	m := scanMsg{Table: t.def.Table, Columns: s.Columns, From: s.FromSlot, To: s.ToSlot}
	for _, f := range s.Filters {
		fm := filterMsg{Column: f.Column}
		for _, p := range []struct {
			to  *[]byte
			arr arrow.Array
		}{{&fm.In, f.In}, {&fm.Min, f.Min}, {&fm.Max, f.Max}} {
			if p.arr == nil {
				continue
			}
			b, err := encodeArray(t.def.Columns[f.Column].Type, p.arr)
			if err != nil {
				return nil, err
			}
			*p.to = b
		}
		m.Filters = append(m.Filters, fm)
	}
	body, err := marshal(m)
	if err != nil {
		return nil, err
	}
	r := &remoteReader{line: t.line}
	if err := r.ask(frameScan, body); err != nil {
		return nil, err
	}
	rd, err := ipc.NewReader(r, ipc.WithAllocator(memory.DefaultAllocator))
	if err != nil {
		r.close()
		return nil, r.cause(err)
	}
	return &remoteStream{Reader: rd, r: r}, nil
}

// A remoteReader is the bytes of one scan's Arrow stream, asked for as needed.
type remoteReader struct {
	line *line
	id   uint64
	buf  bytes.Reader
	last bool // nothing comes after buf
	err  error
}

func (r *remoteReader) ask(kind byte, body []byte) error {
	k, answer, err := r.line.ask(kind, body, true)
	switch {
	case err != nil:
		r.err = fmt.Errorf("the server closed the scan: %w", err)
	case k == frameFailed:
		r.last = true
		r.err = errors.New(string(answer))
	case k != frameData || len(answer) < 9:
		r.err = errors.New("the server gave no data")
	default:
		r.id = binary.LittleEndian.Uint64(answer)
		r.last = answer[8] == 1
		r.buf.Reset(answer[9:])
	}
	return r.err
}

func (r *remoteReader) Read(p []byte) (int, error) {
	for r.buf.Len() == 0 {
		if r.err != nil {
			return 0, r.err
		}
		if r.last {
			return 0, io.EOF
		}
		if err := r.ask(frameMore, binary.LittleEndian.AppendUint64(nil, r.id)); err != nil {
			return 0, err
		}
	}
	return r.buf.Read(p)
}

// cause prefers the server's words to what Arrow makes of them.
func (r *remoteReader) cause(err error) error {
	if r.err != nil {
		return r.err
	}
	return err
}

func (r *remoteReader) close() {
	if !r.last {
		r.last = true
		_, _, _ = r.line.ask(frameClose, binary.LittleEndian.AppendUint64(nil, r.id), false)
	}
}

type remoteStream struct {
	*ipc.Reader
	r *remoteReader
}

func (s *remoteStream) Err() error {
	if s.r.err != nil {
		return s.r.err
	}
	return s.Reader.Err()
}

func (s *remoteStream) Release() {
	s.Reader.Release()
	s.r.close()
}
