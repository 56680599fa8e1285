package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/ingest/decode"
	"weir/internal/recordbatch"
	"weir/state"
	"weir/state/plan"
	"weir/state/sqltype"
)

// view is a view as a lane runs it. One goroutine uses it at a time.
type view struct {
	id     state.ViewID
	source state.SourceID
	plan   *plan.View
	usual  *programs
	// careful are of Options.Careful: nil but while there are suspect records.
	careful *programs
	halving bool // for tests: no sieve
}

// programs are one evaluator's statements of a view.
type programs struct {
	plan    *plan.View
	eval    Evaluator
	partial Program
	blames  []blame // prepared at the first refusal
	blamed  int     // the one that was at fault last
	sieve   *sieve  // nil when there is none
	sieved  bool    // it is known whether there is one
}

// blame finds out which column of a view refuses a record.
type blame struct {
	column string
	prog   Program
}

func newView(ctx context.Context, v *state.View, eval Evaluator) (*view, error) {
	w := &view{id: v.ID, source: v.Source, plan: &v.Plan}
	var err error
	w.usual, err = newPrograms(ctx, w.plan, eval)
	return w, err
}

func newPrograms(ctx context.Context, v *plan.View, eval Evaluator) (*programs, error) {
	p := &programs{plan: v, eval: eval}
	var err error
	p.partial, err = eval.Prepare(ctx, v.Partial, plan.Relation{Name: plan.InputRelation, Columns: v.Inputs}, v.StateColumns())
	if err != nil {
		return nil, fmt.Errorf("view %s: prepare partial statement: %w", v.Name, err)
	}
	return p, nil
}

// carefully gives the programs of an evaluator that survives a crash.
func (v *view) carefully(ctx context.Context, eval Evaluator) (*programs, error) {
	if v.careful == nil {
		p, err := newPrograms(ctx, v.plan, eval)
		if err != nil {
			return nil, err
		}
		v.careful = p
	}
	return v.careful, nil
}

// carefree closes them.
func (v *view) carefree() error {
	p := v.careful
	v.careful = nil
	return p.close()
}

func (v *view) close() error { return errors.Join(v.usual.close(), v.carefree()) }

func (p *programs) close() error {
	if p == nil {
		return nil
	}
	errs := []error{p.partial.Close()}
	if p.sieve != nil {
		errs = append(errs, p.sieve.prog.Close())
	}
	for _, b := range p.blames {
		errs = append(errs, b.prog.Close())
	}
	return errors.Join(errs...)
}

// outcome is what one batch adds to one view.
type outcome struct {
	partials []arrow.RecordBatch // owned
	refused  []state.Refused
	crashed  bool // on some record, outside of this process
}

func (o *outcome) release() {
	for _, p := range o.partials {
		p.Release()
	}
	o.partials = nil
}

// evaluate runs the partial statement over a batch. Records that cannot fill a
// column which the view reads are refused first; those that the statement
// refuses are found by halving what is left until the rest passes.
func (v *view) evaluate(ctx context.Context, with *programs, b *batch, mem memory.Allocator) (o outcome, err error) {
	cols := v.plan.Inputs
	in := b.project(cols)
	defer func() { in.Release() }()
	r := run{v: v, with: with, b: b, o: &o}
	if bad := v.unreadable(b, cols); len(bad) > 0 {
		for _, i := range slices.Sorted(maps.Keys(bad)) {
			o.refused = append(o.refused, b.refuse(b.rows[i], v.source, v.id, bad[i].Column, bad[i].Reason))
		}
		r.index = make([]int, 0, len(b.rows)-len(bad))
		whole := in
		if in, err = without(whole, bad, &r.index, mem); err != nil {
			in = whole
			return outcome{}, err
		}
		whole.Release()
	}
	if in.NumRows() == 0 {
		return o, nil
	}
	if in, err = r.all(ctx, in, mem); err != nil {
		o.release()
		return outcome{}, fmt.Errorf("view %s: %w", v.plan.Name, err)
	}
	slices.SortStableFunc(r.refused, func(a, b refusedRow) int { return a.row - b.row })
	for _, f := range r.refused {
		o.refused = append(o.refused, b.refuse(b.rows[f.row], v.source, v.id, f.name, f.reason))
	}
	return o, nil
}

// unreadable are the rows that could not fill a column which the view reads.
func (v *view) unreadable(b *batch, cols []sqltype.Field) map[int]*decode.Error {
	var rows map[int]*decode.Error
	for i, bad := range b.bad {
		for _, r := range bad {
			if slices.ContainsFunc(cols, func(c sqltype.Field) bool { return c.Name == b.names[r.Index] }) {
				if rows == nil {
					rows = map[int]*decode.Error{}
				}
				rows[i] = r.Error
				break
			}
		}
	}
	return rows
}

// without copies a batch but for some rows; index gets the old number of each row.
func without(in arrow.RecordBatch, drop map[int]*decode.Error, index *[]int, mem memory.Allocator) (arrow.RecordBatch, error) {
	var parts []arrow.RecordBatch
	defer func() {
		for _, p := range parts {
			p.Release()
		}
	}()
	lo := 0
	cut := func(hi int) {
		if hi > lo {
			parts = append(parts, in.NewSlice(int64(lo), int64(hi)))
		}
		for i := lo; i < hi; i++ {
			*index = append(*index, i)
		}
		lo = hi + 1
	}
	for _, i := range slices.Sorted(maps.Keys(drop)) {
		cut(i)
	}
	cut(int(in.NumRows()))
	if len(parts) == 0 {
		return in.NewSlice(0, 0), nil
	}
	return recordbatch.Concat(parts, mem)
}

// run is the evaluation of one batch.
type run struct {
	v     *view
	with  *programs
	b     *batch
	o     *outcome
	index []int // of rows in the batch; nil when all are there
	bad   int64 // rows that halving has refused so far

	refused []refusedRow
}

// A refusedRow is a row of the batch and what is wrong with it.
type refusedRow struct {
	row int
	fault
}

// row is the number in the batch of a row that is evaluated.
func (r *run) row(i int64) int {
	if r.index == nil {
		return int(i)
	}
	return r.index[i]
}

func (r *run) refuse(i int64, f fault) { r.refused = append(r.refused, refusedRow{r.row(i), f}) }

// all evaluates a batch: at once, and when that fails, without what the sieve
// finds, and by halving what is left. It takes over in and returns what is to be
// released in its place. A batch under suspicion is not put through the sieve,
// which might crash as the statement does.
func (r *run) all(ctx context.Context, in arrow.RecordBatch, mem memory.Allocator) (arrow.RecordBatch, error) {
	if r.with == r.v.careful || r.v.halving || in.NumRows() == 1 {
		return in, r.halve(ctx, in, 0, in.NumRows())
	}
	out, err := r.with.partial.Run(ctx, in)
	if err == nil {
		r.o.partials = append(r.o.partials, out)
		return in, nil
	}
	if _, ok := errors.AsType[*EvalError](err); !ok {
		return in, err
	}
	if s := r.with.sieveOf(ctx); s != nil {
		rest, err := r.sift(ctx, s, in, mem)
		in.Release()
		in = rest
		if err != nil || in.NumRows() == 0 {
			return in, err
		}
	}
	return in, r.halve(ctx, in, 0, in.NumRows())
}

// singly is how many rows are tried one by one at most.
const singly = 1024

// dense says that so many of the rows before lo were refused that halves of the
// few from there on are not worth trying.
func (r *run) dense(lo, hi int64) bool {
	return hi-lo > 1 && hi-lo <= singly && lo >= 64 && r.bad*4 >= lo
}

// halve evaluates rows from lo up to hi. When both halves of a range that failed
// pass, no record is at fault: the range overflowed only as a whole, and the
// merge of the halves will say so for the group it concerns.
func (r *run) halve(ctx context.Context, in arrow.RecordBatch, lo, hi int64) error {
	if r.dense(lo, hi) {
		for i := lo; i < hi; i++ {
			if err := r.halve(ctx, in, i, i+1); err != nil {
				return err
			}
		}
		return nil
	}
	rows := in.NewSlice(lo, hi)
	out, err := r.with.partial.Run(ctx, rows)
	rows.Release()
	if err == nil {
		r.o.partials = append(r.o.partials, out)
		return nil
	}
	bad, ok := errors.AsType[*EvalError](err)
	if !ok {
		return err
	}
	r.o.crashed = r.o.crashed || bad.Crash
	if hi-lo == 1 {
		r.bad++
		f, err := r.with.blame(ctx, in, lo, err)
		if err != nil {
			return err
		}
		r.refuse(lo, f)
		return nil
	}
	mid := lo + (hi-lo)/2
	if err := r.halve(ctx, in, lo, mid); err != nil {
		return err
	}
	return r.halve(ctx, in, mid, hi)
}

type fault struct{ name, reason string }

// blame names the key or aggregate that refuses a row, and begins to look at the
// one that refused the last, which is mostly the same. Where it is none of these
// alone (WHERE, say), the column is empty and the reason is the whole
// statement's.
func (p *programs) blame(ctx context.Context, in arrow.RecordBatch, row int64, whole error) (fault, error) {
	if p.blames == nil {
		if err := p.prepareBlames(ctx); err != nil {
			return fault{}, err
		}
	}
	one := in.NewSlice(row, row+1)
	defer one.Release()
	for i := range p.blames {
		at := (p.blamed + i) % len(p.blames)
		b := p.blames[at]
		out, err := b.prog.Run(ctx, one)
		if err == nil {
			out.Release()
			continue
		}
		if _, ok := errors.AsType[*EvalError](err); !ok {
			return fault{}, err
		}
		p.blamed = at
		return fault{b.column, err.Error()}, nil
	}
	return fault{reason: whole.Error()}, nil
}

func (p *programs) prepareBlames(ctx context.Context) error {
	rel := plan.Relation{Name: plan.InputRelation, Columns: p.plan.Inputs}
	add := func(column, expr string, t sqltype.Type) error {
		q, err := p.eval.Prepare(ctx, "SELECT "+expr+" AS x FROM "+plan.InputRelation, rel, []sqltype.Field{{Name: "x", Type: t}})
		if err != nil {
			return fmt.Errorf("prepare %s: %w", expr, err)
		}
		p.blames = append(p.blames, blame{column, q})
		return nil
	}
	for _, k := range p.plan.Keys {
		if err := add(k.Name, k.Expr, k.Type); err != nil {
			return err
		}
	}
	for _, a := range p.plan.Accs {
		if err := add(a.Aggregate, a.Partial, a.Type); err != nil {
			return err
		}
	}
	return nil
}
