package checkpoint

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state"
	"weir/state/sqltype"
)

// A DiffCount counts the groups of a view in two checkpoints.
type DiffCount struct {
	Same    int64 `json:"same"`
	Added   int64 `json:"added"`
	Removed int64 `json:"removed"`
	Changed int64 `json:"changed"`
}

// Equal says that nothing differs.
func (n DiffCount) Equal() bool { return n.Added+n.Removed+n.Changed == 0 }

// Values of the first column of a diff.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// DiffColumns are the columns in which [Diff] shows how the groups of a view
// differ: __change (a value above), the keys, and __before and __after, structs of
// the accumulators under the names of the file's columns and __error, NULL where
// there is no such group.
func DiffColumns(v *View) []sqltype.Field {
	text := sqltype.Type{ID: sqltype.Varchar}
	out := []sqltype.Field{{Name: "__change", Type: text}}
	for _, k := range v.Plan.Keys {
		out = append(out, sqltype.Field{Name: k.Name, Type: k.Type})
	}
	side := sqltype.Type{ID: sqltype.Struct}
	for _, a := range v.Plan.Accs {
		side.Fields = append(side.Fields, sqltype.Field{Name: v.shown(a.Name), Type: a.Type})
	}
	side.Fields = append(side.Fields, sqltype.Field{Name: errorColumn, Type: text})
	return append(out, sqltype.Field{Name: "__before", Type: side}, sqltype.Field{Name: "__after", Type: side})
}

// StateFields are the columns of a view's state, keys and then accumulators, under
// the names that they have in its file: a result that is an accumulator goes by
// the result's name.
func (v *View) StateFields() []sqltype.Field {
	fs := v.Plan.StateColumns()
	for i := range fs {
		if i >= len(v.Plan.Keys) {
			fs[i].Name = v.shown(fs[i].Name)
		}
	}
	return fs
}

// shown is the name of an accumulator's column in the file.
func (v *View) shown(accumulator string) string {
	for _, c := range v.Columns {
		if c.Accumulator == accumulator {
			return c.Name
		}
	}
	return accumulator
}

// Diff compares the groups of a view in two checkpoints by their keys and
// accumulators, from which results follow, and hands what differs to f in batches
// of DiffColumns in the inside form, in the order of slot and key. f does not keep
// them; nil only counts. Both must keep the same state, compared by fingerprint.
func Diff(ctx context.Context, a, b *Checkpoint, view string, f func(arrow.RecordBatch) error) (DiffCount, error) {
	var n DiffCount
	x, err := a.Table(view)
	if err != nil {
		return n, err
	}
	defer x.Close()
	y, err := b.Table(view)
	if err != nil {
		return n, err
	}
	defer y.Close()
	if x.View.Fingerprint != y.View.Fingerprint {
		return n, &Error{Kind: ErrMismatch, Path: b.dir, What: fmt.Sprintf("its view %s keeps other state than that of %s:\n%s\nand\n%s", view, a.dir, y.View.SQL, x.View.SQL), Do: "compare results with SQL instead"}
	}
	extra := state.ScanRequest{Extra: state.Extra{Error: true}}
	rx, err := x.Scan(ctx, extra)
	if err != nil {
		return n, err
	}
	defer rx.Release()
	ry, err := y.Scan(ctx, extra)
	if err != nil {
		return n, err
	}
	defer ry.Release()
	out := &differences{view: x.View, f: f}
	defer out.drop()
	n.Same, err = state.Compare(ctx, &x.View.Plan, rx, ry, func(d state.Difference) error {
		switch {
		case d.A == nil:
			n.Added++
		case d.B == nil:
			n.Removed++
		default:
			n.Changed++
		}
		if f == nil {
			return nil
		}
		return out.add(d)
	})
	if err == nil {
		err = out.flush()
	}
	if err != nil {
		return n, fmt.Errorf("compare view %s: %w", view, err)
	}
	return n, nil
}

// An extent is n rows of a batch, or n rows that are not there.
type extent struct {
	rec  arrow.RecordBatch
	from int
	n    int
}

// differences gathers what differs into batches.
type differences struct {
	view *View
	f    func(arrow.RecordBatch) error
	a, b []extent
	rows int
}

func (d *differences) add(x state.Difference) error {
	d.a, d.b = extend(d.a, x.A, x.ARow), extend(d.b, x.B, x.BRow)
	if d.rows++; d.rows < batchRows {
		return nil
	}
	return d.flush()
}

func extend(list []extent, rec arrow.RecordBatch, row int) []extent {
	if n := len(list) - 1; n >= 0 && list[n].rec == rec && (rec == nil || list[n].from+list[n].n == row) {
		list[n].n++
		return list
	}
	if rec != nil {
		rec.Retain()
	}
	return append(list, extent{rec, row, 1})
}

func (d *differences) drop() {
	for _, e := range append(d.a, d.b...) {
		if e.rec != nil {
			e.rec.Release()
		}
	}
	d.a, d.b, d.rows = nil, nil, 0
}

func (d *differences) flush() error {
	if d.rows == 0 || d.f == nil {
		return nil
	}
	defer d.drop()
	fields := DiffColumns(d.view)
	keys := len(d.view.Plan.Keys)
	kinds := array.NewStringBuilder(memory.DefaultAllocator)
	defer kinds.Release()
	inA, inB := present(d.a), present(d.b)
	for i := range d.rows {
		switch {
		case !inA(i):
			kinds.Append(Added)
		case !inB(i):
			kinds.Append(Removed)
		default:
			kinds.Append(Changed)
		}
	}
	cols := []arrow.Array{kinds.NewArray()}
	defer func() {
		for _, c := range cols {
			c.Release()
		}
	}()
	for k := range keys {
		col, err := joined(fields[1+k].Type, d.keyExtents(), k)
		if err != nil {
			return err
		}
		cols = append(cols, col)
	}
	for i, list := range [][]extent{d.a, d.b} {
		col, err := side(fields[1+keys+i].Type, list, keys, d.rows)
		if err != nil {
			return err
		}
		cols = append(cols, col)
	}
	schema := make([]arrow.Field, len(fields))
	for i, f := range fields {
		schema[i] = f.Type.InsideField(f.Name)
	}
	rec := array.NewRecordBatch(arrow.NewSchema(schema, nil), cols, int64(d.rows))
	defer rec.Release()
	return d.f(rec)
}

// keyExtents are the extents of one side, and of the other where that has none.
func (d *differences) keyExtents() []extent {
	var out []extent
	at := 0
	other := func(from, n int) {
		for _, e := range d.b {
			if from < e.n && n > 0 {
				m := min(n, e.n-from)
				out = append(out, extent{e.rec, e.from + from, m})
				n -= m
				from = 0
				continue
			}
			from = max(0, from-e.n)
		}
	}
	for _, e := range d.a {
		if e.rec != nil {
			out = append(out, e)
		} else {
			other(at, e.n)
		}
		at += e.n
	}
	return out
}

func present(list []extent) func(int) bool {
	var there []bool
	for _, e := range list {
		for range e.n {
			there = append(there, e.rec != nil)
		}
	}
	return func(i int) bool { return there[i] }
}

// joined is one column of extents, NULL where there is no batch.
func joined(t sqltype.Type, list []extent, column int) (arrow.Array, error) {
	parts := make([]arrow.Array, 0, len(list))
	defer func() {
		for _, p := range parts {
			p.Release()
		}
	}()
	for _, e := range list {
		if e.rec == nil {
			parts = append(parts, array.MakeArrayOfNull(memory.DefaultAllocator, t.Inside(), e.n))
		} else {
			parts = append(parts, array.NewSlice(e.rec.Column(column), int64(e.from), int64(e.from+e.n)))
		}
	}
	return array.Concatenate(parts, memory.DefaultAllocator)
}

// side is the struct of accumulators and error of one checkpoint.
func side(t sqltype.Type, list []extent, keys, rows int) (arrow.Array, error) {
	there := present(list)
	var cols []arrow.Array
	defer func() {
		for _, c := range cols {
			c.Release()
		}
	}()
	data := make([]arrow.ArrayData, len(t.Fields))
	for i, f := range t.Fields {
		col, err := joined(f.Type, list, keys+i)
		if err != nil {
			return nil, err
		}
		cols, data[i] = append(cols, col), col.Data()
	}
	valid, nulls := make([]byte, (rows+7)/8), 0
	for i := range rows {
		if there(i) {
			valid[i/8] |= 1 << (i % 8)
		} else {
			nulls++
		}
	}
	d := array.NewData(t.Inside(), rows, []*memory.Buffer{memory.NewBufferBytes(valid)}, data, nulls, 0)
	defer d.Release()
	return array.MakeFromData(d), nil
}
