package appliance

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/duckext"
	"weir/queryable"
	"weir/state"
	"weir/state/codec"
	"weir/state/plan"
	"weir/state/sqltype"
)

// Lease pins what a query names: one snapshot for everything that is live, and
// the checkpoints that it goes back to.
func (a *Appliance) Lease(ctx context.Context, refs []duckext.Ref) (duckext.Lease, error) {
	sn, err := a.store.Snapshot()
	if err != nil {
		return nil, err
	}
	a.leased.note(sn)
	l := &lease{a: a, sn: sn, cat: sn.Catalog(), tables: map[string]scanner{}, witness: witnessOf(ctx)}
	for _, r := range refs {
		if err := l.add(ctx, r, nil); err != nil {
			l.Release()
			return nil, err
		}
	}
	return l, nil
}

// scanner reads one table of a lease.
type scanner func(context.Context, duckext.ScanSpec) (array.RecordReader, error)

// A lease reads one snapshot. Until the first scan it may still move on to a
// newer one, of the same catalogue.
type lease struct {
	a         *Appliance
	mu        sync.Mutex
	sn        *state.Snapshot // guarded by mu until settled
	settled   bool
	cat       *state.Catalog
	views     []duckext.ViewDef
	tables    map[string]scanner
	closers   []func() error          // of files of checkpoints
	histories map[string]*viewHistory // by lower-case name
	witness   *witness
}

// settle is the snapshot, which stays the same from now on.
func (l *lease) settle() *state.Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled = true
	return l.sn
}

// A scan of all groups waits a while for another of the same to end, so that
// those who wait share the next.
const (
	patiencePerGroup = 2 * time.Microsecond // about what a scan takes on a busy machine
	patienceAtMost   = 2 * time.Second
)

// settleFor is settle for the scan of a whole view: if it is the lease's first,
// at the newest epoch at which such a scan should begin.
func (l *lease) settleFor(ctx context.Context, what string, view state.ViewID) *state.Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled {
		return l.sn
	}
	l.settled = true
	patience := min(time.Duration(l.sn.Stats(view).Groups)*patiencePerGroup, patienceAtMost)
	l.a.sharing.await(ctx, what, l.a.store.Epoch, patience)
	newer, err := l.a.store.Snapshot()
	if err != nil {
		return l.sn
	}
	if newer.Catalog() != l.cat {
		newer.Close()
		return l.sn
	}
	l.sn.Close()
	l.sn = newer
	l.a.leased.note(newer)
	return newer
}

func (l *lease) Epoch() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sn.Epoch()
}

func (l *lease) Views() []duckext.ViewDef { return l.views }

func (l *lease) Release() {
	for _, c := range l.closers {
		if err := c(); err != nil {
			l.a.log.Warn("close checkpoint", "error", err)
		}
	}
	l.sn.Close()
}

func (l *lease) Scan(ctx context.Context, table string, s duckext.ScanSpec) (array.RecordReader, error) {
	scan, ok := l.tables[table]
	if !ok {
		return nil, fmt.Errorf("the query has no table %q", table)
	}
	return scan(ctx, s)
}

// deepest is how many plain views may stand on one another.
const deepest = 32

// add resolves one name. above are the plain views that led to it.
func (l *lease) add(ctx context.Context, r duckext.Ref, above []string) error {
	if slices.ContainsFunc(l.views, func(d duckext.ViewDef) bool { return strings.EqualFold(d.Name, r.As) }) {
		return nil
	}
	if len(above) > deepest {
		return queryable.Errorf(queryable.BadRequest, "views stand on one another more than %d deep", deepest)
	}
	switch {
	case r.At != nil:
		return placed(l.past(r), r.Offset)
	case r.Diff != nil:
		return placed(l.diff(r), r.Offset)
	case r.History != nil:
		return placed(l.history(r), r.Offset)
	}
	if v, ok := l.cat.View(r.Name); ok {
		l.witness.read(v)
		l.live(r.As, v)
		return nil
	}
	if q, ok := l.cat.Query(r.Name); ok {
		return l.query(ctx, r.As, q, append(above, q.Name))
	}
	if src, ok := l.cat.Source(r.Name); ok {
		l.witness.readSource()
		l.source(r.As, src)
		return nil
	}
	return &duckext.UnknownNameError{Name: r.Name, Names: l.names(), Offset: r.Offset}
}

func (l *lease) names() []string {
	var names []string
	for i := range l.cat.Views {
		names = append(names, l.cat.Views[i].Plan.Name)
	}
	for i := range l.cat.Queries {
		names = append(names, l.cat.Queries[i].Name)
	}
	for i := range l.cat.Sources {
		names = append(names, l.cat.Sources[i].Name)
	}
	return names
}

// materialized is the definition of a view over some table of its state.
func materialized(name, table string, v *plan.View, rows int64) duckext.ViewDef {
	d := duckext.ViewDef{Name: name, SQL: v.Final, Relation: plan.StateRelation, Table: table, Columns: v.StateColumns(), Rows: rows}
	for _, r := range v.Results {
		if r.Key >= 0 {
			d.Keys = append(d.Keys, duckext.Passed{Name: r.Name, Column: r.Key})
		}
	}
	if len(d.Columns) == 0 { // SELECT 1 AS x FROM source: a row, and nothing kept
		d.Columns = []sqltype.Field{{Name: "__nothing", Type: sqltype.Type{ID: sqltype.Boolean}}}
	}
	return d
}

// live attaches the present state of a view.
func (l *lease) live(name string, v *state.View) {
	table := "live:" + v.Plan.Name
	l.views = append(l.views, materialized(name, table, &v.Plan, l.sn.Stats(v.ID).Groups))
	l.tables[table] = func(ctx context.Context, s duckext.ScanSpec) (array.RecordReader, error) {
		return live{l, v}.scan(ctx, scanRequest(v.ID, &v.Plan, s))
	}
}

// scans is what a view's state is read from: a snapshot, or a checkpoint's file.
type scans interface {
	Scan(ctx context.Context, r state.ScanRequest) (array.RecordReader, error)
}

// scanChecked scans a view of which groups may be in error: whoever reads their
// accumulators is told.
func scanChecked(ctx context.Context, from scans, v *plan.View, req state.ScanRequest) (array.RecordReader, error) {
	if !slices.ContainsFunc(req.Columns, func(c int) bool { return c >= len(v.Keys) }) {
		return from.Scan(ctx, req)
	}
	c := &checked{view: v, columns: len(req.Columns), filters: req.Filters}
	req.Columns = slices.Clone(req.Columns)
	for k := range v.Keys {
		at := slices.Index(req.Columns, k)
		if at < 0 {
			at = len(req.Columns)
			req.Columns = append(req.Columns, k)
		}
		c.keys = append(c.keys, at)
	}
	req.Extra.Error = true
	var err error
	c.RecordReader, err = from.Scan(ctx, req)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// scanRequest is a scan as the store wants it. Filters on columns that are not
// keys stay DuckDB's.
func scanRequest(id state.ViewID, v *plan.View, s duckext.ScanSpec) state.ScanRequest {
	r := state.ScanRequest{View: id, Columns: s.Columns, FromSlot: s.FromSlot, ToSlot: s.ToSlot, Mem: memory.DefaultAllocator}
	for _, f := range s.Filters {
		if f.Column < len(v.Keys) {
			r.Filters = append(r.Filters, state.Filter{Column: f.Column, In: f.In, Min: f.Min, Max: f.Max})
		}
	}
	return r
}

// checked passes a scan on and fails at the first group that is in error.
type checked struct {
	array.RecordReader
	view    *plan.View
	columns int   // that were asked for; other keys and the error follow
	keys    []int // where each key of the view stands
	filters []state.Filter
	rec     arrow.RecordBatch
	err     error
}

func (c *checked) Next() bool {
	if c.err != nil || !c.RecordReader.Next() {
		return false
	}
	in := c.RecordReader.RecordBatch()
	why := in.Column(int(in.NumCols()) - 1).(*array.String)
	for i := range why.Len() {
		if why.IsValid(i) && c.asked(in, i) {
			c.err = failing(c.view.Name, keyText(c.view, in, c.keys, i), why.Value(i))
			return false
		}
	}
	c.drop()
	fields := in.Schema().Fields()[:c.columns]
	c.rec = array.NewRecordBatch(arrow.NewSchema(fields, nil), in.Columns()[:c.columns], in.NumRows())
	return true
}

// asked says whether the query may use a row: a scan may hold rows beyond its
// filters, and their errors are nobody's.
func (c *checked) asked(in arrow.RecordBatch, row int) bool {
	for _, f := range c.filters {
		t, col := c.view.Keys[f.Column].Type, in.Column(c.keys[f.Column])
		compare := func(with arrow.Array, i int) int {
			a, errA := codec.AppendKey(nil, t, col, row)
			b, errB := codec.AppendKey(nil, t, with, i)
			if errA != nil || errB != nil {
				return 0
			}
			return bytes.Compare(a, b)
		}
		listed := f.In == nil
		for i := 0; !listed && i < f.In.Len(); i++ {
			listed = compare(f.In, i) == 0
		}
		if !listed || (f.Min != nil || f.Max != nil) && col.IsNull(row) || f.Min != nil && compare(f.Min, 0) < 0 || f.Max != nil && compare(f.Max, 0) > 0 {
			return false
		}
	}
	return true
}

func (c *checked) drop() {
	if c.rec != nil {
		c.rec.Release()
		c.rec = nil
	}
}

func (c *checked) Release()                       { c.drop(); c.RecordReader.Release() }
func (c *checked) RecordBatch() arrow.RecordBatch { return c.rec }
func (c *checked) Record() arrow.RecordBatch      { return c.rec }

func (c *checked) Schema() *arrow.Schema {
	return arrow.NewSchema(c.RecordReader.Schema().Fields()[:c.columns], nil)
}

func (c *checked) Err() error {
	if c.err != nil {
		return c.err
	}
	return c.RecordReader.Err()
}

// keyText shows a group's key to people: city = Paris, day = 2026-01-01.
func keyText(v *plan.View, rec arrow.RecordBatch, at []int, row int) string {
	var parts []string
	for i, k := range v.Keys {
		parts = append(parts, k.Name+" = "+queryable.ValueText(k.Type, rec.Column(at[i]), row))
	}
	if len(parts) == 0 {
		return "(the only one)"
	}
	return strings.Join(parts, ", ")
}

// query attaches a plain view and, before it, what it reads.
func (l *lease) query(ctx context.Context, name string, q *state.Query, above []string) error {
	refs, err := plan.References(ctx, l.a.engine, q.Select)
	if err != nil {
		return fmt.Errorf("view %s: %w", q.Name, err)
	}
	for _, r := range refs {
		if r.Kind != "BASE_TABLE" {
			continue
		}
		if err := l.add(ctx, duckext.Ref{Name: r.Name, As: r.Name}, above); err != nil {
			return fmt.Errorf("view %s: %w", q.Name, err)
		}
	}
	l.views = append(l.views, duckext.ViewDef{Name: name, SQL: q.Select})
	return nil
}

// newestRecords is how many records of a source a query is shown.
const newestRecords = 1000

// source attaches the newest records of a source, read when the query first
// scans them.
func (l *lease) source(name string, src *state.Source) {
	table := "source:" + src.Name
	rel := plan.Source{Name: src.Name, Columns: src.Columns}.Relation()
	l.views = append(l.views, duckext.ViewDef{Name: name, Table: table, Columns: rel.Columns, Rows: newestRecords})
	once := &newest{l: l, src: src, columns: rel.Columns}
	l.tables[table] = once.scan
}
