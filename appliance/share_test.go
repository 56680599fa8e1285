package appliance

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// numbers is a reader of batches of one number each, 0 to n-1.
func numbers(t *testing.T, mem memory.Allocator, n int64) array.RecordReader {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil)
	b := array.NewRecordBuilder(mem, schema)
	defer b.Release()
	var recs []arrow.RecordBatch
	for i := range n {
		b.Field(0).(*array.Int64Builder).Append(i)
		rec := b.NewRecordBatch()
		defer rec.Release()
		recs = append(recs, rec)
	}
	rd, err := array.NewRecordReader(schema, recs)
	if err != nil {
		t.Fatal(err)
	}
	return rd
}

// count reads the rest of a reader, which must go on with next.
func count(t *testing.T, rd array.RecordReader, next int64) (n int64) {
	t.Helper()
	for rd.Next() {
		if got := rd.RecordBatch().Column(0).(*array.Int64).Value(0); got != next+n {
			t.Fatalf("batch %d is %d", next+n, got)
		}
		n++
	}
	return n
}

func TestScansAreShared(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(t, 0)
	s := newSharing(1000)
	opened := 0
	open := func(context.Context) (array.RecordReader, error) {
		opened++
		return numbers(t, mem, 10), nil
	}
	read := func(ctx context.Context, key string, size int64) array.RecordReader {
		rd, err := s.read(ctx, sharedKey{key, 1}, size, open)
		if err != nil {
			t.Fatal(err)
		}
		return rd
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := read(ctx, "a", 600)
	for range 4 {
		first.Next()
	}
	second := read(t.Context(), "a", 600)
	if opened != 1 {
		t.Fatalf("%d scans for one key", opened)
	}
	second.Next()
	cancel()
	if first.Next() || !errors.Is(first.Err(), context.Canceled) {
		t.Errorf("a cancelled reader: %v", first.Err())
	}
	first.Release()
	if n := count(t, second, 1); n != 9 || second.Err() != nil {
		t.Errorf("the other reader had %d more batches of 9, %v", n, second.Err())
	}

	other := read(t.Context(), "b", 600) // more than may be held together
	if third := read(t.Context(), "b", 600); opened != 3 {
		t.Errorf("%d scans, not 3: one too large was shared", opened)
	} else {
		third.Release()
	}
	if n := count(t, other, 0); n != 10 {
		t.Errorf("a scan alone had %d batches of 10", n)
	}
	other.Release()
	second.Release()
	if s.held != 0 || len(s.open) != 0 {
		t.Errorf("%d bytes and %d scans are kept when all have left", s.held, len(s.open))
	}
	again := read(t.Context(), "a", 600)
	if opened != 4 {
		t.Error("a scan that all had left was shared")
	}
	again.Release()
}

func TestSharedScansTakeTurns(t *testing.T) {
	s := newSharing(1000)
	for range cap(s.turns) {
		s.turns <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	rd, err := s.read(ctx, sharedKey{"a", 1}, 1, func(context.Context) (array.RecordReader, error) { return numbers(t, memory.DefaultAllocator, 1), nil })
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Release()
	cancel()
	if rd.Next() {
		t.Error("a scan went on without its turn")
	}
	<-s.turns
	if rd.Next() || !errors.Is(rd.Err(), context.Canceled) {
		t.Errorf("after it was cancelled: %v", rd.Err())
	}
}

// A scan waits for an older one of the same to end, and no others do.
func TestScansAwaitOlderOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(1000)
		open := func(context.Context) (array.RecordReader, error) { return numbers(t, memory.DefaultAllocator, 3), nil }
		read := func(what string, epoch uint64) array.RecordReader {
			rd, err := s.read(t.Context(), sharedKey{what, epoch}, 10, open)
			if err != nil {
				t.Fatal(err)
			}
			return rd
		}
		newest := uint64(1)
		await := func(ctx context.Context, what string) time.Duration {
			from := time.Now()
			s.await(ctx, what, func() uint64 { return newest }, time.Second)
			return time.Since(from)
		}
		if d := await(t.Context(), "a"); d != 0 {
			t.Errorf("waited %v for nothing", d)
		}
		first := read("a", 1)
		if d := await(t.Context(), "a"); d != 0 {
			t.Errorf("waited %v for a scan that can be shared", d)
		}
		newest = 2
		if d := await(t.Context(), "b"); d != 0 {
			t.Errorf("waited %v for a scan of something else", d)
		}
		if d := await(t.Context(), "a"); d != time.Second {
			t.Errorf("waited %v, not as long as patience", d)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if d := await(short, "a"); d != time.Millisecond {
			t.Errorf("waited %v, not until it was cancelled", d)
		}
		go func() {
			time.Sleep(300 * time.Millisecond)
			count(t, first, 0)
		}()
		if d := await(t.Context(), "a"); d != 300*time.Millisecond {
			t.Errorf("waited %v, not until the other had read all", d)
		}
		synctest.Wait()
		first.Release()

		left := read("a", 2)
		newest = 3
		go func() {
			time.Sleep(200 * time.Millisecond)
			left.Release()
		}()
		if d := await(t.Context(), "a"); d != 200*time.Millisecond {
			t.Errorf("waited %v, not until the other had left", d)
		}
	})
}

// A failed scan tells all its readers.
func TestSharedScanFails(t *testing.T) {
	s := newSharing(1000)
	broken := errors.New("broken")
	open := func(context.Context) (array.RecordReader, error) {
		return failingReader{numbers(t, memory.DefaultAllocator, 0), broken}, nil
	}
	for range 2 {
		rd, err := s.read(t.Context(), sharedKey{"a", 1}, 1, open)
		if err != nil {
			t.Fatal(err)
		}
		defer rd.Release()
		if rd.Next() || !errors.Is(rd.Err(), broken) {
			t.Errorf("got %v", rd.Err())
		}
	}
}

type failingReader struct {
	array.RecordReader
	err error
}

func (r failingReader) Next() bool { return false }
func (r failingReader) Err() error { return r.err }
