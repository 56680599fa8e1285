package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/checkpoint"
	"weir/checkpoint/objectstore"
	"weir/queryable/client"
)

// checkpointCmd are the tools for checkpoints. None needs a running appliance.
type checkpointCmd struct {
	Ls        checkpointLsCmd        `cmd:"" help:"List the checkpoints of a directory."`
	Show      checkpointShowCmd      `cmd:"" help:"Show what a checkpoint holds."`
	Verify    checkpointVerifyCmd    `cmd:"" help:"Compare every file of checkpoints with its checksum."`
	Query     checkpointQueryCmd     `cmd:"" help:"Run SQL over the views of a checkpoint."`
	Diff      checkpointDiffCmd      `cmd:"" help:"Show which groups differ between two checkpoints."`
	Export    checkpointExportCmd    `cmd:"" help:"Write the rows of a view as CSV, NDJSON, Arrow or Parquet, or as an Iceberg table."`
	Transform checkpointTransformCmd `cmd:"" help:"Change groups with SQL and write a savepoint of it."`
	Merge     checkpointMergeCmd     `cmd:"" help:"Merge checkpoints of several appliances into one savepoint."`
	Compact   checkpointCompactCmd   `cmd:"" help:"Make each view of a checkpoint one file."`
}

// Help is shown with weir checkpoint --help.
func (checkpointCmd) Help() string {
	return namingHelp + "\n\nNone of these needs a running appliance, and none but compact changes a checkpoint that is there; compact changes its files and not what it holds."
}

type checkpointLsCmd struct {
	Dir  string `arg:"" help:"A directory of checkpoints (s3://… too), or a data directory."`
	JSON bool   `name:"json" help:"One JSON object a line."`
}

// Help is shown with --help.
func (checkpointLsCmd) Help() string {
	return "Exit status: 0 listed, 1 an error or a checkpoint that cannot be read, 2 wrong usage."
}

// listed is a line of ls --json.
type listed struct {
	Checkpoint uint64    `json:"checkpoint"`
	Savepoint  string    `json:"savepoint,omitempty"`
	Path       string    `json:"path"`
	Epoch      uint64    `json:"epoch"`
	Created    time.Time `json:"created"`
	Bytes      int64     `json:"bytes"`
	Groups     int64     `json:"groups"`
	Views      []string  `json:"views"`
	Edited     bool      `json:"edited,omitempty"` // transform or merge changed groups of it
}

func (c *checkpointLsCmd) Run(ctx context.Context, s streams) error {
	dir, err := shelfAt(ctx, c.Dir)
	if err != nil {
		return err
	}
	if err := c.listable(dir); err != nil {
		return err
	}
	list, unreadable := checkpoint.List(dir.fs, dir.dir)
	if len(list) == 0 && unreadable == nil {
		return fmt.Errorf("%s holds no checkpoint", c.Dir)
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	enc := json.NewEncoder(s.out)
	if !c.JSON && len(list) > 0 {
		fmt.Fprintln(w, "CHECKPOINT\tSAVEPOINT\tEPOCH\tCREATED\tBYTES\tGROUPS\tVIEWS")
	}
	for _, m := range list {
		l := listed{
			Checkpoint: m.Checkpoint, Savepoint: m.Savepoint, Path: dir.path(m.Checkpoint),
			Epoch: m.Epoch, Created: m.Created, Bytes: m.Bytes(), Views: []string{}, Edited: len(m.Edits) > 0,
		}
		for _, v := range m.Views {
			l.Groups += v.Groups
			l.Views = append(l.Views, v.Name)
		}
		if c.JSON {
			if err := enc.Encode(l); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%d\t%d\t%s\n", l.Checkpoint, shown(l.Savepoint), l.Epoch, l.Created.Format(time.RFC3339), l.Bytes, l.Groups, shown(strings.Join(l.Views, ", ")))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return unreadable
}

// listable refuses what is a checkpoint and not a directory of them.
func (c *checkpointLsCmd) listable(dir shelf) error {
	if dir.fs == vfs.Default {
		if info, err := os.Stat(dir.dir); err == nil && !info.IsDir() {
			return fmt.Errorf("%s is a file, and ls lists a directory of checkpoints: weir checkpoint show %s shows a bundle", c.Dir, c.Dir)
		}
	}
	if one, err := dir.whole(dir.dir); err == nil && one {
		return fmt.Errorf("%s is one checkpoint, and ls lists a directory of them: weir checkpoint show %s shows it", c.Dir, c.Dir)
	}
	return nil
}

// shown is a name as a terminal may see it.
func shown(name string) string {
	b, err := json.Marshal(name)
	if err != nil {
		return "?"
	}
	return client.Text(b)
}

type checkpointShowCmd struct {
	Checkpoint string `arg:"" help:"The checkpoint: a directory, DIR, DIR@42, DIR@name or FILE.weir."`
	JSON       bool   `name:"json" help:"The manifest as it is."`
}

// Help is shown with --help.
func (checkpointShowCmd) Help() string {
	return "Exit status: 0 shown, 1 an error, 2 wrong usage."
}

func (c *checkpointShowCmd) Run(ctx context.Context, s streams) error {
	f, err := find(ctx, c.Checkpoint)
	if err != nil {
		return err
	}
	defer f.Close()
	if c.JSON {
		in, err := f.fs.Open(f.fs.PathJoin(f.path, checkpoint.ManifestName))
		if err != nil {
			return fmt.Errorf("open manifest: %w", err)
		}
		_, err = io.Copy(s.out, in)
		return errors.Join(err, in.Close())
	}
	return show(s.out, f.Manifest)
}

// show describes a checkpoint to people.
func show(out io.Writer, m *checkpoint.Manifest) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	name := ""
	if m.Savepoint != "" {
		name = fmt.Sprintf(" (savepoint %s)", shown(m.Savepoint))
	}
	fmt.Fprintf(w, "checkpoint\t%d%s, format %d, written by %s\n", m.Checkpoint, name, m.FormatVersion, shown(m.Writer))
	fmt.Fprintf(w, "epoch\t%d\ncreated\t%s\nbytes\t%d\n", m.Epoch, m.Created.Format(time.RFC3339), m.Bytes())
	for _, e := range m.Edits {
		fmt.Fprintf(w, "edited\t%s by %s of", e.Time.Format(time.RFC3339), e.Kind)
		for i, from := range e.From {
			if i > 0 {
				fmt.Fprint(w, " and")
			}
			fmt.Fprintf(w, " checkpoint %d (manifest sha256 %.16s…)", from.Checkpoint, from.SHA256)
		}
		fmt.Fprintln(w)
		for _, sql := range e.SQL {
			fmt.Fprintf(w, "\t%s\n", shown(sql))
		}
		for _, v := range e.Views {
			fmt.Fprintf(w, "\t%s: groups %v became %d; added %d, removed %d, changed %d\n", shown(v.View), v.Before, v.After, v.Added, v.Removed, v.Changed)
		}
	}
	for _, src := range m.Sources {
		fmt.Fprintf(w, "\nsource %s\n%s", shown(src.Name), indented(src.SQL))
		for _, c := range m.Cursors {
			if c.ID != src.Cursor {
				continue
			}
			fmt.Fprintf(w, "  records\t%d\n", c.Records)
			for _, p := range c.Positions {
				fmt.Fprintf(w, "  position\t%s/%d at %d, topic id %s\n", shown(p.Topic), p.Partition, p.Next, p.TopicID)
			}
		}
	}
	for i := range m.Views {
		v := &m.Views[i]
		fmt.Fprintf(w, "\nview %s\n%s", shown(v.Name), indented(v.SQL))
		fmt.Fprintf(w, "  groups\t%d, of them %d in error; state of %d bytes\n", v.Groups, v.Errors, v.Bytes)
		if wasBackfilling(m, v) {
			fmt.Fprintf(w, "  note\t%s\n", notWhole(v.Name))
		}
		for _, c := range v.Columns {
			what := c.Role
			if c.Accumulator != "" {
				what += fmt.Sprintf(" of %s, merges by %s", shown(c.Aggregate), c.Merge)
			}
			fmt.Fprintf(w, "  column %s\t%s, %s\n", shown(c.Name), c.Type, what)
		}
	}
	for _, q := range m.Queries {
		fmt.Fprintf(w, "\nview %s\n%s", shown(q.Name), indented(q.SQL))
	}
	return w.Flush()
}

// indented shows a statement as it was written.
func indented(sql string) string {
	var out strings.Builder
	for line := range strings.Lines(sql) {
		fmt.Fprintf(&out, "    %s\n", shown(strings.TrimRight(line, "\r\n")))
	}
	return out.String()
}

type checkpointVerifyCmd struct {
	Checkpoints []string `arg:"" name:"checkpoint" help:"Checkpoints; a directory of them stands for all that it holds."`
}

// Help is shown with --help.
func (checkpointVerifyCmd) Help() string {
	return "Compares manifest and files with their checksums, and tries whether an appliance could go on from it.\n\nExit status: 0 all whole, 1 some are not, 2 wrong usage."
}

func (c *checkpointVerifyCmd) Run(ctx context.Context, s streams) error {
	failed := false
	failure := func(err error) {
		fmt.Fprintln(s.err, "weir:", err)
		failed = true
	}
	for _, arg := range c.Checkpoints {
		each, err := c.each(ctx, arg)
		if err != nil {
			failure(err)
		}
		for _, open := range each {
			if err := verifyOne(ctx, s.out, open); err != nil {
				failure(err)
			}
		}
	}
	if failed {
		return exitCode(exitError)
	}
	return nil
}

// each opens the checkpoints that an argument stands for: all of a directory.
func (c *checkpointVerifyCmd) each(ctx context.Context, arg string) ([]func() (*found, error), error) {
	one := []func() (*found, error){func() (*found, error) { return find(ctx, arg) }}
	if !isDir(arg) && !objectstore.IsLocation(arg) {
		return one, nil
	}
	dir, err := shelfAt(ctx, arg)
	if err != nil {
		return nil, err
	}
	if is, err := dir.whole(dir.dir); is || err != nil { // whatever else lies in it
		return one, nil
	}
	ids, err := dir.numbers()
	if err != nil || len(ids) == 0 {
		return one, err
	}
	var all []func() (*found, error)
	for _, id := range ids {
		all = append(all, func() (*found, error) { return dir.open(dir.path(id)) })
	}
	return all, nil
}

func verifyOne(ctx context.Context, out io.Writer, open func() (*found, error)) error {
	f, err := open()
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Verify(ctx); err != nil {
		return f.named(err)
	}
	note := ""
	if err := f.Manifest.Resumable(); err != nil {
		note = "; " + err.Error()
	}
	fmt.Fprintf(out, "%s: whole, %s, %d bytes%s\n", f.called(), plural(len(f.Manifest.Views), "view"), f.Manifest.Bytes(), note)
	return nil
}
