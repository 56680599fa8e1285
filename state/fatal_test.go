package state

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const fatalEnv = "WEIR_TEST_FATAL"

// A store that nobody gave a Fatal or a Logger ends the process, and says why.
func TestFatalSaysWhy(t *testing.T) {
	if os.Getenv(fatalEnv) != "" {
		Options{}.withDefaults().Fatal("no space left")
		os.Exit(0)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFatalSaysWhy$")
	cmd.Env = append(os.Environ(), fatalEnv+"=1")
	out, err := cmd.CombinedOutput()
	if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.ExitCode() != 70 || !strings.Contains(string(out), "no space left; free space or replace the disk") {
		t.Errorf("%v: %s", err, out)
	}
}
