package checkpoint

import (
	"flag"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/state"
)

var benchIncremental = flag.Int("groups", 1_000_000, "groups of BenchmarkIncremental")

// A growing store has the view of benchFake.
type growing struct {
	s      *state.Store
	cursor state.CursorID
	view   state.ViewID
}

func newGrowing(t testing.TB, fsys vfs.FS, dir string, groups int) *growing {
	s, err := state.Open(dir, state.Options{FS: fsys})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	_, err = s.CreateSource(state.Source{Name: "orders"})
	must(t, err)
	p := benchPlan()
	p.Source = "orders"
	g := &growing{s: s}
	g.view, err = s.CreateView("", p, false, nil)
	must(t, err)
	g.cursor = s.Catalog().Views[0].Cursor
	const batch = 1 << 16
	for at := 0; at < groups; at += batch {
		g.fold(t, min(batch, groups-at), func(i int) int64 { return int64(at+i) * 1_000_003 })
		_, err := s.Commit(t.Context())
		must(t, err)
	}
	return g
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (g *growing) fold(t testing.TB, n int, key func(int) int64) {
	v, _ := g.s.Catalog().ViewByID(g.view)
	var fields []arrow.Field
	for _, c := range v.Plan.StateColumns() {
		fields = append(fields, c.Type.InsideField(c.Name))
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for i := range n {
		k := key(i)
		b.Field(0).(*array.Int64Builder).Append(k)
		b.Field(1).(*array.Int64Builder).Append(k%97 + 1)
		b.Field(2).(*array.Decimal128Builder).Append(decimal128.FromI64(k * 1299709 % 10_000_000))
	}
	must(t, g.s.Fold(t.Context(), state.Fold{Cursor: g.cursor, Records: int64(n), Partials: []state.Partial{{View: g.view, Rows: b.NewRecordBatch()}}}))
}

// some changes a share of the groups at random.
func (g *growing) some(t testing.TB, r *rand.Rand, groups, n int) {
	g.fold(t, n, func(int) int64 { return int64(r.IntN(groups)) * 1_000_003 })
	_, err := g.s.Commit(t.Context())
	must(t, err)
}

func (g *growing) checkpoint(t testing.TB, fsys vfs.FS, dir string, o Options) (*Manifest, time.Duration) {
	from := time.Now()
	_, err := g.s.Mark(t.Context())
	must(t, err)
	sn, err := g.s.Snapshot()
	must(t, err)
	defer sn.Close()
	m, err := Write(t.Context(), fsys, dir, sn, nil, o)
	must(t, err)
	must(t, g.s.Trim(m.Epoch))
	return m, time.Since(from)
}

// TestIncrementalBytes: after one of a hundred groups changed, a checkpoint adds
// at most three hundredths of what a whole one takes.
func TestIncrementalBytes(t *testing.T) {
	const groups = 200_000
	g := newGrowing(t, vfs.NewMem(), "state", groups)
	fsys, r := vfs.NewMem(), rng(t)
	first, _ := g.checkpoint(t, fsys, dir, Options{})
	g.some(t, r, groups, groups/100)
	second, _ := g.checkpoint(t, fsys, dir, Options{})
	parts := second.Views[0].Parts
	if len(parts) != 2 || parts[1].Rows < groups/110 || parts[1].Rows > groups/100 {
		t.Fatalf("parts: %+v", parts)
	}
	if whole, added := first.Bytes(), parts[1].Bytes; added*100 > 3*whole {
		t.Errorf("%d bytes for 1 %% of the groups, %d for all", added, whole)
	}
}

// TestAnotherEngine: nothing is shared with what another engine computed, so that
// the one that a manifest names has computed all of it.
func TestAnotherEngine(t *testing.T) {
	const groups = 20_000
	g := newGrowing(t, vfs.NewMem(), "state", groups)
	fsys, r := vfs.NewMem(), rng(t)
	for i, engine := range []string{"duckdb v1", "duckdb v1", "duckdb v2", "duckdb v2"} {
		m, _ := g.checkpoint(t, fsys, dir, Options{Engine: engine})
		if again := i%2 == 1; m.Engine != engine || m.Views[0].Whole() == again || (m.BasedOn != nil) != again {
			t.Errorf("checkpoint %d of %s: engine %q, %d parts, based on %+v", m.Checkpoint, engine, m.Engine, len(m.Views[0].Parts), m.BasedOn)
		}
		g.some(t, r, groups, groups/100)
	}
	m, _ := g.checkpoint(t, fsys, dir, Options{Engine: "duckdb v2"})
	c, err := Open(fsys, Path(fsys, dir, m.Checkpoint))
	must(t, err)
	if c.Manifest.Engine != m.Engine {
		t.Errorf("read as of engine %q", c.Manifest.Engine)
	}
}

// BenchmarkIncremental writes a whole checkpoint, one after 1 % of the groups
// changed, compacts it and restores it, on the disk, while a commit goes on every
// 20 ms.
func BenchmarkIncremental(b *testing.B) {
	groups := *benchIncremental
	root := b.TempDir()
	g := newGrowing(b, vfs.Default, root+"/state", groups)
	r := rand.New(rand.NewPCG(1, 1))
	dir := root + "/checkpoints"
	base := heap()
	for b.Loop() {
		quiet := g.commits(b, 20_000_000, func() { <-time.After(5 * time.Second) })
		var first, second *Manifest
		var full, delta time.Duration
		peak := watchHeap()
		fullDelay := g.commits(b, 20_000_000, func() { first, full = g.checkpoint(b, vfs.Default, dir, Options{Rest: 1, Whole: true}) })
		b.ReportMetric(float64(peak()-base)/1e6, "full-peak-MB")
		g.some(b, r, groups, groups/100)
		peak = watchHeap()
		deltaDelay := g.commits(b, 20_000_000, func() { second, delta = g.checkpoint(b, vfs.Default, dir, Options{Rest: 1}) })
		b.ReportMetric(float64(peak()-base)/1e6, "delta-peak-MB")
		parts := second.Views[0].Parts
		if len(parts) != 2 {
			b.Fatalf("%d parts", len(parts))
		}
		from := time.Now()
		_, err := Compact(b.Context(), vfs.Default, dir, second.Checkpoint, Options{})
		must(b, err)
		compact := time.Since(from)
		from = time.Now()
		peak = watchHeap()
		_, err = Restore(b.Context(), Path(vfs.Default, dir, second.Checkpoint), root+"/restored", state.Options{})
		must(b, err)
		restore := time.Since(from)
		b.ReportMetric(float64(peak()-base)/1e6, "restore-peak-MB")
		must(b, os.RemoveAll(root+"/restored"))
		b.ReportMetric(float64(first.Bytes())/float64(groups), "B/group")
		b.ReportMetric(100*float64(parts[1].Bytes)/float64(first.Bytes()), "delta-%")
		for name, d := range map[string]time.Duration{"full-s": full, "delta-s": delta, "compact-s": compact, "restore-s": restore} {
			b.ReportMetric(d.Seconds(), name)
		}
		for name, d := range map[string]time.Duration{"quiet-commit-ms": quiet, "full-commit-ms": fullDelay, "delta-commit-ms": deltaDelay} {
			b.ReportMetric(float64(d.Microseconds())/1e3, name)
		}
	}
	b.ReportMetric(0, "ns/op")
}

// commits commits a few groups every 20 ms while f runs, and says how long the
// longest commit took, its fold included. The groups are those from first on, so
// that the view does not change by more than them.
func (g *growing) commits(b *testing.B, first int64, f func()) (longest time.Duration) {
	stop, done := make(chan struct{}), sync.WaitGroup{}
	done.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			from := time.Now()
			g.fold(b, 100, func(i int) int64 { return (first + int64(i)) * 1_000_003 })
			if _, err := g.s.Commit(b.Context()); err != nil {
				b.Error(err)
			}
			longest = max(longest, time.Since(from))
		}
	})
	f()
	close(stop)
	done.Wait()
	return longest
}

func heap() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

// watchHeap gives the greatest heap until it is asked.
func watchHeap() (peak func() int64) {
	stop, most := make(chan struct{}), make(chan int64)
	go func() {
		n := int64(0)
		for {
			n = max(n, heap())
			select {
			case <-stop:
				most <- n
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() int64 { close(stop); return <-most }
}
