package iceberg

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"weir/internal/testkit/faultfs"
)

// TestCrash fails every call that Export makes of the file system, one run each,
// alone or with all later ones, as a full disk does, and cuts the power right
// after: what was not synced is lost, or half of it at random. Whoever reads the
// table, by its highest version or by the hint, sees all of the old snapshot or
// all of the new one; the new one when Export said so. The next export succeeds
// and leaves nothing of the failed one. So it is for the first export to a
// directory, too.
func TestCrash(t *testing.T) {
	for _, first := range []bool{false, true} {
		for _, full := range []bool{false, true} {
			t.Run(fmt.Sprintf("first=%v/disk full=%v", first, full), func(t *testing.T) { testCrash(t, first, full) })
		}
	}
}

func testCrash(t *testing.T, first, full bool) {
	at, failed := 0, 0
	for ; ; at++ {
		mem := vfs.NewCrashableMem()
		before := ""
		if !first {
			if _, err := put(t, mem, Options{Keep: 2, Now: sampleTime}, []string{`"old"`, "1"}); err != nil {
				t.Fatal(err)
			}
			before, _ = newest(t, mem)
		}
		root, err := mem.OpenDir("/")
		if err != nil {
			t.Fatal(err)
		}
		if err := root.Sync(); err != nil {
			t.Fatal(err)
		}
		failing := &faultfs.FailAt{At: int64(at), Full: full}
		_, err = put(t, errorfs.Wrap(mem, failing), Options{Keep: 2, Now: sampleTime.Add(time.Hour)}, []string{`"new"`, "2"})
		if err != nil && !strings.Contains(err.Error(), "injected error") {
			t.Fatalf("call %d: %v", at, err)
		}
		for _, kept := range []int{0, 50} { // percent of the unsynced that survives
			crashed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: rand.New(rand.NewPCG(uint64(at), 3))})
			got, hinted := newest(t, crashed)
			for _, what := range []string{got, hinted} {
				if what != before && !strings.Contains(what, `"new"`) {
					t.Fatalf("call %d: a reader sees %q", at, what)
				}
			}
			if err == nil && (!strings.Contains(got, `"new"`) || !strings.Contains(hinted, `"new"`)) {
				t.Fatalf("call %d: Export succeeded, and the crash lost it: %q, %q", at, got, hinted)
			}
			if _, err := put(t, crashed, Options{Keep: 1}, []string{`"later"`, "3"}); err != nil {
				t.Fatalf("call %d: the next export: %v", at, err)
			}
			got, hinted = newest(t, crashed)
			if !strings.Contains(got, `"later"`) || got != hinted {
				t.Fatalf("call %d: after the next export %q, %q", at, got, hinted)
			}
			if n := list(t, crashed, "/t/data"); len(n) != 1 {
				t.Fatalf("call %d: leftovers %v", at, n)
			}
		}
		if !failing.Met() {
			break // fewer calls than that
		}
		if err != nil {
			failed++
		}
	}
	if failed < 25 {
		t.Fatalf("only %d of %d calls made an export fail", failed, at)
	}
}

// calling is a reader that calls a function before its rows, or fails after them.
type calling struct {
	array.RecordReader
	call func()
	err  error
}

// Next reads on.
func (c *calling) Next() bool {
	if c.call != nil {
		c.call()
		c.call = nil
	}
	return c.RecordReader.Next()
}

// Err is the failure.
func (c *calling) Err() error { return c.err }

func unmarshal(t testing.TB, b []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}
