package checkpoint

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/state"
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
	if err := CheckName(o.Savepoint); err != nil {
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
	edit, err := newEdit("merge", o.Now, nil, from...)
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

// A log is one partition of one topic.
type log struct {
	id        [16]byte
	topic     string
	partition int32
}

// logOf names a partition. A broker that gives no ids leaves the name.
func logOf(p state.Position) log {
	l := log{id: p.TopicID, partition: p.Partition}
	if p.TopicID == ([16]byte{}) {
		l.topic = p.Topic
	}
	return l
}

// source unites the positions and the quarantines of a source.
func (m *merging) source(s *state.Source) error {
	im := m.images[0]
	all := map[log]state.Position{}
	var records int64
	count := state.RefusedCount{ByView: map[state.ViewID]int64{}}
	var refused []state.RefusedRecord
	var passed []state.Span
	for i, other := range m.images {
		o, ok := other.catalog.Source(s.Name)
		if !ok {
			return fmt.Errorf("%s has no source %s", m.from[i].dir, s.Name)
		}
		records += other.Records(o.Cursor)
		passed = append(passed, o.Passed...)
		for _, p := range other.Positions(o.Cursor) {
			if was, ok := all[logOf(p)]; !ok || p.Next > was.Next {
				all[logOf(p)] = p
			}
		}
		n := other.RefusedCount(o.ID)
		count.Total += n.Total
		for id, k := range n.ByView {
			count.ByView[m.viewID(other, id)] += k
		}
		for _, r := range other.dump.Refused {
			if r.Source != o.ID {
				continue
			}
			r.Source, r.View, r.Seq = s.ID, m.viewID(other, r.View), uint64(len(refused)+1)
			refused = append(refused, r)
		}
	}
	count.Kept = int64(len(refused))
	im.dump.Refused = slices.DeleteFunc(slices.Clone(im.dump.Refused), func(r state.RefusedRecord) bool { return r.Source == s.ID })
	im.dump.Refused = append(im.dump.Refused, refused...)
	im.dump.RefusedCounts[s.ID] = count
	im.dump.Records[s.Cursor] = records
	im.dump.Positions[s.Cursor] = slices.SortedFunc(maps.Values(all), comparePositions)
	s.Passed = passed
	return nil
}

func comparePositions(a, b state.Position) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), slices.Compare(a.TopicID[:], b.TopicID[:]), cmp.Compare(a.Partition, b.Partition))
}

// viewID is the first checkpoint's id of a view of another; a view that was
// dropped has none.
func (m *merging) viewID(im *image, id state.ViewID) state.ViewID {
	if v, ok := im.catalog.ViewByID(id); ok {
		if w, ok := m.images[0].catalog.View(v.Plan.Name); ok {
			return w.ID
		}
	}
	if id == 0 {
		return 0
	}
	return droppedView
}

// droppedView stands for the views that are gone, whose ids may be others' here.
const droppedView = state.ViewID(1<<32 - 1)

// A mergedView reads one view of all checkpoints.
type mergedView struct {
	name   string
	before []int64
	read   *state.Regrouped
}

func (v *mergedView) count() EditedView {
	e := EditedView{View: v.name, Before: v.before}
	if v.read != nil {
		e.After = v.read.Stats().Groups
	}
	for _, n := range v.before {
		e.Removed += n
	}
	e.Removed -= e.After // groups that became one with another
	return e
}

// view unites where a view began and has its groups merged.
func (m *merging) view(v *state.View, o Options) (*mergedView, error) {
	im := m.images[0]
	type span struct {
		first, next int64
		from        int
	}
	spans := map[log][]span{}
	firsts := map[log]state.Position{}
	out := &mergedView{name: v.Plan.Name}
	var others []*image
	var ids []state.ViewID
	for i, other := range m.images {
		w, _ := other.catalog.View(v.Plan.Name)
		others, ids = append(others, other), append(ids, w.ID)
		out.before = append(out.before, other.stats[w.ID].Groups)
		for _, p := range other.Positions(w.Cursor) {
			first := state.Position{Topic: p.Topic, TopicID: p.TopicID, Partition: p.Partition, LeaderEpoch: p.LeaderEpoch}
			if j := slices.IndexFunc(w.First, func(f state.Position) bool { return logOf(f) == logOf(p) }); j >= 0 {
				first = w.First[j]
			}
			spans[logOf(p)] = append(spans[logOf(p)], span{first.Next, p.Next, i})
			if was, ok := firsts[logOf(p)]; !ok || first.Next < was.Next {
				firsts[logOf(p)] = first
			}
		}
	}
	for at, list := range spans {
		slices.SortFunc(list, func(a, b span) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.next, b.next)) })
		a := list[0]
		for _, b := range list[1:] {
			refuse := func(what, do string) error {
				return &Error{
					Kind: ErrMismatch, Path: m.from[b.from].dir, Do: do,
					What: fmt.Sprintf("view %s: %s partition %d: %s has counted the offsets from %d up to %d, and this one from %d up to %d: %s",
						v.Plan.Name, firsts[at].Topic, at.partition, m.from[a.from].dir, a.first, a.next, b.first, b.next, what),
				}
			}
			switch {
			case b.first < a.next && b.first < b.next:
				return nil, refuse("records would be counted twice", "merge appliances that read different topics, or of which one went on where another ended")
			case b.first > a.next:
				return nil, refuse("the records between would be left out", "merge what has counted them as well")
			}
			if b.next >= a.next {
				a = b
			}
		}
	}
	v.First = slices.SortedFunc(maps.Values(firsts), comparePositions)
	p := &v.Plan
	id := v.ID
	first := im.rows[id]
	im.stats[id] = state.ViewStats{}
	im.rows[id] = func(ctx context.Context, r state.ScanRequest) (array.RecordReader, error) {
		var in []array.RecordReader
		for i, other := range others {
			open := other.rows[ids[i]]
			if i == 0 {
				open = first
			}
			rd, err := open(ctx, state.ScanRequest{View: ids[i]})
			if err != nil {
				for _, rd := range in {
					rd.Release()
				}
				return nil, err
			}
			in = append(in, rd)
		}
		g, err := state.Regroup(ctx, p, o.Mem, in...)
		if err != nil {
			return nil, err
		}
		out.read = g
		im.stats[id] = state.ViewStats{}
		return &counted{g, func() { im.stats[id] = g.Stats() }}, nil
	}
	return out, nil
}

// counted tells its statistics when it was read.
type counted struct {
	*state.Regrouped
	ended func()
}

func (c *counted) Next() bool {
	more := c.Regrouped.Next()
	if !more {
		c.ended()
	}
	return more
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
