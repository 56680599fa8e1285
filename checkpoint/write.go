package checkpoint

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/internal/atomicfile"
	"weir/state"
)

// A Snapshot is the cut of the state that a checkpoint holds. *state.Snapshot
// is one. Reading it must not keep commits waiting.
type Snapshot interface {
	Epoch() uint64
	Catalog() *state.Catalog
	Positions(state.CursorID) []state.Position
	Records(state.CursorID) int64
	Stats(state.ViewID) state.ViewStats
	Scan(context.Context, state.ScanRequest) (array.RecordReader, error)
	Refused(source state.SourceID, after uint64, limit int) ([]state.RefusedRecord, error)
	RefusedCount(state.SourceID) state.RefusedCount
}

// A history is a Snapshot that knows what changed since an earlier one, as
// *state.Snapshot does. Without it every view is written whole: only the store
// itself can say that a file of an earlier checkpoint still holds.
type history interface {
	// Mark is the token by which a later snapshot knows this one, "" for none.
	Mark() string
	// Knows says whether the state went on from the snapshot of that epoch whose
	// Mark was token.
	Knows(token string, epoch uint64) bool
	// Changed gives the groups of r.View that changed since, in the order of slot
	// and key: what r asks for, then state.DeletedColumn. n is how many, or a little
	// more. The error is state.ErrUnknown where that was not recorded.
	Changed(ctx context.Context, r state.ScanRequest, token string, epoch uint64) (rows array.RecordReader, n int64, err error)
}

var _ history = (*state.Snapshot)(nil)

// Options are the settings of [Write]. The zero value is usable.
type Options struct {
	// Mem allocates the batches, those that the Finalizer gets included: it must
	// not be the Go heap when they go to C.
	Mem memory.Allocator
	// Now is the clock, time.Now when nil.
	Now func() time.Time
	// Rest makes room for ingest: after each batch Write rests that many times as
	// long as the batch took, so 1 leaves it half of a processor. 0 is no rest.
	// (A thread of low priority would not do: it would keep Go's collector, and
	// with it everybody, waiting.)
	Rest float64
	// Writer names the program in the manifest, for people.
	Writer string
	// Engine names in the manifest what the Finalizer computes results with, and its
	// version: another may have other results. So files of a checkpoint of another
	// Engine are not shared.
	Engine string
	// Whole writes every view as one file. Else those of which the snapshot says
	// what changed since the newest checkpoint share its files and add a delta. A
	// savepoint is always whole.
	Whole bool
	// Small is the number of groups below which a view is written whole: its file is
	// not worth a delta, and opens with one line.
	Small int64
	// Replaced is called by [Compact] when the checkpoint is whole, with what removes
	// the files that nobody needs any more but who reads them. It may be called
	// later; [Sweep] does the same. When nil they are removed at once.
	Replaced func(remove func() error)
	// Savepoint makes the checkpoint a savepoint of that name: it stays until
	// [Remove]. See [CheckName]; no other savepoint in the directory may have it.
	Savepoint string
}

// Write makes a checkpoint of snap in dir (which is created), under the next
// free number, and returns its manifest. When it returns an error, or the
// process dies at any point, dir holds what it held before, and perhaps a
// leftover for [Sweep].
//
// The files of a view that stands where it stood in the newest checkpoint of the
// same state are hard-linked from there, and so are those of a view that changed
// a little, which gets a delta besides. A few batches are in memory at a time.
// One Write at a time in a directory; the caller keeps snap open until it
// returns.
func Write(ctx context.Context, fsys vfs.FS, dir string, snap Snapshot, fin Finalizer, o Options) (*Manifest, error) {
	if o.Mem == nil {
		o.Mem = memory.DefaultAllocator
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Savepoint != "" {
		if err := VacantName(fsys, dir, o.Savepoint); err != nil {
			return nil, err
		}
	}
	w := &writer{fs: fsys, dir: dir, snap: snap, fin: fin, o: o}
	w.history, _ = snap.(history)
	return w.write(ctx)
}

type writer struct {
	fs   vfs.FS
	dir  string
	snap Snapshot
	fin  Finalizer
	o    Options

	history history // nil if snap is none
	tmp     string
	last    *Manifest // the newest checkpoint of this state, nil if there is none
}

func (w *writer) write(ctx context.Context) (_ *Manifest, err error) {
	if err := w.fs.MkdirAll(w.dir, 0o755); err != nil {
		return nil, fmt.Errorf("create %s: %w", w.dir, err)
	}
	if err := atomicfile.SyncDir(w.fs, w.fs.PathDir(w.dir)); err != nil {
		return nil, err
	}
	id, err := w.number()
	if err != nil {
		return nil, err
	}
	if w.tmp, err = atomicfile.Stage(w.fs, w.fs.PathJoin(w.dir, dirName(id))); err != nil {
		return nil, err
	}
	if err := w.fs.MkdirAll(w.fs.PathJoin(w.tmp, "views"), 0o755); err != nil {
		return nil, fmt.Errorf("create %s: %w", w.tmp, err)
	}
	defer func() {
		if err != nil {
			// What cannot be removed now is swept at the next start.
			_ = w.fs.RemoveAll(w.tmp)
		}
	}()

	m := w.manifest(id)
	if err := w.views(ctx, m); err != nil {
		return nil, err
	}
	if err := w.quarantine(ctx, m); err != nil {
		return nil, err
	}
	if err := atomicfile.SyncDir(w.fs, w.fs.PathJoin(w.tmp, "views")); err != nil {
		return nil, err
	}
	if e, ok := w.snap.(interface{ Edits() []Edit }); ok { // its groups are not all what records made
		m.Edits = e.Edits()
	}
	if err := m.write(w.fs, w.tmp); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := atomicfile.Publish(w.fs, w.tmp, w.fs.PathJoin(w.dir, dirName(id))); err != nil {
		return nil, err
	}
	return m, nil
}

// number is the next free one. It also finds the newest checkpoint that the
// state went on from: an unreadable one, one of an older format, of another engine or
// of another state shares nothing and is no reason not to write another.
func (w *writer) number() (uint64, error) {
	ids, err := numbers(w.fs, w.dir)
	if err != nil {
		return 0, err
	}
	next, err := reserved(w.fs, w.dir)
	if err != nil {
		return 0, err
	}
	for _, id := range slices.Backward(ids) {
		if w.history == nil || w.last != nil {
			break
		}
		m, err := readNumber(w.fs, w.dir, id)
		if err == nil && m.FormatVersion == FormatVersion && m.Engine == w.o.Engine && m.History != "" && w.history.Knows(m.History, m.Epoch) {
			w.last = m
		}
	}
	if n := len(ids); n > 0 {
		next = max(next, ids[n-1]+1)
	}
	return next, nil
}

// manifest is everything that is known before a row is read.
func (w *writer) manifest(id uint64) *Manifest {
	cat := w.snap.Catalog()
	m := &Manifest{
		Format: formatName, FormatVersion: FormatVersion,
		Checkpoint: id, Epoch: w.snap.Epoch(), Created: w.o.Now().UTC().Truncate(time.Microsecond), Writer: w.o.Writer, Engine: w.o.Engine, Savepoint: w.o.Savepoint,
		Slots: state.Slots, NextID: cat.NextID, NextCursor: cat.NextCursor,
		Sources: []Source{}, Cursors: []Cursor{}, Views: []View{}, Queries: []Query{},
		Quarantine: Quarantine{Sources: []QuarantineCount{}, Columns: quarantineColumns()},
	}
	if w.history != nil {
		m.History = w.history.Mark()
	}
	cursor := func(c state.CursorID) {
		if !slices.ContainsFunc(m.Cursors, func(have Cursor) bool { return have.ID == uint32(c) }) {
			m.Cursors = append(m.Cursors, Cursor{ID: uint32(c), Records: w.snap.Records(c), Positions: positionsOf(w.snap.Positions(c))})
		}
	}
	for _, s := range cat.Sources {
		cursor(s.Cursor)
		m.Sources = append(m.Sources, Source{ID: uint32(s.ID), Name: s.Name, SQL: s.SQL, Columns: s.Columns, Options: s.Options, Cursor: uint32(s.Cursor)})
		n := w.snap.RefusedCount(s.ID)
		q := QuarantineCount{Source: uint32(s.ID), Total: n.Total, Kept: n.Kept, ByView: map[uint32]int64{}, Passed: spansOf(s.Passed)}
		for v, k := range n.ByView {
			q.ByView[uint32(v)] = k
		}
		m.Quarantine.Sources = append(m.Quarantine.Sources, q)
	}
	for _, v := range cat.Views {
		cursor(v.Cursor)
		m.Views = append(m.Views, View{
			ID: uint32(v.ID), Name: v.Plan.Name, SQL: v.SQL, Fingerprint: v.Plan.Fingerprint,
			Source: uint32(v.Source), Cursor: uint32(v.Cursor), CreatedEpoch: v.CreatedEpoch, Edited: v.Edited,
			First: positionsOf(v.First), Positions: positionsOf(w.snap.Positions(v.Cursor)), Plan: v.Plan,
		})
	}
	for _, q := range cat.Queries {
		m.Queries = append(m.Queries, Query{Name: q.Name, SQL: q.SQL, Select: q.Select, Columns: q.Columns})
	}
	return m
}

func (w *writer) views(ctx context.Context, m *Manifest) error {
	for i := range m.Views {
		v := &m.Views[i]
		done, err := w.share(m, v)
		if err == nil && !done {
			done, err = w.delta(ctx, m, v)
		}
		if err == nil && !done {
			err = w.view(ctx, m, v)
		}
		if err != nil {
			return fmt.Errorf("view %s: %w", v.Name, err)
		}
	}
	return nil
}

// before is the view as it stands in the newest checkpoint of this state.
func (w *writer) before(v *View) (*View, bool) {
	if w.last == nil {
		return nil, false
	}
	old, ok := w.last.View(v.Name)
	return old, ok && old.ID == v.ID && old.CreatedEpoch == v.CreatedEpoch && old.Fingerprint == v.Fingerprint
}

func (w *writer) whole() bool { return w.o.Whole || w.o.Savepoint != "" }

// share links the files of a view that did not change. A view is a function of
// the records below its positions, so it stands where it stood when it is the
// same view at the same positions with as many records, groups and bytes.
func (w *writer) share(m *Manifest, v *View) (bool, error) {
	old, ok := w.before(v)
	stats := w.snap.Stats(state.ViewID(v.ID))
	if !ok || old.Cursor != v.Cursor || old.Groups != stats.Groups || old.Bytes != stats.Bytes || w.whole() && !old.Whole() ||
		!slices.Equal(old.Positions, v.Positions) || w.last.records(old.Cursor) != m.records(v.Cursor) {
		return false, nil
	}
	if ok, err := w.link(m, old, old.Files()); !ok {
		return false, err
	}
	v.File, v.Parts, v.Columns, v.Groups, v.Bytes, v.Errors = old.File, old.Parts, old.Columns, old.Groups, old.Bytes, old.Errors
	return true, nil
}

func (m *Manifest) records(cursor uint32) int64 {
	for _, c := range m.Cursors {
		if c.ID == cursor {
			return c.Records
		}
	}
	return -1
}

// view writes the file of one view.
func (w *writer) view(ctx context.Context, m *Manifest, v *View) error {
	l, err := newLayout(&v.Plan, m.Epoch)
	if err != nil {
		return err
	}
	rows, done, err := w.fileRows(ctx, v, l)
	if err != nil {
		return err
	}
	defer done()
	name := fileName(v.Name, v.ID)
	err = atomicfile.Create(w.fs, w.fs.PathJoin(w.tmp, name), func(f io.Writer) error {
		out := newArrowWriter(f, l.schema, w.o.Mem)
		r, err := w.snap.Scan(ctx, w.scanRequest(v))
		if err != nil {
			return err
		}
		defer r.Release()
		if err := w.copy(ctx, r, rows.convert, out); err != nil {
			return err
		}
		v.File, err = out.Close()
		return err
	})
	if err != nil {
		return err
	}
	v.File.Name, v.Columns, v.Errors = name, l.cols, rows.errors
	v.Groups, v.Bytes = v.File.Rows, w.snap.Stats(state.ViewID(v.ID)).Bytes
	return nil
}

// fileRows makes what computes the rows of a view's file. done frees it.
func (w *writer) fileRows(ctx context.Context, v *View, l *layout) (rows *fileRows, done func(), err error) {
	rows = &fileRows{mem: w.o.Mem, view: &v.Plan, layout: l}
	if len(l.eval) == 0 && v.Plan.Visible == "" {
		return rows, func() {}, nil
	}
	if rows.final, err = w.fin.Prepare(ctx, &v.Plan, l.eval); err != nil {
		return nil, nil, err
	}
	return rows, func() { _ = rows.final.Close() }, nil
}

func (w *writer) scanRequest(v *View) state.ScanRequest {
	return state.ScanRequest{
		View:  state.ViewID(v.ID),
		Extra: state.Extra{Slot: true, Epoch: true, Error: true}, BatchRows: batchRows, Mem: w.o.Mem,
	}
}

// copy writes what a snapshot reads, rested.
func (w *writer) copy(ctx context.Context, r array.RecordReader, convert func(context.Context, arrow.RecordBatch) (arrow.RecordBatch, *array.Uint16, error), out *arrowWriter) error {
	began := time.Now()
	return gather(w.o.Mem, r, func(rec arrow.RecordBatch) error {
		defer func() { began = time.Now() }()
		file, slots, err := convert(ctx, rec)
		if err != nil {
			return err
		}
		defer file.Release()
		defer slots.Release()
		if err := out.Write(file, slots); err != nil {
			return err
		}
		return rest(ctx, time.Duration(w.o.Rest*float64(time.Since(began))))
	})
}

// rest waits, or until ctx ends.
func rest(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *writer) quarantine(ctx context.Context, m *Manifest) error {
	kept := false
	for _, s := range m.Quarantine.Sources {
		kept = kept || s.Kept > 0
	}
	if !kept {
		return nil
	}
	file := new(File)
	err := atomicfile.Create(w.fs, w.fs.PathJoin(w.tmp, quarantineFile), func(f io.Writer) (err error) {
		*file, err = writeQuarantine(ctx, f, w.snap, w.o.Mem)
		return err
	})
	if err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	file.Name, m.Quarantine.File = quarantineFile, file
	return nil
}
