package appliance

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/queryable"
	"weir/state/ddl"
	"weir/state/plan"
	"weir/state/sqltype"
)

// Query runs one statement, whatever it is. What Weir adds around SELECT is done
// here, and so are queries for one group by its key; everything else goes to a
// query process, unread.
func (b backend) Query(ctx context.Context, r queryable.QueryRequest) (*queryable.Rows, error) {
	if rows := b.point(ctx, r); rows != nil {
		return rows, nil
	}
	stmt, err := ddl.ParseOne(r.SQL)
	if err != nil {
		return nil, sqlError(err, 0)
	}
	if _, ok := stmt.(*ddl.Query); !ok && (len(r.Params) > 0 || len(r.Named) > 0) {
		return nil, queryable.Errorf(queryable.BadRequest, "only queries take parameters")
	}
	if err := b.allowed(stmt); err != nil {
		return nil, err
	}
	switch s := stmt.(type) {
	case *ddl.Query:
		return b.ask(ctx, r)
	case *ddl.CreateSource, *ddl.CreateMaterializedView, *ddl.CreateView, *ddl.Drop:
		msg, err := b.change(ctx, s, false)
		if err != nil {
			return nil, sqlError(err, 0)
		}
		return b.result(msg)
	case *ddl.CreateSavepoint:
		return b.createSavepoint(ctx, s)
	case *ddl.DropSavepoint:
		return b.dropSavepoint(ctx, s)
	case *ddl.Explain:
		if err := b.survives(ctx, s.View.Select); err != nil {
			return nil, sqlError(err, 0)
		}
		v, err := plan.New(ctx, b.engine, planCatalog(b.store.Catalog()), &s.View)
		if err != nil {
			return nil, sqlError(err, 0)
		}
		var rows [][]any
		for line := range strings.Lines(plan.Explain(v)) {
			rows = append(rows, []any{strings.TrimSuffix(line, "\n")})
		}
		return b.table([]sqltype.Field{text("plan")}, rows)
	case *ddl.Show:
		return b.show(ctx, s.What)
	case *ddl.Checkpoint:
		c, err := b.TakeCheckpoint(ctx, "")
		if err != nil {
			return nil, err
		}
		return b.table(checkpointColumns(), [][]any{{int64(c.ID), int64(c.Epoch), c.Bytes}})
	case *ddl.Verify:
		rep, err := b.verify(ctx, s.Name.Text)
		if err != nil {
			return nil, sqlError(err, 0)
		}
		return b.table([]sqltype.Field{text("view"), number("epoch"), number("records"), number("excluded"), number("compared"), number("missing"), number("extra"), number("different"), text("examples"), text("since"), number("hidden")},
			[][]any{{rep.view, int64(rep.epoch), rep.records, rep.excluded, rep.compared, rep.missing, rep.extra, rep.different, strings.Join(rep.examples, "\n"), orNull(rep.since), rep.hidden}})
	}
	return nil, fmt.Errorf("statement %T is not handled", stmt)
}

// text and number make the columns of small answers.
func text(name string) sqltype.Field {
	return sqltype.Field{Name: name, Type: sqltype.Type{ID: sqltype.Varchar}}
}

func number(name string) sqltype.Field {
	return sqltype.Field{Name: name, Type: sqltype.Type{ID: sqltype.BigInt}}
}

func checkpointColumns() []sqltype.Field {
	return []sqltype.Field{number("checkpoint"), number("epoch"), number("bytes")}
}

// result is the answer of a statement that only says what it did.
func (b backend) result(msg string) (*queryable.Rows, error) {
	return b.table([]sqltype.Field{text("result")}, [][]any{{msg}})
}

// table is a small answer, of strings, int64s and nils, which are NULL.
func (b backend) table(fields []sqltype.Field, rows [][]any) (*queryable.Rows, error) {
	cols := make([]queryable.Column, len(fields))
	inside := make([]arrow.Field, len(fields))
	for i, f := range fields {
		cols[i] = queryable.Column{Field: f}
		inside[i] = f.Type.InsideField(f.Name)
	}
	bld := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(inside, nil))
	defer bld.Release()
	for _, r := range rows {
		for i, v := range r {
			switch v := v.(type) {
			case nil:
				bld.Field(i).AppendNull()
			case int64:
				bld.Field(i).(*array.Int64Builder).Append(v)
			case string:
				bld.Field(i).(*array.StringBuilder).Append(v)
			default: // nil
				bld.Field(i).AppendNull()
			}
		}
	}
	rec := bld.NewRecordBatch()
	defer rec.Release()
	rd, err := array.NewRecordReader(rec.Schema(), []arrow.RecordBatch{rec})
	if err != nil {
		return nil, err
	}
	return &queryable.Rows{Answer: queryable.Answer{Epoch: b.store.Epoch()}, Columns: cols, Records: rd}, nil
}

func numberOrNull(n *int64) any {
	if n == nil {
		return nil
	}
	return *n
}

// show answers SHOW SOURCES, VIEWS, CHECKPOINTS and SAVEPOINTS.
func (b backend) show(ctx context.Context, what string) (*queryable.Rows, error) {
	switch what {
	case "SOURCES":
		list, _, err := b.Sources(ctx)
		if err != nil {
			return nil, err
		}
		var rows [][]any
		for _, s := range list {
			rows = append(rows, []any{s.Name, s.Topic, s.State, s.Records, numberOrNull(s.Lag), s.Quarantined, s.Error})
		}
		return b.table([]sqltype.Field{text("name"), text("topic"), text("state"), number("records"), number("lag"), number("quarantined"), text("error")}, rows)
	case "VIEWS":
		list, _, err := b.Views(ctx)
		if err != nil {
			return nil, err
		}
		var rows [][]any
		for _, v := range list {
			rows = append(rows, []any{v.Name, v.Kind, v.Source, v.State, numberOrNull(v.Groups), numberOrNull(v.Lag), v.Error, exportText(v.Export)})
		}
		return b.table([]sqltype.Field{text("name"), text("kind"), text("source"), text("state"), number("groups"), number("lag"), text("error"), text("export")}, rows)
	case "CHECKPOINTS", "SAVEPOINTS":
		list, err := b.Checkpoints(ctx)
		if err != nil {
			return nil, err
		}
		var rows [][]any
		for _, c := range list {
			if what == "CHECKPOINTS" || c.Savepoint != "" {
				rows = append(rows, []any{int64(c.ID), orNull(c.Savepoint), int64(c.Epoch), c.Created.Format("2006-01-02 15:04:05"), c.Bytes, strings.Join(c.Views, ", ")})
			}
		}
		return b.table([]sqltype.Field{number("id"), text("savepoint"), number("epoch"), text("created"), number("bytes"), text("views")}, rows)
	}
	return nil, fmt.Errorf("SHOW %s is not handled", what)
}

// exportText says in a few words how the export of a view goes; nil when it has
// none.
func exportText(e *queryable.ViewExport) any {
	if e == nil {
		return nil
	}
	text, since := "waits for a checkpoint", "nothing yet: "
	if e.At != nil {
		text = fmt.Sprintf("epoch %d", e.Epoch)
		since = text + ", and none since: "
	}
	if e.Error != "" {
		return since + e.Error
	}
	return text
}
