package checkpoint

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"weir/state"
	"weir/state/sqltype"
)

// check refuses what this package never writes, and what a reader would trip
// over or misread: every member that refers to another one is followed, every
// type is one, every enumeration is known. Whoever has a Manifest relies on it.
// What belongs to a view alone is in View.check.
func (m *Manifest) check() error {
	switch {
	case m.Slots != state.Slots:
		return fmt.Errorf("%d slots where version %d has %d", m.Slots, m.FormatVersion, state.Slots)
	case m.Checkpoint == 0:
		return errors.New("checkpoint 0: they are counted from 1")
	case m.Epoch>>state.EpochBits != 0:
		return fmt.Errorf("epoch %d has more than %d bits", m.Epoch, state.EpochBits)
	case m.Created.IsZero():
		return errors.New("created is not there")
	}
	if b := m.BasedOn; b != nil && (b.Checkpoint >= m.Checkpoint || b.Epoch > m.Epoch) {
		return fmt.Errorf("checkpoint %d of epoch %d is based on checkpoint %d of epoch %d", m.Checkpoint, m.Epoch, b.Checkpoint, b.Epoch)
	}
	for _, check := range []func() error{m.checkFiles, m.checkCursors, m.checkSources, m.checkNames, m.checkViews, m.checkQuarantine, m.checkEdits} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkFiles looks at each file by itself, and that no two have one name.
func (m *Manifest) checkFiles() error {
	seen := map[string]bool{}
	for _, f := range m.files() {
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) || f.Bytes < 0 || f.Rows < 0 || f.Tail.Offset < 0 || f.Tail.Length < 0 || f.Tail.end() != f.Bytes {
			return fmt.Errorf("file %q of %d bytes with its tail at %d+%d", f.Name, f.Bytes, f.Tail.Offset, f.Tail.Length)
		}
		if !hexadecimal(f.SHA256, 64) {
			return fmt.Errorf("the sha256 of file %q is %q", f.Name, f.SHA256)
		}
		if seen[f.Name] {
			return fmt.Errorf("file %q is there twice", f.Name)
		}
		seen[f.Name] = true
	}
	if f := m.Quarantine.File; f != nil && f.Name != quarantineFile {
		return fmt.Errorf("the quarantine is in file %q", f.Name)
	}
	return nil
}

func hexadecimal(s string, digits int) bool {
	return len(s) == digits && strings.Trim(s, "0123456789abcdef") == ""
}

func (m *Manifest) checkCursors() error {
	seen := map[uint32]bool{}
	for _, c := range m.Cursors {
		switch {
		case seen[c.ID]:
			return fmt.Errorf("two cursors have the id %d", c.ID)
		case c.ID == 0 || c.ID >= m.NextCursor:
			return fmt.Errorf("cursor %d, and the next one would be %d", c.ID, m.NextCursor)
		case c.Records < 0:
			return fmt.Errorf("cursor %d has read %d records", c.ID, c.Records)
		}
		seen[c.ID] = true
		if !slices.ContainsFunc(m.Sources, func(s Source) bool { return s.Cursor == c.ID }) && !slices.ContainsFunc(m.Views, func(v View) bool { return v.Cursor == c.ID }) {
			return fmt.Errorf("nothing follows cursor %d", c.ID)
		}
		if err := checkPositions(c.Positions); err != nil {
			return fmt.Errorf("cursor %d: %w", c.ID, err)
		}
	}
	return nil
}

func (m *Manifest) cursor(id uint32) (*Cursor, bool) {
	i := slices.IndexFunc(m.Cursors, func(c Cursor) bool { return c.ID == id })
	if i < 0 {
		return nil, false
	}
	return &m.Cursors[i], true
}

func (m *Manifest) source(id uint32) (*Source, bool) {
	i := slices.IndexFunc(m.Sources, func(s Source) bool { return s.ID == id })
	if i < 0 {
		return nil, false
	}
	return &m.Sources[i], true
}

func (m *Manifest) checkSources() error {
	ids, cursors := map[uint32]bool{}, map[uint32]bool{}
	for _, s := range m.Sources {
		switch _, ok := m.cursor(s.Cursor); {
		case ids[s.ID]:
			return fmt.Errorf("two sources have the id %d", s.ID)
		case s.ID == 0 || s.ID >= m.NextID:
			return fmt.Errorf("source %s has the id %d, and the next one would be %d", s.Name, s.ID, m.NextID)
		case !ok:
			return fmt.Errorf("source %s follows cursor %d, which is not there", s.Name, s.Cursor)
		case cursors[s.Cursor]:
			return fmt.Errorf("two sources follow cursor %d", s.Cursor)
		}
		ids[s.ID], cursors[s.Cursor] = true, true
		if err := checkFields(s.Columns); err != nil {
			return fmt.Errorf("source %s: %w", s.Name, err)
		}
	}
	for _, q := range m.Queries {
		if err := checkFields(q.Columns); err != nil {
			return fmt.Errorf("plain view %s: %w", q.Name, err)
		}
	}
	return nil
}

// checkNames wants each name once: sources, views and plain views share them.
func (m *Manifest) checkNames() error {
	var names []string
	for _, s := range m.Sources {
		names = append(names, s.Name)
	}
	for i := range m.Views {
		names = append(names, m.Views[i].Name)
	}
	for _, q := range m.Queries {
		names = append(names, q.Name)
	}
	seen := map[string]bool{}
	for _, n := range names {
		if n == "" {
			return errors.New("a source or a view has no name")
		}
		if seen[strings.ToLower(n)] {
			return fmt.Errorf("two sources or views have the name %s", n)
		}
		seen[strings.ToLower(n)] = true
	}
	return nil
}

// checkViews looks at what views refer to.
func (m *Manifest) checkViews() error {
	ids, own := map[uint32]bool{}, map[uint32]bool{}
	for i := range m.Views {
		v := &m.Views[i]
		src, readable := m.source(v.Source)
		cur, ok := m.cursor(v.Cursor)
		switch {
		case ids[v.ID]:
			return fmt.Errorf("two views have the id %d", v.ID)
		case v.ID == 0 || v.ID >= m.NextID:
			return fmt.Errorf("view %s has the id %d, and the next one would be %d", v.Name, v.ID, m.NextID)
		case !readable:
			return fmt.Errorf("view %s reads source %d, which is not there", v.Name, v.Source)
		case !strings.EqualFold(v.Plan.Source, src.Name):
			return fmt.Errorf("view %s reads source %s, and its plan %s", v.Name, src.Name, v.Plan.Source)
		case !ok:
			return fmt.Errorf("view %s follows cursor %d, which is not there", v.Name, v.Cursor)
		case v.CreatedEpoch > m.Epoch:
			return fmt.Errorf("view %s was created in epoch %d, after %d", v.Name, v.CreatedEpoch, m.Epoch)
		case v.Edited != "" && !hexadecimal(v.Edited, 32):
			return fmt.Errorf("view %s was changed by edit %q, which is no id", v.Name, v.Edited)
		}
		ids[v.ID] = true
		if v.Cursor != src.Cursor {
			if own[v.Cursor] || slices.ContainsFunc(m.Sources, func(s Source) bool { return s.Cursor == v.Cursor }) {
				return fmt.Errorf("view %s follows cursor %d, which is not its source's and not its own", v.Name, v.Cursor)
			}
			own[v.Cursor] = true
		}
		if err := v.check(); err != nil {
			return fmt.Errorf("view %s: %w", v.Name, err)
		}
		if err := samePositions(v.Positions, cur.Positions); err != nil {
			return fmt.Errorf("view %s does not stand where its cursor %d does: %w", v.Name, cur.ID, err)
		}
	}
	return nil
}

// samePositions tells the first difference.
func samePositions(view, cursor []Position) error {
	at := func(ps []Position, like Position) (Position, bool) {
		i := slices.IndexFunc(ps, func(p Position) bool {
			return p.Topic == like.Topic && strings.EqualFold(p.TopicID, like.TopicID) && p.Partition == like.Partition
		})
		if i < 0 {
			return Position{}, false
		}
		return ps[i], true
	}
	for _, p := range cursor {
		switch q, ok := at(view, p); {
		case !ok:
			return fmt.Errorf("it is nowhere in %s partition %d, the cursor at offset %d", p.Topic, p.Partition, p.Next)
		case q.Next != p.Next || q.LeaderEpoch != p.LeaderEpoch:
			return fmt.Errorf("in %s partition %d it is at offset %d (leader epoch %d), the cursor at %d (%d)", p.Topic, p.Partition, q.Next, q.LeaderEpoch, p.Next, p.LeaderEpoch)
		}
	}
	for _, p := range view {
		if _, ok := at(cursor, p); !ok {
			return fmt.Errorf("it is at offset %d in %s partition %d, the cursor nowhere", p.Next, p.Topic, p.Partition)
		}
	}
	return nil
}

func (m *Manifest) checkQuarantine() error {
	seen := map[uint32]bool{}
	var kept int64
	for _, q := range m.Quarantine.Sources {
		if _, ok := m.source(q.Source); !ok {
			return fmt.Errorf("quarantine of source %d, which is not there", q.Source)
		}
		if seen[q.Source] {
			return fmt.Errorf("source %d has two quarantines", q.Source)
		}
		if q.Kept < 0 || q.Total < q.Kept {
			return fmt.Errorf("source %d refused %d records, and %d of them were kept", q.Source, q.Total, q.Kept)
		}
		seen[q.Source] = true
		kept += q.Kept
		for view, n := range q.ByView {
			if n < 0 || n > q.Total {
				return fmt.Errorf("view %d refused %d of %d records of source %d", view, n, q.Total, q.Source)
			}
		}
		for _, p := range q.Passed {
			if p.From < 0 || p.From > p.Next || p.Partition < 0 {
				return fmt.Errorf("offsets from %d up to %d of %s partition %d", p.From, p.Next, p.Topic, p.Partition)
			}
			if _, err := p.state(); err != nil {
				return err
			}
		}
	}
	var rows int64
	if f := m.Quarantine.File; f != nil {
		rows = f.Rows
	}
	if rows != kept {
		return fmt.Errorf("%d refused records were kept, and %d rows are in the quarantine's file", kept, rows)
	}
	same := func(a, b Column) bool { return a.Name == b.Name && a.Type.Equal(b.Type) && a.Role == b.Role }
	if !slices.EqualFunc(m.Quarantine.Columns, quarantineColumns(), same) {
		return errors.New("the quarantine has other columns than docs/format.md says")
	}
	return nil
}

func (m *Manifest) checkEdits() error {
	seen := map[string]bool{}
	for _, e := range m.Edits {
		switch {
		case !hexadecimal(e.ID, 32) || seen[e.ID]:
			return fmt.Errorf("edit %q has no id of its own", e.ID)
		case e.Kind != editTransform && e.Kind != editMerge:
			return fmt.Errorf("edit %s is of kind %q, not %s or %s", e.ID, e.Kind, editTransform, editMerge)
		case e.Time.IsZero() || len(e.From) == 0:
			return fmt.Errorf("edit %s does not say when it was, or of what", e.ID)
		}
		seen[e.ID] = true
		for _, f := range e.From {
			if f.Checkpoint == 0 || !hexadecimal(f.SHA256, 64) {
				return fmt.Errorf("edit %s is of checkpoint %d with the sha256 %q", e.ID, f.Checkpoint, f.SHA256)
			}
		}
		for _, v := range e.Views {
			if v.View == "" || len(v.Before) != len(e.From) || min(v.After, v.Added, v.Removed, v.Changed) < 0 || slices.ContainsFunc(v.Before, func(n int64) bool { return n < 0 }) {
				return fmt.Errorf("edit %s of view %q has other counts than its %d checkpoints", e.ID, v.View, len(e.From))
			}
		}
	}
	return nil
}

// checkFields wants names, each once, and types.
func checkFields(fs []sqltype.Field) error {
	seen := map[string]bool{}
	for i, f := range fs {
		switch {
		case f.Name == "" || seen[f.Name]:
			return fmt.Errorf("column %d has no name of its own: %q", i, f.Name)
		case f.Type.ID == sqltype.Invalid:
			return fmt.Errorf("column %s has no type", f.Name)
		}
		seen[f.Name] = true
	}
	return nil
}

// checkPositions wants one position for each partition.
func checkPositions(ps []Position) error {
	type partition struct {
		topic, id string
		number    int32
	}
	seen := map[partition]bool{}
	for _, p := range ps {
		if _, err := p.state(); err != nil {
			return err
		}
		if p.Next < 0 || p.Partition < 0 {
			return fmt.Errorf("offset %d in partition %d of %s", p.Next, p.Partition, p.Topic)
		}
		if p.Topic == "" {
			return fmt.Errorf("offset %d in partition %d of a topic without a name", p.Next, p.Partition)
		}
		key := partition{p.Topic, strings.ToLower(p.TopicID), p.Partition}
		if seen[key] {
			return fmt.Errorf("partition %d of %s is there twice", p.Partition, p.Topic)
		}
		seen[key] = true
	}
	return nil
}
