package ingest

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Where every other record is refused, halves are not worth trying: a run for
// each record, and one more for each that is refused.
func TestManyRefusedRecords(t *testing.T) {
	const n = 4000
	var docs []string
	var bad []int64
	var want int64
	for i := range int64(n) {
		docs = append(docs, fmt.Sprintf(`{"n":%d}`, i))
		if i%2 == 0 {
			bad = append(bad, i)
		} else {
			want += i
		}
	}
	p := &adder{bad: bad}
	v, src := testView(p)
	o, err := v.evaluate(t.Context(), v.usual, fill(t, src, docs...), memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	defer o.release()
	if sums(o) != want || len(o.refused) != n/2 {
		t.Errorf("sum %d, want %d; refused %d", sums(o), want, len(o.refused))
	}
	for i, r := range o.refused {
		if r.Offset != 100+bad[i] || r.Reason != fmt.Sprintf("cannot cast %d", bad[i]) {
			t.Fatalf("refused %+v", r)
		}
	}
	if p.runs > n*17/10 {
		t.Errorf("%d runs for %d records", p.runs, n)
	}
}
