package checkpoint

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Merge writes one savepoint into dir that stands for all that the checkpoints in
// from have counted, as if one appliance had: groups of one key are one, their
// accumulators merged by rule, a sum that overflows puts its group in error, and
// results are computed anew. Sources, views and plain views are those of the
// first. The groups are read side by side, so memory does not grow with them.
//
// It refuses, by name, checkpoints of other views (compared by fingerprint) or
// sources, views that had not caught up with their source, and what would count
// a record twice or leave one out: a partition, known by its topic's id, may be in
// several only when one goes on exactly where the other ended.
//
// What was merged of several topics belongs to none of them, so no appliance can
// go on from it: see [Manifest.Resumable].
func Merge(ctx context.Context, from []*Checkpoint, fsys vfs.FS, dir string, fin Finalizer, o Options) (*Manifest, error) {
	if len(from) < 2 {
		return nil, fmt.Errorf("merge: give two checkpoints or more")
	}
	if err := VacantName(fsys, dir, o.Savepoint); err != nil {
		return nil, err
	}
	for _, c := range from {
		if err := c.Verify(ctx); err != nil {
			return nil, err
		}
	}
	m := &merging{from: from}
	defer m.close()
	if err := m.open(ctx); err != nil {
		return nil, err
	}
	edit, err := newEdit(editMerge, o.Now, nil, from...)
	if err != nil {
		return nil, err
	}
	im := m.images[0]
	im.catalog.Views, im.catalog.Sources = slices.Clone(im.catalog.Views), slices.Clone(im.catalog.Sources)
	read := make([]*mergedView, len(im.catalog.Views))
	for i := range im.catalog.Views {
		if read[i], err = m.view(&im.catalog.Views[i], o); err != nil {
			return nil, err
		}
		im.catalog.Views[i].Edited = edit.ID
	}
	for i := range im.catalog.Sources { // after the views, which read the first's positions
		if err := m.source(&im.catalog.Sources[i]); err != nil {
			return nil, err
		}
	}
	for _, other := range m.images[1:] {
		im.dump.Epoch = max(im.dump.Epoch, other.dump.Epoch)
	}
	im.edits = func() []Edit {
		var all []Edit
		for _, c := range from {
			all = append(all, c.Manifest.Edits...)
		}
		for _, v := range read {
			edit.Views = append(edit.Views, v.count())
		}
		return append(all, edit)
	}
	return Write(ctx, fsys, dir, im, fin, o)
}

// merging is a merge under way. The first image becomes the result.
type merging struct {
	from   []*Checkpoint
	images []*image
	dones  []func()
}

func (m *merging) close() {
	for _, done := range m.dones {
		done()
	}
}

// open opens all and wants them to be of the same sources and views.
func (m *merging) open(ctx context.Context) error {
	for _, c := range m.from {
		im, done, err := newImage(ctx, c)
		if err != nil {
			return err
		}
		m.images, m.dones = append(m.images, im), append(m.dones, done)
	}
	first := m.from[0].Manifest
	for _, c := range m.from {
		refuse := func(do, format string, args ...any) error {
			return &Error{Kind: ErrMismatch, Path: c.dir, What: fmt.Sprintf(format, args...), Do: do}
		}
		for i := range first.Views {
			want := &first.Views[i]
			v, ok := c.Manifest.View(want.Name)
			switch {
			case !ok:
				return refuse("merge checkpoints of the same views", "it has no view %s, which %s has", want.Name, m.from[0].dir)
			case v.Fingerprint != want.Fingerprint:
				return refuse("merge checkpoints of the same views", "its view %s keeps other state than that of %s:\n%s\nand\n%s", v.Name, m.from[0].dir, v.SQL, want.SQL)
			case !strings.EqualFold(c.Manifest.sourceName(v.Source), first.sourceName(want.Source)):
				return refuse("merge checkpoints of the same views", "its view %s reads source %s, not %s", v.Name, c.Manifest.sourceName(v.Source), first.sourceName(want.Source))
			case v.Cursor != c.Manifest.sourceCursor(v.Source):
				return refuse("take a checkpoint when the view has caught up", "its view %s had not caught up with its source yet", v.Name)
			}
		}
		for i := range c.Manifest.Views {
			if _, ok := first.View(c.Manifest.Views[i].Name); !ok {
				return refuse("merge checkpoints of the same views", "it has a view %s, which %s has not", c.Manifest.Views[i].Name, m.from[0].dir)
			}
		}
		for _, s := range first.Sources {
			if !slices.ContainsFunc(c.Manifest.Sources, func(o Source) bool { return strings.EqualFold(o.Name, s.Name) }) {
				return refuse("merge checkpoints of the same sources", "it has no source %s", s.Name)
			}
		}
	}
	return nil
}

func (m *Manifest) sourceName(id uint32) string {
	for _, s := range m.Sources {
		if s.ID == id {
			return s.Name
		}
	}
	return ""
}

func (m *Manifest) sourceCursor(id uint32) uint32 {
	for _, s := range m.Sources {
		if s.ID == id {
			return s.Cursor
		}
	}
	return 0
}

// Resumable says why no appliance can go on from the checkpoint, nil when one can:
// a source reads one topic, and what was merged of several stands in all of them.
func (m *Manifest) Resumable() error {
	for _, s := range m.Sources {
		for _, c := range m.Cursors {
			if c.ID != s.Cursor {
				continue
			}
			for _, p := range c.Positions {
				if q := c.Positions[0]; p.TopicID != q.TopicID || p.Topic != q.Topic {
					return fmt.Errorf("source %s stands in the topics %s (id %s) and %s (id %s), and reads one: what was merged of several topics can be queried, not resumed", s.Name, q.Topic, q.TopicID, p.Topic, p.TopicID)
				}
			}
		}
	}
	return nil
}
