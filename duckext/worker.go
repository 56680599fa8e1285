//go:build duckdb_arrow

package duckext

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// Descriptors of a query process: control, then data sockets.
const (
	controlFD = 3
	dataFD    = 4
)

// Worker is the body of a query process, run by the hidden verb of the same
// binary. It serves queries over the sockets that it was started with until the
// parent closes them or ctx ends, and returns the process's exit code.
func Worker(ctx context.Context) int {
	control := os.NewFile(controlFD, "control")
	if control == nil {
		return exitFailed
	}
	w := &worker{ctx: ctx, control: control, leases: make(chan leaseMsg, 1), queries: make(chan queryMsg, 1)}
	r := bufio.NewReader(control)
	kind, body, err := readFrame(r, maxFromParent)
	var set settingsMsg
	if err != nil || kind != frameSettings || json.Unmarshal(body, &set) != nil {
		return exitFailed
	}
	if err := w.confine(set); err != nil {
		_ = writeJSON(control, frameEnd, endMsg{Code: CodeFailed, Message: err.Error()})
		return exitFailed
	}
	var files []*os.File
	for i := range set.Sockets {
		files = append(files, os.NewFile(uintptr(dataFD+i), "data"))
	}
	w.line = newLine(files)
	w.gate = !set.NoGate
	w.parts = 4 * set.Threads
	if set.Threads == 1 {
		w.parts = 1
	}
	w.options = Options{Threads: set.Threads, MemoryLimit: set.MemoryLimit, TempDir: "spill"}
	if err := w.open(); err != nil {
		_ = writeJSON(control, frameEnd, endMsg{Code: CodeFailed, Message: err.Error()})
		return exitFailed
	}
	if err := writeFrame(control, frameReady, nil); err != nil {
		return exitFailed
	}
	go w.listen(r)
	for q := range w.queries {
		if !w.serve(q) {
			return exitFailed
		}
	}
	return exitOK
}

// confine takes from the process what it will not need. The parent has already
// given it an empty environment, a directory of its own and the lowest priority.
func (w *worker) confine(set settingsMsg) error {
	limits := map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: 64, unix.RLIMIT_FSIZE: 4 << 30}
	if set.AddressSpace > 0 {
		limits[unix.RLIMIT_AS] = uint64(set.AddressSpace)
		debug.SetMemoryLimit(set.AddressSpace / 4)
	}
	for which, n := range limits {
		var have unix.Rlimit
		if err := unix.Getrlimit(which, &have); err != nil {
			return fmt.Errorf("limit the query process: %w", err)
		}
		n = min(n, have.Max) // a limit of the system's may be lower, and stays
		if err := unix.Setrlimit(which, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return fmt.Errorf("limit the query process: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("confine the query process: %w", err)
	}
	runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), set.Threads+1))
	return nil
}

// listen takes frames from the parent. Its end ends the process, at once: what
// runs may not be interruptible.
func (w *worker) listen(r *bufio.Reader) {
	for {
		kind, body, err := readFrame(r, maxFromParent)
		if err != nil {
			os.Exit(exitOK)
		}
		switch kind {
		case frameInterrupt:
			w.mu.Lock()
			if w.cancel != nil {
				w.cancel(errInterrupted)
			}
			w.mu.Unlock()
		case frameLease:
			var m leaseMsg
			if json.Unmarshal(body, &m) != nil {
				os.Exit(exitFailed)
			}
			w.leases <- m
		case frameQuery:
			var q queryMsg
			if json.Unmarshal(body, &q) != nil {
				os.Exit(exitFailed)
			}
			w.begin()
			w.queries <- q
		}
	}
}

var errInterrupted = errors.New("the query was stopped")
