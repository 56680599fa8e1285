package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/ingest/kafka"
	"weir/state"
)

// Options are what a Pipeline needs. Logger may be nil, and so may Careful with
// Inflight.
type Options struct {
	Store     *state.Store
	Evaluator Evaluator
	// Careful runs the same statements where a crash does no harm, and makes an
	// *EvalError of it. It evaluates the batches that, as the file Inflight says,
	// were being evaluated when the process last ended.
	Careful  Evaluator
	Inflight string
	// Halving, for tests, finds refused records by halving alone.
	Halving bool
	// Brokers is for sources that name none, host:port, comma-separated.
	Brokers string
	// Mem is C memory: batches go to DuckDB without being copied.
	Mem    memory.Allocator
	Logger *slog.Logger
}

// A Pipeline feeds all sources of a store. Its methods are safe for concurrent
// use.
type Pipeline struct {
	o   Options
	log *slog.Logger

	mu       sync.Mutex
	ctx      context.Context // of Run, nil before
	inflight *inflight       // set by Run, nil when there is none
	feeds    map[state.SourceID]*feed
	clusters map[string]*kafka.Cluster
	stopped  bool // no feed starts any more
	wg       sync.WaitGroup
}

// New makes a pipeline that does nothing until Run.
func New(o Options) *Pipeline {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Pipeline{o: o, log: o.Logger, feeds: map[state.SourceID]*feed{}, clusters: map[string]*kafka.Cluster{}}
}

// Run feeds every source until the context ends, and returns when no fold is
// under way any more. A source that fails stops alone; see [Pipeline.Status].
func (p *Pipeline) Run(ctx context.Context) error {
	if err := p.openInflight(); err != nil {
		return err
	}
	p.mu.Lock()
	p.ctx = ctx
	p.startAll()
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock() // a feed that is starting is seen by Wait
	p.stopped = true
	p.mu.Unlock()
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.clusters {
		c.Close()
	}
	return p.inflight.close()
}

func (p *Pipeline) openInflight() (err error) {
	if p.o.Careful == nil || p.o.Inflight == "" {
		return nil
	}
	cat := p.o.Store.Catalog()
	p.inflight, err = openInflight(p.o.Inflight, func(c state.CursorID) bool {
		return slices.ContainsFunc(cat.Sources, func(s state.Source) bool { return s.Cursor == c }) ||
			slices.ContainsFunc(cat.Views, func(v state.View) bool { return v.Cursor == c })
	})
	if errors.Is(err, errCannotMap) {
		p.log.Warn("a record on which DuckDB crashes will not be found: the file system of the data directory does not map files", "error", err)
		return nil
	}
	return err
}

// start begins to feed a source. mu is held.
func (p *Pipeline) start(id state.SourceID) {
	f := p.feeds[id]
	if f == nil {
		f = newFeed(p, id)
		p.feeds[id] = f
	}
	if p.ctx != nil && !p.stopped && !f.running {
		f.running = true
		p.wg.Go(func() { f.run(p.ctx) })
	}
}

// Change runs a change to the catalogue while the named source stands still at
// folded positions, then feeds whatever the catalogue says. When the source is
// new, or gone after the change, that is seen too.
func (p *Pipeline) Change(ctx context.Context, source state.SourceID, change func() error) error {
	p.mu.Lock()
	f := p.feeds[source]
	if f == nil || !f.running {
		defer p.mu.Unlock()
		if err := change(); err != nil {
			return err
		}
		p.startAll()
		return nil
	}
	p.mu.Unlock()
	if err := f.change(ctx, change); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.startAll()
	return nil
}

// startAll begins to feed every source that is not fed yet. mu is held.
func (p *Pipeline) startAll() {
	for _, s := range p.o.Store.Catalog().Sources {
		p.start(s.ID)
	}
}

// cluster gives the connection that a source reads through.
func (p *Pipeline) cluster(brokers string) *kafka.Cluster {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.clusters[brokers]
	if c == nil {
		c = kafka.Dial(kafka.Options{Brokers: strings.Split(brokers, ","), Logger: p.log})
		p.clusters[brokers] = c
	}
	return c
}

// Cluster gives the connection to a source's brokers. It is closed with Run.
func (p *Pipeline) Cluster(s *state.Source) (*kafka.Cluster, error) {
	brokers := s.Options["brokers"]
	if brokers == "" {
		brokers = p.o.Brokers
	}
	if brokers == "" {
		return nil, fmt.Errorf("source %s names no brokers: add brokers = 'host:port' to it, or give --brokers", s.Name)
	}
	return p.cluster(brokers), nil
}
