package duckext

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/plan"
	"weir/state/sqltype"
)

// A CrashError is a batch on which DuckDB ended its process, broke, ran out of
// memory, or did not come to an end.
type CrashError struct{ Message string }

func (e *CrashError) Error() string { return e.Message }

// GuardOptions configure a Guard. All but Command may be zero.
type GuardOptions struct {
	Command     []string      // argv of the hidden verb, which calls GuardWorker
	MemoryLimit string        // of its DuckDB; see Options
	TempDir     string        // likewise
	Timeout     time.Duration // of a batch; 60 s
	Logger      *slog.Logger
}

// A Guard runs programs as an Engine does, but in a process of its own, so that
// a batch on which DuckDB crashes costs that process alone. It is for batches
// that are under suspicion: each is copied twice on its way. The process is
// started when it is needed, again when it has died, and ended when no program
// is open. A Guard is safe for concurrent use and runs one batch at a time.
type Guard struct {
	o GuardOptions

	mu       sync.Mutex
	closed   bool
	programs int
	p        *guarded // nil when none runs
}

// NewGuard starts nothing yet.
func NewGuard(o GuardOptions) *Guard {
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Guard{o: o}
}

// A GuardProgram is a statement to be run under guard.
type GuardProgram struct {
	g   *Guard
	sql string
	rel plan.Relation
	out []sqltype.Field
	in  *guarded // where it is prepared
	id  uint64
}

// Prepare notes a statement, which is bound when it is first run. See
// Engine.Prepare for its parameters; rel has at least one column.
func (g *Guard) Prepare(sql string, rel plan.Relation, out []sqltype.Field) (*GuardProgram, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, ErrClosed
	}
	g.programs++
	return &GuardProgram{g: g, sql: sql, rel: rel, out: out}, nil
}

// Run is as Program.Run, but for batches on which DuckDB crashes, fails an
// assertion, has not enough memory, or takes longer than the Guard allows: these
// are a *CrashError. Of a batch of one row it is sure, having tried twice. A batch or
// a result that is larger than a frame may be is an *EvalError: its halves may pass.
func (p *GuardProgram) Run(ctx context.Context, batch arrow.RecordBatch) (arrow.RecordBatch, error) {
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	body, err := encodeSlice(make([]byte, 8), p.rel.Columns, batch)
	if err != nil {
		return nil, err
	}
	if len(body) > maxGuardFrame {
		return nil, &EvalError{Message: fmt.Sprintf("a batch of %d bytes is too large to be evaluated in another process", len(body))}
	}
	out, err := p.run(ctx, body)
	if _, crashed := errors.AsType[*CrashError](err); crashed && batch.NumRows() == 1 {
		out, err = p.run(ctx, body)
	}
	return out, err
}

// run sends body, whose first eight bytes are for the program's number.
func (p *GuardProgram) run(ctx context.Context, body []byte) (arrow.RecordBatch, error) {
	in, err := p.g.process(ctx)
	if err != nil {
		return nil, err
	}
	if p.in != in {
		if err := p.prepare(ctx, in); err != nil {
			return nil, err
		}
	}
	binary.LittleEndian.PutUint64(body, p.id)
	kind, answer, err := in.ask(ctx, p.g.o.Timeout, guardRun, body)
	if err == nil && kind == guardData {
		recs, bad := decodeBatches(p.out, answer)
		if bad == nil && len(recs) == 1 {
			return recs[0], nil
		}
		err = errBroken
	}
	if err == nil {
		if err = guardError(kind, answer); !broken(err) {
			return nil, err
		}
	}
	return nil, p.g.fell(ctx, in, err)
}

// broken says that the process must not be used again, or not be trusted to have
// all its memory.
func broken(err error) bool {
	if e, ok := errors.AsType[*EngineError](err); ok {
		return e.Fatal || e.Memory()
	}
	return errors.Is(err, errBroken)
}

func (p *GuardProgram) prepare(ctx context.Context, in *guarded) error {
	body, err := json.Marshal(guardPrepareMsg{p.sql, p.rel.Name, p.rel.Columns, p.out})
	if err != nil {
		return err
	}
	kind, answer, err := in.ask(ctx, p.g.o.Timeout, guardPrepare, body)
	if err != nil { // no record is to blame
		return fmt.Errorf("prepare a statement in another process: %w", p.g.fell(ctx, in, err))
	}
	if kind != guardReady {
		return guardError(kind, answer)
	}
	p.in, p.id = in, in.prepared
	in.prepared++
	return nil
}

// Close forgets the statement.
func (p *GuardProgram) Close() error {
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	if p.g.programs--; p.g.programs == 0 {
		p.g.end()
	}
	return nil
}

// Running says whether there is a process.
func (g *Guard) Running() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.p != nil
}

// Close ends the process.
func (g *Guard) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.end()
	return nil
}

// end ends the process if there is one. mu is held.
func (g *Guard) end() {
	if g.p != nil {
		g.p.end()
		g.p = nil
	}
}

// fell is the end of a process that did not answer. When ctx has ended, that is
// why; else it is a *CrashError. mu is held.
func (g *Guard) fell(ctx context.Context, p *guarded, err error) error {
	p.end()
	g.p = nil
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e := &CrashError{Message: "DuckDB crashed on this record"}
	var engine *EngineError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		e.Message = fmt.Sprintf("DuckDB was not done with this record after %v", g.o.Timeout)
	case errors.As(err, &engine) && engine.Memory():
		why, _, _ := strings.Cut(engine.Message, "\n") // advice follows
		e.Message = "DuckDB ran out of memory on this record: " + why
	case broken(err):
		e.Message = "DuckDB broke on this record: " + err.Error()
	case p.words.text() != "":
		e.Message += ": " + p.words.text()
	}
	g.o.Logger.Warn("a process that evaluates with care ended", "reason", e.Message, "state", p.cmd.ProcessState, "error", err)
	return e
}

// process is the running process, which it starts if there is none. mu is held.
func (g *Guard) process(ctx context.Context) (*guarded, error) {
	if g.closed {
		return nil, ErrClosed
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if g.p != nil {
		select {
		case <-g.p.gone:
			g.end()
		default:
			return g.p, nil
		}
	}
	p, err := startGuarded(g.o.Command)
	if err != nil {
		return nil, fmt.Errorf("start a process to evaluate in: %w", err)
	}
	set, err := json.Marshal(settingsMsg{Threads: 1, MemoryLimit: g.o.MemoryLimit, TempDir: g.o.TempDir})
	if err != nil {
		return nil, err
	}
	kind, body, err := p.ask(ctx, g.o.Timeout, frameSettings, set)
	if err == nil && kind != guardReady {
		err = guardError(kind, body)
	}
	if err != nil {
		p.end()
		return nil, fmt.Errorf("start a process to evaluate in (%v): %w", p.cmd.Args, err)
	}
	g.p = p
	return p, nil
}

// guarded is the process: the same binary, an empty environment, and one socket.
type guarded struct {
	cmd      *exec.Cmd
	conn     net.Conn
	r        *bufio.Reader
	gone     chan struct{} // closed when the process has been reaped
	prepared uint64
	words    lastWords
}

func startGuarded(command []string) (*guarded, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	p := &guarded{cmd: exec.Command(command[0], command[1:]...), conn: ours, r: bufio.NewReaderSize(ours, 64<<10), gone: make(chan struct{})}
	p.cmd.Env = []string{}
	p.cmd.Dir = "/"
	p.cmd.Stderr = &p.words
	p.cmd.ExtraFiles = []*os.File{theirs}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the end of the thread that starts a process kills it
		defer close(p.gone)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		ours.Close()
		return nil, err
	}
	return p, nil
}

// ask sends a frame and reads the answer. After an error the process is of no
// more use.
func (p *guarded) ask(ctx context.Context, wait time.Duration, kind byte, body []byte) (byte, []byte, error) {
	_ = p.conn.SetDeadline(time.Now().Add(wait))
	stop := context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })
	err := writeFrame(p.conn, kind, body)
	if err == nil {
		kind, body, err = readFrame(p.r, maxGuardFrame)
	}
	if !stop() {
		err = context.Cause(ctx) // it is being killed, even if it has answered
	}
	return kind, body, err
}

// end kills the process, if it lives, and frees what it had.
func (p *guarded) end() {
	p.conn.Close()
	_ = p.cmd.Process.Kill()
	<-p.gone
}

// lastWords keeps the beginning of what a process wrote to its standard error,
// which is where the Go runtime names the signal. Readers wait for the process.
type lastWords struct{ b []byte }

func (w *lastWords) Write(p []byte) (int, error) {
	w.b = append(w.b, p[:min(len(p), 200-len(w.b))]...)
	return len(p), nil
}

func (w *lastWords) text() string {
	line, _, _ := bytes.Cut(w.b, []byte("\n"))
	return strings.ToValidUTF8(string(bytes.TrimSpace(line)), "")
}

// Frames between the parent and the process of a Guard, beside frameSettings.
// The parent's questions are answered in turn by guardReady or guardData, or by
// guardFailed.
const (
	guardPrepare = 'P' // guardPrepareMsg; statements are numbered from 0
	guardRun     = 'U' // the statement's number as uint64, a batch as appendBatch writes it
	guardReady   = 'R'
	guardData    = 'D' // a batch
	guardFailed  = 'F' // guardFailedMsg
)

const maxGuardFrame = 256 << 20

type guardPrepareMsg struct {
	SQL      string          `json:"sql"`
	Relation string          `json:"relation"`
	Columns  []sqltype.Field `json:"columns"`
	Out      []sqltype.Field `json:"out"`
}

type guardFailedMsg struct {
	Value   bool   `json:"value,omitempty"`  // an EvalError
	Engine  bool   `json:"engine,omitempty"` // an EngineError
	Kind    string `json:"kind,omitempty"`
	Message string `json:"message"`
	Fatal   bool   `json:"fatal,omitempty"`
}

func guardFailure(err error) guardFailedMsg {
	if e, ok := errors.AsType[*EvalError](err); ok {
		return guardFailedMsg{Value: true, Kind: e.Kind, Message: e.Message}
	}
	if e, ok := errors.AsType[*EngineError](err); ok {
		return guardFailedMsg{Engine: true, Kind: e.Kind, Message: e.Message, Fatal: e.Fatal}
	}
	return guardFailedMsg{Message: err.Error()}
}

// guardError reads an answer that is no result.
func guardError(kind byte, body []byte) error {
	var m guardFailedMsg
	if kind != guardFailed || json.Unmarshal(body, &m) != nil {
		return errBroken
	}
	switch {
	case m.Value:
		return &EvalError{Kind: m.Kind, Message: m.Message}
	case m.Engine:
		return &EngineError{Kind: m.Kind, Message: m.Message, Fatal: m.Fatal}
	}
	return errors.New(m.Message)
}

// encodeSlice appends a batch that may be a slice of another, in the inside form.
func encodeSlice(b []byte, cols []sqltype.Field, rec arrow.RecordBatch) ([]byte, error) {
	b = binary.LittleEndian.AppendUint64(b, uint64(rec.NumRows()))
	for i, c := range cols {
		arr := rec.Column(i)
		if ext, ok := arr.(array.ExtensionArray); ok {
			arr = ext.Storage()
		}
		whole, err := array.Concatenate([]arrow.Array{arr}, memory.DefaultAllocator)
		if err != nil {
			return nil, fmt.Errorf("copy column %s: %w", c.Name, err)
		}
		b, err = appendArray(b, c.Type, whole.Data())
		whole.Release()
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
	}
	return b, nil
}
