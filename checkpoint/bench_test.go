package checkpoint

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/state"
	"weir/state/agg"
	"weir/state/plan"
	"weir/state/sqltype"
)

const benchGroups = 1 << 20

// benchPlan is a view with a BIGINT key, a count and a DECIMAL sum.
func benchPlan() plan.View {
	typ := sqltype.MustParse
	return plan.View{
		Name: "by_id", Keys: []plan.Key{{Name: "id", Type: typ("BIGINT")}},
		Accs: []plan.Accumulator{
			{Acc: agg.Acc{Name: "__count", Type: typ("BIGINT"), Rule: agg.Add}}, {Acc: agg.Acc{Name: "__sum_amount", Type: typ("DECIMAL(38,2)"), Rule: agg.Add}},
		},
		Results: []plan.Result{
			{Name: "id", Type: typ("BIGINT"), Key: 0, Acc: -1}, {Name: "n", Type: typ("BIGINT"), Key: -1, Acc: 0}, {Name: "revenue", Type: typ("DECIMAL(38,2)"), Key: -1, Acc: 1},
		},
	}
}

// benchFake is the view with a million groups.
func benchFake() *fake {
	p := benchPlan()
	f := newFake()
	f.catalog.Views = []state.View{{ID: 1, Plan: p, Source: 1, Cursor: 1}}
	f.rows = map[state.ViewID][]arrow.RecordBatch{}
	schema := scanSchema(&p)
	for at := range benchGroups / batchRows {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for i := range batchRows {
			n := at*batchRows + i
			b.Field(0).(*array.Int64Builder).Append(int64(n) * 7919 % benchGroups)
			b.Field(1).(*array.Int64Builder).Append(int64(n%97 + 1))
			b.Field(2).(*array.Decimal128Builder).Append(decimal128.FromI64(int64(n) * 1299709 % 10_000_000))
			b.Field(3).(*array.Uint16Builder).Append(uint16(n / (benchGroups / state.Slots)))
			b.Field(4).(*array.Uint64Builder).Append(uint64(900 + n%100))
			b.Field(5).AppendNull()
		}
		f.rows[1] = append(f.rows[1], b.NewRecordBatch())
	}
	return f
}

func BenchmarkWrite(b *testing.B) {
	f := benchFake()
	dir := b.TempDir()
	var size int64
	for b.Loop() {
		f.records++
		m, err := Write(b.Context(), vfs.Default, dir, f, nil, Options{})
		if err != nil {
			b.Fatal(err)
		}
		size = m.Views[0].File.Bytes
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchGroups, "ns/group")
	b.ReportMetric(float64(size)/benchGroups, "B/group")
}

func BenchmarkScan(b *testing.B) {
	f, fsys := benchFake(), vfs.NewMem()
	if _, err := Write(b.Context(), fsys, "c", f, nil, Options{}); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		from, to int
	}{{"all", 0, 256}, {"one slot", 77, 78}} {
		b.Run(c.name, func(b *testing.B) {
			ck, err := Open(fsys, Path(fsys, "c", 1))
			if err != nil {
				b.Fatal(err)
			}
			t, err := ck.Table("by_id")
			if err != nil {
				b.Fatal(err)
			}
			defer t.Close()
			var rows int64
			for b.Loop() {
				r, err := t.Scan(b.Context(), state.ScanRequest{FromSlot: c.from, ToSlot: c.to})
				if err != nil {
					b.Fatal(err)
				}
				for r.Next() {
					rows += r.RecordBatch().NumRows()
				}
				if err := r.Err(); err != nil {
					b.Fatal(err)
				}
				r.Release()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/group")
		})
	}
}
