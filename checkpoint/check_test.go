package checkpoint

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A manifest with a right checksum that contradicts itself is refused by name.
func TestManifestThatContradictsItself(t *testing.T) {
	fsys := vfs.NewMem()
	r, f := rng(t), newFake()
	f.add(r, revenue(), 100, 50, true)
	change := f.addChanging(t, r, revenueNamed("changing"), 100)
	write(t, fsys, f)
	change()
	text, err := json.Marshal(write(t, fsys, f))
	if err != nil {
		t.Fatal(err)
	}
	root := Path(fsys, dir, 2)
	for _, x := range []struct {
		want   string
		change func(*Manifest)
	}{
		{"", func(*Manifest) {}},
		{"two views have the id", func(m *Manifest) { m.Views[1].ID = m.Views[0].ID }},
		{"or the name", func(m *Manifest) { m.Views[1].Name = strings.ToUpper(m.Views[0].Name) }},
		{"rows in its file", func(m *Manifest) { m.Views[0].Groups++ }},
		{"rows in its file", func(m *Manifest) { m.Views[0].File.Rows-- }},
		{"of them in error", func(m *Manifest) { m.Views[0].Errors = m.Views[0].Groups + 1 }},
		{"offset -1 in partition", func(m *Manifest) { m.Cursors[0].Positions[0].Next = -1 }},
		{"offset -1 in partition", func(m *Manifest) { m.Views[0].Positions[0].Next = -1 }},
		{"is there twice", func(m *Manifest) {
			m.Cursors[0].Positions = append(m.Cursors[0].Positions, m.Cursors[0].Positions[0])
		}},
		{"is there twice", func(m *Manifest) { m.Views[0].First = append(m.Views[0].Positions, m.Views[0].Positions[0]) }},
		{"two cursors have the id", func(m *Manifest) { m.Cursors = append(m.Cursors, m.Cursors[0]) }},
		{"has another name", func(m *Manifest) { m.Views[0].File.Name = "views/.x.arrow" }},
		{"has another name", func(m *Manifest) { m.Views[0].File.Name = ManifestName }},
		{"has another name", func(m *Manifest) { m.Views[1].Parts[0], m.Views[1].Parts[1] = m.Views[1].Parts[1], m.Views[1].Parts[0] }},
		{"is there twice", func(m *Manifest) { m.Views[1].Parts[1].Name = m.Views[1].Parts[0].Name }},
		{"the quarantine is in file", func(m *Manifest) { m.Quarantine.File.Name = "views/x.arrow" }},
	} {
		m := new(Manifest)
		if err := json.Unmarshal(text, m); err != nil {
			t.Fatal(err)
		}
		x.change(m)
		if err := m.write(fsys, root); err != nil {
			t.Fatal(err)
		}
		_, err := Open(fsys, root)
		if x.want == "" && err != nil || x.want != "" && (!errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%q: %v", x.want, err)
		}
	}
}
