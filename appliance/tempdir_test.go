//go:build duckdb_arrow

package appliance

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// What a killed command left is removed by the next, and nothing else is.
func TestTempsOfTheDead(t *testing.T) {
	dir := t.TempDir()
	held, err := makeTemp(dir, "weir-open-")
	if err != nil {
		t.Fatal(err)
	}
	// A lock of another process ends with it.
	left := filepath.Join(dir, "weir-open-left")
	if err := os.MkdirAll(filepath.Join(left, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	keep := []string{filepath.Join(dir, "weir-open-new"), filepath.Join(dir, "weir-transform-left"), filepath.Join(dir, "weir-open-shared"), filepath.Join(dir, "elsewhere")}
	for _, k := range keep {
		if err := os.MkdirAll(k, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range append([]string{left}, keep[1:]...) {
		if err := os.WriteFile(filepath.Join(d, lockFile), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(keep[2], 0o777); err != nil { // others may put anything there
		t.Fatal(err)
	}
	link := filepath.Join(dir, "weir-open-link")
	if err := os.Symlink(keep[3], link); err != nil {
		t.Fatal(err)
	}
	trap := filepath.Join(dir, "weir-open-trap") // its lock leads elsewhere
	if err := os.MkdirAll(trap, 0o700); err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(precious, filepath.Join(trap, lockFile)); err != nil {
		t.Fatal(err)
	}

	next, err := makeTemp(dir, "weir-open-")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("what was left is there: %v", err)
	}
	for _, k := range append(keep, held.path, next.path, link, trap) {
		if _, err := os.Lstat(k); err != nil {
			t.Error(err)
		}
	}
	if b, err := os.ReadFile(precious); err != nil || string(b) != "text" {
		t.Errorf("a file behind a link holds %q, %v", b, err)
	}
	for _, tmp := range []*temp{held, next} {
		if err := tmp.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(tmp.path); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", tmp.path, err)
		}
	}
}

// sweepEnv makes the test below, in a process of its own, sweep a directory.
const sweepEnv = "WEIR_TEST_SWEEP"

// A directory whose command lives in another process is left alone.
func TestTempsOfTheLiving(t *testing.T) {
	if dir := os.Getenv(sweepEnv); dir != "" {
		sweepTemp(dir, "weir-open-")
		return
	}
	dir := t.TempDir()
	tmp, err := makeTemp(dir, "weir-open-")
	if err != nil {
		t.Fatal(err)
	}
	sweep := func() {
		t.Helper()
		cmd := exec.Command(os.Args[0], "-test.run=^TestTempsOfTheLiving$")
		cmd.Env = append(os.Environ(), sweepEnv+"="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	sweep()
	if _, err := os.Stat(tmp.path); err != nil {
		t.Error(err)
	}
	if err := tmp.lock.Close(); err != nil { // as when it is killed
		t.Fatal(err)
	}
	sweep()
	if _, err := os.Stat(tmp.path); !os.IsNotExist(err) {
		t.Errorf("what was left is there: %v", err)
	}
}
