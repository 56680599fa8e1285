//go:build duckdb_arrow

package duckext

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cpu is the processor time of this process and of the pool's, in clock ticks
// of 10 ms for the latter.
func cpu(t testing.TB, p *Pool) time.Duration {
	t.Helper()
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ru.Utime.Nano()+ru.Stime.Nano()) + cpuOfChildren(t, p)
}

func cpuOfChildren(t testing.TB, p *Pool) (sum time.Duration) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.live {
		b, err := os.ReadFile("/proc/" + pidOf(c) + "/stat")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		f := strings.Fields(rest)
		user, _ := strconv.Atoi(f[11])
		sys, _ := strconv.Atoi(f[12])
		sum += time.Duration(user+sys) * 10 * time.Millisecond
	}
	return sum
}
