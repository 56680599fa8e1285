package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/internal/recordbatch"
	"weir/state"
	"weir/state/sqltype"
)

// A Checkpoint is one that was opened: its manifest is verified, its files are
// when they are read.
type Checkpoint struct {
	Manifest *Manifest
	fs       vfs.FS
	dir      string
}

// Open reads and verifies the manifest in dir. Errors about the checkpoint are
// an [*Error]. Nothing stays open.
func Open(fsys vfs.FS, dir string) (*Checkpoint, error) {
	m, err := readManifest(fsys, dir)
	if err != nil {
		return nil, err
	}
	return &Checkpoint{Manifest: m, fs: fsys, dir: dir}, nil
}

// Verify compares every file with its sha256 in the manifest and returns all
// that differ.
func (c *Checkpoint) Verify(ctx context.Context) error {
	err := c.verify(ctx, c.Manifest)
	if m, ok := c.compacted(err); ok {
		return c.verify(ctx, m)
	}
	return err
}

func (c *Checkpoint) verify(ctx context.Context, m *Manifest) error {
	var errs []error
	for _, f := range m.files() {
		if err := ctx.Err(); err != nil {
			return err
		}
		errs = append(errs, verifyFile(c.fs, c.path(f), f))
	}
	return errors.Join(errs...)
}

// compacted looks whether a file is missing because the checkpoint was made
// whole since it was opened, and reads its manifest as it is now.
func (c *Checkpoint) compacted(err error) (*Manifest, bool) {
	if !errors.Is(err, ErrMissing) {
		return nil, false
	}
	m, err := readManifest(c.fs, c.dir)
	return m, err == nil && !slices.Equal(m.files(), c.Manifest.files())
}

func (c *Checkpoint) path(f File) string { return c.fs.PathJoin(c.dir, f.Name) }

// Table opens the file of a view, found by name without regard to case, or its
// files, and verifies their tails. The caller closes the Table; scans that run go
// on.
func (c *Checkpoint) Table(view string) (*Table, error) {
	t, err := c.table(c.Manifest, view)
	if m, ok := c.compacted(err); ok {
		return c.table(m, view)
	}
	return t, err
}

func (c *Checkpoint) table(m *Manifest, view string) (_ *Table, err error) {
	v, ok := m.View(view)
	if !ok {
		return nil, &Error{Kind: ErrMismatch, Path: c.dir, What: fmt.Sprintf("checkpoint %d has no view %s", m.Checkpoint, view)}
	}
	at, err := v.stateColumns()
	if err != nil {
		return nil, err
	}
	t := &Table{
		View: v, at: at, fields: v.Plan.StateColumns(), slot: v.column(slotColumn), epoch: v.column(epochColumn),
		err: v.column(errorColumn), errAt: v.column(errorAtColumn), exact: v.column(exactColumn),
	}
	if min(t.slot, t.epoch, t.err, t.errAt) < 0 {
		return nil, &Error{Kind: ErrMismatch, Path: c.dir, What: "view " + v.Name + " lacks system columns"}
	}
	defer func() {
		if err != nil {
			_ = t.Close()
		}
	}()
	for _, f := range v.Files() {
		file, err := openArrow(c.fs, c.path(f), f)
		if err != nil {
			return nil, err
		}
		t.parts = append(t.parts, file)
	}
	return t, nil
}

// Refused reads the quarantined records. Keys and values are the caller's.
func (c *Checkpoint) Refused(ctx context.Context) (out []state.RefusedRecord, err error) {
	f := c.Manifest.Quarantine.File
	if f == nil {
		return nil, nil
	}
	file, err := openArrow(c.fs, c.path(*f), *f)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r, err := file.scan(memory.DefaultAllocator, 0, len(file.index.Batches))
	if err != nil {
		return nil, err
	}
	defer r.close()
	for r.Next() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		rows, err := refusedRows(r.RecordBatch())
		if err != nil {
			return nil, damaged(file.path, "%v", err)
		}
		out = append(out, rows...)
	}
	return out, r.Err()
}

// A Table is the state of one view in a checkpoint: its keys and accumulators,
// over which the view's final SQL gives the results. It is safe for concurrent
// use.
type Table struct {
	View *View

	parts  []*arrowFile // the file, or the base and its deltas
	fields []sqltype.Field
	at     []int // columns of the file that hold them
	slot, epoch, err, errAt,
	exact int // columns of the file; exact is -1 when there is none
	counting bool // View.Errors is not known yet
}

// Columns are the names and types of a scan: plan.View.StateColumns.
func (t *Table) Columns() []sqltype.Field { return t.fields }

// Close closes the files once the scans that run are released.
func (t *Table) Close() error {
	var errs []error
	for _, p := range t.parts {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// Scan reads the table as state.Snapshot.Scan reads the live one: the same
// request gives the same columns in the same order and form. View is not looked
// at, filters are not applied (they only ever narrow a scan), and BatchRows is
// that of the file. Deltas are merged on the way, a batch of each in memory. A group that only the file's types put in error comes with
// its exact values and without the error. The caller releases the reader.
func (t *Table) Scan(ctx context.Context, r state.ScanRequest) (array.RecordReader, error) {
	if r.Mem == nil {
		r.Mem = memory.DefaultAllocator
	}
	if r.ToSlot == 0 {
		r.ToSlot = state.Slots
	}
	if r.FromSlot < 0 || r.ToSlot > state.Slots || r.FromSlot > r.ToSlot {
		return nil, fmt.Errorf("slots %d to %d are not within 0 to %d", r.FromSlot, r.ToSlot, state.Slots)
	}
	columns := r.Columns
	if columns == nil {
		for i := range t.fields {
			columns = append(columns, i)
		}
	}
	var fields []arrow.Field
	for _, c := range columns {
		if c < 0 || c >= len(t.fields) {
			return nil, fmt.Errorf("column %d is not one of %d", c, len(t.fields))
		}
		fields = append(fields, t.fields[c].Type.InsideField(t.fields[c].Name))
	}
	extra := func(want bool, name string, id sqltype.ID) {
		if want {
			fields = append(fields, sqltype.Type{ID: id}.InsideField(name))
		}
	}
	extra(r.Extra.Slot, slotColumn, sqltype.USmallInt)
	extra(r.Extra.Epoch, epochColumn, sqltype.UBigInt)
	extra(r.Extra.Error, errorColumn, sqltype.Varchar)

	in, err := t.raw(r.Mem, r.FromSlot, r.ToSlot)
	if err != nil {
		return nil, err
	}
	s := &scan{ctx: ctx, table: t, in: in, request: r, columns: columns, schema: arrow.NewSchema(fields, nil)}
	return recordbatch.NewReader(s.schema, s.next, in.close), nil
}
