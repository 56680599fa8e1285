package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"weir/checkpoint"
	"weir/duckext"
	"weir/queryable"
	"weir/queryable/client"
)

type checkpointQueryCmd struct {
	Checkpoint string        `arg:"" help:"The checkpoint: a directory, DIR, DIR@42, DIR@name or FILE.weir."`
	SQL        string        `arg:"" optional:"" help:"The query; without it, standard input is read."`
	Format     string        `enum:"table,json,ndjson,csv,arrow" default:"table" help:"Form of the answer: ${enum}."`
	Timeout    time.Duration `default:"10m" help:"Time after which the query is stopped."`
	Memory     size          `default:"1GB" help:"Memory of the query process."`
}

// Help is shown with --help.
func (checkpointQueryCmd) Help() string {
	return "The materialized views and the views of the checkpoint are there under their names; v AT (VERSION => 41) and state_at('v', name := 'before') read others of the same directory. " +
		"The query runs in a process of its own without files, network or settings, as ad-hoc SQL of a running appliance does.\n\n" +
		"Examples:\n  weir checkpoint query data/shop 'SELECT * FROM revenue_by_city ORDER BY revenue DESC LIMIT 10'\n  weir checkpoint query --format csv data/shop@42 'FROM revenue_by_city' > cities.csv\n\n" +
		"Exit status: 0 answered in full, 1 an error, 2 wrong usage, 3 answered, but not in full: the answer was cut, or a view still read old records when the checkpoint was taken."
}

func (c *checkpointQueryCmd) Run(ctx context.Context, s streams) error {
	sql := c.SQL
	if sql == "" {
		b, err := io.ReadAll(io.LimitReader(s.in, 1<<20))
		if err != nil {
			return fmt.Errorf("read query: %w", err)
		}
		sql = string(b)
	}
	if strings.TrimSpace(sql) == "" {
		return errors.New("there is no query")
	}
	f, err := find(ctx, c.Checkpoint)
	if err != nil {
		return err
	}
	defer f.Close()
	rows, err := queryOffline(ctx, f, sql, c.Timeout, int64(c.Memory))
	if err != nil {
		err = f.named(err)
	}
	if e, ok := errors.AsType[*duckext.QueryError](err); ok {
		fmt.Fprintln(s.err, "weir:", e.Message)
		if at := (&client.Error{Position: e.Offset}).Point(sql); at != "" {
			fmt.Fprintln(s.err, at)
		}
		return exitCode(exitError)
	}
	if e, ok := errors.AsType[*queryable.Error](err); ok {
		fmt.Fprintln(s.err, "weir:", e.Message)
		if at := (&client.Error{Position: e.Position}).Point(sql); at != "" {
			fmt.Fprintln(s.err, at)
		}
		return exitCode(exitError)
	}
	if err != nil {
		return err
	}
	if err := printRows(s.out, rows, c.Format); err != nil {
		return err
	}
	var code error
	if rows.Truncated() {
		fmt.Fprintln(s.err, "weir: the answer is not whole: it was cut at 1 GB")
		code = exitCode(exitPartial)
	}
	for _, v := range rows.Backfilling {
		if c.Format != "table" { // which says so itself
			fmt.Fprintln(s.err, "weir:", notWhole(v))
		}
		code = exitCode(exitPartial)
	}
	return code
}

// printRows writes rows in a form and releases them. JSON has all its digits, so
// the table is made of it.
func printRows(out io.Writer, rows *queryable.Rows, format string) error {
	media := map[string]string{
		"json": "application/json", "ndjson": "application/x-ndjson", "csv": "text/csv", "arrow": "application/vnd.apache.arrow.stream",
	}
	if form, ok := media[format]; ok {
		return queryable.Write(out, rows, form, checkpoint.FileBatch)
	}
	var text bytes.Buffer
	if err := queryable.Write(&text, rows, media["json"], nil); err != nil {
		return err
	}
	var r client.Result
	if err := json.Unmarshal(text.Bytes(), &r); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return client.WriteTable(out, &r)
}

// queryOffline runs a query over a checkpoint in a query process.
func queryOffline(ctx context.Context, f *found, sql string, timeout time.Duration, memory int64) (*queryable.Rows, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's file: %w", err)
	}
	o := &offline{f: f}
	defer o.close()
	pool := duckext.NewPool(duckext.PoolOptions{
		Command: []string{exe, "query-worker"}, Size: 1, Timeout: timeout, Memory: memory, AddressSpace: max(3<<30, 3*memory),
		MaxRows: 1 << 40, MaxBytes: 1 << 30, Logger: slog.New(slog.DiscardHandler),
	}, o)
	res, err := pool.Query(ctx, duckext.Request{SQL: sql})
	if e, ok := errors.AsType[*duckext.QueryError](err); ok {
		err = o.blame(ctx, e, memory)
	}
	if err = errors.Join(err, pool.Close()); err != nil {
		return nil, err
	}
	return o.answerRows(res)
}
