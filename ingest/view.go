package ingest

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state"
	"weir/state/plan"
	"weir/state/sqltype"
)

// inputColumns are the columns that a view's partial statement is given. A
// statement that reads none, such as a plain count(*), is given one all the
// same, because a relation has at least one column.
func inputColumns(p *plan.View) []sqltype.Field {
	if len(p.Inputs) > 0 {
		return p.Inputs
	}
	return []sqltype.Field{{Name: "kafka_partition", Type: sqltype.Type{ID: sqltype.Integer}}}
}

// view is a view as a lane runs it. One goroutine uses it at a time.
type view struct {
	id     state.ViewID
	source state.SourceID
	plan   *plan.View
	eval   Evaluator
	prog   Program
	blames []blame // prepared at the first refusal
}

// blame finds out which column of a view refuses a record.
type blame struct {
	column string
	prog   Program
}

func newView(ctx context.Context, v *state.View, eval Evaluator) (*view, error) {
	w := &view{id: v.ID, source: v.Source, plan: &v.Plan, eval: eval}
	var err error
	w.prog, err = eval.Prepare(ctx, v.Plan.Partial, plan.Relation{Name: plan.InputRelation, Columns: inputColumns(&v.Plan)}, v.Plan.StateColumns())
	if err != nil {
		return nil, fmt.Errorf("view %s: prepare partial statement: %w", v.Plan.Name, err)
	}
	return w, nil
}

func (v *view) close() error {
	errs := []error{v.prog.Close()}
	for _, b := range v.blames {
		errs = append(errs, b.prog.Close())
	}
	return errors.Join(errs...)
}

// outcome is what one batch adds to one view.
type outcome struct {
	partials []arrow.RecordBatch // owned
	refused  []state.Refused
}

func (o *outcome) release() {
	for _, p := range o.partials {
		p.Release()
	}
	o.partials = nil
}

// evaluate runs the partial statement over a batch. Records that it refuses are
// found by halving the batch until the rest passes.
func (v *view) evaluate(ctx context.Context, b *batch) (o outcome, err error) {
	in := b.project(inputColumns(v.plan))
	defer in.Release()
	if err := v.halve(ctx, b, in, 0, in.NumRows(), &o); err != nil {
		o.release()
		return outcome{}, fmt.Errorf("view %s: %w", v.plan.Name, err)
	}
	return o, nil
}

// halve evaluates rows from lo up to hi. When both halves of a range that failed
// pass, no record is at fault: the range overflowed only as a whole, and the
// merge of the halves will say so for the group it concerns.
func (v *view) halve(ctx context.Context, b *batch, in arrow.RecordBatch, lo, hi int64, o *outcome) error {
	rows := in.NewSlice(lo, hi)
	out, err := v.prog.Run(ctx, rows)
	rows.Release()
	if err == nil {
		o.partials = append(o.partials, out)
		return nil
	}
	if _, ok := errors.AsType[*EvalError](err); !ok {
		return err
	}
	if hi-lo == 1 {
		column, err := v.blame(ctx, in, lo, err)
		if err != nil {
			return err
		}
		o.refused = append(o.refused, b.refuse(b.rows[lo], v.source, v.id, column.name, column.reason))
		return nil
	}
	mid := lo + (hi-lo)/2
	if err := v.halve(ctx, b, in, lo, mid, o); err != nil {
		return err
	}
	return v.halve(ctx, b, in, mid, hi, o)
}

type fault struct{ name, reason string }

// blame names the key or aggregate that refuses a row. Where it is none of
// these alone (WHERE, say), the column is empty and the reason is the whole
// statement's.
func (v *view) blame(ctx context.Context, in arrow.RecordBatch, row int64, whole error) (fault, error) {
	if v.blames == nil {
		if err := v.prepareBlames(ctx); err != nil {
			return fault{}, err
		}
	}
	one := in.NewSlice(row, row+1)
	defer one.Release()
	for _, b := range v.blames {
		out, err := b.prog.Run(ctx, one)
		if err == nil {
			out.Release()
			continue
		}
		if _, ok := errors.AsType[*EvalError](err); !ok {
			return fault{}, err
		}
		return fault{b.column, err.Error()}, nil
	}
	return fault{reason: whole.Error()}, nil
}

func (v *view) prepareBlames(ctx context.Context) error {
	rel := plan.Relation{Name: plan.InputRelation, Columns: inputColumns(v.plan)}
	add := func(column, expr string, t sqltype.Type) error {
		p, err := v.eval.Prepare(ctx, "SELECT "+expr+" AS x FROM "+plan.InputRelation, rel, []sqltype.Field{{Name: "x", Type: t}})
		if err != nil {
			return fmt.Errorf("prepare %s: %w", expr, err)
		}
		v.blames = append(v.blames, blame{column, p})
		return nil
	}
	for _, k := range v.plan.Keys {
		if err := add(k.Name, k.Expr, k.Type); err != nil {
			return err
		}
	}
	for _, a := range v.plan.Accs {
		if err := add(a.Aggregate, a.Partial, a.Type); err != nil {
			return err
		}
	}
	return nil
}

// concat gives the rows of some batches of one schema as the parts of a Fold:
// one batch when there is one, else a copy that holds them all.
func concat(parts []arrow.RecordBatch, mem memory.Allocator) (arrow.RecordBatch, error) {
	switch len(parts) {
	case 0:
		return nil, nil
	case 1:
		parts[0].Retain()
		return parts[0], nil
	}
	schema := parts[0].Schema()
	cols := make([]arrow.Array, schema.NumFields())
	var rows int64
	for _, p := range parts {
		rows += p.NumRows()
	}
	for i := range cols {
		chunks := make([]arrow.Array, len(parts))
		for j, p := range parts {
			chunks[j] = p.Column(i)
		}
		col, err := array.Concatenate(chunks, mem)
		if err != nil {
			return nil, fmt.Errorf("join partial results: %w", err)
		}
		defer col.Release()
		cols[i] = col
	}
	return array.NewRecordBatch(schema, cols, rows), nil
}
