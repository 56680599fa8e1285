package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/state"
)

// Restore makes the checkpoint in from the state in dir, which must not exist or
// be empty but for what an earlier try left, and returns its manifest. Everything is verified first: a
// checkpoint that is damaged, unfinished or newer than this program is refused
// with an [*Error] before dir is touched. o is how the state will be opened;
// o.FS is where both directories are; [RestoreFrom] tells them apart.
//
// Positions, quarantined records and ids are those of the checkpoint, so ingest
// goes on where it stood.
func Restore(ctx context.Context, from, dir string, o state.Options) (*Manifest, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	return RestoreFrom(ctx, o.FS, from, dir, o)
}

// RestoreFrom is [Restore] from a checkpoint in another file system than o.FS.
func RestoreFrom(ctx context.Context, fsys vfs.FS, from, dir string, o state.Options) (*Manifest, error) {
	return RestoreSome(ctx, fsys, from, dir, o, Choice{})
}

// A Choice says what of a checkpoint is restored. The zero Choice is all of it.
type Choice struct {
	// View and Query say which are kept; nil keeps all. What is left out is as if
	// it had been dropped.
	View  func(*state.View) bool
	Query func(*state.Query) bool
	// Unresumable lets what no appliance can go on from be restored to be read;
	// see [Manifest.Resumable].
	Unresumable bool
}

// RestoreSome is [RestoreFrom] of a part.
func RestoreSome(ctx context.Context, fsys vfs.FS, from, dir string, o state.Options, choice Choice) (*Manifest, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	names, err := o.FS.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	// That is what an earlier try leaves that failed, or died.
	names = slices.DeleteFunc(names, func(n string) bool { return n == "lock" || n == "db.new" })
	if len(names) > 0 {
		return nil, &Error{Kind: ErrNotEmpty, Path: dir, What: fmt.Sprintf("it holds %s", names[0]), Do: "give a new directory, or remove the old state first (weir reset)"}
	}
	c, err := Open(fsys, from)
	if err != nil {
		return nil, err
	}
	if err := c.Manifest.Resumable(); err != nil && !choice.Unresumable {
		return nil, &Error{Kind: ErrMismatch, Path: from, What: err.Error(), Do: "restore the checkpoints that it was merged of"}
	}
	if err := c.Verify(ctx); err != nil {
		return nil, err
	}
	dump, done, err := c.dump(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if choice.View != nil || choice.Query != nil {
		all := func(*state.View) bool { return true }
		every := func(*state.Query) bool { return true }
		if choice.View != nil {
			all = choice.View
		}
		if choice.Query != nil {
			every = choice.Query
		}
		dump.Keep(all, every)
	}
	if err := state.Load(dir, o, dump); err != nil {
		return nil, fmt.Errorf("restore %s: %w", from, err)
	}
	return c.Manifest, nil
}

// dump is the checkpoint as package state loads it. done frees its files.
func (c *Checkpoint) dump(ctx context.Context) (_ state.Dump, done func(), err error) {
	m := c.Manifest
	tables := map[state.ViewID]*Table{}
	free := func() {
		for _, t := range tables {
			t.Close()
		}
	}
	defer func() {
		if err != nil { // the result is nil then
			free()
		}
	}()
	d := state.Dump{
		Epoch: m.Epoch, NextID: m.NextID, NextCursor: m.NextCursor,
		Positions: map[state.CursorID][]state.Position{}, Records: map[state.CursorID]int64{}, RefusedCounts: map[state.SourceID]state.RefusedCount{},
	}
	for _, s := range m.Sources {
		d.Sources = append(d.Sources, state.Source{ID: state.SourceID(s.ID), Name: s.Name, SQL: s.SQL, Columns: s.Columns, Options: s.Options, Cursor: state.CursorID(s.Cursor)})
	}
	for _, cur := range m.Cursors {
		d.Records[state.CursorID(cur.ID)] = cur.Records
		if d.Positions[state.CursorID(cur.ID)], err = positionsTo(cur.Positions); err != nil {
			return d, nil, err
		}
	}
	for i := range m.Views {
		v := &m.Views[i]
		first, err := positionsTo(v.First)
		if err != nil {
			return d, nil, err
		}
		t, err := c.Table(v.Name)
		if err != nil {
			return d, nil, err
		}
		id := state.ViewID(v.ID)
		tables[id] = t
		d.Views = append(d.Views, state.View{ID: id, SQL: v.SQL, Plan: v.Plan, Source: state.SourceID(v.Source), Cursor: state.CursorID(v.Cursor), First: first, CreatedEpoch: v.CreatedEpoch, Edited: v.Edited})
	}
	for _, q := range m.Queries {
		d.Queries = append(d.Queries, state.Query{Name: q.Name, SQL: q.SQL, Select: q.Select, Columns: q.Columns})
	}
	for _, q := range m.Quarantine.Sources {
		n := state.RefusedCount{Total: q.Total, Kept: q.Kept, ByView: map[state.ViewID]int64{}}
		for v, k := range q.ByView {
			n.ByView[state.ViewID(v)] = k
		}
		i := slices.IndexFunc(d.Sources, func(s state.Source) bool { return uint32(s.ID) == q.Source })
		if d.Sources[i].Passed, err = spansTo(q.Passed); err != nil {
			return d, nil, err
		}
		d.RefusedCounts[state.SourceID(q.Source)] = n
	}
	if d.Refused, err = c.Refused(ctx); err != nil {
		return d, nil, err
	}
	d.Rows = func(id state.ViewID) (array.RecordReader, error) {
		t, ok := tables[id]
		if !ok {
			return nil, fmt.Errorf("checkpoint %d has no view %d", m.Checkpoint, id)
		}
		return t.Scan(ctx, state.ScanRequest{View: id, Extra: state.Extra{Slot: true, Epoch: true, Error: true}})
	}
	return d, free, nil
}
