package state

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/agg"
	"weir/state/plan"
)

// cpu is the processor time of the process so far, Pebble's background work
// included; it says more than the clock on a busy machine.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

const benchGroups, benchBatch = 1_000_000, 32_768

// benchView is GROUP BY one key with count(*) and sum of an integer.
func benchView(typ string) plan.View {
	return plan.View{Name: "v", Source: "orders", Keys: []plan.Key{key("k", typ)}, Accs: []plan.Accumulator{
		acc("__count", agg.Add, "BIGINT"), acc("__sum", agg.Add, "HUGEINT"),
	}}
}

// benchRows are partials of n uniform keys.
func benchRows(typ string, n int, pick func(i int) int64) arrow.RecordBatch {
	v := benchView(typ)
	var fields []arrow.Field
	for _, c := range v.StateColumns() {
		fields = append(fields, c.Type.InsideField(c.Name))
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for i := range n {
		switch k := b.Field(0).(type) {
		case *array.Int64Builder:
			k.Append(pick(i))
		case *array.StringBuilder:
			k.Append(fmt.Sprintf("user-%d", pick(i)))
		}
		b.Field(1).(*array.Int64Builder).Append(int64(i%3 + 1))
		b.Field(2).(*array.FixedSizeBinaryBuilder).Append(hugeint(int64(i % 1000)))
	}
	return b.NewRecordBatch()
}

type bench struct {
	dir   string
	s     *Store
	fold  func(arrow.RecordBatch)
	batch []arrow.RecordBatch // uniform
	view  ViewID
}

func newBench(b *testing.B, typ string, o Options) *bench {
	n := &bench{dir: b.TempDir()}
	n.open(b, o)
	_, err := n.s.CreateSource(Source{Name: "orders"})
	do(b, err)
	n.view, err = n.s.CreateView("", benchView(typ), false, nil)
	do(b, err)
	r := rand.New(rand.NewPCG(1, 1))
	for range 8 {
		n.batch = append(n.batch, benchRows(typ, benchBatch, func(int) int64 { return r.Int64N(benchGroups) }))
	}
	for at := 0; at < benchGroups; at += benchBatch {
		n.fold(benchRows(typ, min(benchBatch, benchGroups-at), func(i int) int64 { return int64(at + i) }))
	}
	_, err = n.s.Commit(b.Context())
	do(b, err)
	do(b, n.s.db.Compact(b.Context(), []byte{0}, []byte{0xff}, false)) // so that it does not run meanwhile
	return n
}

func (n *bench) open(b *testing.B, o Options) {
	s, err := Open(n.dir, o)
	do(b, err)
	n.s = s
	n.fold = func(rows arrow.RecordBatch) {
		v := s.Catalog().Views[0]
		do(b, s.Fold(b.Context(), Fold{Cursor: v.Cursor, Records: rows.NumRows(), Partials: []Partial{{v.ID, rows}}}))
	}
	b.Cleanup(func() { _ = s.Close() })
}

// Uniform keys over a million groups, all resident.
func BenchmarkFold(b *testing.B) {
	for _, typ := range []string{"BIGINT", "VARCHAR"} {
		b.Run(typ, func(b *testing.B) {
			n := newBench(b, typ, Options{Memory: 1 << 30})
			rows, from := 0, cpu()
			for b.Loop() {
				n.fold(n.batch[rows/benchBatch%len(n.batch)])
				rows += benchBatch
			}
			b.ReportMetric(float64(cpu()-from)/float64(rows), "cpu-ns/row")
			b.ReportMetric(float64(n.s.views[n.view].table.bytes())/benchGroups, "memory-B/group")
		})
	}
}

// Every group is read from disk.
func BenchmarkFoldMiss(b *testing.B) {
	n := newBench(b, "BIGINT", Options{Memory: 1 << 30})
	rows, spent := 0, time.Duration(0)
	v := n.s.views[n.view]
	for b.Loop() {
		_, err := n.s.Commit(b.Context())
		do(b, err)
		v.table = newTable(v.layout)
		from := cpu()
		n.fold(n.batch[rows/benchBatch%len(n.batch)])
		spent += cpu() - from
		rows += benchBatch
	}
	b.ReportMetric(float64(spent)/float64(rows), "cpu-ns/row")
}

// A commit of what one batch of uniform keys touched.
func BenchmarkCommit(b *testing.B) {
	n := newBench(b, "BIGINT", Options{Memory: 1 << 30})
	groups, lock, spent := 0, time.Duration(0), time.Duration(0)
	for i := 0; b.Loop(); i++ {
		for j := range 2 {
			n.fold(n.batch[(2*i+j)%len(n.batch)])
		}
		groups += len(n.s.views[n.view].table.dirty)
		var from time.Duration
		n.s.o.Hook = func(p string) {
			switch p {
			case PointCommit:
				from = cpu()
			case PointCut:
				lock += cpu() - from
			}
		}
		start := cpu()
		_, err := n.s.Commit(b.Context())
		do(b, err)
		spent += cpu() - start
	}
	b.ReportMetric(float64(spent)/float64(groups), "cpu-ns/group")
	b.ReportMetric(float64(lock)/float64(groups), "locked-cpu-ns/group")
	do(b, n.s.db.Compact(b.Context(), []byte{0}, []byte{0xff}, false))
	lower, upper := viewSpan(n.view, 0, Slots)
	disk, err := n.s.db.EstimateDiskUsage(lower, upper)
	do(b, err)
	b.ReportMetric(float64(disk)/benchGroups, "disk-B/group")
}

// What the change index adds to a commit: every group that one changes is new
// to it, or it is full.
func BenchmarkCommitChanges(b *testing.B) {
	for _, recorded := range []bool{false, true} {
		b.Run(fmt.Sprintf("recorded=%v", recorded), func(b *testing.B) {
			n := newBench(b, "BIGINT", Options{Memory: 1 << 30})
			groups, spent := 0, time.Duration(0)
			for i := 0; b.Loop(); i++ {
				if recorded {
					_, err := n.s.Mark(b.Context())
					do(b, err)
					do(b, n.s.Trim(n.s.Epoch()))
				}
				from := cpu()
				for j := range 2 {
					n.fold(n.batch[(2*i+j)%len(n.batch)])
				}
				groups += len(n.s.views[n.view].table.dirty)
				_, err := n.s.Commit(b.Context())
				do(b, err)
				spent += cpu() - from
				if (n.s.views[n.view].recorded.keys > 0) != recorded {
					b.Fatal("not what is to be measured")
				}
			}
			b.ReportMetric(float64(spent)/float64(groups), "cpu-ns/group")
		})
	}
}

// Three columns of every group.
func BenchmarkScan(b *testing.B) {
	n := newBench(b, "BIGINT", Options{Memory: 1 << 30})
	sn, err := n.s.Snapshot()
	do(b, err)
	defer sn.Close()
	rows, from := int64(0), cpu()
	for b.Loop() {
		r, err := sn.Scan(b.Context(), ScanRequest{View: n.view})
		do(b, err)
		for r.Next() {
			rows += r.RecordBatch().NumRows()
		}
		do(b, r.Err())
		r.Release()
	}
	b.ReportMetric(float64(rows)/(cpu()-from).Seconds()/1e6, "Mrows/cpu-s")
}

// One group by its key.
func BenchmarkGet(b *testing.B) {
	n := newBench(b, "BIGINT", Options{Memory: 1 << 30})
	sn, err := n.s.Snapshot()
	do(b, err)
	defer sn.Close()
	r := rand.New(rand.NewPCG(2, 2))
	for b.Loop() {
		k := array.NewInt64Builder(memory.DefaultAllocator)
		k.Append(r.Int64N(benchGroups))
		rows, err := sn.Scan(b.Context(), ScanRequest{View: n.view, Filters: []Filter{{Column: 0, In: k.NewArray()}}, BatchRows: 1})
		do(b, err)
		if !rows.Next() {
			b.Fatal("not found", rows.Err())
		}
		rows.Release()
	}
}
