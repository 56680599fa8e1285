//go:build duckdb_arrow

package appliance

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestFlagsThatNothingCanRunWith(t *testing.T) {
	for _, args := range [][]string{
		{"open", "x", "--query-timeout=0s"},
		{"open", "x", "--query-timeout=-1s"},
		{"checkpoint", "query", "x", "SELECT 1", "--timeout=0s"},
		{"checkpoint", "query", "x", "SELECT 1", "--timeout=-1s"},
	} {
		if code, out, errs := weir(args...); code != exitUsage || !strings.Contains(errs, "must be at least 10ms") {
			t.Errorf("weir %q: exit status %d, %s%s", args, code, out, errs)
		}
	}
	for _, flag := range []string{"--checkpoint-interval=-5s", "--checkpoint-interval=0", "--checkpoint-records=-1", "--checkpoint-keep=0", "--checkpoint-keep-for=-1s", "--query-timeout=-1s", "--query-timeout=0"} {
		var out, errs bytes.Buffer
		code := Main([]string{"demo", "--data", t.TempDir(), flag}, strings.NewReader(""), &out, &errs)
		if name, _, _ := strings.Cut(flag, "="); code != 2 || !strings.Contains(errs.String(), name+" must be at least") {
			t.Errorf("%s: exit status %d, %s%s", flag, code, out.String(), errs.String())
		}
	}
}

// A flag that is given and empty, as an unset variable leaves it, means neither the
// working directory nor all there is.
func TestEmptyFlags(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	for _, args := range [][]string{
		{"restore", "--from", "x", "--data", ""},
		{"restore", "--from", "", "--data", "new"},
		{"restore", "--from", "x", "--data", "new", "--views", ""},
		{"restore", "--from", "x", "--data", "new", "--views", "a,,b"},
		{"reset", "--yes", "--data", ""},
		{"demo", "--data", ""},
		{"demo", "--restore-from", ""},
		{"demo", "--restore", ""},
		{"demo", "--export-dir", ""},
		{"demo", "--checkpoints", ""},
		{"bundle", "--from", "x", "-o", ""},
		{"open", ""},
		{"checkpoint", "ls", ""},
		{"checkpoint", "verify", ""},
		{"checkpoint", "show", ""},
		{"checkpoint", "diff", "x", "x", "--view", ""},
		{"checkpoint", "export", "x", "--view", "v", "-o", ""},
		{"checkpoint", "transform", "x", "--name", "n", "--sql", "DELETE FROM v", "--into", ""},
		{"checkpoint", "transform", "x", "--name", "n", "--sql", ""},
		{"checkpoint", "transform", "x", "--name", "n", "--sql", " "},
		{"checkpoint", "merge", "x", "x", "--name", "n", "--into", ""},
	} {
		code, out, errs := weir(args...)
		if code != exitUsage || !strings.Contains(errs, "is empty") {
			t.Errorf("weir %q: exit status %d: %s%s", args, code, out, errs)
		}
	}
	if left, err := os.ReadDir(here); err != nil || len(left) > 0 {
		t.Errorf("the working directory holds %v, %v", left, err)
	}
}

func TestSizes(t *testing.T) {
	for _, text := range []string{"NaN", "0", "-1GB", "0.5B", "Inf", "2000000TB", ""} {
		var s size
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is %d bytes", text, s)
		}
	}
}
