package appliance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/checkpoint"
	"weir/checkpoint/objectstore"
	"weir/duckext"
	"weir/ingest"
	"weir/queryable"
	"weir/state"
	"weir/web"
)

// What a data directory holds.
const (
	stateDir       = "state"
	checkpointsDir = "checkpoints"
	brokerDir      = "broker"
	inflightFile   = "inflight" // see ingest.Options
)

// config is what an appliance needs to run.
type config struct {
	serveFlags
	scripts []script
	token   string
	// hook is called at the named points of the store; tests end the process there.
	hook func(point string)
	// published is called when the exports of a checkpoint have ended, and with 0 when
	// it is known what was exported before the start; tests wait for it.
	published func(checkpoint uint64)
	// interval is the time between commits; 0 is the store's own. Tests shorten it.
	interval time.Duration
	halving  bool                // see ingest.Options
	objects  objectstore.Options // tests are less patient
	lease    objectstore.LeaseOptions
	log      *slog.Logger
	// shown is what weir open shows, read only and without topics; "" for an
	// appliance that counts.
	shown string
	taken time.Time // when what is shown was taken
	// fatal is as in state.Options.
	fatal func(msg string)
}

// Appliance is one running Weir.
//
// It starts from the inside out: store, DuckDB, SQL files, query processes,
// HTTP, ingest. It stops in the reverse order, so that what was folded is
// committed last and readers see a consistent state to the end.
type Appliance struct {
	cfg       config
	log       *slog.Logger
	store     *state.Store
	engine    *duckext.Engine
	guard     *duckext.Guard
	finals    *finals
	pipeline  *ingest.Pipeline
	pool      *duckext.Pool
	keeper    *keeper
	exports   *exporter
	publisher *publisher
	server    *web.Server
	listener  net.Listener
	addr      string
	began     time.Time

	broken    chan error // the parent's DuckDB answers nothing more
	ddl       sync.Mutex // one statement changes the catalogue at a time
	open      atomic.Bool
	caughtUp  atomic.Bool
	freshness freshness
	seen      seen
	leased    leased
	sharing   *sharing

	keywords    map[string]bool // of DuckDB, see duckKeywords
	points      atomic.Int64    // queries that point has answered
	processOnly atomic.Bool     // tests compare what point answers with what a process does
}

// openAppliance opens everything and starts nothing but the query processes.
func openAppliance(ctx context.Context, cfg config) (_ *Appliance, err error) {
	if cfg.log == nil {
		cfg.log = slog.New(slog.DiscardHandler)
	}
	b, err := cfg.share()
	if err != nil {
		return nil, err
	}
	a := &Appliance{cfg: cfg, log: cfg.log, began: time.Now(), sharing: newSharing(b.scans), broken: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if a.listener, err = listen(cfg.Addr); err != nil {
		return a, err
	}
	a.addr = a.listener.Addr().String()
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return a, fmt.Errorf("make data directory: %w", err)
	}
	if a.store, err = a.openState(ctx, state.Options{Memory: b.groups, Cache: b.cache, Interval: cfg.interval, Logger: cfg.log, Hook: cfg.hook, Fatal: cfg.fatal}); err != nil {
		return a, err
	}
	if a.engine, err = duckext.Open(duckext.Options{Threads: 1, MemoryLimit: bytesText(b.duckdb)}); err != nil {
		return a, err
	}
	if a.keywords, err = duckKeywords(ctx, a.engine); err != nil {
		return a, err
	}
	if a.guard, err = newGuard(b.duckdb, cfg.log); err != nil {
		return a, err
	}
	a.finals = newFinals(finalizer{a.engine, a.guard})
	a.pipeline = ingest.New(ingest.Options{
		Store: a.store, Evaluator: evaluator{a.engine, a.broke}, Careful: careful{a.guard}, Inflight: filepath.Join(cfg.Data, inflightFile), Brokers: cfg.Brokers, Mem: memory.DefaultAllocator, Logger: cfg.log, Halving: cfg.halving,
	})
	checkpoints, dir, err := locate(ctx, cmp.Or(cfg.Checkpoints, filepath.Join(cfg.Data, checkpointsDir)), cfg.objects)
	if err != nil {
		return a, err
	}
	if a.keeper, err = newKeeper(checkpoints, dir, locker{data: cfg.Data, lease: cfg.lease}, a.store, finalizer{a.engine, a.guard}, cfg.keeping(), cfg.log); err != nil {
		return a, err
	}
	if a.exports, err = newExporter(backend{a}, filepath.Join(cfg.Data, exportsDir)); err != nil {
		return a, err
	}
	exported, err := cfg.exported()
	if err != nil {
		return a, err
	}
	a.publisher = newPublisher(exported, a.store, a.keeper, cfg.log)
	a.publisher.off, a.publisher.tell = cfg.shown != "", cfg.published
	if a.pool, err = a.newPool(b.query); err != nil {
		return a, err
	}
	for _, s := range cfg.scripts {
		if err := a.apply(ctx, s); err != nil {
			return a, err
		}
	}
	if a.server, err = a.newServer(); err != nil {
		return a, err
	}
	a.keeper.shows = cfg.shown
	a.open.Store(true)
	return a, nil
}

// broke ends the appliance: every source shares the DuckDB that broke.
func (a *Appliance) broke(err error) {
	select {
	case a.broken <- err:
	default:
	}
}

// listen takes the address. Port 0 takes any free one.
func listen(addr string) (net.Listener, error) {
	ln, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use: stop what listens there, or give another --addr", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return ln, nil
}

func bytesText(n int64) string { return strconv.FormatInt(n/1_000_000, 10) + "MB" }

// Run serves and ingests until the context ends, an unrecoverable error comes,
// or done says that the appliance has done what it was started for.
func (a *Appliance) Run(ctx context.Context, done func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	part := func(name string, run func(context.Context) error) {
		wg.Go(func() {
			if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				stop(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	// The store commits once more when its context ends, after the pipeline has
	// folded its last batch.
	storeCtx, stopStore := context.WithCancel(context.WithoutCancel(ctx))
	stored := make(chan error, 1)
	go func() { stored <- a.store.Run(storeCtx) }()
	go func() { // a failed disk ends everything
		if err := <-stored; err != nil {
			stop(fmt.Errorf("state: %w", err))
			stored <- err
		} else {
			stored <- nil
		}
	}()
	served := make(chan error, 1)
	go func() { served <- a.server.Serve(a.listener) }()
	if a.cfg.shown == "" {
		part("ingest", a.pipeline.Run)
		part("checkpoints", a.keeper.run)
		part("exports of views", a.publisher.run)
		part("catching up", a.watchCatchUp)
	} else {
		a.caughtUp.Store(true)
	}
	part("exports", a.exports.run)
	part("freshness", a.watchFreshness)
	part("duckdb", func(ctx context.Context) error {
		select {
		case err := <-a.broken:
			return fmt.Errorf("%w; start Weir again: it goes on from the last commit", err)
		case <-ctx.Done():
			return nil
		}
	})
	if done != nil {
		wg.Go(func() { stop(done(ctx)) })
	}

	<-ctx.Done()
	cause := context.Cause(ctx)
	shut, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := a.server.Shutdown(shut); err != nil {
		a.log.Warn("stop serving", "error", err)
	}
	_ = a.listener.Close() // for a server that had not begun to serve when it was shut down
	<-served
	a.listener = nil
	wg.Wait()
	stopStore()
	if err := <-stored; err != nil && cause == nil {
		cause = err
	}
	if errors.Is(cause, context.Canceled) {
		return nil
	}
	return cause
}

// Close gives everything free that openAppliance opened.
func (a *Appliance) Close() error {
	var errs []error
	if a.listener != nil {
		errs = append(errs, a.listener.Close())
	}
	if a.exports != nil { // before the store: its makers read snapshots
		errs = append(errs, a.exports.close())
	}
	if a.pool != nil {
		errs = append(errs, a.pool.Close())
	}
	if a.finals != nil {
		a.finals.close()
	}
	if a.guard != nil {
		errs = append(errs, a.guard.Close())
	}
	if a.publisher != nil {
		errs = append(errs, a.publisher.close())
	}
	if a.keeper != nil {
		errs = append(errs, a.keeper.close())
	}
	if a.engine != nil {
		errs = append(errs, a.engine.Close())
	}
	if a.store != nil {
		errs = append(errs, a.store.Close())
	}
	return errors.Join(errs...)
}

// newServer wires HTTP.
func (a *Appliance) newServer() (*web.Server, error) {
	return web.New(web.Options{
		Backend: backend{a},
		API:     queryable.Options{File: checkpoint.FileBatch, Exports: a.exports, Registry: a.metrics(), Logger: a.log, QueryTime: a.cfg.QueryTimeout + time.Second},
		Console: web.Console(),
		Token:   a.cfg.token,
		Hosts:   a.cfg.AllowHost,
		Logger:  a.log,
	})
}
