package checkpoint

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/state/agg"
)

// A checkpoint is found by the number that its manifest bears: under another it
// would be taken for one that it is not.
func TestDirectoryOfAnotherNumber(t *testing.T) {
	fsys := vfs.NewMem()
	r, f := rng(t), newFake()
	f.add(r, revenue(), 10, 10, false)
	write(t, fsys, f)
	write(t, fsys, f)
	if err := fsys.Rename(Path(fsys, dir, 2), Path(fsys, dir, 7)); err != nil {
		t.Fatal(err)
	}
	if _, err := FindNumber(fsys, dir, 7); !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "it says that it is checkpoint 2") {
		t.Errorf("checkpoint 7: %v", err)
	}
	if list, err := List(fsys, dir); len(list) != 1 || list[0].Checkpoint != 1 || !errors.Is(err, ErrMismatch) {
		t.Errorf("%d checkpoints, %v", len(list), err)
	}
}

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
		{"have the name", func(m *Manifest) { m.Views[1].Name = strings.ToUpper(m.Views[0].Name) }},
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
		{"it is at offset 900 (leader epoch 3), the cursor at 800 (3)", func(m *Manifest) { m.Cursors[0].Positions[1].Next -= 100 }},
		{"it is at offset 800 (leader epoch 3), the cursor at 900 (3)", func(m *Manifest) { m.Views[0].Positions[1].Next -= 100 }},
		{"it is nowhere in orders partition 1", func(m *Manifest) { m.Views[0].Positions = m.Views[0].Positions[:1] }},
		{"the cursor nowhere", func(m *Manifest) { m.Cursors[0].Positions = m.Cursors[0].Positions[:1] }},
		{"reads source 99, which is not there", func(m *Manifest) { m.Views[0].Source = 99 }},
		{"follows cursor 99, which is not there", func(m *Manifest) { m.Sources[0].Cursor = 99 }},
		{"nothing follows cursor 2", func(m *Manifest) { m.NextCursor, m.Cursors = 9, append(m.Cursors, Cursor{ID: 2}) }},
		{"and the next one would be 1", func(m *Manifest) { m.NextID = 1 }},
		{"and the next one would be 0", func(m *Manifest) { m.NextCursor = 0 }},
		{"have the name top", func(m *Manifest) { m.Queries[0].Name = "TOP"; m.Queries = append(m.Queries, Query{Name: "top"}) }},
		{`has the role "keys"`, func(m *Manifest) { m.Views[0].Columns[0].Role = "keys" }},
		{"is not accumulator __sum_amount of the plan", func(m *Manifest) {
			m.Views[0].Columns[slices.IndexFunc(m.Views[0].Columns, func(c Column) bool { return c.Accumulator == "__sum_amount" })].Merge = agg.Max
		}},
		{"does not merge", func(m *Manifest) { m.Views[0].Plan.Accs[0].Rule = agg.And }},
		{"refused 2 records, and 3 of them were kept", func(m *Manifest) { m.Quarantine.Sources[0].Kept++ }},
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
