package duckext

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sys/unix"
)

// ErrBusy says that the queue of queries is full.
var ErrBusy = errors.New("too many queries are waiting: try again in a moment")

// ErrClosed says that the pool has been closed.
var ErrClosed = errors.New("the server is stopping")

// Codes of a QueryError.
const (
	CodeSyntax    = "syntax"    // DuckDB could not parse or bind it
	CodeRefused   = "refused"   // the statement gate
	CodeParams    = "params"    // its parameters are not those of the statement, or cannot be bound
	CodeFailed    = "failed"    // it ran and failed
	CodeTimeout   = "timeout"   // stopped at its deadline
	CodeCancelled = "cancelled" // stopped by the client
	CodeMemory    = "memory"    // stopped because it used too much memory
	CodeCrashed   = "crashed"   // its process died
	CodeStopped   = "stopped"   // within the process: interrupted, for one of the reasons above
)

// A QueryError is the end of a query that has no result.
type QueryError struct {
	Code    string
	Message string
	Offset  int // byte in the statement, -1 when not known
}

func (e *QueryError) Error() string { return e.Message }

// PoolOptions configure the query processes. Zero fields take the default.
type PoolOptions struct {
	Command      []string      // argv of the hidden verb, which calls Worker
	Size         int           // processes, that is queries at once; 2
	Queue        int           // queries that wait; 32
	Timeout      time.Duration // of a query from its start; 30 s
	Memory       int64         // resident bytes of all processes together; 512 MiB
	AddressSpace int64         // of each process; 3 GiB, negative: unlimited
	Threads      int           // of each process; 1, which spends the least on a query
	MaxQueries   int           // after which a process is replaced; 1000
	MaxRows      int64         // of a result, if the request has no lower limit; 100,000
	MaxBytes     int64         // of a result as Arrow; 64 MiB
	TempDir      string        // where each process gets a directory; os.TempDir()
	Logger       *slog.Logger

	noGate bool
}

// orDefault fills what is zero.
func (o PoolOptions) orDefault() PoolOptions {
	def := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	def64 := func(p *int64, v int64) {
		if *p <= 0 {
			*p = v
		}
	}
	def(&o.Size, 2)
	def(&o.Queue, 32)
	def(&o.Threads, 1)
	def(&o.MaxQueries, 1000)
	def64(&o.Memory, 512<<20)
	def64(&o.MaxRows, 100_000)
	def64(&o.MaxBytes, 64<<20)
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	if o.AddressSpace == 0 {
		o.AddressSpace = 3 << 30
	}
	if o.TempDir == "" {
		o.TempDir = os.TempDir()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// A Pool runs ad-hoc SQL in child processes and serves them the tables of a
// catalogue. It treats what comes from a child as hostile. It is safe for
// concurrent use.
type Pool struct {
	o       PoolOptions
	catalog Catalog
	idle    chan *child // a nil child stands for one that is yet to be started
	waiting atomic.Int64
	spawns  chan func()
	stop    chan struct{}
	bg      sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	live     map[*child]bool
	running  map[string]context.CancelCauseFunc
	nameless int64 // queries without an ID, numbered
	served   int64
	died     int64
}

// A Request is one query.
type Request struct {
	ID       string          // for Cancel; may be empty
	SQL      string          // one statement
	Params   json.RawMessage // a list, or an object of named values
	MaxRows  int64           // 0: the pool's
	MaxBytes int64           // 0: the pool's
	Timeout  time.Duration   // 0: the pool's, which is also the most
}

// A Result is the whole answer of a query.
type Result struct {
	Columns   []ResultColumn
	Schema    *arrow.Schema       // of the batches: the inside form of the columns
	Batches   []arrow.RecordBatch // on the Go heap
	Rows      int64
	Truncated bool // there was more than the limits allow
	Epoch     uint64
}

// A ResultColumn names a column as DuckDB does. A type that Weir has no Arrow
// form for travels as VARCHAR in the batches and keeps its name here.
type ResultColumn struct {
	Name string
	Type string
}

// NewPool starts the processes. What keeps them from starting is the error of
// the first queries.
func NewPool(o PoolOptions, c Catalog) *Pool {
	o = o.orDefault()
	p := &Pool{
		o: o, catalog: c, idle: make(chan *child, o.Size), spawns: make(chan func()), stop: make(chan struct{}),
		live: map[*child]bool{}, running: map[string]context.CancelCauseFunc{},
	}
	p.bg.Go(p.spawner)
	for range o.Size {
		p.bg.Go(p.refill)
	}
	return p
}

// niceness is the priority of query processes. On a processor that both want one
// gets a tenth of what a thread of ingest gets (weights 110 and 1024 in Linux): so
// queries cannot take more than that from ingest, and do come to an end beside it.
const niceness = 10

// spawner starts processes on a thread of its own. A child gets SIGKILL when
// the thread that started it ends, and inherits its priority.
func (p *Pool) spawner() {
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, niceness); err != nil {
		p.o.Logger.Warn("query processes run at full priority", "error", err)
	}
	for {
		select {
		case f := <-p.spawns:
			f()
		case <-p.stop:
			return
		}
	}
}

// refill starts a process for an empty place.
func (p *Pool) refill() {
	c, err := p.start()
	if err != nil && !errors.Is(err, ErrClosed) {
		p.o.Logger.Error("cannot start a query process", "error", err)
	}
	p.idle <- c
}

// start starts a process and waits until it is ready.
func (p *Pool) start() (*child, error) {
	type outcome struct {
		c   *child
		err error
	}
	done := make(chan outcome, 1)
	select {
	case p.spawns <- func() { c, err := p.spawn(); done <- outcome{c, err} }:
	case <-p.stop:
		return nil, ErrClosed
	}
	out := <-done
	if out.err != nil {
		return nil, out.err
	}
	c := out.c
	p.mu.Lock()
	closed := p.closed
	p.live[c] = true
	p.mu.Unlock()
	if closed {
		p.discard(c)
		return nil, ErrClosed
	}
	if err := c.ready(); err != nil {
		p.discard(c)
		select {
		case <-p.stop: // killed by Close
			return nil, ErrClosed
		default:
			return nil, err
		}
	}
	return c, nil
}

func (p *Pool) discard(c *child) {
	c.destroy()
	p.mu.Lock()
	delete(p.live, c)
	p.mu.Unlock()
}

// Close stops all queries and ends the processes.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	for _, cancel := range p.running {
		cancel(ErrClosed)
	}
	for c := range p.live {
		c.kill(ErrClosed)
	}
	close(p.stop)
	p.mu.Unlock()
	p.bg.Wait()
	for range p.o.Size {
		if c := <-p.idle; c != nil {
			p.discard(c)
		}
	}
	return nil
}

// Cancel stops the query with an ID and says whether there was one.
func (p *Pool) Cancel(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	cancel, ok := p.running[id]
	if ok {
		cancel(errCancelled)
	}
	return ok
}

// PoolStats count since the pool was made.
type PoolStats struct {
	Served  int64 // queries that a process took on
	Died    int64 // processes that ended before their query
	Waiting int64 // queries in the queue now
	Running int64 // queries under way, the waiting included
}

// Stats are the pool's counters.
func (p *Pool) Stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return PoolStats{Served: p.served, Died: p.died, Waiting: p.waiting.Load(), Running: int64(len(p.running))}
}

var (
	errCancelled = &QueryError{Code: CodeCancelled, Message: "the query was cancelled", Offset: -1}
	errNoMemory  = &QueryError{Code: CodeMemory, Message: "the query was stopped: out of memory. Select fewer columns or groups, or raise --query-memory", Offset: -1}
)

// Query runs one statement. Its error is a *QueryError, what Catalog.Lease
// returned, ErrBusy, or ErrClosed. Cancelling ctx stops the query.
func (p *Pool) Query(ctx context.Context, r Request) (*Result, error) {
	if r.MaxRows <= 0 || r.MaxRows > p.o.MaxRows {
		r.MaxRows = p.o.MaxRows
	}
	if r.MaxBytes <= 0 || r.MaxBytes > p.o.MaxBytes {
		r.MaxBytes = p.o.MaxBytes
	}
	if r.Timeout <= 0 || r.Timeout > p.o.Timeout {
		r.Timeout = p.o.Timeout
	}
	if len(r.SQL) > maxSQL {
		return nil, &QueryError{Code: CodeRefused, Message: fmt.Sprintf("the statement has %d bytes; the limit is %d", len(r.SQL), maxSQL), Offset: -1}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done, err := p.enlist(r.ID, cancel)
	if err != nil {
		return nil, err
	}
	defer done()
	c, err := p.acquire(ctx)
	if err != nil {
		return nil, err
	}
	timeout := &QueryError{Code: CodeTimeout, Message: fmt.Sprintf("the query was stopped after %v", r.Timeout), Offset: -1}
	ctx, stop := context.WithTimeoutCause(ctx, r.Timeout, timeout)
	defer stop()
	res, err := c.query(ctx, r)
	p.giveBack(c)
	if err != nil {
		return nil, explain(ctx, err)
	}
	return res, nil
}

// enlist makes a query known to Cancel and Close.
func (p *Pool) enlist(id string, cancel context.CancelCauseFunc) (done func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	if id == "" {
		p.nameless++
		id = fmt.Sprintf("\x00%d", p.nameless)
	}
	if p.running[id] != nil {
		return nil, &QueryError{Code: CodeRefused, Message: "a query with this ID is running", Offset: -1}
	}
	p.running[id] = cancel
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.running, id)
	}, nil
}

// acquire takes a process, waiting in the queue if none is free.
func (p *Pool) acquire(ctx context.Context) (*child, error) {
	var c *child
	select {
	case c = <-p.idle:
	default:
		defer p.waiting.Add(-1)
		if p.waiting.Add(1) > int64(p.o.Queue) {
			return nil, ErrBusy
		}
		select {
		case c = <-p.idle:
		case <-ctx.Done():
			return nil, explain(ctx, ctx.Err())
		}
	}
	if c != nil && !c.alive() {
		p.discard(c)
		c = nil
	}
	if c == nil {
		var err error
		if c, err = p.start(); err != nil {
			p.idle <- nil
			return nil, err
		}
	}
	p.mu.Lock()
	p.served++
	p.mu.Unlock()
	return c, nil
}

// giveBack returns a process, or replaces it while nobody waits for it.
func (p *Pool) giveBack(c *child) {
	dead := !c.alive()
	if !dead && !c.retire && c.queries < p.o.MaxQueries {
		p.idle <- c
		return
	}
	p.mu.Lock()
	if dead {
		p.died++
	}
	closed := p.closed
	if !closed {
		p.bg.Add(1)
	}
	p.mu.Unlock()
	p.discard(c)
	if closed {
		p.idle <- nil
		return
	}
	go func() {
		defer p.bg.Done()
		p.refill()
	}()
}

// explain prefers why a query was stopped to how it ended.
func explain(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	cause := context.Cause(ctx)
	if _, ok := errors.AsType[*QueryError](cause); ok || errors.Is(cause, ErrClosed) {
		return cause
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		return &QueryError{Code: CodeTimeout, Message: "the query was stopped at its deadline", Offset: -1}
	}
	if errors.Is(err, io.EOF) || errors.Is(cause, context.Canceled) {
		return errCancelled
	}
	return cause
}
