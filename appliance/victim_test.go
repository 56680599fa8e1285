//go:build duckdb_arrow

package appliance

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"
)

// victimEnv holds a victimSpec: the test binary is then an appliance to be killed.
const victimEnv = "WEIR_TEST_VICTIM"

// A victimSpec is what the appliance to be killed is told.
type victimSpec struct {
	Data, Brokers, SQL string
	// Point and Hit name the moment at which it kills itself; Fired is the file
	// that it leaves to prove it. No point, no suicide.
	Point         string
	Hit           int64
	Fired         string
	UntilCaughtUp bool
}

// victim runs an appliance as weir run does, but for the hook.
func victim(text string) int {
	var spec victimSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		fmt.Fprintln(os.Stderr, "victim:", err)
		return exitUsage
	}
	os.Unsetenv(victimEnv)
	cfg := testConfig(spec.Data, spec.Brokers, script{"views.sql", spec.SQL})
	cfg.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	if spec.Point != "" {
		cfg.hook = suicide(spec)
	}
	ctx, stop := signals(os.Stderr)
	defer stop()
	if err := serve(ctx, cfg, os.Stdout, spec.UntilCaughtUp); err != nil {
		fmt.Fprintln(os.Stderr, "weir:", err)
		return exitError
	}
	return exitOK
}

// suicide kills the process, as nobody can catch, at the n-th passing of a point.
func suicide(spec victimSpec) func(string) {
	var passed atomic.Int64
	return func(point string) {
		if point != spec.Point || passed.Add(1) != spec.Hit {
			return
		}
		if err := os.WriteFile(spec.Fired, fmt.Appendf(nil, "%s@%d", point, spec.Hit), 0o600); err != nil {
			fmt.Fprintln(os.Stderr, "victim:", err)
			return
		}
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal takes this goroutine too
	}
}
