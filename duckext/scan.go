//go:build duckdb_arrow

package duckext

import "C"

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/duckdb/duckdb-go/v2/mapping"

	"weir/state/sqltype"
)

// The exported callbacks of this file run on DuckDB's threads. They recover
// every panic, since it would end the process, and use no channels and no timers
// of their own.

// scanFunction is the name of the table function; its argument is an attachment's number.
const scanFunction = "weir_scan"

// noColumn is the function's first column, which holds nothing.
const noColumn = "__no_column"

// scanSQL reads an attachment.
func scanSQL(a *attachment) string {
	var b strings.Builder
	b.WriteString("SELECT ")
	for i, c := range a.cols {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quote(c.Name))
	}
	fmt.Fprintf(&b, " FROM %s(%d::UBIGINT)", scanFunction, a.id)
	return b.String()
}

// scanView is the statement that gives an attachment a name on a connection.
func scanView(name string, a *attachment) string {
	return "CREATE OR REPLACE TEMP VIEW " + quote(name) + " AS " + scanSQL(a)
}

// chunkRows is the capacity of DuckDB's vectors.
const chunkRows = 2048

// A registry holds what the table function of an instance can scan.
type registry struct {
	mu   sync.RWMutex
	next uint64
	at   map[uint64]*attachment
	none mapping.LogicalType // of noColumn
}

// An attachment is a table as one connection sees it. Statements that read it
// are bound to its columns.
type attachment struct {
	id    uint64
	cols  []sqltype.Field
	rows  int64 // about how many, 0 when not known
	types []mapping.LogicalType

	mu  sync.Mutex
	ctx context.Context // of the running statement
	err error           // the first of its scans
	// open opens the reader of one part of parts; set before a statement runs.
	open  func(ctx context.Context, cols []int, part, parts int) (array.RecordReader, error)
	parts int
}

// register declares the table function to the instance of c.
func (r *registry) register(c *conn) error {
	r.at = map[uint64]*attachment{}
	r.none = mapping.CreateLogicalType(mapping.TypeBoolean)
	f := mapping.CreateTableFunction()
	defer mapping.DestroyTableFunction(&f)
	mapping.TableFunctionSetName(f, scanFunction)
	id := mapping.CreateLogicalType(mapping.TypeUBigInt)
	defer mapping.DestroyLogicalType(&id)
	mapping.TableFunctionAddParameter(f, id)
	mapping.TableFunctionSupportsProjectionPushdown(f, true)
	mapping.TableFunctionSetExtraInfo(f, box(r), dropFunc())
	bind, init, local, next := scanFuncs()
	mapping.TableFunctionSetBind(f, bind)
	mapping.TableFunctionSetInit(f, init)
	mapping.TableFunctionSetLocalInit(f, local)
	mapping.TableFunctionSetFunction(f, next)
	if mapping.RegisterTableFunction(c.c, f) == mapping.StateError {
		return errors.New("duckdb: refused the table function")
	}
	return nil
}

func (r *registry) attach(cols []sqltype.Field) *attachment {
	a := &attachment{cols: cols, parts: 1, types: make([]mapping.LogicalType, len(cols))}
	for i, c := range cols {
		a.types[i] = logicalType(c.Type)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	a.id = r.next
	r.at[a.id] = a
	return a
}

func (r *registry) detach(a *attachment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at[a.id] == nil {
		return
	}
	delete(r.at, a.id)
	for i := range a.types {
		mapping.DestroyLogicalType(&a.types[i])
	}
}

// guard turns a panic and an error into an error of DuckDB's.
func guard(report func(string), f func() error) {
	if err := try(f); err != nil {
		report(err.Error())
	}
}

func try(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("weir: panic while scanning: %v", p)
		}
	}()
	return f()
}

// begin readies an attachment for a statement.
func (a *attachment) begin(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ctx, a.err = ctx, nil
}

// failed keeps the error of a scan, which DuckDB would make a text.
func (a *attachment) failed(err error) error {
	if err != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.err == nil {
			a.err = err
		}
	}
	return err
}

// cause is the error of a scan of the last statement, or err if none failed.
func (a *attachment) cause(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil && a.err != nil && (a.ctx == nil || a.ctx.Err() == nil) {
		return a.err
	}
	return err
}

//export weirScanDrop
func weirScanDrop(p unsafe.Pointer) {
	defer func() { _ = recover() }()
	if c, ok := unbox[any](p).(interface{ drop() }); ok {
		c.drop()
	}
	freeBox(p)
}

//export weirScanBind
func weirScanBind(p unsafe.Pointer) {
	info := mapping.BindInfo{Ptr: p}
	guard(func(s string) { mapping.BindSetError(info, s) }, func() error {
		r := unbox[*registry](mapping.BindGetExtraInfo(info))
		v := mapping.BindGetParameter(info, 0)
		id := mapping.GetUInt64(v)
		mapping.DestroyValue(&v)
		r.mu.RLock()
		defer r.mu.RUnlock()
		a := r.at[id]
		if a == nil {
			return fmt.Errorf("%s(%d): no such table", scanFunction, id)
		}
		// DuckDB asks for the first column where it wants none, as for count(*).
		// This one tells those scans from scans of a real column; see scanView.
		mapping.BindAddResultColumn(info, noColumn, r.none)
		for i, c := range a.cols {
			mapping.BindAddResultColumn(info, c.Name, a.types[i])
		}
		if a.rows > 0 {
			mapping.BindSetCardinality(info, mapping.IdxT(a.rows), false)
		}
		mapping.BindSetBindData(info, box(a), dropFunc())
		return nil
	})
}

// A scan is one execution of one reference to a table.
type scan struct {
	a       *attachment
	ctx     context.Context
	open    func(ctx context.Context, cols []int, part, parts int) (array.RecordReader, error)
	columns []int // what readers deliver
	vectors []int // which vector of the chunk each goes into
	parts   int
	next    atomic.Int64 // next part to open
}

//export weirScanInit
func weirScanInit(p unsafe.Pointer) {
	info := mapping.InitInfo{Ptr: p}
	guard(func(s string) { mapping.InitSetError(info, s) }, func() error {
		a := unbox[*attachment](mapping.InitGetBindData(info))
		s := &scan{a: a, columns: []int{}}
		a.mu.Lock()
		s.ctx, s.open, s.parts = a.ctx, a.open, a.parts
		a.mu.Unlock()
		if s.open == nil {
			return errors.New("weir: scan outside of a query")
		}
		for i := range mapping.InitGetColumnCount(info) {
			if c := mapping.InitGetColumnIndex(info, i); c >= 1 && c <= mapping.IdxT(len(a.cols)) {
				s.columns = append(s.columns, int(c)-1)
				s.vectors = append(s.vectors, int(i))
			}
		}
		mapping.InitSetMaxThreads(info, mapping.IdxT(max(s.parts, 1)))
		mapping.InitSetInitData(info, box(s), dropFunc())
		return nil
	})
}

// A cursor is one thread's place in a scan.
type cursor struct {
	rd    array.RecordReader
	batch arrow.RecordBatch
	at    int // rows of batch already delivered
	arena arena
}

func (c *cursor) drop() {
	if c.rd != nil {
		c.rd.Release()
		c.rd = nil
	}
	c.arena.free()
}

//export weirScanLocal
func weirScanLocal(p unsafe.Pointer) {
	info := mapping.InitInfo{Ptr: p}
	guard(func(s string) { mapping.InitSetError(info, s) }, func() error {
		mapping.InitSetInitData(info, box(&cursor{}), dropFunc())
		return nil
	})
}

//export weirScanNext
func weirScanNext(p, out unsafe.Pointer) {
	info, chunk := mapping.FunctionInfo{Ptr: p}, mapping.DataChunk{Ptr: out}
	guard(func(s string) { mapping.FunctionSetError(info, s) }, func() error {
		s := unbox[*scan](mapping.FunctionGetInitData(info))
		c := unbox[*cursor](mapping.FunctionGetLocalInitData(info))
		n := 0
		err := s.a.failed(try(func() (err error) {
			n, err = c.next(s, chunk)
			return err
		}))
		mapping.DataChunkSetSize(chunk, mapping.IdxT(n))
		return err
	})
}

// next puts the next rows into the chunk; 0 rows are the end.
func (c *cursor) next(s *scan, chunk mapping.DataChunk) (int, error) {
	n, err := c.more(s)
	if err != nil || n == 0 {
		return 0, err
	}
	c.arena.reset()
	for i, col := range s.columns {
		v := mapping.DataChunkGetVector(chunk, mapping.IdxT(s.vectors[i]))
		f := s.a.cols[col]
		if err := c.arena.fill(v, f.Type, c.batch.Column(i), c.at, n); err != nil {
			return 0, fmt.Errorf("scan column %q: %w", f.Name, err)
		}
	}
	c.at += n
	return n, nil
}

// more finds the next rows: of the batch, of the reader, of another part.
func (c *cursor) more(s *scan) (int, error) {
	for {
		if c.batch != nil {
			if n := int(c.batch.NumRows()) - c.at; n > 0 {
				return min(n, chunkRows), nil
			}
			c.batch = nil
		}
		if c.rd == nil {
			part := int(s.next.Add(1)) - 1
			if part >= s.parts {
				return 0, nil
			}
			rd, err := s.open(s.ctx, s.columns, part, s.parts)
			if err != nil {
				return 0, err
			}
			c.rd = rd
		}
		if c.rd.Next() {
			c.batch, c.at = c.rd.RecordBatch(), 0
			if int(c.batch.NumCols()) != len(s.columns) {
				return 0, fmt.Errorf("weir: a reader of %d columns delivered %d", len(s.columns), c.batch.NumCols())
			}
			continue
		}
		err := c.rd.Err()
		c.rd.Release()
		c.rd = nil
		if err != nil {
			return 0, err
		}
	}
}
