//go:build duckdb_arrow

package appliance

import (
	"flag"
	"os"
	"testing"
)

// TestMain makes the test binary the programs that the tests start: the tests
// themselves, the two kinds of child process, and an appliance that can be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "query-worker" || os.Args[1] == "batch-worker") {
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	if spec := os.Getenv(victimEnv); spec != "" {
		os.Exit(victim(spec))
	}
	flag.Parse()
	os.Exit(m.Run())
}
