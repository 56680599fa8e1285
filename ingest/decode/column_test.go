package decode

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/sqltype"
)

// TestColumnByHand builds what the pipeline builds: the headers of records.
func TestColumnByHand(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	defer mem.AssertSize(t, 0)
	pool := NewPool(mem)
	defer pool.Close()
	c := NewColumn(sqltype.MustParse("STRUCT(key VARCHAR, value BLOB)[]"), pool)
	defer c.Release()
	for i := range 3 {
		for j := range i {
			if err := c.Child(0).Child(0).Bytes(fmt.Appendf(nil, "k%d", j)); err != nil {
				t.Fatal(err)
			}
			c.Child(0).Child(1).Null()
			if err := c.Child(0).Nested(); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Nested(); err != nil {
			t.Fatal(err)
		}
	}
	c.Null()
	a := c.Array()
	defer a.Release()
	var got []string
	for i := range a.Len() {
		got = append(got, a.ValueStr(i))
	}
	want := `[] [{"key":"k0","value":null}] [{"key":"k0","value":null},{"key":"k1","value":null}] (null)`
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got %s, want %s", s, want)
	}
	if c.Len() != 0 {
		t.Errorf("%d values left behind", c.Len())
	}
}

// TestValidity sets every pattern of NULLs around the edges of bytes.
func TestValidity(t *testing.T) {
	pool := NewPool(memory.NewGoAllocator())
	for n := range 20 {
		for from := range n + 1 {
			c := NewColumn(sqltype.MustParse("SMALLINT"), pool)
			for i := range n + 3 {
				if i >= from && i%3 != 1 && i < n {
					c.Null()
				} else {
					c.Int(int64(i))
				}
			}
			c.truncate(n)
			a := c.Array()
			nulls := 0
			for i := range n {
				if null := i >= from && i%3 != 1; a.IsNull(i) != null {
					t.Fatalf("%d values, NULL from %d: value %d", n, from, i)
				} else if null {
					nulls++
				}
			}
			if a.NullN() != nulls || a.Len() != n {
				t.Fatalf("%d values, %d NULL, want %d and %d", a.Len(), a.NullN(), n, nulls)
			}
			a.Release()
		}
	}
}

// TestBatchesOnOtherGoroutines releases batches while the next are built.
func TestBatchesOnOtherGoroutines(t *testing.T) {
	d := newJSON(t, "i INTEGER", "s VARCHAR", "l INTEGER[]")
	batches := make(chan arrow.RecordBatch, 4)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for b := range batches {
				first, _, _ := strings.Cut(show(b, 0), " ")
				if last := show(b, 99); last != fmt.Sprintf("%s | 99 | [%s,99]", first, first) {
					t.Errorf("got %s", last)
				}
				b.Release()
			}
		})
	}
	for n := range 200 {
		for i := range 100 {
			if err := d.Append(fmt.Appendf(nil, `{"i":%d,"s":"%d","l":[%d,%d]}`, n, i, n, i)); err != nil {
				t.Fatal(err)
			}
		}
		batches <- d.Batch()
	}
	close(batches)
	wg.Wait()
}

func TestPool(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	p := NewPool(mem)
	a := p.Allocate(100)
	if len(a) != 100 || cap(a) != 128 {
		t.Errorf("%d of %d bytes", len(a), cap(a))
	}
	a[99] = 7
	if a = p.Reallocate(120, a); len(a) != 120 || a[99] != 7 {
		t.Errorf("%d bytes, %d", len(a), a[99])
	}
	if a = p.Reallocate(1000, a); len(a) != 1000 || a[99] != 7 {
		t.Errorf("%d bytes, %d", len(a), a[99])
	}
	p.Free(a[:10])
	if b := p.Allocate(513); &b[0] != &a[0] {
		t.Error("the freed block was not used again")
	} else {
		a = b
	}
	huge := p.Allocate(1<<largest + 1)
	before := mem.CurrentAlloc()
	if p.Free(huge); mem.CurrentAlloc() >= before {
		t.Error("a huge block was kept")
	}
	p.Close()
	p.Free(a)
	mem.AssertSize(t, 0)
}

// TestHugeBatchIsForgotten: after one batch of many rows, small ones must not
// hold its memory for ever.
func TestHugeBatchIsForgotten(t *testing.T) {
	c := NewColumn(sqltype.MustParse("VARCHAR"), NewPool(memory.NewGoAllocator()))
	if err := c.Bytes(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	c.Array().Release()
	for range 100 {
		if err := c.Bytes([]byte("x")); err != nil {
			t.Fatal(err)
		}
		c.Array().Release()
	}
	if err := c.Bytes([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if n := len(c.data); n > 1024 {
		t.Errorf("%d bytes for one", n)
	}
	c.Release()
}

// TestLargeObjects: the keys of a document are compared in less than quadratic
// time, or this takes minutes.
func TestLargeObjects(t *testing.T) {
	var doc strings.Builder
	doc.WriteString(`{"m":{`)
	const n = 200_000
	for i := range n {
		fmt.Fprintf(&doc, `"k%d":%d,`, i, i)
	}
	whole := doc.String()
	d := newJSON(t, "m MAP(VARCHAR, INTEGER)")
	if err := d.Append([]byte(whole + `"last":1}}`)); err != nil {
		t.Error(err)
	}
	if err := d.Append([]byte(whole + `"k17":1}}`)); err == nil || !strings.Contains(err.Error(), "a key stands twice") {
		t.Errorf("got %v", err)
	}
	if err := d.Append([]byte(strings.Replace(whole, `{"m":{`, `{`, 1) + `"m":{}}`)); err != nil {
		t.Error(err)
	}
	if d.Len() != 2 {
		t.Errorf("%d rows", d.Len())
	}
}
