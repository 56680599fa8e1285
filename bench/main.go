// Command bench measures a built Weir and prints one figure a line, as
// name: value unit. Broker and generator run in this process; the figures are of
// the appliance's process and its children alone.
//
//	make bench                        everything
//	go run ./bench -only four_views   what has this in its name
//	go run ./bench -events 1000000    a smaller log
//	go run ./bench -only readers      readers beside ingest, for phases of 10 s
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

type config struct {
	weir   string
	events int
	dir    string
	only   string
	rate   float64       // events a second beside readers; 0 is half of the full rate
	phase  time.Duration // of readers of one kind
}

// wants says whether -only asks for a figure's group.
func (c *config) wants(name string) bool { return strings.Contains(name, c.only) }

type benchmark struct {
	name  string
	parts []string // what -only can name
	run   func(ctx context.Context, c *config) error
}

func main() {
	var c config
	flag.StringVar(&c.weir, "weir", "bin/weir", "the binary to measure")
	flag.IntVar(&c.events, "events", 5_000_000, "events in the log")
	flag.StringVar(&c.only, "only", "", "run only what has this in its name")
	flag.Float64Var(&c.rate, "rate", 0, "events a second beside readers; 0 is half of what was measured")
	flag.DurationVar(&c.phase, "phase", 10*time.Second, "how long readers of one kind read")
	constant := flag.Bool("constant", false, "serve the same answer to everything, to be measured against; the benchmark starts this itself")
	url := flag.String("ask", "", "ask a URL again and again, and print the times of answers; the benchmark starts this itself")
	keys := flag.Int64("keys", 1, "of which numbers -ask puts one in the place of KEY")
	flag.Parse()
	do := func() error { return run(&c) }
	switch {
	case *constant:
		do = serveConstant
	case *url != "":
		do = func() error { return ask(*url, *keys) }
	}
	if err := do(); err != nil {
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
	for _, b := range []benchmark{
		{"ingest", []string{"ingest_one_view_1k_groups", "ingest_four_views", "ingest_one_view_1m_groups"}, ingest},
		{"readers", names("readers", phases), readers},
		{"freshness", []string{"freshness_few_groups", "freshness_lookup", "freshness_floor"}, freshness},
		{"start", []string{"start", "disk"}, start},
	} {
		if !slices.ContainsFunc(b.parts, c.wants) {
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

func names(prefix string, phases []phase) (all []string) {
	for _, p := range phases {
		all = append(all, prefix+"_"+p.name)
	}
	return all
}
