package recordbatch_test

import (
	"errors"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/internal/recordbatch"
)

// TestReader reads to the end, to an error, and not at all: every batch is released,
// free is called once, and nothing is asked for after the end.
func TestReader(t *testing.T) {
	broken := errors.New("broken")
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil)
	for name, c := range map[string]struct {
		read int   // how often Next is called
		end  error // after two batches
		want int
	}{"to the end": {9, nil, 2}, "to an error": {9, broken, 2}, "one": {1, nil, 1}, "none": {0, broken, 0}} {
		mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
		made, freed := 0, 0
		r := recordbatch.NewReader(schema, func() (arrow.RecordBatch, error) {
			if made++; made > 2 {
				return nil, c.end
			}
			b := array.NewRecordBuilder(mem, schema)
			defer b.Release()
			b.Field(0).(*array.Int64Builder).Append(int64(made))
			return b.NewRecordBatch(), nil
		}, func() { freed++ })
		r.Retain()
		got := 0
		for range c.read {
			if !r.Next() {
				continue
			}
			got++
			if n := r.RecordBatch().Column(0).(*array.Int64).Value(0); n != int64(got) || r.Record() != r.RecordBatch() {
				t.Errorf("%s: batch %d is %d", name, got, n)
			}
		}
		if want := c.end; c.read > 2 && !errors.Is(r.Err(), want) || got != c.want || made > 3 {
			t.Errorf("%s: %d batches of %d, asked %d times, %v", name, got, c.want, made, r.Err())
		}
		r.Release()
		if freed != 0 {
			t.Errorf("%s: freed while it is held", name)
		}
		r.Release()
		if freed != 1 || r.Next() || !r.Schema().Equal(schema) {
			t.Errorf("%s: freed %d times, or it goes on", name, freed)
		}
		mem.AssertSize(t, 0)
	}
}
