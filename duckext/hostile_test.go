//go:build duckdb_arrow

package duckext

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func pidOf(c *child) string { return strconv.Itoa(c.cmd.Process.Pid) }

func code(err error) string {
	if e, ok := errors.AsType[*QueryError](err); ok {
		return e.Code
	}
	return "none"
}

// A query may kill its process. Only it fails, and the next one is answered.
func TestCrashesCostOneQuery(t *testing.T) {
	c, _ := shop(10)
	p := openPool(t, c, PoolOptions{Size: 1})
	const sql = "SELECT json_structure(repeat('[', 100000) || repeat(']', 100000))"
	for i := range 3 {
		_, err := p.Query(t.Context(), Request{SQL: sql})
		if code(err) != CodeCrashed {
			t.Errorf("%s: %v", sql, err)
		}
		if got := answerOf(ask(t, p, "SELECT count(*) FROM v")); got != "10\n" {
			t.Errorf("after the crash: %s", got)
		}
		if n := p.Stats().Died; n != int64(i+1) {
			t.Errorf("%d processes died", n)
		}
	}
}

func TestDeadlineStopsWhatCannotBeInterrupted(t *testing.T) {
	c, _ := shop(10)
	p := openPool(t, c, PoolOptions{Size: 1})
	ask(t, p, "SELECT 1")
	for sql, codes := range map[string][]string{
		"WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r": {CodeTimeout, CodeMemory},
		"SELECT count(*) FROM range(1000000000000)":                                              {CodeTimeout},
		"SELECT length(repeat('x', 1000000000))":                                                 {CodeMemory, CodeTimeout, CodeFailed},
		"SELECT levenshtein(repeat('ab', 100000), repeat('ba', 100000))":                         {CodeTimeout},
		"SELECT list_sum(range(1000000000))":                                                     {CodeMemory, CodeTimeout, CodeFailed},
	} {
		start := time.Now()
		_, err := p.Query(t.Context(), Request{SQL: sql, Timeout: time.Second})
		if !slices.Contains(codes, code(err)) {
			t.Errorf("%s: %s: %v", sql, code(err), err)
		}
		// Interrupted at 1 s, killed half a second later, and slack for a slow machine.
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s: took %v", sql, took)
		}
		if got := answerOf(ask(t, p, "SELECT count(*) FROM v")); got != "10\n" {
			t.Errorf("after it: %s", got)
		}
	}
}

func TestKilledProcess(t *testing.T) {
	c, m := shop(10)
	p := openPool(t, c, PoolOptions{Size: 1})
	ask(t, p, "SELECT 1")
	for range 3 {
		m.block = true
		before := m.read.Load()
		done := make(chan error)
		go func() {
			_, err := p.Query(context.Background(), Request{SQL: "SELECT count(*) FROM v"})
			done <- err
		}()
		until(func() bool { return m.read.Load() >= before+1000 })
		p.mu.Lock()
		for child := range p.live {
			if err := child.cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
		p.mu.Unlock()
		if err := <-done; code(err) != CodeCrashed || !strings.Contains(err.Error(), "killed") {
			t.Errorf("%v", err)
		}
		m.block = false
		if got := answerOf(ask(t, p, "SELECT count(*) FROM v")); got != "10\n" {
			t.Errorf("after the kill: %s", got)
		}
		if m.open.Load() != 0 || c.leases.Load() != 0 {
			t.Error("readers or leases left")
		}
	}
}

// Without the gate the process's own limits must hold.
func TestSandboxWithoutTheGate(t *testing.T) {
	c, _ := shop(10)
	p := openPool(t, c, PoolOptions{Size: 1, MaxQueries: 1, noGate: true})
	secret := t.TempDir() + "/secret.csv"
	if err := os.WriteFile(secret, []byte("a,b\n1,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	for _, sql := range []string{
		"SELECT * FROM read_csv('" + secret + "')", "SELECT * FROM '" + secret + "'", "SELECT content FROM read_text('/etc/passwd')",
		"SELECT * FROM glob('/*')", "COPY (SELECT 1) TO '" + out + "/x.csv'", "ATTACH '" + out + "/x.db'", "EXPORT DATABASE '" + out + "/x'",
		"INSTALL httpfs", "LOAD httpfs", "SET memory_limit = '1TB'", "SET enable_external_access = true", "SET lock_configuration = false",
		"SET allowed_directories = ['/']", "SELECT * FROM query('SELECT * FROM read_text(''/etc/passwd'')')", "SELECT getenv('HOME')",
		"CREATE PERSISTENT SECRET s (TYPE http, BEARER_TOKEN 'x')", "SELECT * FROM enable_profiling(save_location = '" + out + "/p.json')",
		"SET log_query_path = '" + out + "/q.log'", "SELECT * FROM read_duckdb('" + out + "/x.db')",
	} {
		if res, err := p.Query(t.Context(), Request{SQL: sql}); err == nil {
			t.Errorf("%s: allowed: %s", sql, answerOf(res))
		}
	}
	// This one bricks its instance; the process is thrown away.
	_, _ = p.Query(t.Context(), Request{SQL: "SELECT * FROM enable_logging(storage = 'file', storage_path = '" + out + "/log')"})
	if got := answerOf(ask(t, p, "SELECT count(*) FROM v")); got != "10\n" {
		t.Error(got)
	}
	if left, _ := os.ReadDir(out); len(left) > 0 {
		t.Errorf("files were written: %v", left)
	}
}

func TestProcessIsConfined(t *testing.T) {
	c, _ := shop(10)
	p := openPool(t, c, PoolOptions{Size: 1})
	ask(t, p, "SELECT sum(k) FROM v")
	p.mu.Lock()
	defer p.mu.Unlock()
	for child := range p.live {
		proc := "/proc/" + pidOf(child)
		if env, err := os.ReadFile(proc + "/environ"); err != nil || len(env) > 0 {
			t.Errorf("environment: %q, %v", env, err)
		}
		if cwd, err := os.Readlink(proc + "/cwd"); err != nil || cwd != child.dir {
			t.Errorf("directory: %s, %v", cwd, err)
		}
		limits, err := os.ReadFile(proc + "/limits")
		if err != nil || !strings.Contains(string(limits), "Max core file size        0 ") || !underRace && !strings.Contains(string(limits), "Max address space         3221225472") {
			t.Errorf("limits: %s, %v", limits, err)
		}
		tasks, err := os.ReadDir(proc + "/task")
		if err != nil || len(tasks) < 2 {
			t.Fatal(tasks, err)
		}
		for _, task := range tasks {
			stat, err := os.ReadFile(proc + "/task/" + task.Name() + "/stat")
			if err != nil {
				continue // a thread may end
			}
			_, rest, _ := strings.Cut(string(stat), ") ")
			if nice := strings.Fields(rest)[16]; nice != strconv.Itoa(niceness) {
				t.Errorf("thread %s has priority %s", task.Name(), nice)
			}
		}
	}
}

func TestRecycling(t *testing.T) {
	c, _ := shop(10)
	p := openPool(t, c, PoolOptions{Size: 1, MaxQueries: 3})
	seen := map[string]bool{}
	for range 7 {
		ask(t, p, "SELECT count(*) FROM v")
		p.mu.Lock()
		for child := range p.live {
			seen[pidOf(child)] = true
		}
		p.mu.Unlock()
	}
	if len(seen) < 2 || p.Stats().Died != 0 {
		t.Errorf("%d processes, %d died", len(seen), p.Stats().Died)
	}
}

func TestThousandQueriesInFlatMemory(t *testing.T) {
	c, m := shop(2000)
	p := openPool(t, c, PoolOptions{Size: 1, MaxQueries: 1 << 30, Threads: 1})
	child := func() (size int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for ch := range p.live {
			size = anonymous(t, ch.cmd.Process.Pid)
		}
		return size
	}
	run := func(n int) {
		for i := range n {
			m.seen()
			if i%2 == 0 {
				ask(t, p, "SELECT k, name FROM v WHERE k = $1", i)
			} else {
				ask(t, p, "SELECT flag, sum(k), max(name) FROM v GROUP BY flag")
			}
		}
	}
	flat(t, "the parent of 300 queries", 5<<20, func() int { return residentBytes(t) }, func() { run(300) })
	flat(t, "the process of 300 queries", 6<<20, child, func() { run(300) })
}

func TestPoolWithoutProcesses(t *testing.T) {
	p := NewPool(PoolOptions{Command: []string{"/nonexistent/weir", "x"}, TempDir: t.TempDir()}, &memCatalog{})
	if _, err := p.Query(t.Context(), Request{SQL: "SELECT 1"}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.Query(t.Context(), Request{SQL: "SELECT 1"}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func BenchmarkQuery(b *testing.B) {
	c, m := shop(100_000)
	p := openPool(b, c, PoolOptions{Size: 1, MaxQueries: 1 << 30, Threads: 1})
	for _, q := range []struct {
		name, sql string
		params    []any
	}{
		{"constant", "SELECT 42", nil},
		{"key", "SELECT * FROM v WHERE k = 77777", nil},
		{"key_fresh", "SELECT * FROM v WHERE k = %d", nil},
		{"key_param", "SELECT * FROM v WHERE name = ?", []any{"the name of row 777"}},
		{"count_100k", "SELECT count(*) FROM v", nil},
		{"sum_100k", "SELECT sum(k), sum(amount) FROM v", nil},
		{"like_100k", "SELECT count(*) FROM v WHERE name LIKE '%77%'", nil},
	} {
		if strings.HasPrefix(q.name, "key") {
			m.only = 1 // the fake table searches linearly; leave that out
		} else {
			m.only = 0
		}
		b.Run(q.name, func(b *testing.B) {
			n := 0
			ask(b, p, strings.Replace(q.sql, "%d", "0", 1), q.params...)
			before, child := cpu(b, p), cpuOfChildren(b, p)
			for b.Loop() {
				m.seen()
				sql := q.sql
				if strings.Contains(sql, "%d") {
					n++
					sql = fmt.Sprintf(sql, n)
				}
				ask(b, p, sql, q.params...)
			}
			b.ReportMetric(float64((cpu(b, p)-before).Microseconds())/float64(b.N), "cpu-us/op")
			b.ReportMetric(float64((cpuOfChildren(b, p)-child).Microseconds())/float64(b.N), "child-cpu-us/op")
		})
	}
}

func BenchmarkProcessStart(b *testing.B) {
	c, _ := shop(1)
	p := openPool(b, c, PoolOptions{Size: 1})
	ask(b, p, "SELECT 1")
	for b.Loop() {
		child, err := p.start()
		if err != nil {
			b.Fatal(err)
		}
		p.discard(child)
	}
}
