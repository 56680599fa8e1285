//go:build duckdb_arrow

package appliance

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// tree is every path beneath a directory.
func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// No command writes into a checkpoint's own directory, by whatever path.
func TestCheckpointsAreNotWrittenInto(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 1)
	produce(b, "orders", 0, sales(newRand(72), 20))
	dir := takenOf(b, saleSQL("orders"))
	one := checkpointPath(dir, 1)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(one, link); err != nil {
		t.Fatal(err)
	}
	sql := filepath.Join(t.TempDir(), "empty.sql")
	if err := os.WriteFile(sql, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	change := func(into string) []string {
		return []string{"checkpoint", "transform", dir, "--name", "n", "--sql", "UPDATE total SET orders = 7", "--into", into}
	}
	before := tree(t, dir)
	for _, args := range [][]string{
		change(one), change(link), change(filepath.Join(one, "views", "deep")), change(filepath.Join(link, "new")),
		change(filepath.Join(dir, "00000002")), // which the next checkpoint is to get
		{"checkpoint", "merge", dir, dir, "--name", "n", "--into", one},
		{"checkpoint", "export", dir, "--view", "total", "-o", filepath.Join(one, "total.csv")},
		{"checkpoint", "export", dir, "--view", "total", "-o", filepath.Join(link, "views", "total.arrow")},
		{"checkpoint", "export", dir, "--view", "total", "--format", "iceberg", "-o", filepath.Join(one, "table")},
		{"bundle", "--from", dir, "-o", filepath.Join(one, "b.weir")},
		{"restore", "--from", dir, "--data", one},
		{"restore", "--from", dir, "--data", filepath.Join(link, "new")},
		{"run", sql, "--addr", "127.0.0.1:0", "--data", one},
		{"run", sql, "--addr", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "d"), "--checkpoints", filepath.Join(one, "c")},
		{"run", sql, "--addr", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "d"), "--export-dir", one},
		{"demo", "--addr", "127.0.0.1:0", "--data", one},
	} {
		refusedWith(t, "a checkpoint's own directory", args...)
	}
	if d := cmp.Diff(before, tree(t, dir)); d != "" {
		t.Errorf("the refused commands changed files:\n%s", d)
	}

	// What is no checkpoint may be called like one, and hold a manifest of another program.
	other := filepath.Join(t.TempDir(), "20261130")
	if err := os.MkdirAll(other, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(other), "manifest.json"), []byte(`{"format_version": 1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	weirs(t, change(other)...)

	// What an earlier version let into one does not stand for it.
	inner := filepath.Join(one, "00000001")
	if err := os.CopyFS(inner, os.DirFS(filepath.Join(other, "00000001"))); err != nil {
		t.Fatal(err)
	}
	v, _ := manifestOf(t, dir, 1).View("by_city")
	flip(t, filepath.Join(one, filepath.FromSlash(v.File.Name)))
	refusedWith(t, "damaged", "checkpoint", "verify", one)
}

// An export writes into what -o names, and replaces nothing but a file.
func TestExportIntoWhatIsNoFile(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 1)
	produce(b, "orders", 0, sales(newRand(73), 20))
	dir := takenOf(b, saleSQL("orders"))
	want := weirs(t, "checkpoint", "export", dir, "--view", "by_city")
	at := t.TempDir()
	path := func(name string) string { return filepath.Join(at, name) }
	export := func(to string) {
		t.Helper()
		weirs(t, "checkpoint", "export", dir, "--view", "by_city", "-o", to)
	}
	mode := func(name string) fs.FileMode {
		t.Helper()
		info, err := os.Lstat(name)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode()
	}
	holds := func(name, text string) {
		t.Helper()
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(text, string(got)); d != "" {
			t.Errorf("%s:\n%s", name, d)
		}
	}

	if err := unix.Mkfifo(path("fifo.weir"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string, 1)
	go func() {
		got, err := os.ReadFile(path("fifo.weir"))
		if err != nil {
			got = []byte(err.Error())
		}
		read <- string(got)
	}()
	export(path("fifo.weir"))
	if d := cmp.Diff(want, <-read); d != "" {
		t.Errorf("the FIFO's reader has other bytes:\n%s", d)
	}
	refusedWith(t, "there is a file of that name", "bundle", "--from", dir, "-o", path("fifo.weir"))
	if mode(path("fifo.weir")).Type() != fs.ModeNamedPipe {
		t.Errorf("the FIFO became %v", mode(path("fifo.weir")))
	}

	export("/dev/null")
	if mode("/dev/null").Type()&fs.ModeDevice == 0 {
		t.Fatalf("/dev/null became %v", mode("/dev/null"))
	}

	// Links, of which one leads to nothing yet.
	if err := os.WriteFile(path("private.csv"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path("sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{path("one"): "two", path("two"): path("private.csv"), path("ahead"): "sub/new.csv", path("round"): "about", path("about"): "round"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	export(path("one"))
	export(path("ahead"))
	for _, link := range []string{"one", "two", "ahead"} {
		if mode(path(link)).Type() != fs.ModeSymlink {
			t.Errorf("the link %s became %v", link, mode(path(link)))
		}
	}
	holds(path("private.csv"), want)
	holds(path("sub/new.csv"), want)
	if got := mode(path("private.csv")); got != 0o600 {
		t.Errorf("the private file is %v", got)
	}
	refusedWith(t, "too many levels of symbolic links", "checkpoint", "export", dir, "--view", "by_city", "-o", path("round"))
	refusedWith(t, "is a directory", "checkpoint", "export", dir, "--view", "by_city", "-o", path("sub"))

	// A file that was opened by whoever started Weir goes on where it is.
	log, err := os.OpenFile(path("log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := io.WriteString(log, "before\n"); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	if code := Main([]string{"checkpoint", "export", dir, "--view", "by_city", "-o", path("log")}, strings.NewReader(""), log, &errs); code != exitOK {
		t.Errorf("exit status %d: %s", code, errs.String())
	}
	holds(path("log"), "before\n"+want)
	export("/dev/fd/" + fdOf(log))
	holds(path("log"), "before\n"+want+want)
	for _, name := range tree(t, at) {
		if strings.HasPrefix(filepath.Base(name), ".tmp-") {
			t.Errorf("%s is left", name)
		}
	}
}

func fdOf(f *os.File) string { return strconv.Itoa(int(f.Fd())) }
