//go:build duckdb_arrow

package duckext

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"weir/state/plan"
)

// GuardWorker is the body of a Guard's process, run by the hidden verb of the
// same binary. It answers on the socket that it was started with until the
// parent closes it, and returns the process's exit code.
func GuardWorker(ctx context.Context) int {
	control := os.NewFile(controlFD, "control")
	if control == nil {
		return exitFailed
	}
	r := bufio.NewReader(control)
	kind, body, err := readFrame(r, maxGuardFrame)
	var set settingsMsg
	if err != nil || kind != frameSettings || json.Unmarshal(body, &set) != nil {
		return exitFailed
	}
	w := &guardWorker{ctx: ctx}
	if err := w.open(set); err != nil {
		_ = writeJSON(control, guardFailed, guardFailure(err))
		return exitFailed
	}
	defer w.close()
	if err := writeFrame(control, guardReady, nil); err != nil {
		return exitFailed
	}
	for {
		kind, body, err := readFrame(r, maxGuardFrame)
		if err != nil {
			return exitOK // the parent is done
		}
		answer, data, err := w.answer(kind, body)
		if err == nil {
			err = writeFrame(control, answer, data)
		} else {
			err = writeJSON(control, guardFailed, guardFailure(err))
		}
		if err != nil {
			return exitFailed
		}
	}
}

type guardWorker struct {
	ctx      context.Context
	engine   *Engine
	programs []*Program
	msgs     []guardPrepareMsg // by program
}

// open gives the process what it needs and no more: it leaves no core behind,
// and when memory runs out it goes before its parent.
func (w *guardWorker) open(set settingsMsg) (err error) {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("limit the process: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("confine the process: %w", err)
	}
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // as well as it can
	w.engine, err = Open(Options{Threads: set.Threads, MemoryLimit: set.MemoryLimit, TempDir: set.TempDir})
	return err
}

func (w *guardWorker) close() {
	for _, p := range w.programs {
		_ = p.Close()
	}
	_ = w.engine.Close()
}

func (w *guardWorker) answer(kind byte, body []byte) (byte, []byte, error) {
	switch kind {
	case guardPrepare:
		var m guardPrepareMsg
		if err := json.Unmarshal(body, &m); err != nil {
			return 0, nil, err
		}
		p, err := w.engine.Prepare(w.ctx, m.SQL, plan.Relation{Name: m.Relation, Columns: m.Columns}, m.Out)
		if err != nil {
			return 0, nil, err
		}
		w.programs, w.msgs = append(w.programs, p), append(w.msgs, m)
		return guardReady, nil, nil
	case guardRun:
		data, err := w.run(body)
		return guardData, data, err
	}
	return 0, nil, fmt.Errorf("frame %q", kind)
}

func (w *guardWorker) run(body []byte) ([]byte, error) {
	if len(body) < 8 || binary.LittleEndian.Uint64(body) >= uint64(len(w.programs)) {
		return nil, errBroken
	}
	id := binary.LittleEndian.Uint64(body)
	recs, err := decodeBatches(w.msgs[id].Columns, body[8:])
	if err != nil {
		return nil, err
	}
	if len(recs) != 1 {
		return nil, errBroken
	}
	out, err := w.programs[id].Run(w.ctx, recs[0])
	if err != nil {
		return nil, err
	}
	defer out.Release()
	data, err := appendBatch(nil, w.msgs[id].Out, out)
	if err == nil && len(data) > maxGuardFrame {
		err = &EvalError{Message: fmt.Sprintf("a result of %d bytes is too large to come from another process", len(data))}
	}
	return data, err
}
