package export_test

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/export"
	"weir/state/sqltype"
)

// groups is a reader of n made-up groups of a view, in batches of a checkpoint's
// size.
type groups struct {
	array.RecordReader
	schema *arrow.Schema
	n, at  int
	rec    arrow.RecordBatch
}

func (g *groups) Schema() *arrow.Schema          { return g.schema }
func (g *groups) RecordBatch() arrow.RecordBatch { return g.rec }
func (g *groups) Err() error                     { return nil }

func (g *groups) Next() bool {
	if g.rec != nil {
		g.rec.Release()
		g.rec = nil
	}
	if g.at == g.n {
		return false
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, g.schema)
	defer b.Release()
	for range min(8192, g.n-g.at) {
		x := uint64(g.at) * 0x9e3779b97f4a7c15
		b.Field(0).(*array.StringBuilder).Append("customer-" + strconv.FormatUint(x>>40, 10))
		b.Field(1).(*array.Int64Builder).Append(int64(x >> 54))
		b.Field(2).(*array.Decimal128Builder).Append(decimal128.FromU64(x >> 44))
		b.Field(3).(*array.Float64Builder).Append(float64(x>>50) / 3)
		b.Field(4).(*array.TimestampBuilder).Append(arrow.Timestamp(1764000000000000 + x>>30))
		g.at++
	}
	g.rec = b.NewRecordBatch()
	return true
}

type sink int64

func (s *sink) Write(p []byte) (int, error) {
	*s += sink(len(p))
	return len(p), nil
}

// BenchmarkParquet writes 500,000 groups of five columns an op.
func BenchmarkParquet(b *testing.B) {
	const n = 500_000
	var columns []sqltype.Field
	var fields []arrow.Field
	for i, t := range []string{"VARCHAR", "BIGINT", "DECIMAL(38,2)", "DOUBLE", "TIMESTAMP"} {
		c := sqltype.Field{Name: "c" + strconv.Itoa(i), Type: sqltype.MustParse(t)}
		columns, fields = append(columns, c), append(fields, c.Type.FileField(c.Name))
	}
	var size sink
	for b.Loop() {
		size = 0
		if _, err := export.Parquet(b.Context(), &size, columns, &groups{schema: arrow.NewSchema(fields, nil), n: n}, export.Options{}); err != nil {
			b.Fatal(err)
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(size)/n, "bytes/group")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/group")
	b.ReportMetric(float64(m.HeapSys)/(1<<20), "heap-MB")
}
