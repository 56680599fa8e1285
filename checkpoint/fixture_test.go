package checkpoint

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"weir/state"
)

var writeFixture = flag.String("write-fixture", "", "write a fixture of the current format version to this new directory")

// TestFixtures reads checkpoints that earlier versions wrote, one a format
// version, and wants what they held then. They are never written again: a change
// that cannot read one breaks the checkpoints that people have.
//
// testdata/vN has the checkpoint (in v2 the newer one of two, with a view that is a
// base and a delta), rows.txt (what a scan gives) and expected.json
// (what pytest/test_open.py wants of it).
func TestFixtures(t *testing.T) {
	if *writeFixture != "" {
		makeFixture(t, *writeFixture)
		t.Fatal("wrote a fixture: read it, then commit it for ever")
	}
	for _, version := range []string{"v1", "v2"} {
		t.Run(version, func(t *testing.T) {
			root := filepath.Join("testdata", version)
			want, err := os.ReadFile(filepath.Join(root, "rows.txt"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), fixtureText(t, newestIn(t, root))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// newestIn is the directory of a fixture's checkpoint.
func newestIn(t *testing.T, root string) string {
	list, err := List(vfs.Default, filepath.Join(root, "checkpoints"))
	if err != nil || len(list) != 1 {
		t.Fatalf("%d checkpoints, %v", len(list), err)
	}
	return Path(vfs.Default, filepath.Join(root, "checkpoints"), list[0].Checkpoint)
}

// fixtureText is all that a checkpoint holds.
func fixtureText(t *testing.T, root string) string {
	c, err := Open(vfs.Default, root)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	dump, done, err := c.dump(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("checkpoint %d, epoch %d, next id %d, next cursor %d", c.Manifest.Checkpoint, dump.Epoch, dump.NextID, dump.NextCursor)
	for _, s := range dump.Sources {
		say("source %d %s, cursor %d: %s %v %v", s.ID, s.Name, s.Cursor, s.SQL, s.Columns, s.Options)
		say("at %+v, %d records", dump.Positions[s.Cursor], dump.Records[s.Cursor])
		say("refused: %+v", dump.RefusedCounts[s.ID])
	}
	for _, r := range dump.Refused {
		say("refused %d in epoch %d: %+v", r.Seq, r.Epoch, r.Refused)
	}
	for _, q := range dump.Queries {
		say("query %s: %s %s %v", q.Name, q.SQL, q.Select, q.Columns)
	}
	for _, v := range dump.Views {
		say("view %d %s, source %d, cursor %d, created in %d at %+v", v.ID, v.Plan.Name, v.Source, v.Cursor, v.CreatedEpoch, v.First)
		say("%s; %s, visible %q, fingerprint %s", v.SQL, v.Plan.Select, v.Plan.Visible, v.Plan.Fingerprint)
		for _, a := range v.Plan.Accs {
			say("%s %s %s of %s", a.Name, a.Type, a.Rule, a.Aggregate)
		}
		for _, r := range v.Plan.Results {
			say("%+v", r)
		}
		r, err := dump.Rows(v.ID)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("\n" + v.Plan.Name + "\n" + strings.Join(rendered(t, r), "\n") + "\n\n")
	}
	return b.String()
}

func makeFixture(t *testing.T, root string) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	r, f := rng(t), newFake()
	f.add(r, revenue(), 40, 20, false)
	f.add(r, everything(), 25, 10, false)
	f.catalog.NextID, f.catalog.NextCursor = 12, 3
	change := f.addChanging(t, r, revenueNamed("changing"), 60)
	if _, err := Write(t.Context(), vfs.Default, filepath.Join(root, "checkpoints"), f, &finals{}, Options{Now: clock, Writer: "fixture"}); err != nil {
		t.Fatal(err)
	}
	change()
	m, err := Write(t.Context(), vfs.Default, filepath.Join(root, "checkpoints"), f, &finals{}, Options{Now: clock, Writer: "fixture"})
	if err != nil {
		t.Fatal(err)
	}
	e := expected{Checkpoint: Path(vfs.Default, "checkpoints", m.Checkpoint), Views: map[string]expectedView{}}
	for i := range m.Views {
		e.Views[m.Views[i].Name] = expect(t, f, &m.Views[i])
	}
	if _, err := Retain(vfs.Default, filepath.Join(root, "checkpoints"), 1); err != nil {
		t.Fatal(err)
	}
	text := fixtureText(t, newestIn(t, root))
	for i := range m.Views { // reading must not be its own judge
		if rows := strings.Join(stateRows(f, state.ViewID(m.Views[i].ID)), "\n"); !strings.Contains(text, "\n"+rows+"\n\n") {
			t.Fatalf("view %s does not read as it was written", m.Views[i].Name)
		}
	}
	expect, err := json.MarshalIndent(e, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"rows.txt": []byte(text), "expected.json": expect} {
		if err := os.WriteFile(filepath.Join(root, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
