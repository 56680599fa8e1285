package decode

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// events are documents of 8 fields and about 200 bytes, as a shop's checkout
// would send them.
func events(n int) (docs [][]byte) {
	r := rand.New(rand.NewPCG(1, 2))
	cities := []string{"Paris", "Berlin", "Amsterdam", "Rome", "Madrid", "Lisbon", "Vienna"}
	for i := range n {
		docs = append(docs, fmt.Appendf(nil,
			`{"order_id":%d,"user":"u-%08x","country":"%c%c","city":"%s","amount":%d.%02d,"status":"shipped","ts":%d,"session":"%016x-%016x-%08x"}`,
			1e9+i, r.Uint32(), 'A'+r.IntN(26), 'A'+r.IntN(26), cities[r.IntN(len(cities))], r.IntN(1000), r.IntN(100),
			1707225270445+i, r.Uint64(), r.Uint64(), r.Uint32()))
	}
	return docs
}

var fourOfEight = []string{"order_id BIGINT", "country VARCHAR", "amount DECIMAL(12,2)", "ts BIGINT"}

func benchmark(b *testing.B, columns []string, docs [][]byte) {
	mem := NewPool(memory.NewGoAllocator())
	d, err := NewJSON(fields(columns...), Options{Mem: mem})
	if err != nil {
		b.Fatal(err)
	}
	size := 0
	for _, doc := range docs {
		size += len(doc)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	best := time.Duration(math.MaxInt64) // of a batch: the machine may be shared
	for b.Loop() {
		start := time.Now()
		for _, doc := range docs {
			if err := d.Append(doc); err != nil {
				b.Fatal(err)
			}
		}
		d.Batch().Release()
		best = min(best, time.Since(start))
	}
	b.ReportMetric(float64(best.Nanoseconds())/float64(len(docs)), "best-ns/doc")
	b.ReportMetric(float64(size)*1e3/float64(best.Nanoseconds()), "best-MB/s")
}

func BenchmarkFourOfEight(b *testing.B) { benchmark(b, fourOfEight, events(1024)) }

func BenchmarkNone(b *testing.B) { benchmark(b, nil, events(1024)) }

func BenchmarkTimestamp(b *testing.B) {
	docs := events(1024)
	for i, doc := range docs {
		docs[i] = append(doc[:len(doc)-1], `,"placed_at":"2026-11-29T18:00:00.123Z"}`...)
	}
	benchmark(b, append(fourOfEight[:len(fourOfEight):len(fourOfEight)], "placed_at TIMESTAMP"), docs)
}

// orders are documents with parts, of about 330 bytes.
func orders(n int) (docs [][]byte) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		docs = append(docs, fmt.Appendf(nil,
			`{"order_id":%d,"customer":{"id":%d,"name":"Jonas López","country":"PL","tier":"silver"},"items":[{"sku":"SKU-%04d","qty":1,"price":139.41},{"sku":"SKU-%04d","qty":2,"price":28.89}],"city":"Warszawa","amount":%d.%02d,"currency":"EUR","status":"paid","placed_at":"2026-11-28T18:%02d:00.468Z"}`,
			218052000001+i, r.IntN(50000), r.IntN(600), r.IntN(600), r.IntN(1000), r.IntN(100), r.IntN(60)))
	}
	return docs
}

func BenchmarkNestedSkipped(b *testing.B) {
	benchmark(b, []string{"city VARCHAR", "amount DECIMAL(12,2)"}, orders(1024))
}

func BenchmarkNestedWanted(b *testing.B) {
	benchmark(b, []string{
		"customer STRUCT(id BIGINT, name VARCHAR, country VARCHAR, tier VARCHAR)",
		"items STRUCT(sku VARCHAR, qty INTEGER, price DECIMAL(10,2))[]", "placed_at TIMESTAMP",
	}, orders(1024))
}

// BenchmarkMixed has documents of two kinds, spaced out, with fields that come
// and go.
func BenchmarkMixed(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	var docs [][]byte
	for i, doc := range events(1024) {
		if r.IntN(2) == 0 {
			doc = bytes.ReplaceAll(doc, []byte(`,"`), []byte(`, "`))
		}
		for _, f := range []string{`"status":"shipped",`, `"city":"Paris",`} {
			if r.IntN(2) == 0 {
				doc = bytes.Replace(doc, []byte(f), nil, 1)
			}
		}
		if i%3 == 0 {
			doc = fmt.Appendf(nil, `{"kind":"refund","order_id":%d,"amount":-%d.50,"note":"sent back by the customer, box open"}`, i, r.IntN(100))
		}
		docs = append(docs, doc)
	}
	benchmark(b, fourOfEight, docs)
}
