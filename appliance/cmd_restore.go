package appliance

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/appliance/demo"
	"weir/checkpoint"
	"weir/duckext"
	"weir/state"
	"weir/state/ddl"
	"weir/state/plan"
)

type restoreCmd struct {
	From  string   `required:"" help:"The checkpoint, for example DATA@42, DATA@before-launch, a checkpoint's directory, or FILE.weir." placeholder:"CHECKPOINT"`
	Data  string   `required:"" type:"path" help:"The new data directory; it must hold no state." placeholder:"DIR"`
	Views []string `help:"Only these materialized views, comma-separated, and the views that read no others. A comma in a name is written as \\,; the flag may be given several times." placeholder:"NAME"`
}

// Help is shown with --help.
func (restoreCmd) Help() string {
	return "Verifies every file of the checkpoint, then makes a data directory of it, here or on another machine. The appliance that runs on it reads its topics from the recorded positions. With --views the others are as if they had been dropped; the SQL files of weir run create them again, and they count from the log's start.\n\n" +
		namingHelp + "\n\nExit status: 0 restored, 1 an error (no state was made, unless it says so), 2 wrong usage."
}

func (c *restoreCmd) Run(ctx context.Context, s streams) error {
	f, err := find(ctx, c.From)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := outside(vfs.Default, c.Data); err != nil {
		return err
	}
	choice, left, err := choose(ctx, f.Manifest, c.Views)
	if err != nil {
		return err
	}
	m, err := restoreInto(ctx, f.fs, f.path, filepath.Join(c.Data, stateDir), state.Options{}, choice)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "restored checkpoint %d (epoch %d, %s) into %s\n", m.Checkpoint, m.Epoch, viewsAndQueries(m, left), c.Data)
	if len(left) > 0 {
		fmt.Fprintf(s.out, "left out: %s\n", shown(strings.Join(left, ", ")))
	}
	if ofDemo(m) {
		fmt.Fprintf(s.out, "copy broker/ of the demo's data directory into it, or give the demo's address with --brokers, and start it: weir demo --data %s\n", c.Data)
		return nil
	}
	fmt.Fprintf(s.out, "start it with its SQL files: weir run FILE.sql --data %s\n", c.Data)
	return nil
}

// viewsAndQueries counts the materialized views of a checkpoint, as its other commands
// do, and beside them the plain ones, without those that are left out.
func viewsAndQueries(m *checkpoint.Manifest, left []string) string {
	views, plain := 0, 0
	for i := range m.Views {
		if !slices.Contains(left, m.Views[i].Name) {
			views++
		}
	}
	for i := range m.Queries {
		if !slices.Contains(left, m.Queries[i].Name) {
			plain++
		}
	}
	text := plural(views, "materialized view")
	if plain > 0 {
		text += ", " + plural(plain, "plain view")
	}
	return text
}

// plural is a number of things.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// ofDemo says whether the sources are the demo's, whose statements weir demo brings.
func ofDemo(m *checkpoint.Manifest) bool {
	own, err := ddl.Parse(demo.SQL)
	if err != nil {
		return false
	}
	known := map[string]bool{}
	for _, stmt := range own {
		sp := ddl.SpanOf(stmt)
		known[demo.SQL[sp.Start:sp.End]] = true
	}
	for _, s := range m.Sources {
		if !known[s.SQL] {
			return false
		}
	}
	return len(m.Sources) > 0
}

// choose says which views and queries are restored, and names those that are not:
// a query goes with a view that it reads.
func choose(ctx context.Context, m *checkpoint.Manifest, views []string) (c checkpoint.Choice, left []string, err error) {
	if len(views) == 0 {
		return c, nil, nil
	}
	kept := map[string]bool{} // by lower-case name; sources are kept
	for _, s := range m.Sources {
		kept[strings.ToLower(s.Name)] = true
	}
	for _, name := range views {
		v, ok := m.View(name) // which may begin with a space
		if !ok {
			v, ok = m.View(strings.TrimSpace(name))
		}
		if !ok {
			return c, nil, unmaterialized(m, "the checkpoint", strings.TrimSpace(name))
		}
		kept[strings.ToLower(v.Name)] = true
	}
	for i := range m.Views {
		if !kept[strings.ToLower(m.Views[i].Name)] {
			left = append(left, m.Views[i].Name)
		}
	}
	gone, err := queriesWithout(ctx, m, kept)
	if err != nil {
		return c, nil, err
	}
	c.View = func(v *state.View) bool { return kept[strings.ToLower(v.Plan.Name)] }
	c.Query = func(q *state.Query) bool { return !slices.Contains(gone, q.Name) }
	return c, append(left, gone...), nil
}

// queriesWithout are the plain views that read what is not kept, directly or by
// way of another. It adds the others to kept.
func queriesWithout(ctx context.Context, m *checkpoint.Manifest, kept map[string]bool) (gone []string, err error) {
	if len(m.Queries) == 0 {
		return nil, nil
	}
	eng, err := duckext.Open(duckext.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	reads := make([][]plan.Reference, len(m.Queries))
	for i, q := range m.Queries {
		if reads[i], err = plan.References(ctx, eng, q.Select); err != nil {
			return nil, fmt.Errorf("view %s: %w", q.Name, err)
		}
	}
	for changed := true; changed; {
		changed = false
		for i, q := range m.Queries {
			missing := slices.ContainsFunc(reads[i], func(r plan.Reference) bool {
				return r.Kind == "BASE_TABLE" && !kept[strings.ToLower(r.Name)]
			})
			if name := strings.ToLower(q.Name); !missing && !kept[name] {
				kept[name], changed = true, true
			}
		}
	}
	for _, q := range m.Queries {
		if !kept[strings.ToLower(q.Name)] {
			gone = append(gone, q.Name)
		}
	}
	return gone, nil
}
