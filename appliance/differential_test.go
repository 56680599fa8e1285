//go:build duckdb_arrow

package appliance

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/duckext"
	"weir/state"
	"weir/state/ddl"
	"weir/state/plan"
	"weir/state/sqltype"
)

var (
	viewsFlag = flag.Int("views", 500, "generated views that the differential test compares")
	seedFlag  = flag.Uint64("seed", 1, "seed of the differential test; 0 takes the clock's")
)

// viewsPerStore is how many views share a store, and their records.
const viewsPerStore = 50

// TestDifferential compares generated views with DuckDB's own answer over the
// same rows: three ways to split them into batches, one and four partitions, a
// restart in the middle of each.
func TestDifferential(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d (-seed)", seed)
	d := newDifferential(t)
	var stores atomic.Int64
	t.Run("stores", func(t *testing.T) {
		for n, left := 0, *viewsFlag; left > 0; n, left = n+1, left-viewsPerStore {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				d.store(t, rand.New(rand.NewPCG(seed, uint64(n))), min(viewsPerStore, left))
				stores.Add(1)
			})
		}
	})
	t.Logf("%d views in %d stores, %d comparisons of a view, %d of a row", *viewsFlag, stores.Load(), d.comparisons.Load(), d.rows.Load())
}

// store compares some views of the same rows.
func (d *differential) store(t *testing.T, r *rand.Rand, n int) {
	rows := generateRows(r, 30+r.IntN(70))
	var views []*diffView
	for range n {
		if v := d.plan(t, generateView(r)); v != nil {
			views = append(views, v)
			defer v.close()
		}
	}
	d.compare(t, views, rows, r)
}

// differential is what the comparisons share: Weir's DuckDB and the oracle's.
type differential struct {
	eng, oracle *duckext.Engine
	columns     []dataColumn
	catalog     plan.Catalog
	comparisons atomic.Int64
	rows        atomic.Int64
}

func openEngine(t testing.TB) *duckext.Engine {
	t.Helper()
	e, err := duckext.Open(duckext.Options{Threads: 1, MemoryLimit: "1GB"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func newDifferential(t *testing.T) *differential {
	d := &differential{eng: openEngine(t), oracle: openEngine(t), columns: dataColumns()}
	src := plan.Source{Name: "src"}
	for _, c := range d.columns {
		src.Columns = append(src.Columns, c.field())
	}
	d.catalog.Sources = []plan.Source{src}
	return d
}

// diffView is a view with its prepared statements.
type diffView struct {
	*generated
	plan           *plan.View
	partial, final *duckext.Program
	over           *duckext.Program // a query over the view, nil if it has no integers
	overSQL        string           // the same, with %s for the view
	initial        arrow.RecordBatch
	failed         bool // said once
}

func (v *diffView) close() {
	v.partial.Close()
	v.final.Close()
	if v.over != nil {
		v.over.Close()
	}
	if v.initial != nil {
		v.initial.Release()
	}
}

func (d *differential) plan(t *testing.T, g *generated) *diffView {
	t.Helper()
	ctx := t.Context()
	fail := func(what string, err error) *diffView {
		t.Helper()
		t.Errorf("%s: %v\n%s", what, err, g.sql)
		return nil
	}
	stmt, err := ddl.ParseOne("CREATE MATERIALIZED VIEW v AS " + g.sql)
	if err != nil {
		return fail("parse", err)
	}
	p, err := plan.New(ctx, d.eng, d.catalog, stmt.(*ddl.CreateMaterializedView))
	if err != nil {
		return fail("plan", err)
	}
	v := &diffView{generated: g, plan: p}
	if strings.HasPrefix(p.Inputs[0].Name, "kafka_") { // it reads no column, and there is no Kafka here
		p.Inputs = []sqltype.Field{d.columns[0].field()}
	}
	if v.partial, err = d.eng.Prepare(ctx, p.Partial, plan.Relation{Name: plan.InputRelation, Columns: p.Inputs}, p.StateColumns()); err != nil {
		return fail("prepare partial", err)
	}
	state := plan.Relation{Name: plan.StateRelation, Columns: p.StateColumns()}
	if v.final, err = d.eng.Prepare(ctx, p.Final, state, p.ResultColumns()); err != nil {
		return fail("prepare final", err)
	}
	if p.Global {
		if v.initial, err = (&Appliance{engine: d.eng}).initial(ctx, p); err != nil {
			return fail("first row", err)
		}
	}
	var sums []string
	for i, c := range g.columns {
		if c.integral {
			n := quoteName(p.Results[i].Name)
			sums = append(sums, fmt.Sprintf("sum(%s) // 2 AS s%d, sum(%s) & 7 AS a%d, max(%s) * 2 AS m%d", n, i, n, i, n, i))
		}
	}
	if len(sums) > 0 {
		v.overSQL = "SELECT " + strings.Join(sums, ", ") + " FROM (%s)"
		out, err := d.oracle.Describe(ctx, []plan.Relation{d.catalog.Sources[0].Relation()}, fmt.Sprintf(v.overSQL, g.sql))
		if err != nil {
			return fail("describe query over it", err)
		}
		if v.over, err = d.eng.Prepare(ctx, fmt.Sprintf(v.overSQL, p.Final), state, out); err != nil {
			return fail("prepare query over it", err)
		}
	}
	return v
}

// A row is a record's values, by column.
type dataRow []datum

func generateRows(r *rand.Rand, n int) []dataRow {
	rows := make([]dataRow, n)
	cols := dataColumns()
	for i := range rows {
		rows[i] = make(dataRow, len(cols))
		for c := range cols {
			rows[i][c] = cols[c].value(r)
		}
	}
	return rows
}

// load makes the tables raw and src (keys canonical) of some rows.
func (d *differential) load(t *testing.T, rows []dataRow) *duckext.Session {
	t.Helper()
	s, err := d.oracle.Session()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"raw", "src"} {
		defs, cols := []string{"n INTEGER"}, []string{"n"}
		for _, c := range d.columns {
			defs, cols = append(defs, c.name+" "+c.typ), append(cols, c.name)
		}
		stmts := []string{"CREATE TEMP TABLE " + table + " (" + strings.Join(defs, ", ") + ")"}
		var values []string
		for n, row := range rows {
			vals := []string{fmt.Sprint(n)}
			for _, v := range row {
				if table == "raw" {
					vals = append(vals, v.sql)
				} else {
					vals = append(vals, v.canon)
				}
			}
			values = append(values, "INSERT INTO "+table+" VALUES ("+strings.Join(vals, ", ")+")")
		}
		for _, sql := range append(stmts, values...) {
			if err := s.Exec(sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
	}
	return s
}

func (d *differential) query(t *testing.T, s *duckext.Session, sql string) arrow.RecordBatch {
	t.Helper()
	rec, err := s.Query(t.Context(), sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return rec
}

// A split is how records become batches.
type split struct {
	parts int
	name  string
	size  func(*rand.Rand) int64
}

func splits() []split {
	var all []split
	for _, parts := range []int{1, 4} {
		all = append(all,
			split{parts, "whole", func(*rand.Rand) int64 { return 1 << 30 }},
			split{parts, "chunks", func(r *rand.Rand) int64 { return int64(10 + r.IntN(30)) }},
			split{parts, "crumbs", func(r *rand.Rand) int64 { return int64(1 + r.IntN(14)) }},
		)
	}
	return all
}

// compare runs the views over rows in every split and compares each with DuckDB.
func (d *differential) compare(t *testing.T, views []*diffView, rows []dataRow, r *rand.Rand) {
	t.Helper()
	s := d.load(t, rows)
	defer s.Close()
	type answer struct {
		rows, over arrow.RecordBatch
		bounds     []int
	}
	want := make([]answer, len(views))
	for i, v := range views {
		sql, bounds := v.oracle()
		want[i] = answer{rows: d.query(t, s, sql), bounds: bounds}
		if v.over != nil {
			want[i].over = d.query(t, s, fmt.Sprintf(v.overSQL, v.sql))
		}
	}
	for _, sp := range splits() {
		all := d.query(t, s, fmt.Sprintf("SELECT * EXCLUDE (n) FROM raw ORDER BY n %% %d, n", sp.parts))
		sn, release := d.ingest(t, views, all, sp, r)
		for i, v := range views {
			if v.failed {
				continue
			}
			got, err := d.final(sn, i, v.final)
			if err != nil {
				v.failed = true
				t.Errorf("%d partitions, %s: %v\n%s", sp.parts, sp.name, err, v.sql)
				continue
			}
			d.comparisons.Add(1)
			d.rows.Add(got.NumRows())
			diff := diffRows(v, got, want[i].rows, want[i].bounds)
			if diff == "" && v.over != nil {
				over, err := d.final(sn, i, v.over)
				if err != nil {
					diff = "a query over it: " + err.Error()
				} else if a, b := renderAll(over), renderAll(want[i].over); a != b {
					diff = fmt.Sprintf("%s\ngot\n%swant\n%s", v.overSQL, a, b)
				}
			}
			if diff != "" {
				v.failed = true
				t.Errorf("%d partitions, %s, %d rows:\n%s\n%s", sp.parts, sp.name, len(rows), v.sql, diff)
			}
		}
		release()
	}
}

// ingest folds all rows of the views in batches, with a restart on the way, and
// gives a snapshot of the end.
func (d *differential) ingest(t *testing.T, views []*diffView, all arrow.RecordBatch, sp split, r *rand.Rand) (*state.Snapshot, func()) {
	t.Helper()
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fsys := vfs.NewMem()
	options := state.Options{FS: fsys, Interval: time.Hour, Memory: int64(1 + r.IntN(1<<20))}
	st, err := state.Open("state", options)
	check(err)
	src := d.catalog.Sources[0]
	_, err = st.CreateSource(state.Source{Name: "src", SQL: "CREATE SOURCE src", Columns: src.Columns, Options: map[string]string{"topic": "t"}})
	check(err)
	created, _ := st.Catalog().Source("src")
	cursor := created.Cursor
	for i, v := range views {
		p := *v.plan
		p.Name = fmt.Sprintf("v%d", i)
		_, err := st.CreateView("CREATE MATERIALIZED VIEW", p, false, v.initial)
		check(err)
	}
	total := int(all.NumRows())
	bounds := make([]int64, sp.parts+1) // rows of a partition lie side by side
	var first []state.Position
	for p := range sp.parts {
		bounds[p+1] = bounds[p] + int64((total-p+sp.parts-1)/sp.parts)
		first = append(first, state.Position{Topic: "t", Partition: int32(p)})
	}
	check(st.Start(cursor, first))
	restarts := 1
	for {
		var open []state.Position
		for _, p := range st.Positions(cursor) {
			if bounds[p.Partition]+p.Next < bounds[p.Partition+1] {
				open = append(open, p)
			}
		}
		if len(open) == 0 && restarts == 0 {
			break
		}
		if restarts > 0 && (len(open) == 0 || r.IntN(6) == 0) {
			// What was folded and not committed is gone, positions and all.
			restarts--
			check(st.Close())
			st, err = state.Open("state", options)
			check(err)
			continue
		}
		p := open[r.IntN(len(open))]
		lo := bounds[p.Partition] + p.Next
		hi := min(lo+sp.size(r), bounds[p.Partition+1])
		p.Next += hi - lo
		fold := state.Fold{Cursor: cursor, Records: hi - lo, Positions: []state.Position{p}}
		for i, v := range views {
			in := project(all, v.plan.Inputs, lo, hi)
			rows, err := v.partial.Run(ctx, in)
			in.Release()
			if err != nil {
				t.Fatalf("partial: %v\n%s", err, v.sql)
			}
			stored, _ := st.Catalog().View(fmt.Sprintf("v%d", i))
			fold.Partials = append(fold.Partials, state.Partial{View: stored.ID, Rows: rows})
		}
		check(st.Fold(ctx, fold))
		for _, p := range fold.Partials {
			p.Rows.Release()
		}
		if r.IntN(4) == 0 {
			_, err := st.Commit(ctx)
			check(err)
		}
	}
	_, err = st.Commit(ctx)
	check(err)
	sn, err := st.Snapshot()
	check(err)
	return sn, func() {
		sn.Close()
		check(st.Close())
	}
}

// project gives some columns of some rows.
func project(all arrow.RecordBatch, cols []sqltype.Field, lo, hi int64) arrow.RecordBatch {
	fields := make([]arrow.Field, len(cols))
	arrays := make([]arrow.Array, len(cols))
	for i, c := range cols {
		at := all.Schema().FieldIndices(c.Name)[0]
		fields[i] = c.Type.InsideField(c.Name)
		arrays[i] = array.NewSlice(all.Column(at), lo, hi)
		defer arrays[i].Release()
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, hi-lo)
}

// final reads a view's results. Its plan is the one that the catalogue kept.
func (d *differential) final(sn *state.Snapshot, i int, prog *duckext.Program) (arrow.RecordBatch, error) {
	v, ok := sn.Catalog().View(fmt.Sprintf("v%d", i))
	if !ok {
		return nil, fmt.Errorf("view v%d is not in the catalogue", i)
	}
	if st := sn.Stats(v.ID); st.Errors != 0 {
		return nil, fmt.Errorf("%d groups in error", st.Errors)
	}
	rd, err := sn.Scan(context.Background(), state.ScanRequest{View: v.ID, BatchRows: 7})
	if err != nil {
		return nil, err
	}
	return prog.RunReader(context.Background(), rd)
}

// diffRows compares a view with the oracle's answer, whose last columns are the
// bounds of float sums. It says what differs, or nothing.
func diffRows(v *diffView, got, want arrow.RecordBatch, bounds []int) string {
	n := len(v.plan.Results)
	for i := range n {
		g, w := got.Schema().Field(i), want.Schema().Field(i)
		if !arrow.TypeEqual(g.Type, w.Type) {
			return fmt.Sprintf("column %d (%s) is %s, not %s", i, g.Name, g.Type, w.Type)
		}
		if g.Name != w.Name {
			return fmt.Sprintf("column %d is called %q, not %q", i, g.Name, w.Name)
		}
	}
	for i, c := range v.columns {
		if !c.key {
			continue
		}
		for row := range int(got.NumRows()) {
			if text := render(got.Column(i), row, false); text != render(got.Column(i), row, true) {
				return fmt.Sprintf("key column %s is not canonical: %s", got.Schema().Field(i).Name, text)
			}
		}
	}
	g, w := resultRows(v, got, nil), resultRows(v, want, bounds)
	var b strings.Builder
	for i := range max(len(g), len(w)) {
		switch {
		case i >= len(g):
			fmt.Fprintf(&b, "missing   %s\n", w[i])
		case i >= len(w):
			fmt.Fprintf(&b, "extra     %s\n", g[i])
		case !g[i].near(w[i]):
			fmt.Fprintf(&b, "got       %s\nwant      %s\n", g[i], w[i])
		}
		if b.Len() > 2000 {
			return b.String() + "...\n"
		}
	}
	return b.String()
}

// A resultRow is a row to be compared: what must be equal as text, and floats
// that may be apart, by so much.
type resultRow struct {
	text   string
	floats []float64 // those that are not NULL
	ulp    []bool
	slack  []float64
}

func (r resultRow) String() string {
	return fmt.Sprintf("%s %v", r.text, r.floats)
}

func resultRows(v *diffView, rec arrow.RecordBatch, bounds []int) []resultRow {
	rows := make([]resultRow, rec.NumRows())
	for i := range rows {
		var text []string
		for c, col := range v.columns {
			a := rec.Column(c)
			if f, ok := a.(*array.Float64); ok && col.closeness != exact && f.IsValid(i) {
				text = append(text, "~")
				rows[i].floats = append(rows[i].floats, f.Value(i))
				rows[i].ulp = append(rows[i].ulp, col.closeness == oneUlp)
				slack := 0.0
				if at := slices.Index(bounds, c); at >= 0 {
					if s := rec.Column(len(v.columns) + at).(*array.Float64); s.IsValid(i) {
						slack = s.Value(i)
					}
				}
				rows[i].slack = append(rows[i].slack, slack)
				continue
			}
			text = append(text, render(a, i, true))
		}
		rows[i].text = strings.Join(text, " | ")
	}
	slices.SortStableFunc(rows, func(a, b resultRow) int {
		if c := strings.Compare(a.text, b.text); c != 0 {
			return c
		}
		for i := range a.floats {
			if c := cmp.Compare(a.floats[i], b.floats[i]); c != 0 {
				return c
			}
		}
		return 0
	})
	return rows
}

// near compares with a row of the oracle.
func (r resultRow) near(want resultRow) bool {
	if r.text != want.text {
		return false
	}
	for i := range r.floats {
		if !nearly(r.floats[i], want.floats[i], r.ulp[i], want.slack[i]) {
			return false
		}
	}
	return true
}
