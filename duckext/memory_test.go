//go:build duckdb_arrow

package duckext

import (
	"bytes"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
)

// flat fails the test when each of some rounds of a run takes more memory than limit:
// a leak takes it every time, while the allocators and the kernel take it now and then.
func flat(t testing.TB, what string, limit int, size func() int, run func()) {
	t.Helper()
	run() // caches fill
	var grown []int
	for range 6 {
		before := size()
		run()
		by := size() - before
		if by <= limit {
			return
		}
		grown = append(grown, by>>10)
	}
	t.Errorf("%s grows by %d KiB, run after run", what, grown)
}

// residentBytes is the process's anonymous memory once garbage is gone.
func residentBytes(t testing.TB) int {
	t.Helper()
	runtime.GC()
	debug.FreeOSMemory()
	return anonymous(t, os.Getpid())
}

func anonymous(t testing.TB, pid int) int {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(b, []byte("RssAnon:"))
	kb, err := strconv.Atoi(string(bytes.Fields(rest)[0]))
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}
