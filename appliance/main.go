package appliance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
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
// for wrong usage.
func Main(args []string, in io.Reader, out, errw io.Writer) (code int) {
	defer func() {
		if e, ok := recover().(ended); ok {
			code = e.code
		} else if !ok && e != (ended{}) {
			panic(e)
		}
	}()
	return run(args, streams{in, out, errw})
}

func run(args []string, s streams) int {
	var c cli
	parser, err := kong.New(&c,
		kong.Name("weir"),
		kong.Description("Weir keeps SQL aggregates over Kafka topics running, and lets anyone query them.\n\nExit status: 0 done, 1 an error, 2 wrong usage."),
		kong.Writers(s.out, s.err),
		kong.Exit(func(code int) { panic(ended{code}) }),
		kong.UsageOnError(),
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
