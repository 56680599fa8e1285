package appliance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"weir/queryable/client"
)

type sqlCmd struct {
	SQL    string `arg:"" optional:"" help:"The statement; without it, standard input is read."`
	Addr   string `default:"127.0.0.1:8080" help:"Address of the appliance."`
	Token  string `env:"WEIR_TOKEN" help:"Token, when the appliance asks for one."`
	Format string `enum:"table,json,ndjson,csv,arrow" default:"table" help:"Form of the answer: ${enum}."`
}

func (sqlCmd) Help() string {
	return "Examples:\n  weir sql 'SELECT * FROM top_cities'\n  weir sql --format csv 'FROM revenue_by_city' > cities.csv\n  weir sql 'VERIFY VIEW revenue_by_city'\n\n" +
		"Exit status: 0 answered in full, 1 an error, 2 wrong usage, 3 answered, but not in full: the answer was cut, a source showed its newest records only, or a view still reads old records; standard error says which. Records of a source that could not be decoded are not shown; standard error counts them, and the status is 0."
}

func (c *sqlCmd) Run(ctx context.Context, s streams) error {
	sql := c.SQL
	if sql == "" {
		b, err := io.ReadAll(io.LimitReader(s.in, 1<<20))
		if err != nil {
			return fmt.Errorf("read statement: %w", err)
		}
		sql = string(b)
	}
	if strings.TrimSpace(sql) == "" {
		return errors.New("there is no statement")
	}
	cl, err := client.New(c.Addr, c.Token)
	if err != nil {
		return err
	}
	part, err := c.print(ctx, cl, s.out, sql)
	if e, ok := errors.AsType[*client.Error](err); ok {
		fmt.Fprintln(s.err, "weir:", e.Error())
		if at := e.Point(sql); at != "" {
			fmt.Fprintln(s.err, at)
		}
		return exitCode(exitError)
	}
	if err != nil {
		return err
	}
	notes := s.err
	if c.Format == "table" && samePlace(s.out, s.err) { // the table has said it
		notes = io.Discard
	}
	var code error
	for _, why := range client.NotWhole(part.Truncated, part.RowsCut, part.Partial) {
		fmt.Fprintln(notes, "weir:", why)
		code = exitCode(exitPartial)
	}
	if part.Undecoded > 0 { // and yet it is all that there is to show
		fmt.Fprintln(notes, "weir:", client.NotDecoded(part.Undecoded))
	}
	for _, v := range part.Backfilling {
		fmt.Fprintln(notes, "weir:", notWhole(v))
		code = exitCode(exitPartial)
	}
	return code
}

// samePlace says whether two streams are one terminal, or one file.
func samePlace(a, b io.Writer) bool {
	x, ok := unwrapped(a).(*os.File)
	y, too := unwrapped(b).(*os.File)
	if !ok || !too {
		return false
	}
	one, err := x.Stat()
	other, err2 := y.Stat()
	return err == nil && err2 == nil && os.SameFile(one, other)
}

func (c *sqlCmd) print(ctx context.Context, cl *client.Client, out io.Writer, sql string) (part client.Partial, err error) {
	accept := map[string]string{
		"json": "application/json", "ndjson": "application/x-ndjson", "csv": "text/csv", "arrow": "application/vnd.apache.arrow.stream",
	}
	if form, ok := accept[c.Format]; ok {
		return cl.Copy(ctx, out, form, sql)
	}
	r, err := cl.Query(ctx, sql)
	if err != nil {
		return part, err
	}
	if out == nil {
		out = os.Stdout
	}
	return client.Partial{Truncated: r.Truncated, RowsCut: r.RowsCut, Partial: r.Partial, Undecoded: r.Undecoded, Backfilling: r.Backfilling}, client.WriteTable(out, r)
}
