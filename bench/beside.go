package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/appliance/devbroker"
)

// clients is how many readers ask at once.
const clients = 8

// A phase is what readers do for a while beside ingest at half of its full rate.
type phase struct {
	name    string
	clients int
	costs   bool          // is what one answer takes worth a line
	pause   time.Duration // between the questions of one client
	asker   *asker        // a client of another process, instead of ask
	ask     func(ctx context.Context, b *bed, rng *rand.Rand) error
	report  func(b *bed, answers float64, took []time.Duration) // answers a second, sorted times
}

var phases = []phase{
	{name: "alone"},
	{name: "scans", clients: clients, costs: true, ask: func(ctx context.Context, b *bed, _ *rand.Rand) error {
		return b.sql(ctx, "SELECT sum(n), max(total) FROM v", nil)
	}, report: func(b *bed, answers float64, _ []time.Duration) {
		report("readers_scans", answers*float64(b.groups), "groups/s")
	}},
	{name: "keyed", clients: clients, costs: true, ask: func(ctx context.Context, b *bed, rng *rand.Rand) error {
		return b.sql(ctx, fmt.Sprintf("SELECT * FROM v WHERE user_id = %d", rng.Int64N(1_000_000)), nil)
	}, report: func(_ *bed, answers float64, took []time.Duration) {
		report("readers_keyed", answers, "answers/s")
		report("readers_keyed_p99", millis(quantile(took, .99)), "ms")
	}},
	{name: "lookups", clients: clients, costs: true, ask: lookup, report: func(_ *bed, answers float64, took []time.Duration) {
		report("readers_lookups", answers, "answers/s")
		report("readers_lookups_p99", millis(quantile(took, .99)), "ms")
	}},
	single("readers", "lookup", "/api/v1/views/v/lookup?user_id=KEY", 1_000_000, appliance),
	single("readers", "floor", "/", 1, floor),
	{name: "checkpoint", clients: 1, pause: time.Second, ask: func(ctx context.Context, b *bed, _ *rand.Rand) error {
		return b.sql(ctx, "CHECKPOINT", nil)
	}, report: func(_ *bed, _ float64, took []time.Duration) {
		report("readers_checkpoint_p50", millis(quantile(took, .5)), "ms")
	}},
}

func lookup(ctx context.Context, b *bed, rng *rand.Rand) error {
	// A few of a million users may never have come; they are 404.
	err := b.get(ctx, fmt.Sprintf("/api/v1/views/v/lookup?user_id=%d", rng.Int64N(1_000_000)), nil)
	if err != nil && strings.Contains(err.Error(), "404") {
		return nil
	}
	return err
}

// bed is an appliance that has caught up on the log.
type bed struct {
	*process
	c      *config
	broker *devbroker.Broker
	floor  *process
	data   string
	args   []string
	full   float64 // events a second while it caught up
	groups int64
}

const (
	manyGroups = "CREATE MATERIALIZED VIEW v AS SELECT user_id, count(*) AS n, sum(amount) AS total FROM events GROUP BY user_id;"
	fewGroups  = "CREATE MATERIALIZED VIEW v AS SELECT shop, count(*) AS n, sum(amount) AS total, avg(price) AS price FROM events GROUP BY shop;"
)

// makeBed fills a log and starts an appliance on it.
func makeBed(ctx context.Context, c *config, name, views string) (_ *bed, err error) {
	b := &bed{c: c, data: filepath.Join(c.dir, name)}
	if b.broker, err = devbroker.Start(devbroker.Options{Dir: filepath.Join(c.dir, name+"-broker"), RetentionBytes: 8 << 30}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if err := fill(ctx, b.broker, "events", c.events); err != nil {
		return nil, err
	}
	sql := filepath.Join(c.dir, name+".sql")
	if err := os.WriteFile(sql, []byte(source+views), 0o600); err != nil {
		return nil, err
	}
	b.args = []string{"run", sql, "--brokers", b.broker.Addr(), "--data", b.data, "--addr", "127.0.0.1:0"}
	if b.floor, err = beginFloor(ctx, c); err != nil {
		return nil, err
	}
	if b.process, err = begin(ctx, c, b.args...); err != nil {
		return nil, err
	}
	return b, b.catchUp(ctx)
}

// catchUp waits until the log is committed, and measures how fast that went.
func (b *bed) catchUp(ctx context.Context) error {
	var epoch uint64
	var first, last commit
	for {
		var v viewJSON
		if err := b.get(ctx, fmt.Sprintf("/api/v1/views/v?timeout=60s&min_epoch=%d", epoch+1), &v); err != nil {
			return err
		}
		epoch, b.groups = v.Epoch, v.Groups
		last = commit{time.Now(), 0}
		for _, p := range v.Positions {
			last.records += p.Next
		}
		if first.records == 0 {
			first = last
		}
		if last.records >= int64(b.c.events) {
			break
		}
	}
	b.full = float64(last.records-first.records) / last.at.Sub(first.at).Seconds()
	return nil
}

func (b *bed) close() error {
	var errs []error
	if b.process != nil {
		errs = append(errs, b.end())
	}
	b.floor.endFloor()
	return errors.Join(append(errs, b.broker.Close(), os.RemoveAll(b.data))...)
}

// rate is half of the full rate, or what the command line says.
func (b *bed) rate() float64 {
	if b.c.rate > 0 {
		return b.c.rate
	}
	return b.full / 2
}

// readers measures readers beside ingest into a view of a million groups.
func readers(ctx context.Context, c *config) error {
	b, err := makeBed(ctx, c, "readers", manyGroups)
	if err != nil {
		return err
	}
	return errors.Join(b.costs(ctx), b.beside(ctx, "readers", phases), b.close())
}

// costs measures what one answer takes of the processors, Weir's and its query
// processes' together, while nothing else is done.
func (b *bed) costs(ctx context.Context) error {
	for _, p := range phases {
		if !p.costs || !b.c.wants("readers_"+p.name) {
			continue
		}
		rng := rand.New(rand.NewPCG(7, 8))
		own, children := b.usage()
		n := 0
		for start := time.Now(); time.Since(start) < b.c.phase/3; n++ {
			if err := p.ask(ctx, b, rng); err != nil {
				return err
			}
		}
		own2, children2 := b.usage()
		report("readers_"+p.name+"_cost", millis(own2-own+children2-children)/float64(n), "cpu-ms/answer")
		report("readers_"+p.name+"_cost_own", millis(own2-own)/float64(n), "cpu-ms/answer")
	}
	return nil
}

// freshness measures it at half of the full rate, of a small view, and look-ups there.
func freshness(ctx context.Context, c *config) error {
	b, err := makeBed(ctx, c, "freshness", fewGroups)
	if err != nil {
		return err
	}
	return errors.Join(b.beside(ctx, "freshness", []phase{
		{name: "few_groups"},
		single("freshness", "lookup", "/api/v1/views/v/lookup?shop=shop-KEY", shops, appliance),
		single("freshness", "floor", "/", 1, floor),
	}), b.close())
}

// beside runs phases one after the other while events come in.
func (b *bed) beside(ctx context.Context, name string, phases []phase) error {
	report(name+"_full_rate", b.full, "events/s")
	l, err := newLoad(ctx, b.broker, "events", b.rate())
	if err != nil {
		return err
	}
	defer l.tape.client.Close()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	seen := &commits{p: b.process, l: l}
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{l.run, seen.run} {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				stop(err)
			}
		})
	}
	for _, p := range phases {
		if !b.c.wants(name + "_" + p.name) {
			continue
		}
		if err := b.phase(ctx, name, &p, l, seen); err != nil {
			stop(err)
		}
	}
	err = context.Cause(ctx)
	stop(nil)
	wg.Wait()
	return err
}

// phase runs one and prints its figures.
func (b *bed) phase(ctx context.Context, name string, p *phase, l *load, seen *commits) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var counting atomic.Bool
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	for i := range p.clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(5, uint64(i)))
			var own []time.Duration
			for ctx.Err() == nil {
				start := time.Now()
				if err := p.ask(ctx, b, rng); err != nil {
					if ctx.Err() == nil {
						stop(err)
					}
					break
				}
				if counting.Load() {
					own = append(own, time.Since(start))
				}
				if p.pause > 0 {
					sleep(ctx, p.pause)
				}
			}
			mu.Lock()
			took = append(took, own...)
			mu.Unlock()
		})
	}
	if p.asker != nil {
		wg.Go(func() {
			if err := p.asker.run(ctx, b, func(d time.Duration) {
				if counting.Load() {
					took = append(took, d)
				}
			}); err != nil {
				stop(err)
			}
		})
	}
	sleep(ctx, 2*time.Second) // until it runs evenly
	counting.Store(true)
	from, sent := time.Now(), l.sent.Load()
	own, children := b.usage()
	sleep(ctx, b.c.phase)
	counting.Store(false)
	to := time.Now()
	own2, children2 := b.usage()
	offered := float64(l.sent.Load()-sent) / to.Sub(from).Seconds()
	stop(nil)
	wg.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	slices.Sort(took)
	s := seen.between(from, to)
	at := name + "_" + p.name
	if p.report != nil {
		p.report(b, float64(len(took))/to.Sub(from).Seconds(), took)
	}
	report(at+"_offered", offered, "events/s")
	report(at+"_kept", 100*s.rate/b.rate(), "%")
	report(at+"_fresh_p50", millis(quantile(s.fresh, .5)), "ms")
	report(at+"_fresh_p99", millis(quantile(s.fresh, .99)), "ms")
	report(at+"_commit_gap", millis(s.gap), "ms")
	report(at+"_cpu", (own2-own).Seconds()/to.Sub(from).Seconds(), "cores")
	report(at+"_query_cpu", (children2-children).Seconds()/to.Sub(from).Seconds(), "cores")
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
