package checkpoint

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/internal/recordbatch"
	"weir/state/plan"
	"weir/state/sqltype"
)

// Results reads what SELECT * FROM the view would show: its result columns (see
// plan.View.ResultColumns) in the inside form, without the groups that HAVING
// hides, in the order of slot and key. A group in error ends it with an error that
// names the group. The caller releases the reader.
func (t *Table) Results(ctx context.Context, mem memory.Allocator) (array.RecordReader, error) {
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	v := t.View
	var names []string
	var fields []arrow.Field
	for j, r := range v.Plan.Results {
		i := slices.IndexFunc(v.Columns, func(c Column) bool { return c.Result != nil && *c.Result == j })
		if i < 0 {
			return nil, &Error{Kind: ErrMismatch, Path: "view " + v.Name, What: "it has no column of result " + r.Name}
		}
		names = append(names, v.Columns[i].Name)
		fields = append(fields, r.Type.InsideField(r.Name))
	}
	for i := range v.Columns {
		if v.Columns[i].Role == RoleKey {
			names = append(names, v.Columns[i].Name)
		}
	}
	names = append(names, visibleColumn, errorColumn)
	in, err := t.Rows(ctx, names, mem)
	if err != nil {
		return nil, err
	}
	r := &results{in: in, view: v, path: "view " + v.Name, mem: mem, n: len(fields), schema: arrow.NewSchema(fields, nil)}
	return recordbatch.NewReader(r.schema, r.next, in.Release), nil
}

// results makes the batches of the reader that Results gives. Its input has n
// results, the keys, __visible and __error.
type results struct {
	in     array.RecordReader
	view   *View
	path   string
	mem    memory.Allocator
	n      int
	schema *arrow.Schema
}

func (r *results) next() (arrow.RecordBatch, error) {
	for r.in.Next() {
		if rec, err := r.convert(r.in.RecordBatch()); rec != nil || err != nil {
			return rec, err
		}
	}
	return nil, r.in.Err()
}

// convert gives the rows of a batch that are shown, or nil when there are none.
func (r *results) convert(rec arrow.RecordBatch) (arrow.RecordBatch, error) {
	last := int(rec.NumCols()) - 1
	visible, ok := rec.Column(last - 1).(*array.Boolean)
	why, ok2 := rec.Column(last).(*array.String)
	if !ok || !ok2 {
		return nil, damaged(r.path, "its system columns are of other types")
	}
	var runs [][2]int64
	for i := range why.Len() {
		switch {
		case visible.IsNull(i) || !visible.Value(i):
			continue
		case why.IsValid(i):
			return nil, fmt.Errorf("view %s: the group %s is in error: %s", r.view.Name, r.key(rec, i, why.Value(i)), why.Value(i))
		}
		if n := len(runs) - 1; n >= 0 && runs[n][1] == int64(i) {
			runs[n][1]++
		} else {
			runs = append(runs, [2]int64{int64(i), int64(i + 1)})
		}
	}
	if runs == nil {
		return nil, nil
	}
	var rows int64
	var cols []arrow.Array
	defer func() {
		for _, c := range cols {
			c.Release()
		}
	}()
	for _, run := range runs {
		rows += run[1] - run[0]
	}
	for i := range r.n {
		col, err := toInside(r.mem, r.view.Plan.Results[i].Type, rec.Column(i))
		if err != nil {
			return nil, damaged(r.path, "column %s: %v", rec.ColumnName(i), err)
		}
		cols = append(cols, col)
		if len(runs) == 1 && rows == rec.NumRows() {
			continue
		}
		parts := make([]arrow.Array, len(runs))
		for j, run := range runs {
			parts[j] = array.NewSlice(col, run[0], run[1])
			defer parts[j].Release()
		}
		shown, err := array.Concatenate(parts, r.mem)
		if err != nil {
			return nil, fmt.Errorf("join rows of column %s: %w", rec.ColumnName(i), err)
		}
		col.Release()
		cols[i] = shown
	}
	return array.NewRecordBatch(r.schema, cols, rows), nil
}

// key shows the key of a row to people. why is the row's error: a key that the file
// cannot hold is NULL there, and the error names the first of them.
func (r *results) key(rec arrow.RecordBatch, row int, why string) string {
	var parts []string
	misfit := slices.ContainsFunc(r.view.Plan.Keys, func(k plan.Key) bool { return why == unfit(sqltype.Field{Name: k.Name, Type: k.Type}) })
	for i, k := range r.view.Plan.Keys {
		text := "NULL"
		if misfit {
			text = "NULL or a value that files cannot hold"
		}
		if c := rec.Column(r.n + i); c.IsValid(row) {
			text = c.ValueStr(row)
		}
		parts = append(parts, k.Name+" = "+text)
	}
	if parts == nil {
		return "(the only one)"
	}
	return strings.Join(parts, ", ")
}
