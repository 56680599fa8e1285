package appliance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"weir/checkpoint"
	"weir/queryable"
)

type checkpointExportCmd struct {
	Checkpoint string `arg:"" help:"The checkpoint: a directory, DIR, DIR@42, DIR@name or FILE.weir."`
	View       string `required:"" help:"The view." placeholder:"NAME"`
	Format     string `enum:"csv,ndjson,arrow,parquet,iceberg" default:"csv" help:"Form of the rows: ${enum}. arrow is an Arrow IPC stream, iceberg a table."`
	Output     string `short:"o" type:"path" help:"File to write, whole or not at all; a device or a FIFO gets the bytes as they come, and so does standard output, without it. With --format iceberg the table's directory, which gets the old or the new snapshot." placeholder:"FILE"`
	Keep       *int   `help:"With --format iceberg: how many snapshots of the table stay, the new one included (default: 10)." placeholder:"N"`
	AllColumns bool   `help:"With --format arrow, parquet or iceberg: all columns of the file as they are (keys, results, accumulators, system columns), of all groups, those in error and those that HAVING hides included."`
}

// Help is shown with --help.
func (checkpointExportCmd) Help() string {
	return "Writes the rows that SELECT * FROM the view would show, without a limit and a batch at a time. A group in error ends it. For other rows or columns use weir checkpoint query.\n\n" +
		"--format iceberg makes the rows the next snapshot of an Apache Iceberg table, which is made if it is not there. A view may have got columns since; other changes of its columns are refused.\n\n" +
		"Exit status: 0 written in full, 1 an error, 2 wrong usage, 3 written, but the view still read old records when the checkpoint was taken."
}

// Validate is called by kong.
func (c *checkpointExportCmd) Validate() error {
	switch {
	case c.AllColumns && !slices.Contains([]string{"arrow", "parquet", "iceberg"}, c.Format):
		return errors.New("--all-columns goes with --format arrow, parquet or iceberg")
	case c.Format == "iceberg" && c.Output == "":
		return errors.New("--format iceberg needs -o DIR, the directory of the table")
	case c.Keep != nil && c.Format != "iceberg":
		return errors.New("--keep goes with --format iceberg")
	case c.Keep != nil && *c.Keep < 1:
		return errors.New("--keep is 1 or more")
	}
	return nil
}

// keep is how many snapshots of a table stay.
func (c *checkpointExportCmd) keep() int {
	if c.Keep == nil {
		return 10
	}
	return *c.Keep
}

func (c *checkpointExportCmd) Run(ctx context.Context, s streams) error {
	f, err := find(ctx, c.Checkpoint)
	if err != nil {
		return err
	}
	defer f.Close()
	t, err := f.state(c.View)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := c.export(ctx, s, t, f); err != nil {
		return f.named(err)
	}
	if wasBackfilling(f.Manifest, t.View) {
		fmt.Fprintln(s.err, "weir:", notWhole(t.View.Name))
		return exitCode(exitPartial)
	}
	return nil
}

func (c *checkpointExportCmd) export(ctx context.Context, s streams, t *checkpoint.Table, f *found) error {
	if c.Format == "iceberg" {
		return c.table(ctx, s, t, f.Manifest)
	}
	write := func(out io.Writer) error {
		w := bufio.NewWriterSize(out, 1<<20)
		if err := c.write(ctx, w, t, f.Manifest); err != nil {
			return err
		}
		return w.Flush()
	}
	if c.Output == "" {
		return write(s.out)
	}
	if err := writeOutput(ctx, c.Output, s.out, write); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

func (c *checkpointExportCmd) write(ctx context.Context, w io.Writer, t *checkpoint.Table, m *checkpoint.Manifest) error {
	if c.AllColumns {
		rows, err := t.Rows(ctx, nil, nil)
		if err != nil {
			return err
		}
		defer rows.Release()
		if c.Format == "parquet" {
			return writeParquet(ctx, w, rows, t.View, m)
		}
		return writeStream(w, rows)
	}
	rd, err := t.Results(ctx, nil)
	if err != nil {
		return err
	}
	if c.Format == "parquet" {
		return writeResults(ctx, w, t.View.Plan.ResultColumns(), rd, t.View, m)
	}
	rows := &queryable.Rows{Answer: queryable.Answer{Epoch: m.Epoch}, Records: rd}
	for _, r := range t.View.Plan.ResultColumns() {
		rows.Columns = append(rows.Columns, queryable.Column{Field: r})
	}
	return queryable.Write(w, rows, map[string]string{
		"csv": "text/csv", "ndjson": "application/x-ndjson", "arrow": "application/vnd.apache.arrow.stream",
	}[c.Format], checkpoint.FileBatch)
}

// writeStream writes a reader as an Arrow IPC stream.
func writeStream(w io.Writer, rows array.RecordReader) error {
	out := ipc.NewWriter(w, ipc.WithSchema(rows.Schema()))
	for rows.Next() {
		if err := out.Write(rows.RecordBatch()); err != nil {
			return fmt.Errorf("write rows: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	return nil
}
