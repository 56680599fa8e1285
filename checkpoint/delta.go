package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/internal/atomicfile"
	"weir/state"
	"weir/state/plan"
)

const (
	// maxDeltas is how many deltas a view has at most. Each is a file that a scan
	// holds a batch of, and that the next checkpoint verifies and links.
	maxDeltas = 32
	// deltaShare: when one of so many groups is in a delta, the view is written
	// whole.
	deltaShare = 4
)

// delta writes what changed in a view since the newest checkpoint, behind the
// files that it has there. It says false where the view is to be written whole:
// nobody knows what changed, or it is much.
func (w *writer) delta(ctx context.Context, m *Manifest, v *View) (bool, error) {
	old, ok := w.before(v)
	if !ok || w.whole() || len(old.Parts) > maxDeltas || old.Errors > 0 && narrowKey(v) {
		return false, nil
	}
	l, err := newLayout(&v.Plan, m.Epoch)
	if err != nil {
		return false, err
	}
	if same, err := sameJSON(l.cols, old.Columns); !same {
		return false, err
	}
	stats := w.snap.Stats(state.ViewID(v.ID))
	if stats.Groups < w.o.Small {
		return false, nil
	}
	rows, n, err := w.history.Changed(ctx, w.scanRequest(v), w.last.History, w.last.Epoch)
	if errors.Is(err, state.ErrUnknown) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer rows.Release()
	if more := stats.Groups - old.Groups; (n+old.changedRows())*deltaShare > stats.Groups || max(more, -more) > n {
		return false, nil // much changed, or more than was recorded, which cannot be
	}
	parts := slices.Clone(old.Files())
	if n > 0 && old.Whole() {
		parts[0].Name = partName(v.Name, v.ID, 0)
	}
	basedOn := m.BasedOn
	if ok, err := w.link(m, old, parts); !ok {
		return false, err
	}
	whole := func() (bool, error) { // after all
		m.BasedOn, v.Parts = basedOn, nil
		return false, w.fs.RemoveAll(w.fs.PathDir(w.fs.PathJoin(w.tmp, parts[0].Name)))
	}
	v.Columns, v.Groups, v.Bytes, v.Errors = l.cols, stats.Groups, stats.Bytes, old.Errors
	if n == 0 {
		v.File, v.Parts = old.File, old.Parts
		return true, nil
	}
	part, found, err := w.part(ctx, m, v, l, rows, len(parts))
	if errors.Is(err, errUnfit) {
		return whole()
	}
	if err != nil {
		return false, err
	}
	v.Parts, v.Errors = append(parts, part), found
	if old.Errors > 0 {
		// Which of them are among the rows that were replaced, nobody wrote down.
		v.Errors, err = w.countErrors(ctx, m, v)
	}
	if errors.Is(err, ErrDamaged) {
		return whole()
	}
	return err == nil, err
}

// errUnfit says that a delta has a key that its column cannot hold.
var errUnfit = errors.New("a key does not fit its column")

// narrowKey says whether a key may have values that the column cannot hold, which
// is NULL then. Rows of parts are told apart by these columns, so a view that has such
// a group is whole. Where no group is in error there is none.
func narrowKey(v *View) bool {
	return slices.ContainsFunc(v.Plan.Keys, func(k plan.Key) bool { return narrower(k.Type) })
}

func sameJSON(a, b any) (bool, error) {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return bytes.Equal(x, y), errors.Join(err1, err2)
}

// link links the files of the view as it stood before into this checkpoint,
// under the names in as. Where that cannot be it says false.
func (w *writer) link(m *Manifest, old *View, as []File) (_ bool, err error) {
	from := Path(w.fs, w.dir, w.last.Checkpoint)
	for _, f := range old.Files() {
		// One damaged file must not live on in every later checkpoint.
		if err := w.intact(w.fs.PathJoin(from, f.Name), f); err != nil {
			return false, nil
		}
	}
	into := w.fs.PathDir(w.fs.PathJoin(w.tmp, as[0].Name))
	if err := w.fs.MkdirAll(into, 0o755); err != nil {
		return false, fmt.Errorf("create %s: %w", into, err)
	}
	for i, f := range old.Files() {
		if err := w.fs.Link(w.fs.PathJoin(from, f.Name), w.fs.PathJoin(w.tmp, as[i].Name)); err != nil {
			// A file system without links: the view is written again. A whole one
			// has the name of none of these.
			for _, f := range as[:i] {
				_ = w.fs.Remove(w.fs.PathJoin(w.tmp, f.Name))
			}
			return false, nil
		}
	}
	m.BasedOn = &BasedOn{Checkpoint: w.last.Checkpoint, Epoch: w.last.Epoch}
	return true, atomicfile.SyncDir(w.fs, into)
}

// intact compares a file with its sha256. An object store does that for itself
// with what it keeps, and would have all of it transferred: there the size and
// the tail must do.
func (w *writer) intact(path string, f File) error {
	if _, ok := w.fs.(atomicfile.Direct); !ok {
		return verifyFile(w.fs, path, f)
	}
	a, err := openArrow(w.fs, path, f)
	if err != nil {
		return err
	}
	return a.Close()
}

// part writes the delta and says how many of its groups are in error.
func (w *writer) part(ctx context.Context, m *Manifest, v *View, l *layout, changed array.RecordReader, i int) (f File, found int64, err error) {
	rows, done, err := w.fileRows(ctx, v, l)
	if err != nil {
		return f, 0, err
	}
	defer done()
	name := partName(v.Name, v.ID, i)
	path := w.fs.PathJoin(w.tmp, name)
	err = atomicfile.Create(w.fs, path, func(file io.Writer) error {
		out := newArrowWriter(file, l.delta(w.last.Epoch), w.o.Mem)
		if err := w.copy(ctx, changed, rows.convertDelta, out); err != nil {
			return err
		}
		f, err = out.Close()
		return err
	})
	if err != nil {
		return f, 0, err
	}
	f.Name = name
	return f, rows.errors, atomicfile.SyncDir(w.fs, w.fs.PathDir(path))
}

// countErrors counts the groups in error of a view that is written.
func (w *writer) countErrors(ctx context.Context, m *Manifest, v *View) (n int64, err error) {
	c := &Checkpoint{Manifest: m, fs: w.fs, dir: w.tmp}
	t, err := c.table(m, v.Name)
	if err != nil {
		return 0, err
	}
	defer t.Close()
	t.counting = true
	r, err := t.Rows(ctx, []string{errorColumn}, w.o.Mem)
	if err != nil {
		return 0, err
	}
	defer r.Release()
	for r.Next() {
		col := r.RecordBatch().Column(0)
		n += int64(col.Len() - col.NullN())
	}
	return n, r.Err()
}

// convertDelta is convert for what changed: a scan's batch with __deleted behind
// it. A group that is gone keeps its key and its slot.
func (r *fileRows) convertDelta(ctx context.Context, in arrow.RecordBatch) (arrow.RecordBatch, *array.Uint16, error) {
	last := int(in.NumCols()) - 1
	gone, ok := in.Column(last).(*array.Boolean)
	if !ok {
		return nil, nil, fmt.Errorf("the last column of what changed is %s", in.Schema().Field(last))
	}
	rec := array.NewRecordBatch(arrow.NewSchema(in.Schema().Fields()[:last], nil), in.Columns()[:last], in.NumRows())
	defer rec.Release()
	before := r.errors
	file, slots, err := r.convert(ctx, rec)
	if err != nil {
		return nil, nil, err
	}
	defer file.Release()
	if r.unfit > 0 {
		return nil, nil, errUnfit
	}
	var none []int
	for i := range gone.Len() {
		if gone.Value(i) {
			none = append(none, i)
		}
	}
	cols := make([]arrow.Array, 0, last+1)
	defer func() {
		for _, c := range cols {
			c.Release()
		}
	}()
	r.errors = before
	for i, c := range r.layout.cols {
		a := file.Column(i)
		a.Retain()
		if c.Role != RoleKey && c.Name != slotColumn {
			a = r.without(a, none)
		}
		if c.Name == errorColumn {
			r.errors += int64(a.Len() - a.NullN())
		}
		cols = append(cols, a)
	}
	gone.Retain()
	cols = append(cols, gone)
	return array.NewRecordBatch(r.layout.delta(0), cols, in.NumRows()), slots, nil
}
