package appliance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/duckext"
	"weir/state/plan"
	"weir/state/sqltype"
)

// comparison is a DuckDB with the tables records, expected and actual, and base
// where there is one.
type comparison struct {
	prepare func(ctx context.Context, sql string, rel plan.Relation, out []sqltype.Field) (runner, error)
	close   func()            // ends it, and all statements with it
	inserts map[string]runner // by table
}

// newComparison starts a process for it.
func (b backend) newComparison(ctx context.Context) (*comparison, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's file: %w", err)
	}
	tmp, err := filepath.Abs(filepath.Join(b.cfg.Data, "tmp"))
	if err == nil {
		err = os.MkdirAll(tmp, 0o700)
	}
	if err == nil {
		tmp, err = os.MkdirTemp(tmp, "verify-")
	}
	if err != nil {
		return nil, fmt.Errorf("make directory for spilling: %w", err)
	}
	g := duckext.NewGuard(duckext.GuardOptions{
		Command: []string{exe, "batch-worker"}, MemoryLimit: bytesText(int64(b.cfg.Memory) / 4), TempDir: tmp, Timeout: time.Hour, Logger: b.log,
	})
	c := &comparison{
		prepare: func(_ context.Context, sql string, rel plan.Relation, out []sqltype.Field) (runner, error) {
			return g.Prepare(sql, rel, out)
		},
		close: func() {
			if err := errors.Join(g.Close(), os.RemoveAll(tmp)); err != nil {
				b.log.Warn("end a comparison", "error", err)
			}
		},
	}
	// The process ends, and its tables with it, when no statement is open.
	if _, err := c.prepare(ctx, "SELECT 1::BIGINT AS \"Count\"", nothing(), countColumn()); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// nothing is the relation of statements that read none.
func nothing() plan.Relation {
	return plan.Relation{Name: "__nothing", Columns: []sqltype.Field{{Name: "nothing", Type: sqltype.Type{ID: sqltype.Boolean}}}}
}

// noRows is an empty batch of some columns.
func noRows(cols []sqltype.Field) arrow.RecordBatch {
	fields := make([]arrow.Field, len(cols))
	for i, f := range cols {
		fields[i] = f.Type.InsideField(f.Name)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	return b.NewRecordBatch()
}

func countColumn() []sqltype.Field {
	return []sqltype.Field{{Name: "Count", Type: sqltype.Type{ID: sqltype.BigInt}}}
}

func quoteName(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// run runs a statement that needs no input.
func (c *comparison) run(ctx context.Context, sql string, out []sqltype.Field) (arrow.RecordBatch, error) {
	p, err := c.prepare(ctx, sql, nothing(), out)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sql, err)
	}
	defer p.Close()
	empty := noRows(nothing().Columns)
	defer empty.Release()
	rec, err := p.Run(ctx, empty)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sql, err)
	}
	return rec, nil
}

func (c *comparison) exec(ctx context.Context, sql string) error {
	rec, err := c.run(ctx, sql, countColumn())
	if err == nil {
		rec.Release()
	}
	return err
}

// create makes an empty table. DuckDB takes its types from a relation, for their
// text is not always SQL: a field of a STRUCT may be called like a keyword.
func (c *comparison) create(ctx context.Context, table string, cols []sqltype.Field) error {
	p, err := c.prepare(ctx, "CREATE TABLE "+table+" AS SELECT * FROM __rows", plan.Relation{Name: "__rows", Columns: cols}, countColumn())
	if err != nil {
		return err
	}
	defer p.Close()
	empty := noRows(cols)
	defer empty.Release()
	out, err := p.Run(ctx, empty)
	if err == nil {
		out.Release()
	}
	return err
}

// insert appends a batch whose first columns are those of the table. One that is
// too large to go to another process goes in halves.
func (c *comparison) insert(ctx context.Context, table string, cols []sqltype.Field, rec arrow.RecordBatch) error {
	p := c.inserts[table]
	if p == nil {
		var err error
		if p, err = c.prepare(ctx, "INSERT INTO "+table+" SELECT * FROM __rows", plan.Relation{Name: "__rows", Columns: cols}, countColumn()); err != nil {
			return err
		}
		if c.inserts == nil {
			c.inserts = map[string]runner{}
		}
		c.inserts[table] = p
	}
	part := array.NewRecordBatch(arrow.NewSchema(rec.Schema().Fields()[:len(cols)], nil), rec.Columns()[:len(cols)], rec.NumRows())
	defer part.Release()
	out, err := p.Run(ctx, part)
	if err == nil {
		out.Release()
		return nil
	}
	if _, large := errors.AsType[*duckext.EvalError](err); !large || part.NumRows() < 2 {
		return err
	}
	for _, half := range [][2]int64{{0, part.NumRows() / 2}, {part.NumRows() / 2, part.NumRows()}} {
		rows := part.NewSlice(half[0], half[1])
		err := c.insert(ctx, table, cols, rows)
		rows.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// expected runs the user's own SELECT over the records, in their order. The
// source's name is a view of them.
func (c *comparison) expected(ctx context.Context, source string, v *plan.View) error {
	if err := c.exec(ctx, "CREATE VIEW "+quoteName(source)+" AS SELECT * FROM records ORDER BY kafka_timestamp, kafka_partition, kafka_offset"); err != nil {
		return err
	}
	return c.exec(ctx, "CREATE TABLE expected AS "+v.Select)
}
