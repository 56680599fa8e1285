package state

import "slices"

// A record that is refused for all views of a source is refused again by every
// cursor that reads it, and stands in the quarantine once: the first cursor to
// pass it has it quarantined. Who has passed it is known from the positions of
// the cursors and, for those that were dropped with their view, from spans.

// A Span is a run of offsets of one partition: from From up to, not including,
// the position's Next.
type Span struct {
	Position
	From int64 `json:"from"`
}

func (sp *Span) holds(at partition, topic [16]byte, offset int64) bool {
	return partition{sp.Topic, sp.Partition} == at && sp.TopicID == topic && sp.From <= offset && offset < sp.Next
}

// news are the refused records of a fold that do not stand in the quarantine
// yet.
func (s *Store) news(f *Fold) []Refused {
	return slices.DeleteFunc(f.Refused, func(r Refused) bool { return r.View == 0 && s.passed(f, &r) })
}

// passed says whether another cursor than the fold's has read a record.
func (s *Store) passed(f *Fold, r *Refused) bool {
	at := partition{r.Topic, r.Partition}
	i := slices.IndexFunc(f.Positions, func(p Position) bool { return partition{p.Topic, p.Partition} == at })
	src, ok := s.cat.SourceByID(r.Source)
	if i < 0 || !ok {
		return false
	}
	topic := f.Positions[i].TopicID
	beyond := func(c CursorID) bool {
		if c == f.Cursor || s.cursors[c] == nil {
			return false
		}
		p, ok := s.cursors[c].at[at]
		return ok && p.TopicID == topic && p.Next > r.Offset
	}
	// What lies before the beginning of the shared cursor no cursor reads.
	if beyond(src.Cursor) || slices.ContainsFunc(src.Passed, func(sp Span) bool { return sp.holds(at, topic, r.Offset) }) {
		return true
	}
	return slices.ContainsFunc(s.cat.Views, func(v View) bool {
		later := func(p Position) bool { return partition{p.Topic, p.Partition} == at && p.Next > r.Offset }
		return v.Source == r.Source && beyond(v.Cursor) && !slices.ContainsFunc(v.First, later)
	})
}

// passedBy adds to spans what a cursor that goes has read, from first on, and
// leaves out what the shared cursor has read, too.
func passedBy(spans []Span, first []Position, own, shared *cursor) []Span {
	spans = slices.Clone(spans)
	for k, p := range own.at {
		i := slices.IndexFunc(first, func(f Position) bool { return partition{f.Topic, f.Partition} == k && f.TopicID == p.TopicID })
		if i >= 0 {
			spans = append(spans, Span{Position: p, From: first[i].Next})
		}
	}
	slices.SortFunc(spans, func(a, b Span) int { return comparePositions(a.Position, b.Position) })
	var kept []Span
	for _, sp := range spans {
		at := shared.at[partition{sp.Topic, sp.Partition}]
		if sp.From >= sp.Next || at.TopicID == sp.TopicID && at.Next >= sp.Next {
			continue
		}
		meets := func(o Span) bool {
			return o.Topic == sp.Topic && o.TopicID == sp.TopicID && o.Partition == sp.Partition && o.From <= sp.Next && sp.From <= o.Next
		}
		if i := slices.IndexFunc(kept, meets); i >= 0 {
			kept[i].From, kept[i].Next = min(kept[i].From, sp.From), max(kept[i].Next, sp.Next)
		} else {
			kept = append(kept, sp)
		}
	}
	return kept
}
