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
