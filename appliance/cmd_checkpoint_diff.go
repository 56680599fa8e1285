package appliance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/checkpoint"
	"weir/queryable"
	"weir/queryable/client"
)

// exitDiffers is the status of a diff that found differences.
const exitDiffers = 3

type checkpointDiffCmd struct {
	A       string   `arg:"" help:"The checkpoint before."`
	B       string   `arg:"" help:"The checkpoint after."`
	View    []string `help:"Only these views." placeholder:"NAME"`
	JSON    bool     `name:"json" help:"An NDJSON line for each group, with all values before and after."`
	Summary bool     `help:"Only how many groups of each view differ."`
}

// Help is shown with --help.
func (checkpointDiffCmd) Help() string {
	return namingHelp + "\n\nGroups are compared by their keys and accumulators, from which all results follow. A line begins with + (only in B), - (only in A) or ~ (changed). Of a view that still read old records in one of them it is said (with --json as backfilling).\n\n" +
		"Exit status: 0 nothing differs, 1 an error, 2 wrong usage, 3 something differs."
}

func (c *checkpointDiffCmd) Run(ctx context.Context, s streams) error {
	a, err := find(ctx, c.A)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := find(ctx, c.B)
	if err != nil {
		return err
	}
	defer b.Close()
	out := bufio.NewWriter(s.out)
	same, err := c.diff(ctx, out, a, b)
	if ferr := out.Flush(); err == nil {
		err = ferr
	}
	if err == nil && !same {
		return exitCode(exitDiffers)
	}
	return err
}

// diff writes what differs and says whether nothing does.
func (c *checkpointDiffCmd) diff(ctx context.Context, out io.Writer, a, b *found) (same bool, err error) {
	same = true
	views := c.View
	if views == nil {
		for i := range a.Manifest.Views {
			views = append(views, a.Manifest.Views[i].Name)
		}
		for i := range b.Manifest.Views {
			if name := b.Manifest.Views[i].Name; !has(a.Manifest, name) {
				views = append(views, name)
			}
		}
	}
	for _, name := range views {
		inA, inB := has(a.Manifest, name), has(b.Manifest, name)
		if inA && inB {
			eq, err := c.view(ctx, out, a, b, name)
			if err != nil {
				return false, err
			}
			same = same && eq
			continue
		}
		where := "the first"
		switch {
		case !inA && !inB:
			return false, unmaterialized(a.Manifest, c.A, name)
		case inB:
			where = "the second"
		}
		same = false
		if c.JSON {
			err = json.NewEncoder(out).Encode(map[string]any{"view": name, "only_in": where})
		} else {
			_, err = fmt.Fprintf(out, "view %s: only in %s\n", shown(name), where)
		}
		if err != nil {
			return false, err
		}
	}
	return same, nil
}

// unfinishedIn says which of two checkpoints have a view that is not whole.
func unfinishedIn(a, b *checkpoint.Manifest, name string) (where []string) {
	for i, m := range []*checkpoint.Manifest{a, b} {
		if v, ok := m.View(name); ok && wasBackfilling(m, v) {
			where = append(where, []string{"the first", "the second"}[i])
		}
	}
	return where
}

func has(m *checkpoint.Manifest, view string) bool {
	_, ok := m.View(view)
	return ok
}

func (c *checkpointDiffCmd) view(ctx context.Context, out io.Writer, a, b *found, name string) (same bool, err error) {
	v, _ := a.Manifest.View(name)
	fields := checkpoint.DiffColumns(v)
	var columns []queryable.Column
	for _, f := range fields {
		columns = append(columns, queryable.Column{Field: f})
	}
	each := func(rec arrow.RecordBatch) error {
		rd, err := array.NewRecordReader(rec.Schema(), []arrow.RecordBatch{rec})
		if err != nil {
			return err
		}
		rows := &queryable.Rows{Columns: columns, Records: rd}
		w := io.Writer(&diffLines{out: out, view: v.Name, keys: len(v.Plan.Keys), json: c.JSON})
		return queryable.Write(w, rows, "application/x-ndjson", nil)
	}
	if c.Summary {
		each = nil
	}
	n, err := checkpoint.Diff(ctx, a.Checkpoint, b.Checkpoint, name, each)
	if err != nil {
		return false, b.named(a.named(err))
	}
	old := unfinishedIn(a.Manifest, b.Manifest, name)
	if c.JSON {
		return n.Equal(), json.NewEncoder(out).Encode(struct {
			View string `json:"view"`
			checkpoint.DiffCount
			Backfilling []string `json:"backfilling,omitempty"`
		}{v.Name, n, old})
	}
	for _, where := range old {
		if _, err := fmt.Fprintf(out, "%s in %s\n", notWhole(v.Name), where); err != nil {
			return false, err
		}
	}
	_, err = fmt.Fprintf(out, "view %s: %d added, %d removed, %d changed, %d the same\n", shown(v.Name), n.Added, n.Removed, n.Changed, n.Same)
	return n.Equal(), err
}

// diffLines turns lines of JSON into what people read, or adds the view to them.
type diffLines struct {
	out  io.Writer
	view string
	keys int
	json bool
	rest []byte
}

// Write takes whole or partial lines.
func (d *diffLines) Write(p []byte) (int, error) {
	d.rest = append(d.rest, p...)
	for {
		line, rest, ok := strings.Cut(string(d.rest), "\n")
		if !ok {
			return len(p), nil
		}
		d.rest = []byte(rest)
		if err := d.line(line); err != nil {
			return 0, err
		}
	}
}

func (d *diffLines) line(line string) error {
	if d.json {
		name, err := json.Marshal(d.view)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(d.out, "{\"view\":%s,%s\n", name, strings.TrimPrefix(line, "{"))
		return err
	}
	members, err := ordered(line)
	if err != nil {
		return err
	}
	var kind string
	if err := json.Unmarshal(members[0].value, &kind); err != nil {
		return err
	}
	var parts []string
	for _, m := range members[1 : 1+d.keys] {
		parts = append(parts, shown(m.name)+" = "+client.Text(m.value))
	}
	before, err := ordered(string(members[1+d.keys].value))
	if err != nil {
		return err
	}
	after, err := ordered(string(members[2+d.keys].value))
	if err != nil {
		return err
	}
	text := strings.Join(parts, ", ")
	if text == "" {
		text = "(the only group)"
	}
	text += ":"
	one := before
	if before == nil {
		one = after
	}
	for i, m := range one {
		switch {
		case kind != checkpoint.Changed && m.name == "__error" && string(m.value) == "null":
		case kind != checkpoint.Changed:
			text += " " + shown(m.name) + " " + client.Text(m.value)
		case string(before[i].value) != string(after[i].value):
			text += " " + shown(m.name) + " " + client.Text(before[i].value) + " -> " + client.Text(after[i].value)
		}
	}
	sign := map[string]string{checkpoint.Added: "+", checkpoint.Removed: "-", checkpoint.Changed: "~"}[kind]
	_, err = fmt.Fprintf(d.out, "%s %s\n", sign, text)
	return err
}

// A member is a name of a JSON object and its value.
type member struct {
	name  string
	value json.RawMessage
}

// ordered reads an object with its members in order; null has none.
func ordered(text string) ([]member, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	t, err := dec.Token()
	if t == nil || err != nil {
		return nil, err
	}
	var out []member
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var m member
		m.name, _ = name.(string)
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}
