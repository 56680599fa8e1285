package appliance

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/checkpoint"
	"weir/internal/recordbatch"
	"weir/queryable"
	"weir/state"
	"weir/state/codec"
	"weir/state/plan"
	"weir/state/sqltype"
)

// errorColumn stands behind the columns of every scan, whether it is named or not:
// why a group has no results, NULL when it has. Without it a group in error would
// look like one whose results are NULL.
const errorColumn = "__error"

// Scan streams the visible groups of a view in (slot, key) order. It holds a
// snapshot until the reader is released.
func (b backend) Scan(ctx context.Context, r queryable.ScanRequest) (*queryable.Rows, error) {
	after, err := base64.RawURLEncoding.DecodeString(r.After)
	if err != nil {
		return nil, queryable.Errorf(queryable.BadRequest, "after is not a cursor that this route gave")
	}
	if r.After == "" {
		after = nil
	}
	sn, err := b.snapshot()
	if err != nil {
		return nil, err
	}
	v, ok := sn.Catalog().View(r.View)
	if !ok {
		defer sn.Close()
		return nil, noGroups(sn.Catalog(), r.View)
	}
	if after != nil && !storedKey(&v.Plan, after) {
		sn.Close()
		return nil, queryable.Errorf(queryable.BadRequest, "after is not a cursor that this route gave for view %s", v.Plan.Name)
	}
	s := &viewScan{ctx: ctx, b: b, v: v, limit: int64(r.Limit)}
	if err := s.choose(r.Columns); err != nil {
		sn.Close()
		return nil, err
	}
	s.in, err = sn.Scan(ctx, state.ScanRequest{
		View: v.ID, Extra: state.Extra{Error: true, Key: s.limit > 0}, FromSlot: r.FromSlot, ToSlot: r.ToSlot, After: after, Mem: memory.DefaultAllocator,
	})
	if err != nil {
		sn.Close()
		return nil, err
	}
	rows := recordbatch.NewReader(s.schema, s.batch, func() { s.in.Release(); sn.Close() })
	return &queryable.Rows{
		Answer:  queryable.Answer{Epoch: sn.Epoch(), Positions: positions(sn.Positions(v.Cursor))},
		Columns: s.columns, Records: rows, Next: s.next, Unfit: s.unfit, Backfilling: backfills(sn.Catalog(), v),
	}, nil
}

// storedKey says whether bytes are a slot and a key of a view.
func storedKey(p *plan.View, b []byte) bool {
	if len(b) == 0 {
		return false
	}
	b = b[1:]
	first := timeKey(p) // it comes first, see docs/state.md
	order := make([]int, 0, len(p.Keys))
	if first >= 0 {
		order = append(order, first)
	}
	for i := range p.Keys {
		if i != first {
			order = append(order, i)
		}
	}
	var err error
	for _, i := range order {
		if b, err = codec.NewKeyDecoder(p.Keys[i].Type)(nil, b); err != nil {
			return false
		}
	}
	return len(b) == 0
}

// viewScan reads a view as SQL sees it, with the errors of its groups.
type viewScan struct {
	ctx     context.Context
	b       backend
	v       *state.View
	in      array.RecordReader
	results []int // of v.Plan.Results, -1 for the error column
	columns []queryable.Column
	schema  *arrow.Schema
	limit   int64 // 0 is none
	sent    int64
	last    []byte // stored key of the last group sent
}

// choose resolves the names of columns; nil are all. errorColumn is behind them
// unless it is named.
func (s *viewScan) choose(names []string) error {
	if names == nil {
		for i := range s.v.Plan.Results {
			s.results = append(s.results, i)
		}
	}
	for _, n := range names {
		if n == errorColumn {
			s.results = append(s.results, -1)
			continue
		}
		i := slices.IndexFunc(s.v.Plan.ResultColumns(), func(f sqltype.Field) bool { return strings.EqualFold(f.Name, n) })
		if i < 0 {
			return queryable.Errorf(queryable.BadRequest, "view %s has no column %s", s.v.Plan.Name, n)
		}
		s.results = append(s.results, i)
	}
	if !slices.Contains(s.results, -1) {
		s.results = append(s.results, -1)
	}
	all := viewColumns(s.v)
	var fields []arrow.Field
	for _, i := range s.results {
		c := queryable.Column{Field: sqltype.Field{Name: errorColumn, Type: sqltype.Type{ID: sqltype.Varchar}}, Role: queryable.RoleSystem}
		if i >= 0 {
			c = all[i]
		}
		s.columns = append(s.columns, c)
		fields = append(fields, c.Type.InsideField(c.Name))
	}
	s.schema = arrow.NewSchema(fields, nil)
	return nil
}

// next is the cursor of the page behind, "" when this one ended by itself.
func (s *viewScan) next() string {
	if s.limit == 0 || s.sent < s.limit {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(s.last)
}

// batch makes the next batch of the answer, nil at its end.
func (s *viewScan) batch() (arrow.RecordBatch, error) {
	for s.limit == 0 || s.sent < s.limit {
		if !s.in.Next() {
			return nil, s.in.Err()
		}
		rec, err := s.page(s.in.RecordBatch())
		if err != nil {
			return nil, err
		}
		if rec.NumRows() > 0 {
			s.sent += rec.NumRows()
			return rec, nil
		}
		rec.Release()
	}
	return nil, nil
}

// page makes a batch of the answer, up to the limit.
func (s *viewScan) page(in arrow.RecordBatch) (arrow.RecordBatch, error) {
	rec, runs, err := s.present(in)
	if err != nil || s.limit == 0 {
		return rec, err
	}
	left := s.limit - s.sent
	if rec.NumRows() > left {
		cut := rec.NewSlice(0, left)
		rec.Release()
		rec = cut
	}
	if n := rec.NumRows(); n > 0 {
		keys := in.Column(int(in.NumCols()) - 1).(*array.Binary)
		s.last = bytes.Clone(keys.Value(rowOf(runs, n-1)))
	}
	return rec, nil
}

// rowOf is where the n-th row of some runs stands.
func rowOf(runs [][2]int64, n int64) int {
	for _, r := range runs {
		if n < r[1]-r[0] {
			return int(r[0] + n)
		}
		n -= r[1] - r[0]
	}
	return -1
}

// present makes a batch of the answer of a batch of the state, and says which
// rows of the latter it holds. Groups in error have their keys and no results: what
// their accumulators hold is from before the error.
func (s *viewScan) present(in arrow.RecordBatch) (arrow.RecordBatch, [][2]int64, error) {
	n := len(s.v.Plan.Keys) + len(s.v.Plan.Accs)
	plain := array.NewRecordBatch(arrow.NewSchema(in.Schema().Fields()[:n], nil), in.Columns()[:n], in.NumRows())
	defer plain.Release()
	all, fs, err := s.b.finals.results(s.ctx, s.v, plain)
	if err != nil {
		return nil, nil, err
	}
	defer fs.Release()
	why, texts := mergeErrors(in.Column(n).(*array.String), fs.Errors)
	defer why.Release()
	var failed []int
	for i, text := range texts {
		if text != "" {
			failed = append(failed, i)
		}
	}
	cols := make([]arrow.Array, len(s.results))
	for i, r := range s.results {
		switch {
		case r < 0:
			cols[i] = why
		case len(failed) == 0 || s.v.Plan.Results[r].Key >= 0:
			cols[i] = all[r]
		default:
			cols[i] = nulled(all[r], failed)
			defer cols[i].Release()
		}
	}
	rec := array.NewRecordBatch(s.schema, cols, in.NumRows())
	if fs.Visible == nil {
		return rec, [][2]int64{{0, in.NumRows()}}, nil
	}
	defer rec.Release()
	runs := visibleRows(int(in.NumRows()), fs.Visible, texts)
	out, err := filter(rec, runs)
	return out, runs, err
}

// mergeErrors joins what a merge and what the results said of each group.
func mergeErrors(merged *array.String, results []string) (arrow.Array, []string) {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	texts := make([]string, merged.Len())
	for i := range texts {
		switch {
		case merged.IsValid(i):
			texts[i] = merged.Value(i)
		case results != nil:
			texts[i] = results[i]
		}
		if texts[i] == "" {
			b.AppendNull()
		} else {
			b.Append(texts[i])
		}
	}
	return b.NewArray(), texts
}

// unfit names the group whose value no file can hold, and what its reader can do.
func (s *viewScan) unfit(batch arrow.RecordBatch, err error) error {
	bad, ok := errors.AsType[*checkpoint.MisfitError](err)
	if !ok {
		return err
	}
	var key []string
	for i, c := range s.columns {
		if c.Role != queryable.RoleKey {
			continue
		}
		key = append(key, c.Name+" = "+queryable.ValueText(c.Type, batch.Column(i), bad.Row))
	}
	group := "a group"
	if key != nil {
		group = "the group " + strings.Join(key, ", ")
	}
	return fmt.Errorf("column %s: %s holds a %s beyond what Arrow and Parquet files carry: read it as JSON from scan, leave the column out with scan.arrow?columns=, or have the view cast it to VARCHAR",
		bad.Column.Name, group, bad.Column.Type)
}

// nulled is an array with some rows NULL. The caller releases it.
func nulled(a arrow.Array, rows []int) arrow.Array {
	d := recordbatch.Nulled(memory.DefaultAllocator, a.Data(), rows)
	defer d.Release()
	return array.MakeFromData(d)
}

// failing says what SQL is told of a group in error.
func failing(view, key, why string) error {
	return fmt.Errorf("view %s: the group %s is in error: %s", view, key, why)
}
