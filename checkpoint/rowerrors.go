package checkpoint

import (
	"bytes"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"weir/state/plan"
	"weir/state/sqltype"
)

// rowErrors collects what is wrong with the rows of a batch. Of several errors
// of a row the first kind stays: merge, result, file.
type rowErrors struct {
	text map[int]*rowError
	n    int // rows
	keys int // columns that are keys, the first ones
}

type rowError struct {
	text, at string
	columns  []int // state columns that hold a value which does not fit
}

// at lists the rows that failed there.
func (r *rowErrors) at(where string) []int {
	var rows []int
	for i, e := range r.text {
		if e.at == where {
			rows = append(rows, i)
		}
	}
	return rows
}

func (r *rowErrors) merge(a *array.String) {
	if a.NullN() == r.n {
		return
	}
	for i := range r.n {
		if a.IsValid(i) {
			r.text[i] = &rowError{text: string(bytes.Clone([]byte(a.Value(i)))), at: errorMerge}
		}
	}
}

func (r *rowErrors) result(errs []string) {
	for i, text := range errs {
		if text == "" {
			continue
		}
		switch e := r.text[i]; {
		case e == nil:
			r.text[i] = &rowError{text: text, at: errorResult}
		case e.at == errorFile:
			e.text, e.at = text, errorResult
		}
	}
}

func unfit(f sqltype.Field) string {
	return fmt.Sprintf("%s: the %s does not fit %s", f.Name, f.Type, f.Type.File())
}

// misfit notes rows whose value of a column does not fit; column -1 is a result.
func (r *rowErrors) misfit(rows []int, column int, f sqltype.Field) {
	for _, i := range rows {
		e := r.text[i]
		if e == nil {
			e = &rowError{text: unfit(f), at: errorFile}
			r.text[i] = e
		}
		// The accumulators of a group that failed to merge are not kept.
		if column >= 0 && (e.at != errorMerge || column < r.keys) {
			e.columns = append(e.columns, column)
		}
	}
}

// encodeExact is an Arrow IPC stream of one row with the given state columns in
// the inside form.
func encodeExact(v *plan.View, in arrow.RecordBatch, row int, columns []int) ([]byte, error) {
	all := v.StateColumns()
	var fields []arrow.Field
	var arrays []arrow.Array
	for _, c := range columns {
		fields = append(fields, all[c].Type.InsideField(all[c].Name))
		d := array.NewSliceData(in.Column(c).Data(), int64(row), int64(row+1))
		nulls := array.UnknownNullCount
		if d.Buffers()[0] == nil { // arrow-go would count in it all the same
			nulls = 0
		}
		plain := array.NewData(all[c].Type.Inside(), d.Len(), d.Buffers(), d.Children(), nulls, d.Offset())
		arrays = append(arrays, array.MakeFromData(plain))
		plain.Release()
		d.Release()
	}
	rec := array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, 1)
	defer rec.Release()
	for _, a := range arrays {
		a.Release()
	}
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(rec.Schema()))
	if err := w.Write(rec); err != nil {
		return nil, fmt.Errorf("exact values: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("exact values: %w", err)
	}
	return buf.Bytes(), nil
}
