package appliance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/checkpoint"
	"weir/duckext"
	"weir/internal/recordbatch"
	"weir/queryable"
	"weir/state"
	"weir/state/plan"
	"weir/state/sqltype"
)

// A viewHistory is a view in every checkpoint. Its files stay readable until it is
// closed.
type viewHistory struct {
	plan    *plan.View // what is shown: the view of now, or else the newest
	moments []pastMoment
}

// A pastMoment is a checkpoint, and the view in it.
type pastMoment struct {
	manifest *checkpoint.Manifest
	side     *side  // nil when the view is not there, or cannot be read
	why      string // why it cannot be read
	table    *checkpoint.Table
	free     func()
}

// openHistory opens a view in all checkpoints there are. now is the view of the
// catalogue, nil when it is not there any more. seen is told what is opened.
func (k *keeper) openHistory(name string, now *state.View, seen func(*checkpoint.Manifest, *checkpoint.View)) (*viewHistory, error) {
	h := &viewHistory{}
	ref := &side{}
	if now != nil {
		ref.plan, ref.sql = &now.Plan, now.SQL
	}
	ms := k.list()
	for i := len(ms) - 1; i >= 0 && ref.plan == nil; i-- {
		if v, ok := ms[i].View(name); ok {
			ref.plan, ref.sql = &v.Plan, v.SQL
		}
	}
	if ref.plan == nil {
		return nil, queryable.Errorf(queryable.NotFound, "there is no view %s, neither now nor in a checkpoint", name)
	}
	h.plan = ref.plan
	for _, m := range ms {
		p := pastMoment{manifest: m}
		err := k.read(m.Checkpoint, func(c *checkpoint.Checkpoint) error {
			v, ok := c.Manifest.View(name)
			seen(m, v)
			if !ok {
				return nil
			}
			s := &side{plan: &v.Plan, id: state.ViewID(v.ID), sql: v.SQL}
			if how := s.alike(ref); how != "" {
				p.why = "the view was another then: " + how
				return nil
			}
			var err error
			if p.table, err = c.Table(v.Name); err == nil {
				s.from, p.side, p.free = p.table, s, k.pins.pin(m.Checkpoint)
			}
			return err
		})
		if e, ok := errors.AsType[*queryable.Error](err); ok && e.Code == queryable.NotFound {
			continue // removed since the list was made
		}
		if err != nil {
			p.why = err.Error()
		}
		h.moments = append(h.moments, p)
	}
	return h, nil
}

func (h *viewHistory) close() error {
	var errs []error
	for _, m := range h.moments {
		if m.table != nil {
			m.free()
			errs = append(errs, m.table.Close())
		}
	}
	return errors.Join(errs...)
}

// read finds the group of a whole key, one row of columns named as the view's, in
// every checkpoint.
func (h *viewHistory) read(ctx context.Context, f *finals, keys arrow.RecordBatch) (out []queryable.Moment, err error) {
	defer func() {
		if err != nil {
			releaseMoments(out)
			out = nil
		}
	}()
	show, err := f.shower(ctx, h.plan)
	if err != nil {
		return nil, err
	}
	defer show.close()
	for _, p := range h.moments {
		m := queryable.Moment{
			Past:    queryable.Past{ID: p.manifest.Checkpoint, Epoch: p.manifest.Epoch, Savepoint: p.manifest.Savepoint},
			Created: p.manifest.Created, Error: p.why,
		}
		if p.side != nil {
			if m.Groups, err = groupThen(ctx, p.side, show, keys); err != nil {
				if ctx.Err() != nil {
					return out, err
				}
				m.Groups, m.Error, err = nil, err.Error(), nil
			}
		}
		out = append(out, m)
	}
	return out, nil
}

func releaseMoments(ms []queryable.Moment) {
	for _, m := range ms {
		if m.Groups != nil {
			m.Groups.Batch.Release()
		}
	}
}

// groupThen is one group in one checkpoint, nil when it is not there.
func groupThen(ctx context.Context, s *side, show *shower, keys arrow.RecordBatch) (*queryable.Groups, error) {
	found, err := findPast(ctx, s.from, s.id, s.plan, keys, 1)
	if err != nil {
		return nil, err
	}
	defer releaseAll(found)
	if len(found[0]) == 0 {
		return nil, nil
	}
	g := &queryable.Groups{Wanted: []int{0}}
	if err := present(ctx, s.plan, show.results, false, found[0], g); err != nil {
		return nil, err
	}
	if g.Batch.NumRows() == 0 { // HAVING hides it
		g.Batch.Release()
		return nil, nil
	}
	return g, nil
}

// History finds a group in every checkpoint.
func (b backend) History(ctx context.Context, r queryable.HistoryRequest) (*queryable.History, error) {
	v, _ := b.store.Catalog().View(r.View)
	w := new(witness)
	h, err := b.keeper.openHistory(r.View, v, w.readPast)
	if err != nil {
		return nil, err
	}
	defer h.close()
	ms, err := h.read(ctx, b.finals, r.Keys)
	return &queryable.History{
		Answer: w.answer(queryable.Answer{Epoch: b.store.Epoch()}), Moments: ms, Backfilling: slices.Compact(slices.Sorted(slices.Values(w.young))),
	}, err
}

// history attaches state_history('view', key, ...): a row for each checkpoint.
func (l *lease) history(r duckext.Ref) error {
	v, ok := l.cat.View(r.Name)
	if !ok {
		v = nil
		if _, plain := l.cat.Query(r.Name); plain {
			return l.unviewed(r.Name, "", nil, r.Offset)
		}
	}
	h := l.histories[strings.ToLower(r.Name)] // its files are opened once
	if h == nil {
		var err error
		if h, err = l.a.keeper.openHistory(r.Name, v, l.witness.readPast); err != nil {
			return err
		}
		l.closers = append(l.closers, h.close)
		if l.histories == nil {
			l.histories = map[string]*viewHistory{}
		}
		l.histories[strings.ToLower(r.Name)] = h
	}
	keys, err := historyKey(h.plan, r.History.Key)
	if err != nil {
		return queryable.Errorf(queryable.BadRequest, "%w", err)
	}
	table := "history:" + r.As
	columns := historyColumns(h.plan)
	l.views = append(l.views, duckext.ViewDef{Name: r.As, Table: table, Columns: columns, Rows: int64(len(h.moments))})
	t := &historyTable{h: h, finals: l.a.finals, keys: keys, columns: columns}
	l.tables[table] = t.scan
	return nil
}

// historyKey makes a key of the constants of a call, by place or by name.
func historyKey(p *plan.View, given []duckext.KeyValue) (arrow.RecordBatch, error) {
	form := func(what string) error {
		names := make([]string, len(p.Keys))
		for i, k := range p.Keys {
			names[i] = k.Name + " " + k.Type.String()
		}
		if len(names) == 0 {
			return fmt.Errorf("%s: view %s has one row and no key", what, p.Name)
		}
		return fmt.Errorf("%s: the key of view %s is %s", what, p.Name, strings.Join(names, ", "))
	}
	if len(given) != len(p.Keys) {
		what := "values are"
		if len(given) == 1 {
			what = "value is"
		}
		return nil, form(fmt.Sprintf("%d %s given, not %d", len(given), what, len(p.Keys)))
	}
	fields := make([]arrow.Field, len(p.Keys))
	for i, k := range p.Keys {
		fields[i] = k.Type.InsideField(k.Name)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	seen := map[int]bool{}
	for i, g := range given {
		at := i
		if g.Name != "" {
			for at = 0; at < len(p.Keys) && !strings.EqualFold(p.Keys[at].Name, g.Name); at++ {
			}
		}
		if at == len(p.Keys) || seen[at] {
			return nil, form(fmt.Sprintf("no key column %s, or one that is given twice", g.Name))
		}
		seen[at] = true
		k := p.Keys[at]
		if g.Text == nil {
			b.Field(at).AppendNull()
			continue
		}
		if err := queryable.AppendValue(b.Field(at), k.Type, *g.Text, g.JSON); err != nil {
			return nil, fmt.Errorf("key column %s: %w", k.Name, err)
		}
	}
	if len(p.Keys) == 0 {
		return array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 1), nil
	}
	return b.NewRecordBatch(), nil
}

// momentColumns describe the checkpoint of a row of a history.
func momentColumns() []sqltype.Field {
	return []sqltype.Field{
		number("version"), number("epoch"),
		{Name: "created", Type: sqltype.Type{ID: sqltype.TimestampTZ}},
		text("savepoint"),
		{Name: "present", Type: sqltype.Type{ID: sqltype.Boolean}},
	}
}

// momentWidth is how many they are.
const momentWidth = 5

// historyColumns are those of a history: the checkpoint, the key, the results, and
// why there are none.
func historyColumns(p *plan.View) []sqltype.Field {
	fs := momentColumns()
	var names []string
	taken := []string{"error"}
	for _, f := range fs {
		taken = append(taken, f.Name)
	}
	for _, k := range p.Keys {
		names = append(names, k.Name)
		fs = append(fs, sqltype.Field{Type: k.Type})
	}
	for _, r := range plainResults(p) {
		names = append(names, p.Results[r].Name)
		fs = append(fs, sqltype.Field{Type: p.Results[r].Type})
	}
	distinct(names, taken...)
	for i, n := range names {
		fs[momentWidth+i].Name = n
	}
	return append(fs, text("error"))
}

// A historyTable is a history as a query sees it, read at the first scan, the same
// for all scans of the query.
type historyTable struct {
	h       *viewHistory
	finals  *finals
	keys    arrow.RecordBatch
	columns []sqltype.Field

	mu  sync.Mutex
	rec arrow.RecordBatch
	err error
}

func (t *historyTable) scan(ctx context.Context, s duckext.ScanSpec) (array.RecordReader, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rec == nil && t.err == nil {
		t.rec, t.err = t.read(ctx)
	}
	if t.err != nil {
		return nil, t.err
	}
	return wholeIn(t.rec, t.columns, s)
}

// wholeIn reads columns of a batch that has no slots: the first range has it all.
func wholeIn(rec arrow.RecordBatch, columns []sqltype.Field, s duckext.ScanSpec) (array.RecordReader, error) {
	fields := make([]arrow.Field, len(s.Columns))
	cols := make([]arrow.Array, len(s.Columns))
	for i, c := range s.Columns {
		if c < 0 || c >= len(columns) {
			return nil, fmt.Errorf("there is no column %d", c)
		}
		fields[i], cols[i] = rec.Schema().Field(c), rec.Column(c)
	}
	schema := arrow.NewSchema(fields, nil)
	var recs []arrow.RecordBatch
	if s.FromSlot == 0 {
		one := array.NewRecordBatch(schema, cols, rec.NumRows())
		defer one.Release()
		recs = append(recs, one)
	}
	return array.NewRecordReader(schema, recs)
}

// read makes the rows.
func (t *historyTable) read(ctx context.Context) (arrow.RecordBatch, error) {
	ms, err := t.h.read(ctx, t.finals, t.keys)
	if err != nil {
		return nil, err
	}
	defer releaseMoments(ms)
	schema := insideOf(t.columns)
	parts := make([]arrow.RecordBatch, 0, len(ms)+1)
	defer func() {
		for _, p := range parts {
			p.Release()
		}
	}()
	for _, m := range ms {
		parts = append(parts, t.row(schema, m))
	}
	empty := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer empty.Release()
	parts = append(parts, empty.NewRecordBatch())
	return recordbatch.Concat(parts, memory.DefaultAllocator)
}

// row is one row of a history.
func (t *historyTable) row(schema *arrow.Schema, m queryable.Moment) arrow.RecordBatch {
	head := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(schema.Fields()[:momentWidth], nil))
	defer head.Release()
	head.Field(0).(*array.Int64Builder).Append(int64(m.ID))
	head.Field(1).(*array.Int64Builder).Append(int64(m.Epoch))
	head.Field(2).(*array.TimestampBuilder).Append(arrow.Timestamp(m.Created.UnixMicro()))
	textOrNull(head.Field(3).(*array.StringBuilder), m.Savepoint)
	present := head.Field(4).(*array.Int8Builder)
	why := m.Error
	switch {
	case m.Error != "":
		present.AppendNull()
	case m.Groups == nil:
		present.Append(0)
	default:
		present.Append(1)
		if m.Groups.Errors != nil {
			why = m.Groups.Errors[0]
		}
	}
	first := head.NewRecordBatch()
	defer first.Release()
	cols := first.Columns()[:momentWidth:momentWidth]
	nkeys := len(t.h.plan.Keys)
	cols = append(cols, t.keys.Columns()...)
	for i := momentWidth + nkeys; i < len(t.columns)-1; i++ {
		if m.Groups != nil && why == "" {
			cols = append(cols, m.Groups.Batch.Column(i-momentWidth))
			continue
		}
		null := array.MakeArrayOfNull(memory.DefaultAllocator, schema.Field(i).Type, 1)
		defer null.Release()
		cols = append(cols, null)
	}
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	textOrNull(b, why)
	last := b.NewArray()
	defer last.Release()
	return array.NewRecordBatch(schema, append(cols, last), 1)
}

func textOrNull(b *array.StringBuilder, s string) {
	if s == "" {
		b.AppendNull()
	} else {
		b.Append(s)
	}
}
