package appliance

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/duckext"
	"weir/internal/recordbatch"
	"weir/state"
	"weir/state/codec"
	"weir/state/plan"
	"weir/state/sqltype"
)

// diffPairs is how many pairs of groups a diff computes the results of at once.
const diffPairs = 4096

// A diffReader walks through two states of a view in the order of their keys and
// reads the groups that differ. It holds a few batches of each at a time.
//
// Groups whose accumulators are alike have the same results and are passed over
// unseen; those in error are not, since nobody knows what they would have been.
type diffReader struct {
	ctx     context.Context
	a       *Appliance
	plan    *plan.View
	columns []int
	schema  *arrow.Schema // of all columns
	show    *shower
	sides   [2]*walk
	points  [2]string
	pairs   [][2]bool // which sides have the group, in order; not yet computed
	ready   []arrow.RecordBatch
}

func newDiffReader(ctx context.Context, a *Appliance, before, after *side, s duckext.ScanSpec) (_ array.RecordReader, err error) {
	d := &diffReader{ctx: ctx, a: a, plan: before.plan, columns: s.Columns, schema: insideOf(diffColumns(before.plan)), points: [2]string{before.point, after.point}}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.show, err = a.finals.shower(ctx, d.plan); err != nil {
		return nil, err
	}
	for i, from := range []*side{before, after} {
		if d.sides[i], err = newWalk(ctx, from, s); err != nil {
			return nil, err
		}
	}
	fs := make([]arrow.Field, len(d.columns))
	for i, c := range d.columns {
		fs[i] = d.schema.Field(c)
	}
	asked := arrow.NewSchema(fs, nil)
	return recordbatch.NewReader(asked, func() (arrow.RecordBatch, error) { return d.batch(asked) }, d.close), nil
}

// insideOf is the schema of columns in the inside form.
func insideOf(fields []sqltype.Field) *arrow.Schema {
	fs := make([]arrow.Field, len(fields))
	for i, f := range fields {
		fs[i] = f.Type.InsideField(f.Name)
	}
	return arrow.NewSchema(fs, nil)
}

func (d *diffReader) close() {
	for _, r := range d.ready {
		r.Release()
	}
	for _, w := range d.sides {
		if w != nil {
			w.close()
		}
	}
	if d.show != nil {
		d.show.close()
	}
}

// batch makes a batch of the columns of a schema, nil at the end.
func (d *diffReader) batch(asked *arrow.Schema) (arrow.RecordBatch, error) {
	for len(d.ready) == 0 {
		more, err := d.match()
		if err == nil {
			err = d.flush()
		}
		if err != nil || !more && len(d.ready) == 0 {
			return nil, err
		}
	}
	all := d.ready[0]
	d.ready = d.ready[1:]
	defer all.Release()
	cols := make([]arrow.Array, len(d.columns))
	for i, c := range d.columns {
		cols[i] = all.Column(c)
	}
	return array.NewRecordBatch(asked, cols, all.NumRows()), nil
}

// match walks on until there are enough pairs that may differ, or to the end.
func (d *diffReader) match() (more bool, err error) {
	a, b := d.sides[0], d.sides[1]
	for len(d.pairs) < diffPairs {
		hasA, err := a.peek()
		if err != nil {
			return false, err
		}
		hasB, err := b.peek()
		if err != nil || !hasA && !hasB {
			return false, err
		}
		c := 0
		switch {
		case !hasB:
			c = -1
		case !hasA:
			c = 1
		default:
			c = bytes.Compare(a.key, b.key)
		}
		if c != 0 || !a.same(b) {
			d.pairs = append(d.pairs, [2]bool{c <= 0, c >= 0})
			if c <= 0 {
				a.keep()
			}
			if c >= 0 {
				b.keep()
			}
		}
		if c <= 0 {
			a.step()
		}
		if c >= 0 {
			b.step()
		}
	}
	return true, nil
}

// An outcome is what SQL shows of some groups of one side.
type outcome struct {
	rec     arrow.RecordBatch // keys, then results that are not keys
	why     []string          // by row: why it has no results, "" when it has
	visible func(row int) bool
}

func (d *diffReader) present(w *walk) (s *outcome, err error) {
	rows, err := w.gathered()
	if err != nil || rows == nil {
		return nil, err
	}
	defer rows.Release()
	n := len(d.plan.Keys) + len(d.plan.Accs)
	plain := array.NewRecordBatch(arrow.NewSchema(rows.Schema().Fields()[:n], nil), rows.Columns()[:n], rows.NumRows())
	defer plain.Release()
	all, fs, err := d.show.results(d.ctx, plain)
	if err != nil {
		return nil, err
	}
	defer fs.Release()
	why, texts := mergeErrors(rows.Column(n).(*array.String), fs.Errors)
	why.Release()
	cols := slices.Clone(rows.Columns()[:len(d.plan.Keys)])
	fields := slices.Clone(rows.Schema().Fields()[:len(d.plan.Keys)])
	for i, r := range plainResults(d.plan) {
		cols = append(cols, all[r])
		fields = append(fields, d.plan.Results[r].Type.InsideField(fmt.Sprintf("r%d", i)))
	}
	s = &outcome{rec: array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, rows.NumRows()), why: texts}
	s.visible = func(int) bool { return true }
	if fs.Visible != nil {
		seen := make([]bool, rows.NumRows())
		for i := range seen {
			seen[i] = isTrue(fs.Visible, i)
		}
		s.visible = func(row int) bool { return seen[row] }
	}
	return s, nil
}

// state says what there is of a group: nothing, its results, or an error.
func (s *outcome) state(has bool, row int) byte {
	switch {
	case !has:
		return absent
	case s.why[row] != "":
		return failed
	case s.visible(row):
		return there
	}
	return absent
}

const (
	absent = iota
	there
	failed
)

// A kind of difference has its results on the sides that are true, and its key from
// one of them.
type kind struct {
	before, after bool
	keyAt         int
}

// some are the differences of one kind.
type some struct {
	rows        [2][]int // of each side; where it is not, they mean nothing
	change, why []string
}

// flush computes the results of the pairs and makes batches of those that differ.
func (d *diffReader) flush() error {
	if len(d.pairs) == 0 {
		return nil
	}
	select { // half of the processors compute for readers at once
	case d.a.sharing.turns <- struct{}{}:
		defer func() { <-d.a.sharing.turns }()
	case <-d.ctx.Done():
		return d.ctx.Err()
	}
	var sides [2]*outcome
	for i, w := range d.sides {
		var err error
		if sides[i], err = d.present(w); err != nil {
			return err
		}
		if sides[i] != nil {
			defer sides[i].rec.Release()
		}
	}
	same, err := sameResults(d.plan, sides)
	if err != nil {
		return err
	}
	kinds := map[kind]*some{}
	var order []kind
	at := [2]int{}
	for _, has := range d.pairs {
		row := at
		var st [2]byte
		var why []string
		for i, s := range sides {
			if st[i] = s.state(has[i], row[i]); st[i] == failed {
				why = append(why, d.points[i]+": "+s.why[row[i]])
			}
			if has[i] {
				at[i]++
			}
		}
		change := ""
		switch {
		case why != nil:
			change = "error"
		case st == [2]byte{absent, there}:
			change = "added"
		case st == [2]byte{there, absent}:
			change = "removed"
		case st == [2]byte{there, there} && !same(row[0], row[1]):
			change = "changed"
		default:
			continue
		}
		k := kind{before: st[0] == there, after: st[1] == there}
		if !has[0] {
			k.keyAt = 1
		}
		g := kinds[k]
		if g == nil {
			g = &some{}
			kinds[k] = g
			order = append(order, k)
		}
		for i := range sides {
			g.rows[i] = append(g.rows[i], row[i])
		}
		g.change, g.why = append(g.change, change), append(g.why, strings.Join(why, "; "))
	}
	d.pairs = d.pairs[:0]
	for _, k := range order {
		rec, err := d.build(k, kinds[k], sides)
		if err != nil {
			return err
		}
		d.ready = append(d.ready, rec)
	}
	return nil
}

// build makes a batch of the differences of one kind.
func (d *diffReader) build(k kind, g *some, sides [2]*outcome) (arrow.RecordBatch, error) {
	var cols []arrow.Array
	defer func() {
		for _, c := range cols {
			c.Release()
		}
	}()
	texts := func(values []string) {
		b := array.NewStringBuilder(memory.DefaultAllocator)
		defer b.Release()
		for _, v := range values {
			if v == "" {
				b.AppendNull()
			} else {
				b.Append(v)
			}
		}
		cols = append(cols, b.NewArray())
	}
	pick := func(side, from, to int) error {
		rec, err := filter(sides[side].rec, runsOf(g.rows[side]))
		if err != nil {
			return err
		}
		defer rec.Release()
		for _, c := range rec.Columns()[from:to] {
			c.Retain()
			cols = append(cols, c)
		}
		return nil
	}
	texts(g.change)
	keys := len(d.plan.Keys)
	if err := pick(k.keyAt, 0, keys); err != nil {
		return nil, err
	}
	results := len(plainResults(d.plan))
	for side, shows := range []bool{k.before, k.after} {
		if shows {
			if err := pick(side, keys, keys+results); err != nil {
				return nil, err
			}
			continue
		}
		for range results {
			cols = append(cols, array.MakeArrayOfNull(memory.DefaultAllocator, d.schema.Field(len(cols)).Type, len(g.change)))
		}
	}
	texts(g.why)
	return array.NewRecordBatch(d.schema, cols, int64(len(g.change))), nil
}

// runsOf are the runs of rising row numbers.
func runsOf(rows []int) (runs [][2]int64) {
	for _, r := range rows {
		if l := len(runs); l > 0 && runs[l-1][1] == int64(r) {
			runs[l-1][1]++
		} else {
			runs = append(runs, [2]int64{int64(r), int64(r) + 1})
		}
	}
	return runs
}

// sameResults compares results of two sides by row, as IS NOT DISTINCT FROM does:
// values are equal when they are equal as keys.
func sameResults(p *plan.View, sides [2]*outcome) (func(a, b int) bool, error) {
	if sides[0] == nil || sides[1] == nil {
		return func(int, int) bool { return false }, nil
	}
	var encoders [][2]codec.Appender
	for i, r := range plainResults(p) {
		var e [2]codec.Appender
		for side, s := range sides {
			var err error
			if e[side], err = codec.NewKeyEncoder(p.Results[r].Type).Bind(s.rec.Column(len(p.Keys) + i)); err != nil {
				return nil, fmt.Errorf("compare column %s: %w", p.Results[r].Name, err)
			}
		}
		encoders = append(encoders, e)
	}
	var x, y []byte
	return func(a, b int) bool {
		for _, e := range encoders {
			x, y = e[0](x[:0], a), e[1](y[:0], b)
			if !bytes.Equal(x, y) {
				return false
			}
		}
		return true
	}, nil
}

// A walk goes through the groups of one side in the order of slot and key.
type walk struct {
	plan  *plan.View
	in    array.RecordReader
	keyer *state.Keyer
	point string

	rec    arrow.RecordBatch // under way, nil before the first and after the last
	ended  bool
	at     int
	keys   codec.Appender
	values []codec.Appender
	errs   *array.String
	key    []byte // of the row it stands at
	last   []byte
	known  bool // key is that of row at
	runs   [][2]int64
	parts  []arrow.RecordBatch
	buf    []byte
}

func newWalk(ctx context.Context, s *side, spec duckext.ScanSpec) (*walk, error) {
	w := &walk{plan: s.plan, point: s.point}
	var err error
	if w.keyer, err = state.NewKeyer(s.plan); err != nil {
		return nil, err
	}
	all := make([]int, len(s.plan.Keys)+len(s.plan.Accs))
	for i := range all {
		all[i] = i
	}
	w.in, err = s.from.Scan(ctx, state.ScanRequest{View: s.id, Columns: all, Extra: state.Extra{Error: true}, FromSlot: spec.FromSlot, ToSlot: spec.ToSlot, Mem: memory.DefaultAllocator})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.point, err)
	}
	return w, nil
}

func (w *walk) close() {
	w.release()
	for _, p := range w.parts {
		p.Release()
	}
	w.in.Release()
}

func (w *walk) release() {
	if w.rec != nil {
		w.rec.Release()
		w.rec = nil
	}
}

// peek says whether there is a group, and knows its key.
func (w *walk) peek() (bool, error) {
	if w.known || w.ended {
		return w.known, nil
	}
	for w.rec == nil || w.at == int(w.rec.NumRows()) {
		if err := w.leave(); err != nil {
			return false, err
		}
		if !w.in.Next() {
			w.ended = true
			return false, w.in.Err()
		}
		if err := w.load(w.in.RecordBatch()); err != nil {
			return false, err
		}
	}
	w.last, w.key = w.key, w.last
	if w.key = w.keys(w.key[:0], w.at); len(w.last) > 0 && bytes.Compare(w.last, w.key) >= 0 {
		return false, fmt.Errorf("the groups of view %s in %s are not in the order of their keys: it is damaged", w.plan.Name, w.point)
	}
	w.known = true
	return true, nil
}

func (w *walk) load(rec arrow.RecordBatch) (err error) {
	rec.Retain()
	w.rec, w.at, w.values = rec, 0, w.values[:0]
	n := len(w.plan.Keys)
	if w.keys, err = w.keyer.Bind(rec.Columns()[:n]); err != nil {
		return err
	}
	for i, a := range w.plan.Accs {
		v, err := codec.BindValue(a.Type, rec.Column(n+i))
		if err != nil {
			return fmt.Errorf("accumulator %s: %w", a.Name, err)
		}
		w.values = append(w.values, v)
	}
	w.errs = rec.Column(n + len(w.plan.Accs)).(*array.String)
	return nil
}

// step goes on to the next group.
func (w *walk) step() { w.at, w.known = w.at+1, false }

// same says whether the accumulators of two groups are, and neither is in error.
func (w *walk) same(o *walk) bool {
	if w.errs.IsValid(w.at) || o.errs.IsValid(o.at) {
		return false
	}
	for i := range w.values {
		w.buf, o.buf = w.values[i](w.buf[:0], w.at), o.values[i](o.buf[:0], o.at)
		if !bytes.Equal(w.buf, o.buf) {
			return false
		}
	}
	return true
}

// keep adds the group to what gathered gives.
func (w *walk) keep() {
	if l := len(w.runs); l > 0 && w.runs[l-1][1] == int64(w.at) {
		w.runs[l-1][1]++
		return
	}
	w.runs = append(w.runs, [2]int64{int64(w.at), int64(w.at) + 1})
}

// cut makes parts of the runs within the batch under way.
func (w *walk) cut() {
	for _, r := range w.runs {
		w.parts = append(w.parts, w.rec.NewSlice(r[0], r[1]))
	}
	w.runs = w.runs[:0]
}

// leave ends the batch under way. What is kept of it is copied when it is the
// smaller part, so that a few rows do not hold all of it.
func (w *walk) leave() error {
	if w.rec == nil {
		return nil
	}
	defer w.release()
	before, kept := len(w.parts), int64(0)
	for _, r := range w.runs {
		kept += r[1] - r[0]
	}
	w.cut()
	if kept == 0 || kept > w.rec.NumRows()/2 {
		return nil
	}
	few := append(slices.Clone(w.parts[before:]), w.rec.NewSlice(0, 0)) // of one part there would be no copy
	one, err := recordbatch.Concat(few, memory.DefaultAllocator)
	for _, p := range few {
		p.Release()
	}
	w.parts = w.parts[:before]
	if err == nil {
		w.parts = append(w.parts, one)
	}
	return err
}

// gathered are the groups that were kept since it was last called, nil if none.
func (w *walk) gathered() (arrow.RecordBatch, error) {
	if w.rec != nil {
		w.cut()
	}
	rec, err := recordbatch.Concat(w.parts, memory.DefaultAllocator)
	for _, p := range w.parts {
		p.Release()
	}
	w.parts = w.parts[:0]
	return rec, err
}
