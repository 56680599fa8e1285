package appliance

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/checkpoint"
	"weir/duckext"
	"weir/internal/recordbatch"
	"weir/state/plan"
	"weir/state/sqltype"
)

// finalizer computes result columns for checkpoints and look-ups: with the
// appliance's own DuckDB what is plain arithmetic, in a process of its own what
// calls functions that might crash on a value. Queries compute theirs in the query
// process.
type finalizer struct {
	engine *duckext.Engine
	guard  *duckext.Guard
}

var _ checkpoint.Finalizer = finalizer{}

const visibleColumn = "__visible"

// Prepare compiles results of a view, and HAVING.
func (f finalizer) Prepare(ctx context.Context, v *plan.View, results []int) (checkpoint.Final, error) {
	return f.prepare(ctx, v, results)
}

func (f finalizer) prepare(ctx context.Context, v *plan.View, results []int) (*final, error) {
	var exprs []string
	var out []sqltype.Field
	for n, i := range results {
		name := fmt.Sprintf("r%d", n) // results may have names of any kind; these are only numbered
		exprs = append(exprs, v.Results[i].Expr+" AS "+name)
		out = append(out, sqltype.Field{Name: name, Type: v.Results[i].Type})
	}
	if v.Visible != "" {
		exprs = append(exprs, "CAST(("+v.Visible+") AS BOOLEAN) AS "+visibleColumn)
		out = append(out, sqltype.Field{Name: visibleColumn, Type: sqltype.Type{ID: sqltype.Boolean}})
	}
	sql := "SELECT " + strings.Join(exprs, ", ") + " FROM " + plan.StateRelation
	state := plan.Relation{Name: plan.StateRelation, Columns: v.StateColumns()}
	var prog runner
	var err error
	if plain(sql) {
		prog, err = f.engine.Prepare(ctx, sql, state, out)
	} else {
		prog, err = f.guard.Prepare(sql, state, out)
	}
	if err != nil {
		return nil, fmt.Errorf("view %s: prepare results: %w", v.Name, err)
	}
	return &final{prog: prog, out: out, results: len(results), having: v.Visible != ""}, nil
}

// runner is a prepared statement, here or in a process of its own.
type runner interface {
	Run(context.Context, arrow.RecordBatch) (arrow.RecordBatch, error)
	Close() error
}

// calls finds what stands in front of a parenthesis.
var calls = regexp.MustCompile(`([\pL_][\pL\pN_]*|")\s*\(`)

// plainCalls are functions that are known to crash on no value, and the words of
// SQL that a parenthesis may follow.
var plainCalls = strings.Fields(`abs and as between by case cast ceil coalesce date_diff date_part date_trunc decimal distinct
	else epoch epoch_ms epoch_us error floor from greatest if ifnull in is least length like list_avg list_value ln log log10
	log2 lower main make_timestamp not nullif or pow power round row select sign sqrt struct_extract struct_pack then
	time_bucket trunc try_cast upper varchar when where`)

// plain says whether a statement may run in this process. It errs on the side of
// no: a name with quotes, or a text that looks like a call, is enough.
func plain(sql string) bool {
	if strings.Contains(strings.ToUpper(sql), "JSON") {
		return false
	}
	for _, c := range calls.FindAllStringSubmatch(sql, -1) {
		if !slices.Contains(plainCalls, strings.ToLower(c[1])) {
			return false
		}
	}
	return true
}

// final runs the result expressions of one view.
type final struct {
	prog    runner
	out     []sqltype.Field
	results int
	having  bool
}

func (f *final) Close() error { return f.prog.Close() }

// Finalize computes results row by row: where DuckDB refuses a batch, halving
// finds the groups at fault.
func (f *final) Finalize(ctx context.Context, rows arrow.RecordBatch) (checkpoint.Finals, error) {
	var parts []arrow.RecordBatch
	defer func() {
		for _, p := range parts {
			p.Release()
		}
	}()
	var errs []string
	failed := func(i int64, why string) {
		if errs == nil {
			errs = make([]string, rows.NumRows())
		}
		errs[i] = why
	}
	var halve func(lo, hi int64) error
	halve = func(lo, hi int64) error {
		s := rows.NewSlice(lo, hi)
		out, err := f.prog.Run(ctx, s)
		s.Release()
		if err == nil {
			parts = append(parts, out)
			return nil
		}
		_, bad := errors.AsType[*duckext.EvalError](err)
		_, dead := errors.AsType[*duckext.CrashError](err)
		switch {
		case !bad && !dead:
			return err
		case hi-lo == 1:
			failed(lo, err.Error())
			parts = append(parts, f.nulls())
			return nil
		}
		if err := halve(lo, lo+(hi-lo)/2); err != nil {
			return err
		}
		return halve(lo+(hi-lo)/2, hi)
	}
	if err := halve(0, rows.NumRows()); err != nil {
		return checkpoint.Finals{}, err
	}
	all, err := recordbatch.Concat(parts, memory.DefaultAllocator)
	if err != nil {
		return checkpoint.Finals{}, err
	}
	defer all.Release()
	if all.NumRows() != rows.NumRows() {
		return checkpoint.Finals{}, fmt.Errorf("results have %d rows, not %d", all.NumRows(), rows.NumRows())
	}
	fs := checkpoint.Finals{Errors: errs}
	if f.having {
		fs.Visible = all.Column(f.results)
		fs.Visible.Retain()
	}
	if f.results > 0 {
		fs.Results = array.NewRecordBatch(arrow.NewSchema(all.Schema().Fields()[:f.results], nil), all.Columns()[:f.results], all.NumRows())
	}
	return fs, nil
}

// nulls is one row without values.
func (f *final) nulls() arrow.RecordBatch {
	cols := make([]arrow.Array, len(f.out))
	af := make([]arrow.Field, len(f.out))
	for i, c := range f.out {
		af[i] = c.Type.InsideField(c.Name)
		cols[i] = array.MakeArrayOfNull(memory.DefaultAllocator, af[i].Type, 1)
		defer cols[i].Release()
	}
	return array.NewRecordBatch(arrow.NewSchema(af, nil), cols, 1)
}
