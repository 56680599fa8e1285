package checkpoint

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/state"
)

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
