//go:build duckdb_arrow

package duckext

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/sqltype"
)

// memTable is a table in memory: row i is in slot i mod 256.
type memTable struct {
	cols  []sqltype.Field
	slots [Slots]arrow.RecordBatch
	n     int64
	fail  func(ScanSpec) error // error after the last row of a reader
	block bool                 // the readers never end
	only  int                  // if not 0, filtered readers look at so many slots

	mu    sync.Mutex
	specs []ScanSpec
	open  atomic.Int64
	read  atomic.Int64 // rows delivered
}

func (m *memTable) Columns() []sqltype.Field { return m.cols }
func (m *memTable) Rows() int64              { return m.n }

func (m *memTable) Scan(ctx context.Context, s ScanSpec) (array.RecordReader, error) {
	m.mu.Lock()
	m.specs = append(m.specs, s)
	m.mu.Unlock()
	m.open.Add(1)
	if len(s.Filters) > 0 {
		return m.filtered(ctx, s), nil
	}
	return &memReader{m: m, ctx: ctx, s: s, slot: s.FromSlot - 1}, nil
}

// seen forgets and returns the scans so far.
func (m *memTable) seen() []ScanSpec {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.specs
	m.specs = nil
	return s
}

// filtered reads the rows that the filters allow, and no others.
func (m *memTable) filtered(ctx context.Context, s ScanSpec) array.RecordReader {
	f := &memTable{cols: m.cols, fail: m.fail}
	f.open.Add(1)
	r := &memReader{m: f, ctx: ctx, s: s, slot: -1, onClose: func() { m.open.Add(-1) }}
	to := s.ToSlot
	if m.only > 0 {
		to = m.only
	}
	for slot := s.FromSlot; slot < to; slot++ {
		rec := m.slots[slot]
		for i := range int(rec.NumRows()) {
			if !slices.ContainsFunc(s.Filters, func(f Filter) bool { return !allows(f, rec.Column(f.Column), i) }) {
				r.rows = append(r.rows, rec.NewSlice(int64(i), int64(i)+1))
			}
		}
	}
	return r
}

func allows(f Filter, arr arrow.Array, i int) bool {
	if arr.IsNull(i) {
		return false
	}
	if f.In != nil {
		found := false
		for j := range f.In.Len() {
			found = found || f.In.ValueStr(j) == arr.ValueStr(i)
		}
		if !found {
			return false
		}
	}
	less := func(a, b arrow.Array, i, j int) bool { return a.(*array.Int64).Value(i) < b.(*array.Int64).Value(j) }
	return (f.Min == nil || !less(arr, f.Min, i, 0)) && (f.Max == nil || !less(f.Max, arr, 0, i))
}

type memReader struct {
	rows    []arrow.RecordBatch // in place of slots
	onClose func()

	m      *memTable
	ctx    context.Context
	s      ScanSpec
	slot   int
	err    error
	closed bool
}

func (r *memReader) Retain() {}
func (r *memReader) Release() {
	if r.closed {
		panic("released twice")
	}
	r.closed = true
	r.m.open.Add(-1)
	if r.onClose != nil {
		r.onClose()
	}
}

func (r *memReader) Schema() *arrow.Schema {
	fs := []sqltype.Field{}
	for _, c := range r.s.Columns {
		fs = append(fs, r.m.cols[c])
	}
	return insideSchema(fs)
}
func (r *memReader) Err() error                { return r.err }
func (r *memReader) Record() arrow.RecordBatch { return r.RecordBatch() }

func (r *memReader) Next() bool {
	if r.ctx.Err() != nil {
		r.err = r.ctx.Err()
		return false
	}
	if r.onClose != nil {
		r.slot++
		return r.slot < len(r.rows)
	}
	for r.slot++; r.slot < r.s.ToSlot && r.m.slots[r.slot].NumRows() == 0; r.slot++ {
	}
	if r.slot < r.s.ToSlot {
		r.m.read.Add(r.m.slots[r.slot].NumRows())
		return true
	}
	if r.m.block {
		r.slot = r.s.FromSlot
		return true
	}
	if r.m.fail != nil {
		r.err = r.m.fail(r.s)
	}
	return false
}

func (r *memReader) RecordBatch() arrow.RecordBatch {
	var rec arrow.RecordBatch
	if r.onClose != nil {
		rec = r.rows[r.slot]
	} else {
		rec = r.m.slots[r.slot]
	}
	var cols []arrow.Array
	for _, c := range r.s.Columns {
		cols = append(cols, rec.Column(c))
	}
	return array.NewRecordBatch(r.Schema(), cols, rec.NumRows())
}

// numbers is a table of n rows: k BIGINT = i, name VARCHAR, amount DECIMAL(12,2)
// = i/100 with each seventh NULL, tags VARCHAR[], s STRUCT, flag BOOLEAN.
func numbers(n int) *memTable {
	m := &memTable{cols: fields("k BIGINT; name VARCHAR; amount DECIMAL(12,2); tags VARCHAR[]; s STRUCT(a HUGEINT, b VARCHAR); flag BOOLEAN"), n: int64(n)}
	m.cols[4].Type = sqltype.MustParse("STRUCT(a INTEGER, b VARCHAR)")
	for slot := range m.slots {
		b := array.NewRecordBuilder(memory.DefaultAllocator, insideSchema(m.cols))
		for i := slot; i < n; i += Slots {
			b.Field(0).(*array.Int64Builder).Append(int64(i))
			b.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("the name of row %d", i))
			if i%7 == 0 {
				b.Field(2).AppendNull()
			} else {
				b.Field(2).(*array.Decimal128Builder).Append(decimal128.FromI64(int64(i)))
			}
			l := b.Field(3).(*array.ListBuilder)
			l.Append(true)
			for j := range i % 3 {
				l.ValueBuilder().(*array.StringBuilder).Append(fmt.Sprintf("tag-%d-%d of a row", i, j))
			}
			s := b.Field(4).(*array.StructBuilder)
			if i%5 == 0 {
				s.AppendNull()
			} else {
				s.Append(true)
				s.FieldBuilder(0).(*array.Int32Builder).Append(int32(i))
				s.FieldBuilder(1).(*array.StringBuilder).Append("b")
			}
			b.Field(5).(*array.Int8Builder).Append(int8(i % 2))
		}
		m.slots[slot] = b.NewRecordBatch()
	}
	return m
}

// numbersSQL is the same rows, made by DuckDB.
func numbersSQL(n int) string {
	return fmt.Sprintf(`(SELECT i::BIGINT AS k, 'the name of row ' || i AS name, CASE WHEN i %% 7 <> 0 THEN (i / 100.0)::DECIMAL(12,2) END AS amount,
		list_transform(range(i %% 3), lambda j: 'tag-' || i || '-' || j || ' of a row') AS tags,
		CASE WHEN i %% 5 <> 0 THEN {'a': i::INTEGER, 'b': 'b'} END AS s, i %% 2 = 1 AS flag FROM range(%d) t(i))`, n)
}

func openSession(t testing.TB, e *Engine, parts int, tables map[string]Table) *Session {
	t.Helper()
	s, err := e.Session()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for name, tab := range tables {
		if err := s.Attach(name, tab, parts); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func openThreads(t testing.TB, n int) *Engine {
	t.Helper()
	e, err := Open(Options{Threads: n})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// The traps: what a view made of an Arrow stream gets wrong. v stands for the
// relation; each answer must be that over the same rows in a table.
var traps = []string{
	"SELECT count(*) FROM v", "SELECT count(amount), count(1) FROM v", "SELECT sum(amount) FROM v", "SELECT sum(k)//2, min(name), max(tags) FROM v",
	"SELECT max(s) FROM v", "SELECT count(*) FROM v WHERE s.a % 2 = 1", "SELECT sum(len(tags)) FROM v", "SELECT max(tags[1]) FROM v WHERE flag",
	"SELECT count(*), sum(a.k + b.k), sum(a.amount) FROM v a JOIN v b ON a.k = b.k + 1",
	"SELECT count(*), sum(k) FROM (SELECT * FROM v UNION ALL SELECT * FROM v)", "SELECT count(*) FROM (SELECT k FROM v UNION SELECT k + 10 FROM v)",
	"WITH c AS (SELECT k, flag FROM v) SELECT count(*), sum(x.k) FROM c x, c y WHERE x.k = y.k AND y.flag",
	"SELECT count(*) FROM (SELECT * FROM v LIMIT 10)", "SELECT k, name FROM v ORDER BY k DESC LIMIT 3 OFFSET 5",
	"SELECT flag, count(*), sum(amount), string_agg(DISTINCT s.b) FROM v GROUP BY flag ORDER BY flag",
	"SELECT (SELECT max(k) FROM v) - (SELECT min(k) FROM v WHERE NOT flag)", "SELECT sum(hash(name) % 1000) FROM v WHERE name LIKE '%77%'",
	"SELECT k, row_number() OVER (ORDER BY k DESC) FROM v ORDER BY 1 LIMIT 5", "SELECT count(*) FROM v WHERE amount IS NULL",
}

func TestScanTraps(t *testing.T) {
	const n = 9000
	for _, threads := range []int{1, 4} {
		e := openThreads(t, threads)
		m := numbers(n)
		s := openSession(t, e, 4*threads, map[string]Table{"v": m})
		for _, q := range traps {
			checkTrap(t, s, q, n)
		}
		// Any subset of the columns, in any order.
		r := rand.New(rand.NewPCG(3, uint64(threads)))
		for range 25 {
			var cols []string
			for _, i := range r.Perm(len(m.cols))[:1+r.IntN(len(m.cols))] {
				cols = append(cols, m.cols[i].Name)
			}
			checkTrap(t, s, fmt.Sprintf("SELECT sum(hash(%s)::HUGEINT), count(*) FROM v WHERE k %% 3 < 2", strings.Join(cols, ", ")), n)
		}
		if open := m.open.Load(); open != 0 {
			t.Errorf("%d readers were not released", open)
		}
	}
}

func checkTrap(t *testing.T, s *Session, q string, n int) {
	t.Helper()
	got, err := s.Query(t.Context(), q)
	if err != nil {
		t.Errorf("%s: %v", q, err)
		return
	}
	want, err := s.Query(t.Context(), "WITH v AS MATERIALIZED "+numbersSQL(n)+" SELECT * FROM ("+q+")")
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	if g, w := valuesOf(got), valuesOf(want); g != w {
		t.Errorf("%s:\ngot  %s\nwant %s", q, g, w)
	}
}

func valuesOf(rec arrow.RecordBatch) string {
	var b strings.Builder
	for i, c := range rec.Columns() {
		fmt.Fprintln(&b, rec.Schema().Field(i).Type, c)
	}
	return b.String()
}

func TestOnlyProjectedColumnsAreRead(t *testing.T) {
	m := numbers(1000)
	s := openSession(t, openThreads(t, 2), 8, map[string]Table{"v": m})
	for q, want := range map[string]string{
		"SELECT count(*) FROM v": "[]", "SELECT max(amount) FROM v": "[2]", "SELECT name FROM v WHERE flag": "[1 5]", "SELECT s.a FROM v LIMIT 1": "[4]",
	} {
		m.seen()
		if _, err := s.Query(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		scans := m.seen()
		covered := 0
		for _, sc := range scans {
			if got := fmt.Sprint(sc.Columns); got != want {
				t.Errorf("%s: read %s, want %s", q, got, want)
			}
			covered += sc.ToSlot - sc.FromSlot
		}
		if !strings.Contains(q, "LIMIT") && covered != Slots {
			t.Errorf("%s: %d slots were read", q, covered)
		}
	}
}

func TestLimitStopsTheScan(t *testing.T) {
	m := numbers(100000)
	s := openSession(t, openThreads(t, 1), 1, map[string]Table{"v": m})
	if _, err := s.Query(t.Context(), "SELECT k FROM v LIMIT 5"); err != nil {
		t.Fatal(err)
	}
	if n := m.read.Load(); n > 10000 {
		t.Errorf("read %d rows for 5", n)
	}
	if m.open.Load() != 0 {
		t.Error("a reader was not released")
	}
}

func TestScanErrorsFailTheQuery(t *testing.T) {
	m := numbers(1000)
	bad := errors.New("group k = 7 is in error: out of range")
	m.fail = func(s ScanSpec) error {
		if s.ToSlot == Slots {
			return bad
		}
		return nil
	}
	s := openSession(t, openThreads(t, 2), 8, map[string]Table{"v": m})
	for range 3 {
		_, err := s.Query(t.Context(), "SELECT sum(k) FROM v")
		if !errors.Is(err, bad) {
			t.Errorf("%v", err)
		}
	}
	m.fail = func(ScanSpec) error { panic("a bug") }
	if _, err := s.Query(t.Context(), "SELECT sum(k) FROM v"); err == nil || !strings.Contains(err.Error(), "panic while scanning: a bug") {
		t.Errorf("%v", err)
	}
	m.fail = nil
	checkTrap(t, s, "SELECT count(*) FROM v", 1000)
	if m.open.Load() != 0 {
		t.Error("a reader was not released")
	}
}

func TestScanIsCancelled(t *testing.T) {
	m := numbers(1000)
	m.block = true
	s := openSession(t, openThreads(t, 2), 4, map[string]Table{"v": m})
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the client left")
	go func() {
		until(func() bool { return m.read.Load() >= 5000 })
		cancel(cause)
	}()
	if _, err := s.Query(ctx, "SELECT count(*) FROM v"); !errors.Is(err, cause) {
		t.Error(err)
	}
	m.block = false
	checkTrap(t, s, "SELECT count(*) FROM v", 1000)
}

func TestTwentyQueriesAtOnce(t *testing.T) {
	e := openThreads(t, 4)
	m := numbers(2500)
	var wg sync.WaitGroup
	for i := range 20 {
		s := openSession(t, e, 8, map[string]Table{"v": m})
		wg.Go(func() {
			for j := range 3 {
				checkTrap(t, s, traps[(i+j)%len(traps)], 2500)
			}
		})
	}
	wg.Wait()
}

func TestScansMemoryIsFlat(t *testing.T) {
	m := numbers(48)
	s := openSession(t, openThreads(t, 1), 2, map[string]Table{"v": m})
	run := func(n int) {
		for range n {
			m.seen()
			if _, err := s.Query(t.Context(), "SELECT flag, count(*), max(name), sum(amount) FROM v GROUP BY flag"); err != nil {
				t.Fatal(err)
			}
		}
	}
	flat(t, "2,000 queries", 3<<20, func() int { return residentBytes(t) }, func() { run(2000) })
}

func BenchmarkScan(b *testing.B) {
	m := numbers(1_000_000)
	s := openSession(b, openThreads(b, 2), 8, map[string]Table{"v": m})
	for _, q := range []string{"SELECT count(*) FROM v", "SELECT sum(k), sum(amount) FROM v", "SELECT count(*) FROM v WHERE name LIKE '%77%'"} {
		b.Run(q, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Query(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(1e6*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
		})
	}
}
