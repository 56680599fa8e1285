package checkpoint

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/internal/recordbatch"
	"weir/state/plan"
	"weir/state/sqltype"
)

// A Finalizer computes result columns: final SQL, which this package knows
// nothing of.
type Finalizer interface {
	// Prepare compiles some results of a view, given as indices in v.Results, and
	// v.Visible unless that is empty. A view all of whose results are stored keys
	// or accumulators, without HAVING, is not asked for.
	Prepare(ctx context.Context, v *plan.View, results []int) (Final, error)
}

// A Final computes the results of one view. It is used by one goroutine.
type Final interface {
	// Finalize evaluates rows, whose columns are those of v.StateColumns in the
	// inside form; it does not keep them. Row i of the answer belongs to row i of
	// rows. A row whose expressions fail is not an error of Finalize: it goes into
	// Errors. Rows whose group is in error already come too; what is said of them
	// is ignored.
	Finalize(ctx context.Context, rows arrow.RecordBatch) (Finals, error)
	Close() error
}

// Finals are the results of a batch.
type Finals struct {
	// Results has a column for each prepared result, in that order, in the inside
	// form. Nil when none were asked for.
	Results arrow.RecordBatch
	// Visible is HAVING, as int8 or bool; NULL is false. Nil without HAVING.
	Visible arrow.Array
	// Errors says by row why it has no results, "" when it has. Nil is all "".
	Errors []string
}

// Release gives the arrays back.
func (f Finals) Release() {
	if f.Results != nil {
		f.Results.Release()
	}
	if f.Visible != nil {
		f.Visible.Release()
	}
}

func (f Finals) check(rows, results int, having bool) error {
	switch {
	case results > 0 && (f.Results == nil || f.Results.NumRows() != int64(rows) || f.Results.NumCols() != int64(results)):
		return fmt.Errorf("finalizer gave no %d columns of %d rows", results, rows)
	case having && (f.Visible == nil || f.Visible.Len() != rows):
		return fmt.Errorf("finalizer did not say which of %d rows are visible", rows)
	case f.Errors != nil && len(f.Errors) != rows:
		return fmt.Errorf("finalizer gave %d errors for %d rows", len(f.Errors), rows)
	}
	return nil
}

// fileRows makes rows of the file from rows of the state.
type fileRows struct {
	mem    memory.Allocator
	view   *plan.View
	layout *layout
	final  Final // nil when nothing is computed
	errors int64 // rows with __error so far
	unfit  int64 // keys that did not fit their columns so far
}

// convert makes a batch of the file of a scan's batch: state columns, __slot,
// __epoch, __error. The caller releases both results.
func (r *fileRows) convert(ctx context.Context, in arrow.RecordBatch) (_ arrow.RecordBatch, slots *array.Uint16, err error) {
	n := int(in.NumRows())
	fields := r.view.StateColumns()
	if int(in.NumCols()) != len(fields)+3 {
		return nil, nil, fmt.Errorf("scan gave %d columns, not %d", in.NumCols(), len(fields)+3)
	}
	var owned []arrow.Array
	defer func() {
		for _, a := range owned {
			a.Release()
		}
	}()
	slots, ok1 := in.Column(len(fields)).(*array.Uint16)
	epochs, ok2 := in.Column(len(fields) + 1).(*array.Uint64)
	merge, ok3 := in.Column(len(fields) + 2).(*array.String)
	if !ok1 || !ok2 || !ok3 {
		return nil, nil, fmt.Errorf("scan gave system columns of other types: %s", in.Schema())
	}

	rows := &rowErrors{text: map[int]*rowError{}, n: n, keys: len(r.view.Keys)}
	rows.merge(merge)
	stateCols := make([]arrow.Array, len(fields))
	for i, f := range fields {
		a, misfits, err := toFile(r.mem, f.Type, in.Column(i))
		if err != nil {
			return nil, nil, fmt.Errorf("column %s: %w", f.Name, err)
		}
		if i >= len(r.view.Keys) {
			a = r.without(a, rows.at(errorMerge))
		}
		owned = append(owned, a)
		stateCols[i] = a
		rows.misfit(misfits, i, f)
		if i < len(r.view.Keys) {
			r.unfit += int64(len(misfits))
		}
	}

	var results []arrow.Array
	var visible arrow.Array
	if r.final != nil {
		finals, err := r.finalize(ctx, in, fields)
		if err != nil {
			return nil, nil, err
		}
		defer finals.Release()
		rows.result(finals.Errors)
		visible = finals.Visible
		for i, j := range r.layout.eval {
			res := r.view.Results[j]
			a, misfits, err := toFile(r.mem, res.Type, finals.Results.Column(i))
			if err != nil {
				return nil, nil, fmt.Errorf("result %s: %w", res.Name, err)
			}
			a = r.without(a, rows.at(errorMerge), rows.at(errorResult))
			owned = append(owned, a)
			results = append(results, a)
			rows.misfit(misfits, -1, sqltype.Field{Name: res.Name, Type: res.Type})
		}
	}

	cols := make([]arrow.Array, 0, len(r.layout.cols))
	for _, o := range r.layout.origin {
		if o.state >= 0 {
			cols = append(cols, stateCols[o.state])
		} else {
			cols = append(cols, results[o.result])
		}
	}
	cols = append(cols, slots, epochs)
	system, err := r.system(in, rows, visible)
	if err != nil {
		return nil, nil, err
	}
	owned, cols = append(owned, system...), append(cols, system...)
	r.errors += int64(len(rows.text))
	slots.Retain()
	return array.NewRecordBatch(r.layout.schema, cols, int64(n)), slots, nil
}

func (r *fileRows) finalize(ctx context.Context, in arrow.RecordBatch, fields []sqltype.Field) (Finals, error) {
	schema := make([]arrow.Field, len(fields))
	for i, f := range fields {
		schema[i] = in.Schema().Field(i)
		schema[i].Name = f.Name
	}
	rec := array.NewRecordBatch(arrow.NewSchema(schema, nil), in.Columns()[:len(fields)], in.NumRows())
	defer rec.Release()
	finals, err := r.final.Finalize(ctx, rec)
	if err != nil {
		return Finals{}, fmt.Errorf("results: %w", err)
	}
	if err := finals.check(int(in.NumRows()), len(r.layout.eval), r.view.Visible != ""); err != nil {
		finals.Release()
		return Finals{}, err
	}
	return finals, nil
}

// without is a with some rows NULL. It takes a over.
func (r *fileRows) without(a arrow.Array, lists ...[]int) arrow.Array {
	var rows []int
	for _, l := range lists {
		rows = append(rows, l...)
	}
	if len(rows) == 0 {
		return a
	}
	defer a.Release()
	d := recordbatch.Nulled(r.mem, a.Data(), rows)
	defer d.Release()
	return array.MakeFromData(d)
}

// system builds __visible, __error, __error_at and, where the layout has it,
// __exact.
func (r *fileRows) system(in arrow.RecordBatch, rows *rowErrors, visible arrow.Array) ([]arrow.Array, error) {
	n := int(in.NumRows())
	vis := array.NewBooleanBuilder(r.mem)
	text, at := array.NewStringBuilder(r.mem), array.NewStringBuilder(r.mem)
	exact := array.NewBinaryBuilder(r.mem, arrow.BinaryTypes.Binary)
	defer func() {
		for _, b := range []array.Builder{vis, text, at, exact} {
			b.Release()
		}
	}()
	show := isTrue(visible)
	for i := range n {
		e, failed := rows.text[i]
		if !failed {
			vis.Append(show(i))
			text.AppendNull()
			at.AppendNull()
			exact.AppendNull()
			continue
		}
		// HAVING says nothing of a group in error, and the row must not hide.
		vis.Append(e.at != errorFile || show(i))
		text.Append(e.text)
		at.Append(e.at)
		if len(e.columns) == 0 {
			exact.AppendNull()
			continue
		}
		b, err := encodeExact(r.view, in, i, e.columns)
		if err != nil {
			return nil, err
		}
		exact.Append(b)
	}
	out := []arrow.Array{vis.NewArray(), text.NewArray(), at.NewArray()}
	if r.layout.exact {
		out = append(out, exact.NewArray())
	}
	return out, nil
}

func isTrue(a arrow.Array) func(int) bool {
	if e, ok := a.(array.ExtensionArray); ok {
		a = e.Storage()
	}
	switch a := a.(type) {
	case *array.Boolean:
		return func(i int) bool { return a.IsValid(i) && a.Value(i) }
	case *array.Int8:
		return func(i int) bool { return a.IsValid(i) && a.Value(i) != 0 }
	}
	return func(int) bool { return true }
}
