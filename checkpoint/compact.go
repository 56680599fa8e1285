package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/internal/atomicfile"
)

// Compact makes checkpoint id of dir whole: each view that is a base and deltas
// becomes one file. It holds what it held, under the same number; of o only Mem,
// Rest and Replaced count. It returns the manifest, also when there was nothing to do.
//
// The new files are built beside the old ones, then the manifest is replaced, and
// then the old ones go: after a crash at any point the checkpoint is as it was or
// whole, and [Sweep] removes what is left over. Who has a table open goes on reading it.
// Not while Write, Retain or another Compact works in dir.
func Compact(ctx context.Context, fsys vfs.FS, dir string, id uint64, o Options) (*Manifest, error) {
	if o.Mem == nil {
		o.Mem = memory.DefaultAllocator
	}
	c, err := Open(fsys, Path(fsys, dir, id))
	if err != nil {
		return nil, err
	}
	if err := c.compact(ctx, o); err != nil {
		return nil, fmt.Errorf("compact checkpoint %d: %w", id, err)
	}
	return c.Manifest, nil
}

// A view is worth compacting when it has so many deltas, or when one of so many
// groups is in them.
const (
	compactDeltas = 8
	compactShare  = 8
)

// CompactDue says whether it is time for [Compact]: deltas cost whoever reads the
// checkpoint, and every later one that shares them.
func (m *Manifest) CompactDue() bool {
	return slices.ContainsFunc(m.Views, func(v View) bool {
		return len(v.Parts) > compactDeltas || v.changedRows()*compactShare > v.Groups
	})
}

func (c *Checkpoint) compact(ctx context.Context, o Options) error {
	m := *c.Manifest
	m.Views = slices.Clone(m.Views)
	m.FormatVersion = FormatVersion
	var parts []File
	for i := range m.Views {
		v := &m.Views[i]
		if v.Whole() {
			continue
		}
		f, err := c.join(ctx, v, o)
		if err != nil {
			return fmt.Errorf("view %s: %w", v.Name, err)
		}
		parts = append(parts, v.Parts...)
		v.File, v.Parts = f, nil
	}
	if len(parts) == 0 {
		return nil
	}
	if err := atomicfile.SyncDir(c.fs, c.fs.PathJoin(c.dir, "views")); err != nil {
		return err
	}
	if err := m.write(c.fs, c.dir); err != nil {
		return err
	}
	c.Manifest = &m
	// The checkpoint is whole. What cannot be removed now is swept.
	whole := Checkpoint{Manifest: &m, fs: c.fs, dir: c.dir}
	if o.Replaced != nil {
		o.Replaced(whole.removeUnnamed)
	} else {
		_ = whole.removeUnnamed()
	}
	return nil
}

// join writes the file of a view that is a base and deltas.
func (c *Checkpoint) join(ctx context.Context, v *View, o Options) (f File, err error) {
	t, err := c.Table(v.Name)
	if err != nil {
		return f, err
	}
	defer t.Close()
	rows, err := t.Rows(ctx, nil, o.Mem)
	if err != nil {
		return f, err
	}
	defer rows.Release()
	name := fileName(v.Name, v.ID)
	path := c.fs.PathJoin(c.dir, name)
	// What an earlier try left may be a link to the file of another checkpoint,
	// which must not be written over.
	if err := c.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f, fmt.Errorf("remove %s: %w", path, err)
	}
	err = atomicfile.Create(c.fs, path, func(file io.Writer) error {
		out := newArrowWriter(file, atEpoch(rows.Schema(), c.Manifest.Epoch), o.Mem)
		began := time.Now()
		for rows.Next() {
			rec := rows.RecordBatch()
			if err := out.Write(rec, rec.Column(t.slot).(*array.Uint16)); err != nil {
				return err
			}
			if err := rest(ctx, time.Duration(o.Rest*float64(time.Since(began)))); err != nil {
				return err
			}
			began = time.Now()
		}
		if err := rows.Err(); err != nil {
			return err
		}
		f, err = out.Close()
		return err
	})
	f.Name = name
	return f, err
}

// atEpoch is the schema of a base as a checkpoint of that epoch would write it.
func atEpoch(s *arrow.Schema, epoch uint64) *arrow.Schema {
	meta := s.Metadata()
	keys, values := slices.Clone(meta.Keys()), slices.Clone(meta.Values())
	for i, k := range keys {
		switch k {
		case "weir.epoch":
			values[i] = strconv.FormatUint(epoch, 10)
		case versionKey:
			values[i] = strconv.Itoa(FormatVersion)
		}
	}
	m := arrow.NewMetadata(keys, values)
	return arrow.NewSchema(s.Fields(), &m)
}

// removeUnnamed removes from views/ what the manifest does not name and a crash of
// Compact leaves: Arrow files, and directories of parts. What else somebody put
// there stays.
func (c *Checkpoint) removeUnnamed() error {
	named := map[string]bool{}
	for i := range c.Manifest.Views {
		for _, f := range c.Manifest.Views[i].Files() {
			path := c.path(f)
			named[path], named[c.fs.PathDir(path)] = true, true
		}
	}
	views := c.fs.PathJoin(c.dir, "views")
	names, err := c.fs.List(views)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", views, err)
	}
	for _, name := range names {
		path := c.fs.PathJoin(views, name)
		if named[path] || !strings.HasSuffix(name, ".arrow") && !c.isParts(path) {
			continue
		}
		if err := c.fs.RemoveAll(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", path, err)
		}
	}
	return nil
}

// isParts says whether a directory holds parts and nothing else.
func (c *Checkpoint) isParts(path string) bool {
	names, err := c.fs.List(path)
	return err == nil && !slices.ContainsFunc(names, func(name string) bool {
		return !strings.HasSuffix(name, "-base.arrow") && !strings.HasSuffix(name, "-delta.arrow")
	})
}

// sweepParts removes what crashes of Compact left in the checkpoints of dir.
func sweepParts(fsys vfs.FS, dir string) error {
	ids, err := numbers(fsys, dir)
	if err != nil {
		return err
	}
	for _, id := range ids {
		c, err := Open(fsys, Path(fsys, dir, id))
		if err != nil {
			continue // it is not ours to touch
		}
		if err := c.removeUnnamed(); err != nil {
			return err
		}
	}
	return nil
}
