//go:build duckdb_arrow

package appliance

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

type panicking struct{}

func (panicking) Write([]byte) (int, error) { panic("no such luck") }

// A panic is an error that says where it was, never a quiet success; kong's own way
// out, which is a panic too, is none.
func TestPanicIsAnError(t *testing.T) {
	var errs bytes.Buffer
	code := Main([]string{"version"}, strings.NewReader(""), panicking{}, &errs)
	if code != exitError || !strings.Contains(errs.String(), "weir: internal error: no such luck") || !strings.Contains(errs.String(), "cmd_version.go") {
		t.Errorf("exit status %d: %s", code, errs.String())
	}
	if code, out, _ := weir("--help"); code != exitOK || !strings.Contains(out, "Exit status") {
		t.Errorf("--help: exit status %d: %s", code, out)
	}
	if code, _, _ := weir("version", "--nonsense"); code != exitUsage {
		t.Errorf("wrong usage: exit status %d", code)
	}
}

// What a command says last is lost on a full disk, and that is no success.
func TestOutputThatIsLost(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	b := newBed(t)
	b.topic("orders", 1)
	produce(b, "orders", 0, sales(newRand(71), 20))
	dir := takenOf(b, saleSQL("orders"))
	tmp := t.TempDir()
	for _, args := range [][]string{
		{"version"},
		{"checkpoint", "verify", dir},
		{"checkpoint", "ls", dir},
		{"checkpoint", "show", dir},
		{"checkpoint", "compact", dir},
		{"checkpoint", "diff", dir, dir},
		{"checkpoint", "transform", dir, "--name", "less", "--into", tmp + "/less", "--sql", "UPDATE total SET orders = 7"},
		{"bundle", "--from", dir, "-o", tmp + "/b.weir"},
		{"restore", "--from", dir, "--data", tmp + "/new"},
	} {
		var errs bytes.Buffer
		if code := Main(args, strings.NewReader(""), full, &errs); code != exitError || !strings.Contains(errs.String(), "no space left on device") {
			t.Errorf("weir %q > /dev/full: exit status %d: %s", args, code, errs.String())
		}
	}
}
