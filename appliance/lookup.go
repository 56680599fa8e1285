package appliance

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/checkpoint"
	"weir/internal/recordbatch"
	"weir/queryable"
	"weir/state"
	"weir/state/plan"
	"weir/state/sqltype"
)

// Lookup finds groups by key: point reads of one snapshot, then the results of
// what was found.
func (b backend) Lookup(ctx context.Context, r queryable.LookupRequest) (*queryable.Groups, error) {
	if r.At != "" {
		return b.lookupPast(ctx, r)
	}
	sn, err := b.snapshot()
	if err != nil {
		return nil, err
	}
	defer sn.Close()
	v, ok := sn.Catalog().View(r.View)
	if !ok {
		return nil, noGroups(sn.Catalog(), r.View)
	}
	g := &queryable.Groups{Answer: queryable.Answer{Epoch: sn.Epoch(), Positions: positions(sn.Positions(v.Cursor))}, Backfilling: backfills(sn.Catalog(), v)}
	var found []arrow.RecordBatch
	defer func() {
		for _, f := range found {
			f.Release()
		}
	}()
	for i := range int(r.Keys.NumRows()) {
		n, err := b.find(ctx, sn, v, r.Keys, i, r.Limit-len(g.Wanted)+1, &found)
		if err != nil {
			return nil, err
		}
		for range n {
			g.Wanted = append(g.Wanted, i)
		}
		if len(g.Wanted) > r.Limit {
			g.More = true
			break
		}
	}
	show := func(ctx context.Context, rows arrow.RecordBatch) ([]arrow.Array, checkpoint.Finals, error) {
		return b.finals.results(ctx, v, rows)
	}
	return g, present(ctx, &v.Plan, show, r.Accumulators, found, g)
}

// find reads the groups of one wanted key.
func (b backend) find(ctx context.Context, sn *state.Snapshot, v *state.View, keys arrow.RecordBatch, row, limit int, found *[]arrow.RecordBatch) (n int, err error) {
	req := state.ScanRequest{View: v.ID, Extra: state.Extra{Error: true}, Mem: memory.DefaultAllocator}
	for i, k := range v.Plan.Keys {
		if at := keys.Schema().FieldIndices(k.Name); len(at) == 1 {
			val := array.NewSlice(keys.Column(at[0]), int64(row), int64(row)+1)
			defer val.Release()
			req.Filters = append(req.Filters, state.Filter{Column: i, In: val})
		}
	}
	rd, err := sn.Scan(ctx, req)
	if err != nil {
		return 0, err
	}
	defer rd.Release()
	for n < limit && rd.Next() {
		rec := rd.RecordBatch()
		if rec.NumRows() == 0 {
			continue
		}
		rec = rec.NewSlice(0, min(rec.NumRows(), int64(limit-n)))
		n += int(rec.NumRows())
		*found = append(*found, rec)
	}
	return n, rd.Err()
}

// present makes the answer's columns of the rows that were found. show computes
// their results.
func present(ctx context.Context, p *plan.View, show func(context.Context, arrow.RecordBatch) ([]arrow.Array, checkpoint.Finals, error),
	accumulators bool, found []arrow.RecordBatch, g *queryable.Groups,
) error {
	for _, k := range p.Keys {
		g.Columns = append(g.Columns, queryable.Column{Field: sqltype.Field{Name: k.Name, Type: k.Type}, Role: queryable.RoleKey})
	}
	var results []int
	for i, res := range p.Results {
		if res.Key < 0 {
			results = append(results, i)
			g.Columns = append(g.Columns, queryable.Column{Field: sqltype.Field{Name: res.Name, Type: res.Type}, Role: queryable.RoleResult})
		}
	}
	if accumulators {
		for _, a := range p.Accs {
			g.Columns = append(g.Columns, queryable.Column{Field: sqltype.Field{Name: a.Name, Type: a.Type}, Role: queryable.RoleAccumulator})
		}
	}
	schema := make([]arrow.Field, len(g.Columns))
	for i, c := range g.Columns {
		schema[i] = c.Type.InsideField(c.Name)
	}
	if len(found) == 0 {
		bld := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(schema, nil))
		defer bld.Release()
		g.Batch = bld.NewRecordBatch()
		return nil
	}
	rows, err := recordbatch.Concat(found, memory.DefaultAllocator)
	if err != nil {
		return err
	}
	defer rows.Release()
	stateCols := rows.Columns()[:len(p.Keys)+len(p.Accs)]
	errs := rows.Column(len(stateCols)).(*array.String)
	plain := array.NewRecordBatch(arrow.NewSchema(rows.Schema().Fields()[:len(stateCols)], nil), stateCols, rows.NumRows())
	defer plain.Release()
	all, fs, err := show(ctx, plain)
	if err != nil {
		return err
	}
	defer fs.Release()

	var cols []arrow.Array
	cols = append(cols, stateCols[:len(p.Keys)]...)
	for _, i := range results {
		cols = append(cols, all[i])
	}
	if accumulators {
		cols = append(cols, stateCols[len(p.Keys):]...)
	}
	var why []string
	for i := range int(rows.NumRows()) {
		text := ""
		switch {
		case errs.IsValid(i):
			text = errs.Value(i)
		case fs.Errors != nil && fs.Errors[i] != "":
			text = fs.Errors[i]
		}
		if text != "" && why == nil {
			why = make([]string, rows.NumRows())
		}
		if text != "" {
			why[i] = text
		}
	}
	g.Batch, g.Errors = array.NewRecordBatch(arrow.NewSchema(schema, nil), cols, rows.NumRows()), why
	if fs.Visible == nil {
		return nil
	}
	return hide(g, visibleRows(int(rows.NumRows()), fs.Visible, why))
}

// hide keeps the groups of some runs.
func hide(g *queryable.Groups, runs [][2]int64) error {
	all := g.Batch
	defer all.Release()
	var err error
	if g.Batch, err = filter(all, runs); err != nil {
		return err
	}
	var wanted []int
	var why []string
	for _, r := range runs {
		wanted = append(wanted, g.Wanted[r[0]:r[1]]...)
		if g.Errors != nil {
			why = append(why, g.Errors[r[0]:r[1]]...)
		}
	}
	g.Wanted, g.Errors = wanted, why
	return nil
}

// visibleRows are the runs of rows that pass HAVING, or failed before it could
// be told.
func visibleRows(n int, visible arrow.Array, errs []string) (runs [][2]int64) {
	for i := range n {
		if !isTrue(visible, i) && (errs == nil || errs[i] == "") {
			continue
		}
		if l := len(runs); l > 0 && runs[l-1][1] == int64(i) {
			runs[l-1][1]++
		} else {
			runs = append(runs, [2]int64{int64(i), int64(i) + 1})
		}
	}
	return runs
}

// filter keeps runs of rows.
func filter(rec arrow.RecordBatch, runs [][2]int64) (arrow.RecordBatch, error) {
	if len(runs) == 0 {
		return rec.NewSlice(0, 0), nil
	}
	parts := make([]arrow.RecordBatch, len(runs))
	for i, r := range runs {
		parts[i] = rec.NewSlice(r[0], r[1])
		defer parts[i].Release()
	}
	out, err := recordbatch.Concat(parts, memory.DefaultAllocator)
	if err != nil {
		return nil, fmt.Errorf("keep visible groups: %w", err)
	}
	return out, nil
}
