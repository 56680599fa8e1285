package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/state"
	"weir/state/agg"
	"weir/state/plan"
)

// NewState reads the groups of a view as they are to be: the state columns in the
// plan's order and the inside form (see [Table.Scan]), then __epoch or __error or
// both, in the order of slot and key (see state.Keyer). Groups without __epoch, or
// that differ from those before, get the new epoch. It is called more than once
// and gives the same rows each time.
type NewState func(context.Context) (array.RecordReader, error)

// TransformOptions are the settings of [Transform].
type TransformOptions struct {
	Options          // Savepoint is the name of what is written; it needs one
	SQL     []string // for the record: what made the new groups
}

// ErrSame says that an edit would change nothing.
var ErrSame = errors.New("nothing would change")

// Transform writes a savepoint into dir: the checkpoint c with other groups in
// some views, found by name. Positions, quarantine and the other views stay what
// they are; the epoch is the next one; results are computed anew. c is not changed
// and may be in dir.
//
// It refuses rows that no records could have made: other columns or types, a key
// that is there twice once it is in its one spelling, a NULL or negative count, no
// row or several in a view without GROUP BY; and with [ErrSame] to write what is
// there. What it did stands in the manifest's Edits, and each view that it changed
// bears the edit's ID, so that no appliance takes it for the other.
func Transform(ctx context.Context, c *Checkpoint, fsys vfs.FS, dir string, views map[string]NewState, fin Finalizer, o TransformOptions) (*Manifest, error) {
	if err := VacantName(fsys, dir, o.Savepoint); err != nil {
		return nil, err
	}
	if err := c.Verify(ctx); err != nil {
		return nil, err
	}
	im, done, err := newImage(ctx, c)
	if err != nil {
		return nil, err
	}
	defer done()
	edit, err := newEdit(editTransform, o.Now, o.SQL, c)
	if err != nil {
		return nil, err
	}
	im.catalog.Views = slices.Clone(im.catalog.Views)
	epoch := c.Manifest.Epoch + 1
	for name, rows := range views {
		v, ok := im.catalog.View(name)
		if !ok {
			return nil, &Error{Kind: ErrMismatch, Path: c.dir, What: "it has no view " + name, Do: "it has " + strings.Join(c.Manifest.viewNames(), ", ")}
		}
		mv, _ := c.Manifest.View(name)
		e := &edited{view: v, shown: mv.shown, old: im.rows[v.ID], rows: rows, epoch: epoch, mem: o.Mem}
		if err := e.compare(ctx); err != nil {
			return nil, fmt.Errorf("view %s: %w", v.Plan.Name, err)
		}
		if e.count.Added+e.count.Removed+e.count.Changed == 0 {
			continue
		}
		e.count.View, e.count.Before = v.Plan.Name, []int64{im.stats[v.ID].Groups}
		edit.Views = append(edit.Views, e.count)
		v.Edited = edit.ID
		im.stats[v.ID], im.rows[v.ID] = e.stats, e.scan
	}
	if len(edit.Views) == 0 {
		return nil, fmt.Errorf("transform %s: %w: no group differs from what it is", c.dir, ErrSame)
	}
	slices.SortFunc(edit.Views, func(a, b EditedView) int { return strings.Compare(a.View, b.View) })
	im.dump.Epoch = epoch
	im.edits = func() []Edit { return append(slices.Clip(c.Manifest.Edits), edit) }
	return Write(ctx, fsys, dir, im, fin, o.Options)
}

func (m *Manifest) viewNames() []string {
	names := make([]string, len(m.Views))
	for i := range m.Views {
		names[i] = m.Views[i].Name
	}
	return names
}

// edited is a view with other groups.
type edited struct {
	view  *state.View
	shown func(accumulator string) string // the name of its column
	old   func(context.Context, state.ScanRequest) (array.RecordReader, error)
	rows  NewState
	epoch uint64
	mem   memory.Allocator

	differs bits // by the place of a group among the new ones
	count   EditedView
	stats   state.ViewStats
}

// bits is a set of small numbers.
type bits []uint64

func (b *bits) set(i int64) {
	for int64(len(*b)) <= i/64 {
		*b = append(*b, 0)
	}
	(*b)[i/64] |= 1 << (i % 64)
}

func (b bits) has(i int64) bool { return i/64 < int64(len(b)) && b[i/64]>>(i%64)&1 != 0 }

// open reads the new groups, checked.
func (e *edited) open(ctx context.Context) (*checkedState, error) {
	in, err := e.rows(ctx)
	if err != nil {
		return nil, err
	}
	dated := slices.ContainsFunc(in.Schema().Fields(), func(f arrow.Field) bool { return f.Name == epochColumn })
	g, err := state.Regroup(ctx, &e.view.Plan, e.mem, in)
	if err != nil {
		return nil, err
	}
	s := &checkedState{Regrouped: g, plan: &e.view.Plan, edited: e, dated: dated}
	s.refs.Store(1)
	return s, nil
}

// compare reads all of the new groups beside the old ones.
func (e *edited) compare(ctx context.Context) error {
	old, err := e.old(ctx, state.ScanRequest{View: e.view.ID})
	if err != nil {
		return err
	}
	defer old.Release()
	in, err := e.open(ctx)
	if err != nil {
		return err
	}
	defer in.Release()
	in.comparing = true
	_, err = state.Compare(ctx, &e.view.Plan, old, in, func(d state.Difference) error {
		if d.B != nil {
			e.differs.set(in.base + int64(d.BRow))
		}
		switch {
		case d.A == nil:
			e.count.Added++
		case d.B == nil:
			e.count.Removed++
		default:
			e.count.Changed++
		}
		return nil
	})
	if err != nil {
		return err
	}
	e.stats = in.Stats()
	e.count.After = e.stats.Groups
	if e.view.Plan.Global && e.stats.Groups != 1 {
		return fmt.Errorf("a view without GROUP BY has one row, and this would have %d", e.stats.Groups)
	}
	return nil
}

func (e *edited) scan(ctx context.Context, _ state.ScanRequest) (array.RecordReader, error) {
	return e.open(ctx)
}

// checkedState passes new groups on, checks them, and gives them their epochs.
type checkedState struct {
	*state.Regrouped
	refs      atomic.Int64
	plan      *plan.View
	edited    *edited
	dated     bool // the rows came with epochs
	comparing bool // epochs do not matter
	base      int64
	rec       arrow.RecordBatch
	err       error
}

func (s *checkedState) Next() bool {
	if s.rec != nil {
		s.base += s.rec.NumRows()
		s.drop()
	}
	if s.err != nil || !s.Regrouped.Next() {
		return false
	}
	rec := s.Regrouped.RecordBatch()
	if s.err = s.check(rec); s.err != nil {
		return false
	}
	rec.Retain()
	s.rec = rec
	if !s.comparing {
		s.rec = s.date(rec)
		rec.Release()
	}
	return true
}

// check refuses groups that no records make.
func (s *checkedState) check(rec arrow.RecordBatch) error {
	n := len(s.plan.Keys)
	if was, ok := rec.Column(int(rec.NumCols()) - 2).(*array.Uint64); ok {
		for r := range was.Len() {
			if was.Value(r) > s.edited.epoch {
				return fmt.Errorf("%s is %d where %s: it is the number of a commit, and there were %d", epochColumn, was.Value(r), rowKey(s.plan, rec, r), s.edited.epoch)
			}
		}
	}
	failed := rec.Column(int(rec.NumCols()) - 1)
	for i, a := range s.plan.Accs {
		if !Counts(a) {
			continue
		}
		col, ok := rec.Column(n + i).(*array.Int64)
		if !ok {
			continue
		}
		for r := range col.Len() {
			if failed.IsValid(r) { // it shows nothing
				continue
			}
			if col.IsNull(r) {
				return fmt.Errorf("%s is NULL where %s: a count is never NULL", s.edited.shown(a.Name), rowKey(s.plan, rec, r))
			}
			if col.Value(r) == 0 && n > 0 && a.Partial == "count_star()" {
				return fmt.Errorf("%s is 0 where %s: a group has a record at least; DELETE it", s.edited.shown(a.Name), rowKey(s.plan, rec, r))
			}
			if col.Value(r) < 0 {
				return fmt.Errorf("%s is %d where %s: a count is never negative", s.edited.shown(a.Name), col.Value(r), rowKey(s.plan, rec, r))
			}
		}
	}
	return nil
}

// Counts says whether an accumulator counts records, so that it is never NULL nor
// negative.
func Counts(a plan.Accumulator) bool {
	return a.Rule == agg.Add && strings.HasPrefix(strings.ToLower(a.Partial), "count")
}

// longKey is how many bytes of a column of a key are shown in a message.
const longKey = 80

// rowKey shows a key to people.
func rowKey(p *plan.View, rec arrow.RecordBatch, row int) string {
	var parts []string
	for i, k := range p.Keys {
		text := "NULL"
		if c := rec.Column(i); c.IsValid(row) {
			text = c.ValueStr(row)
		}
		if len(text) > longKey {
			text = strings.ToValidUTF8(text[:longKey], "") + "…"
		}
		parts = append(parts, k.Name+" = "+text)
	}
	if parts == nil {
		return "there is one row"
	}
	return strings.Join(parts, ", ")
}

// date puts the new epoch where a group is not what it was.
func (s *checkedState) date(rec arrow.RecordBatch) arrow.RecordBatch {
	at := int(rec.NumCols()) - 2
	was := rec.Column(at).(*array.Uint64)
	b := array.NewUint64Builder(memory.DefaultAllocator)
	defer b.Release()
	for i := range was.Len() {
		// No group is of epoch 0: that is how Regroup gives NULL.
		if !s.dated || was.Value(i) == 0 || s.edited.differs.has(s.base+int64(i)) {
			b.Append(s.edited.epoch)
		} else {
			b.Append(was.Value(i))
		}
	}
	col := b.NewArray()
	defer col.Release()
	cols := slices.Clone(rec.Columns())
	cols[at] = col
	return array.NewRecordBatch(rec.Schema(), cols, rec.NumRows())
}

func (s *checkedState) drop() {
	if s.rec != nil {
		s.rec.Release()
		s.rec = nil
	}
}

func (s *checkedState) RecordBatch() arrow.RecordBatch { return s.rec }
func (s *checkedState) Record() arrow.RecordBatch      { return s.rec }
func (s *checkedState) Retain()                        { s.refs.Add(1) }

func (s *checkedState) Release() {
	if s.refs.Add(-1) == 0 {
		s.drop()
		s.Regrouped.Release()
	}
}

func (s *checkedState) Err() error {
	if s.err != nil {
		return s.err
	}
	return s.Regrouped.Err()
}
