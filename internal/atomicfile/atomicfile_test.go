package atomicfile_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"weir/internal/atomicfile"
)

func put(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

func content(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestTrace pins the order of calls: a missing sync is a difference here.
func TestTrace(t *testing.T) {
	mem := vfs.NewMem()
	if err := mem.MkdirAll("d", 0o755); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	fsys := vfs.WithLogging(mem, func(format string, args ...any) {
		line := format
		for _, a := range args {
			line = strings.Replace(line, "%s", toText(a), 1)
		}
		log.WriteString(line + "\n")
	})
	if err := atomicfile.Write(fsys, "d/a", put("one")); err != nil {
		t.Fatal(err)
	}
	want := `create: d/.tmp-a
sync: d/.tmp-a
close: d/.tmp-a
rename: d/.tmp-a -> d/a
open-dir: d
sync: d
close: d
`
	if diff := cmp.Diff(want, log.String()); diff != "" {
		t.Error(diff)
	}
}

func toText(a any) string {
	s, _ := a.(string)
	return s
}

// TestWriteCrash cuts the power at, and fails, every call of a rewrite: the
// file is the old or the new one, and only the new one once Write said so.
func TestWriteCrash(t *testing.T) {
	for at := int32(0); ; at++ {
		mem := vfs.NewCrashableMem()
		if err := mem.MkdirAll("d", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := atomicfile.SyncDir(mem, ""); err != nil {
			t.Fatal(err)
		}
		if err := atomicfile.Write(mem, "d/a", put("old")); err != nil {
			t.Fatal(err)
		}
		fail := errorfs.ErrInjected.If(errorfs.OnIndex(at))
		err := atomicfile.Write(errorfs.Wrap(mem, fail), "d/a", put("new"))
		stands := content(t, mem, "d/a") == "new"
		if unsynced := errors.Is(err, atomicfile.ErrUnsynced); unsynced != (err != nil && stands) {
			t.Fatalf("call %d: %v, and the new file stands there: %t", at, err, stands)
		}
		crashed := mem.CrashClone(vfs.CrashCloneCfg{})
		got := content(t, crashed, "d/a")
		if got != "old" && got != "new" {
			t.Fatalf("call %d: after the crash the file holds %q", at, got)
		}
		if err == nil && got != "new" {
			t.Fatalf("call %d: Write succeeded and the crash lost it", at)
		}
		if _, err := atomicfile.Sweep(crashed, "d"); err != nil {
			t.Fatal(err)
		}
		if names, err := crashed.List("d"); err != nil || !cmp.Equal(names, []string{"a"}) {
			t.Fatalf("call %d: after the sweep: %v, %v", at, names, err)
		}
		if err == nil {
			if at < 6 {
				t.Fatalf("only %d calls were tried", at)
			}
			return
		}
		if !strings.Contains(err.Error(), "injected error") {
			t.Fatalf("call %d: %v", at, err)
		}
	}
}

// TestPublishSaysWhatStands fails every call of a publication: what stands under its
// name after an error is told from what does not.
func TestPublishSaysWhatStands(t *testing.T) {
	told := false
	for at := int32(0); ; at++ {
		mem := vfs.NewMem()
		if err := mem.MkdirAll("d/.tmp-x", 0o755); err != nil {
			t.Fatal(err)
		}
		err := atomicfile.Publish(errorfs.Wrap(mem, errorfs.ErrInjected.If(errorfs.OnIndex(at))), "d/.tmp-x", "d/x")
		_, missing := mem.Stat("d/x")
		unsynced := errors.Is(err, atomicfile.ErrUnsynced)
		if unsynced != (err != nil && missing == nil) {
			t.Fatalf("call %d: %v, and under the name: %v", at, err, missing)
		}
		told = told || unsynced
		if err == nil {
			break
		}
	}
	if !told {
		t.Error("no failed sync was tried")
	}
}

func TestPublishAndRemove(t *testing.T) {
	mem := vfs.NewMem()
	for _, dir := range []string{"d/.tmp-x", "d/.tmp-y"} {
		if err := mem.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := atomicfile.Create(mem, dir+"/f", put(dir)); err != nil {
			t.Fatal(err)
		}
	}
	if err := atomicfile.Publish(mem, "d/.tmp-x", "d/x"); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Publish(mem, "d/.tmp-y", "d/x"); err == nil {
		t.Fatal("a published directory was replaced")
	}
	if got := content(t, mem, "d/x/f"); got != "d/.tmp-x" {
		t.Fatalf("published file holds %q", got)
	}
	if swept, err := atomicfile.Sweep(mem, "d"); err != nil || !cmp.Equal(swept, []string{".tmp-y"}) {
		t.Fatalf("swept %v, %v", swept, err)
	}
	if err := atomicfile.Remove(mem, "d/x"); err != nil {
		t.Fatal(err)
	}
	if names, err := mem.List("d"); err != nil || len(names) != 0 {
		t.Fatalf("left behind: %v, %v", names, err)
	}
	if swept, err := atomicfile.Sweep(mem, "missing"); err != nil || swept != nil {
		t.Fatalf("sweep of a missing directory: %v, %v", swept, err)
	}
}

func TestCreateRemovesOnError(t *testing.T) {
	mem := vfs.NewMem()
	broken := errors.New("broken")
	err := atomicfile.Create(mem, "f", func(w io.Writer) error {
		if _, err := w.Write(bytes.Repeat([]byte("x"), 10)); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if _, err := mem.Stat("f"); err == nil {
		t.Error("the file of a failed write is still there")
	}
}
