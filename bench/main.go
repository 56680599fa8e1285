// Command bench measures a built Weir and prints one figure a line, as
// name: value unit. Broker and generator run in this process; the figures are of
// the appliance's process and its children alone.
//
//	make bench                        everything
//	go run ./bench -only four_views   what has this in its name
//	go run ./bench -events 1000000    a smaller log
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

type config struct {
	weir   string
	events int
	dir    string
	only   string
}

type benchmark struct {
	name string
	run  func(ctx context.Context, c *config) error
}

func main() {
	var c config
	flag.StringVar(&c.weir, "weir", "bin/weir", "the binary to measure")
	flag.IntVar(&c.events, "events", 5_000_000, "events in the log")
	flag.StringVar(&c.only, "only", "", "run only what has this in its name")
	flag.Parse()
	if err := run(&c); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(c *config) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if c.weir, err = filepath.Abs(c.weir); err != nil {
		return err
	}
	if c.dir, err = os.MkdirTemp("", "weir-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(c.dir)
	for _, b := range []benchmark{{"ingest", ingest}} {
		if c.only != "" && b.name != "ingest" && !strings.Contains(b.name, c.only) {
			continue
		}
		if err := b.run(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return nil
}

// report prints one figure.
func report(name string, value float64, unit string) {
	fmt.Printf("%s: %.4g %s\n", name, value, unit)
}
