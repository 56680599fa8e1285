package appliance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/checkpoint"
	"weir/export"
	"weir/export/iceberg"
	"weir/queryable"
	"weir/state"
	"weir/state/ddl"
)

// exportedDir, in the data directory, holds what views are exported to unless
// --export-dir says otherwise.
const exportedDir = "exported"

// A publisher writes views to files after checkpoints, as the options of their
// statements say. It reads the checkpoint's files, in the background, one view at
// a time, and rests as long as it works. What goes wrong is told in the state of
// the view and tried again at the next checkpoint; nobody else hears of it.
type publisher struct {
	fs     vfs.FS // the file system of this machine; tests make it fail
	dir    string // below which everything is written; an absolute path
	store  *state.Store
	keeper *keeper
	log    *slog.Logger
	tell   func(checkpoint uint64) // after the exports of a checkpoint, and with 0 when it has looked what there is; nil for nobody
	off    bool                    // nothing is exported: what is shown is not to change
	lock   io.Closer               // of dir; nil before the first export

	mu    sync.Mutex
	views map[state.ViewID]*published // guarded by mu
}

// published is how the export of one view goes.
type published struct {
	sql          string      // the view's statement, from which spec is
	spec         *ddl.Export // nil: it is not exported
	view         string
	status       queryable.ViewExport
	young        bool      // its last checkpoint had not all records
	began        time.Time // when the newest export was begun
	done, failed int64     // exports, since the start
}

func newPublisher(dir string, store *state.Store, k *keeper, log *slog.Logger) *publisher {
	return &publisher{fs: vfs.Default, dir: dir, store: store, keeper: k, log: log, views: map[state.ViewID]*published{}}
}

func (p *publisher) close() error {
	if p.lock == nil {
		return nil
	}
	return p.lock.Close()
}

// exportOf is what the statement of a view says about its export, nil for nothing.
func exportOf(sql string) *ddl.Export {
	stmt, err := ddl.ParseOne(sql)
	if v, ok := stmt.(*ddl.CreateMaterializedView); ok && err == nil {
		return v.Export
	}
	return nil
}

// of finds the entry of a view; mu must be held.
func (p *publisher) of(v *state.View) *published {
	old := p.views[v.ID]
	if old != nil && old.sql == v.SQL {
		return old
	}
	e := &published{sql: v.SQL, spec: exportOf(v.SQL), view: v.Plan.Name}
	if old != nil { // its options have changed
		e.done, e.failed = old.done, old.failed
	}
	if s := e.spec; s != nil {
		target := p.path(s.To)
		if old != nil && old.status.Format == s.Format && old.status.Target == target {
			e.status, e.began = old.status, old.began
		}
		e.status.Format, e.status.Target, e.status.Every, e.status.Keep = s.Format, target, s.Every.Seconds(), s.Keep
	}
	p.views[v.ID] = e
	return e
}

// status tells where a view is exported to and how that goes, nil for nowhere.
func (p *publisher) status(v *state.View) *queryable.ViewExport {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.of(v)
	if e.spec == nil || p.off {
		return nil
	}
	s := e.status
	if e.young && !backfilling(p.store.Catalog(), v) {
		s.Error = errRead.Error()
	}
	return &s
}

// run exports what is due after each checkpoint.
func (p *publisher) run(ctx context.Context) error {
	p.look()
	if p.tell != nil {
		p.tell(0)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case id := <-p.keeper.fresh:
			p.publish(ctx, id)
			if p.tell != nil {
				p.tell(id)
			}
		}
	}
}

// look finds out what was exported before the start.
func (p *publisher) look() {
	cat := p.store.Catalog()
	for i := range cat.Views {
		v := &cat.Views[i]
		p.mu.Lock()
		e := p.of(v)
		p.mu.Unlock()
		if e.spec == nil {
			continue
		}
		n, err := p.newest(e.spec, v.Plan.Name)
		p.note(e, n, err)
	}
}

// publish exports all views that are due from a checkpoint.
func (p *publisher) publish(ctx context.Context, id uint64) {
	for _, one := range p.store.Catalog().Views {
		v, ok := p.store.Catalog().ViewByID(one.ID) // as it is now: exports take their time
		if !ok {
			continue
		}
		p.mu.Lock()
		e := p.of(v)
		due := e.spec != nil && e.due(time.Now())
		p.mu.Unlock()
		if !due {
			continue
		}
		began := time.Now()
		n, err := p.safely(ctx, v, e.spec, id)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errYoung):
			p.note(e, nil, err)
			continue
		case err != nil:
			p.log.Error("a view was not exported; the next checkpoint is tried", "view", v.Plan.Name, "to", p.path(e.spec.To), "error", err)
		case n == nil:
			continue // it is not in the checkpoint
		default:
			n.began = began
		}
		p.note(e, n, err)
		if n == nil || !n.old {
			p.count(e, err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.views {
		if _, ok := p.store.Catalog().ViewByID(id); !ok {
			delete(p.views, id)
		}
	}
}

// due says whether the time since the newest export has gone by. Checkpoints may come
// a little early, and clocks go back.
func (e *published) due(now time.Time) bool {
	ago := now.Sub(e.began)
	return e.began.IsZero() || ago < 0 || ago >= e.spec.Every-e.spec.Every/16
}

// An exportDone is an export that stands.
type exportDone struct {
	said  map[string]string // of the epoch and so on, as in snapshotProperties
	rows  int64
	bytes int64
	at    time.Time
	began time.Time // zero when it was found
	old   bool      // it was there already
}

// note puts into the state of a view what became of an export: one that stands, if
// any, and an error.
func (p *publisher) note(e *published, n *exportDone, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.status.Error, e.young = "", errors.Is(err, errYoung)
	if err != nil {
		e.status.Error = err.Error()
	}
	if n == nil {
		return
	}
	number := func(key string) uint64 {
		v, _ := strconv.ParseUint(n.said[key], 10, 64)
		return v
	}
	at := n.at.UTC()
	e.status.Epoch, e.status.Checkpoint, e.status.At = number("weir.epoch"), number("weir.checkpoint"), &at
	e.status.Rows, e.status.Bytes, e.status.Whole = n.rows, n.bytes, n.said["weir.whole"] != "false"
	if e.began = n.began; e.began.IsZero() {
		e.began = n.at
	}
}

func (p *publisher) count(e *published, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		e.failed++
	} else {
		e.done++
	}
}

// errYoung keeps what was exported of a view before, which had all records, from being
// replaced by less: who reads those files does not hear of it.
var errYoung = errors.New("the view still reads old records; it is exported when it has read them")

// errRead is what has become of errYoung when the view has read them.
var errRead = errors.New("waits for a checkpoint: those so far were taken while the view read old records")

// safely turns a panic of the libraries that write files into an error: an export
// is no reason to stop counting.
func (p *publisher) safely(ctx context.Context, v *state.View, spec *ddl.Export, id uint64) (n *exportDone, err error) {
	defer func() {
		if r := recover(); r != nil {
			n, err = nil, fmt.Errorf("export: %v", r)
		}
	}()
	return p.export(ctx, v, spec, id)
}

// export writes a view as it is in a checkpoint; nil without an error says that
// it is not there.
func (p *publisher) export(ctx context.Context, v *state.View, spec *ddl.Export, id uint64) (*exportDone, error) {
	free := p.keeper.pins.pin(id)
	defer free()
	var t *checkpoint.Table
	var m *checkpoint.Manifest
	err := p.keeper.read(id, func(c *checkpoint.Checkpoint) (err error) {
		m = c.Manifest
		if cv, ok := m.View(v.Plan.Name); !ok || state.ViewID(cv.ID) != v.ID || cv.CreatedEpoch != v.CreatedEpoch {
			return nil // dropped or created since
		}
		t, err = c.Table(v.Plan.Name)
		return err
	})
	if e, ok := errors.AsType[*queryable.Error](err); ok && e.Code == queryable.NotFound {
		return nil, nil // a savepoint that was dropped meanwhile
	}
	if err != nil || t == nil {
		return nil, err
	}
	defer t.Close()
	if wasBackfilling(m, t.View) {
		return nil, errYoung
	}
	dir, err := p.open(spec.To)
	if err != nil {
		return nil, err
	}
	results, err := t.Results(ctx, nil)
	if err != nil {
		return nil, err
	}
	columns := t.View.Plan.ResultColumns()
	rows := &fileRows{RecordReader: &resting{RecordReader: results, ctx: ctx}, columns: columns}
	defer rows.Release()
	said := snapshotProperties(t.View, m)
	once := []string{"weir.epoch", "weir.checkpoint", "weir.created"}
	if spec.Format == ddl.Iceberg {
		s, err := iceberg.Export(ctx, p.fs, dir, columns, rows, iceberg.Options{View: v.Plan.Name, Properties: said, Keep: spec.Keep, Once: once})
		if err != nil {
			return nil, err
		}
		return &exportDone{said: s.Summary, rows: s.Rows, bytes: s.Bytes, at: s.Time, old: s.Old}, nil
	}
	f, err := export.Folder(ctx, p.fs, dir, columns, rows, export.FolderOptions{View: v.Plan.Name, Epoch: m.Epoch, Metadata: said, Keep: spec.Keep, Once: once})
	if err != nil {
		return nil, err
	}
	return &exportDone{said: f.Metadata, rows: f.Rows, bytes: f.Bytes, at: f.Time, old: f.Old}, nil
}

// newest looks at what was exported last; nil when nothing was.
func (p *publisher) newest(spec *ddl.Export, view string) (*exportDone, error) {
	dir, err := p.place(spec.To)
	if err != nil {
		return nil, err
	}
	if spec.Format == ddl.Iceberg {
		s, err := iceberg.Newest(p.fs, dir, view)
		if s == nil || err != nil {
			return nil, err
		}
		return &exportDone{said: s.Summary, rows: s.Rows, bytes: s.Bytes, at: s.Time}, nil
	}
	f, err := export.NewestFile(p.fs, dir, view)
	if f == nil || err != nil {
		return nil, err
	}
	return &exportDone{said: f.Metadata, rows: f.Rows, bytes: f.Bytes, at: f.Time}, nil
}

// resting reads batches, and after each rests as long as it took to read it and to
// write it, so that counting has the processor.
type resting struct {
	array.RecordReader
	ctx   context.Context
	began time.Time // when the batch before was asked for; zero for none
}

func (r *resting) Next() bool {
	if !r.began.IsZero() {
		t := time.NewTimer(time.Since(r.began))
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.ctx.Done(): // the writer asks, too
		}
	}
	r.began = time.Now()
	return r.RecordReader.Next()
}
