package appliance

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"weir/checkpoint"
	"weir/queryable"
)

// unfinishedViews are the names of the views that still read old records when the
// checkpoint was taken: their groups are not whole.
func unfinishedViews(m *checkpoint.Manifest) (names []string) {
	for i := range m.Views {
		if wasBackfilling(m, &m.Views[i]) {
			names = append(names, m.Views[i].Name)
		}
	}
	return names
}

// notWhole says so of one, in the words of live answers.
func notWhole(view string) string {
	return fmt.Sprintf("view %s is not whole yet: it still reads old records", shown(view))
}

// kindOf says what a name is that is no materialized view of a checkpoint, "" when
// it is nothing.
func kindOf(m *checkpoint.Manifest, name string) string {
	switch {
	case slices.ContainsFunc(m.Queries, func(q checkpoint.Query) bool { return strings.EqualFold(q.Name, name) }):
		return "a view"
	case slices.ContainsFunc(m.Sources, func(s checkpoint.Source) bool { return strings.EqualFold(s.Name, name) }):
		return "a source"
	}
	return ""
}

// unmaterialized is the error of a name that is no materialized view of a
// checkpoint, which is called by the name that it was found by.
func unmaterialized(m *checkpoint.Manifest, called, name string) error {
	switch kindOf(m, name) {
	case "a view":
		return fmt.Errorf("%s is a plain view, a view without state: name the materialized views that it reads", shown(name))
	case "a source":
		return fmt.Errorf("%s is a source: a checkpoint has the views of its records, not the records", shown(name))
	}
	if len(m.Views) == 0 {
		return fmt.Errorf("there is no materialized view %s: %s has none", shown(name), called)
	}
	return fmt.Errorf("there is no materialized view %s: %s has %s", shown(name), called, shown(strings.Join(viewNames(m), ", ")))
}

// pastOf is the error of AT on a name that is no materialized view, as live SQL
// has it; nil when the name is unknown.
func pastOf(m *checkpoint.Manifest, name string) error {
	kind := kindOf(m, name)
	switch kind {
	case "":
		return nil
	case "a view":
		kind += ": go back in what it reads"
	}
	return queryable.Errorf(queryable.BadRequest, "checkpoints hold materialized views, and %s is %s", name, kind)
}

// called is what messages call the checkpoint: a bundle by its own name and not by
// that of the directory that it was unpacked into.
func (f *found) called() string {
	if f.bundle != "" {
		return f.bundle
	}
	return f.path
}

// named makes errors speak of a bundle by its name.
func (f *found) named(err error) error {
	if f.bundle == "" {
		return err
	}
	if e, ok := errors.AsType[*checkpoint.Error](err); ok {
		if rest, ok := strings.CutPrefix(e.Path, f.path); ok {
			e.Path = f.bundle
			if rest = strings.TrimPrefix(filepath.ToSlash(rest), "/"); rest != "" {
				e.Path += ": " + rest
			}
		}
		if e.What = strings.ReplaceAll(e.What, f.path, f.bundle); e.Path == f.bundle && errors.Is(e.Kind, checkpoint.ErrDamaged) {
			e.Do = "use another copy"
		}
	}
	return err
}

// state opens a materialized view.
func (f *found) state(view string) (*checkpoint.Table, error) {
	if !has(f.Manifest, view) {
		return nil, unmaterialized(f.Manifest, f.called(), view)
	}
	t, err := f.Table(view)
	return t, f.named(err)
}
