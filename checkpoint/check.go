package checkpoint

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"weir/state"
)

// check refuses what this package never writes and would trip over.
func (m *Manifest) check() error {
	if m.Slots != state.Slots {
		return fmt.Errorf("%d slots where version %d has %d", m.Slots, m.FormatVersion, state.Slots)
	}
	if err := m.checkFiles(); err != nil {
		return err
	}
	for _, q := range m.Quarantine.Sources {
		if !slices.ContainsFunc(m.Sources, func(s Source) bool { return s.ID == q.Source }) {
			return fmt.Errorf("quarantine of source %d, which is not there", q.Source)
		}
		for _, p := range q.Passed {
			if p.From < 0 || p.From > p.Next {
				return fmt.Errorf("offsets from %d up to %d of %s partition %d", p.From, p.Next, p.Topic, p.Partition)
			}
			if _, err := p.state(); err != nil {
				return err
			}
		}
	}
	cursors := map[uint32]bool{}
	for _, c := range m.Cursors {
		if cursors[c.ID] {
			return fmt.Errorf("two cursors have the id %d", c.ID)
		}
		cursors[c.ID] = true
		if err := checkPositions(c.Positions); err != nil {
			return fmt.Errorf("cursor %d: %w", c.ID, err)
		}
	}
	ids, names := map[uint32]bool{}, map[string]bool{}
	for i := range m.Views {
		v := &m.Views[i]
		if ids[v.ID] || names[strings.ToLower(v.Name)] {
			return fmt.Errorf("two views have the id %d or the name %s", v.ID, v.Name)
		}
		ids[v.ID], names[strings.ToLower(v.Name)] = true, true
		if !cursors[v.Cursor] {
			return fmt.Errorf("view %s follows cursor %d, which is not there", v.Name, v.Cursor)
		}
		if err := v.check(); err != nil {
			return fmt.Errorf("view %s: %w", v.Name, err)
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

func (v *View) check() error {
	if len(v.Parts) == 1 || len(v.Parts) > 0 && v.File != (File{}) {
		return fmt.Errorf("%d parts and file %q", len(v.Parts), v.File.Name)
	}
	for i, f := range v.Files() {
		pattern := "views/*/[0-9][0-9][0-9]-delta.arrow"
		switch {
		case v.Whole():
			pattern = "views/*.arrow"
		case i == 0:
			pattern = "views/*/000-base.arrow"
		}
		if ok, err := path.Match(pattern, f.Name); !ok || err != nil || strings.HasPrefix(f.Name, "views/.") {
			return fmt.Errorf("file %q has another name than %s", f.Name, pattern)
		}
	}
	if v.Whole() && v.File.Rows != v.Groups {
		return fmt.Errorf("%d groups, and %d rows in its file", v.Groups, v.File.Rows)
	}
	if v.Groups < 0 || v.Errors < 0 || v.Errors > v.Groups {
		return fmt.Errorf("%d groups, %d of them in error", v.Groups, v.Errors)
	}
	if _, err := v.stateColumns(); err != nil {
		return err
	}
	for _, ps := range [][]Position{v.First, v.Positions} {
		if err := checkPositions(ps); err != nil {
			return err
		}
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
		key := partition{p.Topic, strings.ToLower(p.TopicID), p.Partition}
		if seen[key] {
			return fmt.Errorf("partition %d of %s is there twice", p.Partition, p.Topic)
		}
		seen[key] = true
	}
	return nil
}
