package duckext

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/state/sqltype"
)

// grace is how long a query may go on after it was interrupted.
const grace = 500 * time.Millisecond

// A child is one query process. It runs one query at a time.
type child struct {
	pool    *Pool
	cmd     *exec.Cmd
	control net.Conn
	r       *bufio.Reader
	data    []net.Conn
	dir     string
	gone    chan struct{} // closed when the process has been reaped
	serving sync.WaitGroup

	queries int
	retire  bool

	mu     sync.Mutex
	reason error // why it was killed
	lent   *lending
}

// spawn starts a process: the same binary, an empty environment, a directory
// of its own, and sockets as its only link.
func (p *Pool) spawn() (_ *child, err error) {
	dir, err := os.MkdirTemp(p.o.TempDir, "weir-query-")
	if err != nil {
		return nil, fmt.Errorf("start a query process: %w", err)
	}
	c := &child{pool: p, dir: dir, gone: make(chan struct{})}
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
		if err != nil {
			err = fmt.Errorf("start a query process: %w", err)
			c.closeSockets()
			os.RemoveAll(dir)
		}
	}()
	for i := range 1 + p.sockets() {
		ours, their, err := socketPair()
		if err != nil {
			return nil, err
		}
		theirs = append(theirs, their)
		if i == 0 {
			c.control = ours
		} else {
			c.data = append(c.data, ours)
		}
	}
	c.r = bufio.NewReaderSize(c.control, 64<<10)
	c.cmd = exec.Command(p.o.Command[0], p.o.Command[1:]...)
	c.cmd.Env = []string{}
	c.cmd.Dir = dir
	c.cmd.ExtraFiles = theirs
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = c.cmd.Wait()
		close(c.gone)
	}()
	return c, nil
}

// sockets is how many threads of a process can ask for data at once.
func (p *Pool) sockets() int { return p.o.Threads + 1 }

func socketPair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}

// ready sends the settings and waits until the process has opened DuckDB.
func (c *child) ready() error {
	o := &c.pool.o
	each := o.Memory / int64(o.Size)
	set := settingsMsg{
		Threads: o.Threads, Sockets: len(c.data), AddressSpace: max(o.AddressSpace, 0), NoGate: o.noGate,
		MemoryLimit: strconv.FormatInt(each*5/8>>20, 10) + "MiB",
	}
	_ = c.control.SetDeadline(time.Now().Add(30 * time.Second))
	defer c.control.SetDeadline(time.Time{})
	if err := writeJSON(c.control, frameSettings, set); err != nil {
		return fmt.Errorf("start a query process: %w", err)
	}
	kind, body, err := readFrame(c.r, maxFromChild)
	switch {
	case err != nil:
		return fmt.Errorf("the query process ended at its start (%v): %w", c.cmd.Args, err)
	case kind == frameEnd:
		var m endMsg
		_ = json.Unmarshal(body, &m)
		return fmt.Errorf("the query process cannot start: %s", m.Message)
	case kind != frameReady:
		return fmt.Errorf("the query process does not speak this protocol (frame %q)", kind)
	}
	for _, conn := range c.data {
		c.serving.Go(func() { c.serve(conn) })
	}
	return nil
}

func (c *child) alive() bool {
	select {
	case <-c.gone:
		return false
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.reason == nil
	}
}

// kill ends the process at once; the first reason counts.
func (c *child) kill(reason error) {
	c.mu.Lock()
	if c.reason == nil {
		c.reason = reason
	}
	c.mu.Unlock()
	_ = c.cmd.Process.Kill()
}

// destroy kills the process and frees what it had.
func (c *child) destroy() {
	c.kill(errors.New("discarded"))
	<-c.gone
	c.closeSockets()
	c.serving.Wait()
	if err := os.RemoveAll(c.dir); err != nil {
		c.pool.o.Logger.Warn("a query process left files behind", "error", err)
	}
}

func (c *child) closeSockets() {
	if c.control != nil {
		c.control.Close()
	}
	for _, d := range c.data {
		d.Close()
	}
}

// query runs one query in the process. The process may be dead afterwards.
func (c *child) query(ctx context.Context, r Request) (*Result, error) {
	c.queries++
	finished := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { c.watch(ctx, finished) })
	res, err := c.converse(ctx, r)
	close(finished)
	watch.Wait()
	if epoch := c.endLease(); res != nil {
		res.Epoch = epoch
	}
	return res, err
}

// watch keeps a query within its time and memory.
func (c *child) watch(ctx context.Context, finished <-chan struct{}) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	limit := c.pool.o.Memory / int64(c.pool.o.Size)
	stopped := ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case <-finished:
			return
		case <-stopped:
			stopped = nil
			_ = c.control.SetWriteDeadline(time.Now().Add(grace))
			_ = writeFrame(c.control, frameInterrupt, nil)
			t := time.NewTimer(grace)
			defer t.Stop()
			late = t.C
		case <-late:
			c.kill(context.Cause(ctx))
			return
		case <-tick.C:
			if n := resident(c.cmd.Process.Pid); n > limit {
				c.kill(errNoMemory)
				return
			}
		}
	}
}

// resident is the anonymous memory of a process in bytes, 0 when not known.
func resident(pid int) int64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	f := bytes.Fields(b)
	if len(f) < 3 {
		return 0
	}
	all, _ := strconv.ParseInt(string(f[1]), 10, 64)
	shared, _ := strconv.ParseInt(string(f[2]), 10, 64)
	return (all - shared) * int64(os.Getpagesize())
}

// converse speaks the protocol of one query. Any breach of it kills the process.
func (c *child) converse(ctx context.Context, r Request) (*Result, error) {
	q := queryMsg{SQL: r.SQL, Params: r.Params, MaxRows: r.MaxRows, MaxBytes: r.MaxBytes}
	_ = c.control.SetWriteDeadline(time.Time{})
	if err := writeJSON(c.control, frameQuery, q); err != nil {
		return nil, c.death(err)
	}
	res := &Result{}
	var leaseErr error
	var cols []sqltype.Field
	var stream []byte
	for {
		kind, body, err := readFrame(c.r, maxFromChild)
		if err != nil {
			return nil, c.death(err)
		}
		switch kind {
		case frameNames:
			if err := c.lend(ctx, body, &leaseErr); err != nil {
				return nil, c.breach(err)
			}
		case frameColumns:
			var head []columnMsg
			if err := json.Unmarshal(body, &head); err != nil || len(head) == 0 || len(head) > 100_000 {
				return nil, c.breach(fmt.Errorf("columns: %w", err))
			}
			for _, h := range head {
				res.Columns = append(res.Columns, ResultColumn{h.Name, h.Type})
				cols = append(cols, sqltype.Field{Name: h.Name, Type: h.As})
			}
		case frameBatch:
			if int64(len(stream)+len(body)) > 2*r.MaxBytes+maxFromChild {
				return nil, c.breach(errors.New("a result larger than was allowed"))
			}
			stream = append(stream, body...)
		case frameEnd:
			var end endMsg
			if err := json.Unmarshal(body, &end); err != nil {
				return nil, c.breach(err)
			}
			c.retire = c.retire || end.Retire
			if leaseErr != nil {
				return nil, leaseErr
			}
			if end.Code != "" {
				return nil, &QueryError{Code: end.Code, Message: end.Message, Offset: min(end.Offset, len(r.SQL))}
			}
			return c.finish(res, cols, stream, end)
		default:
			return nil, c.breach(fmt.Errorf("frame %q", kind))
		}
	}
}

// finish decodes the result.
func (c *child) finish(res *Result, cols []sqltype.Field, stream []byte, end endMsg) (*Result, error) {
	if cols == nil {
		return nil, c.breach(errors.New("a result without columns"))
	}
	recs, err := decodeBatches(cols, stream)
	if err != nil {
		return nil, c.breach(err)
	}
	res.Schema, res.Batches, res.Truncated = insideSchema(cols), recs, end.Truncated
	for _, rec := range recs {
		res.Rows += rec.NumRows()
	}
	return res, nil
}

// breach ends a process that does not keep to the protocol.
func (c *child) breach(err error) error {
	e := &QueryError{Code: CodeCrashed, Message: "the query process gave a broken answer and was stopped", Offset: -1}
	c.pool.o.Logger.Error("a query process broke its protocol", "error", err)
	c.kill(e)
	return e
}

// death says why the process is gone.
func (c *child) death(err error) error {
	_ = c.cmd.Process.Kill() // it closed its socket, or is about to be gone
	<-c.gone
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason != nil {
		return c.reason
	}
	state := c.cmd.ProcessState
	e := &QueryError{Code: CodeCrashed, Message: "the query crashed its process (" + state.String() + "); other queries are not affected", Offset: -1}
	c.reason = e
	c.pool.o.Logger.Warn("a query process died", "state", state.String(), "error", err)
	return e
}
