package appliance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
	// exitPartial: there was an answer, and it says of itself that it is not whole. A
	// script may try again later.
	exitPartial = 3
	// exitDisk: the disk refused a write of the state; see state.Options.
	exitDisk = 70
)

type cli struct {
	Demo       demoCmd       `cmd:"" help:"Run the demo: an online shop, with a broker of its own."`
	Run        runCmd        `cmd:"" help:"Run the sources and views of SQL files."`
	SQL        sqlCmd        `cmd:"" name:"sql" help:"Send a statement to a running appliance."`
	Checkpoint checkpointCmd `cmd:"" help:"Look at checkpoints, query, compare, change and merge them, without a running appliance."`
	Restore    restoreCmd    `cmd:"" help:"Make a data directory from a checkpoint."`
	Bundle     bundleCmd     `cmd:"" help:"Write a checkpoint as one file, to hand it over."`
	Open       openCmd       `cmd:"" help:"Show a bundle in the console, read only and without Kafka."`
	Reset      resetCmd      `cmd:"" help:"Delete a data directory, after asking."`
	Version    versionCmd    `cmd:"" help:"Print the version."`

	Worker workerCmd `cmd:"" name:"query-worker" hidden:""`
	Batch  batchCmd  `cmd:"" name:"batch-worker" hidden:""`
}

// streams are what a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// ended is how kong's own exit (after --help) comes back to Main.
type ended struct{ code int }

// Main runs the command line and returns the exit code: 0, 1 for an error, 2
// for wrong usage. A panic of this goroutine is an error, and tells where it was.
func Main(args []string, in io.Reader, out, errw io.Writer) int {
	s := streams{in, &told{Writer: out}, errw}
	return lost(s, caught(s.err, func() int { return run(args, s) }))
}

// caught gives the exit code of f, also when it ends by a panic.
func caught(errw io.Writer, f func() int) (code int) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case ended:
			code = r.code
		default:
			fmt.Fprintf(errw, "weir: internal error: %v\n%s", r, debug.Stack())
			code = exitError
		}
	}()
	return f()
}

// told is a standard output that remembers that it could not be written: commands
// say what they did last, and what is lost then is no success.
type told struct {
	io.Writer
	mu  sync.Mutex
	err error // the first
}

func (t *told) Write(p []byte) (int, error) {
	n, err := t.Writer.Write(p)
	if err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.err = cmp.Or(t.err, err)
	}
	return n, err
}

// lost makes an error of a command that succeeded when not all that it said was
// written.
func lost(s streams, code int) int {
	t, ok := s.out.(*told)
	if !ok || code == exitError || code == exitUsage {
		return code
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		return code
	}
	fmt.Fprintf(s.err, "weir: the command did its work, but what it says is lost: %v\n", t.err)
	return exitError
}

// unwrapped is the standard output itself: who asks a terminal for its width, or
// compares files, has to see it.
func unwrapped(w io.Writer) io.Writer {
	if t, ok := w.(*told); ok {
		return t.Writer
	}
	return w
}

func run(args []string, s streams) int {
	var c cli
	parser, err := kong.New(&c,
		kong.Name("weir"),
		kong.Description("Weir keeps SQL aggregates over Kafka topics running, and lets anyone query them.\n\nExit status: 0 done, 1 an error, 2 wrong usage. Where a command did its work and standard output cannot be written it says so, and the status is 1."),
		kong.Writers(unwrapped(s.out), s.err),
		kong.Exit(func(code int) { panic(ended{code}) }),
		kong.UsageOnError(),
		kong.NamedMapper("path", kong.MapperFunc(decodePath)),
		kong.Vars{"data": defaultData("NAME")},
		kong.BindTo(s.out, (*io.Writer)(nil)),
		kong.Bind(s),
	)
	if err != nil {
		fmt.Fprintln(s.err, "weir:", err)
		return exitError
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintln(s.err, "weir:", err)
		return exitUsage
	}
	if err := notEmpty(kctx); err != nil {
		fmt.Fprintln(s.err, "weir:", err)
		return exitUsage
	}
	ctx, stop := signals(s.err)
	defer stop()
	kctx.BindTo(ctx, (*context.Context)(nil))
	kctx.Bind(slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelInfo})))
	if err := kctx.Run(); err != nil {
		if code, ok := errors.AsType[exitCode](err); ok {
			return int(code)
		}
		fmt.Fprintln(s.err, "weir:", strings.TrimSpace(err.Error()))
		return exitError
	}
	return exitOK
}

// exitCode is an error that has been reported already.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// signals gives a context that ends at SIGINT or SIGTERM. A second signal ends
// the process at once.
func signals(errw io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	c := make(chan os.Signal, 2)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case <-c:
		case <-ctx.Done():
			return
		}
		cancel()
		signal.Reset(syscall.SIGINT, syscall.SIGTERM)
	}()
	return ctx, func() { signal.Stop(c); cancel() }
}
