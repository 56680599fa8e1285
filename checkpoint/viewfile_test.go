package checkpoint

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fixtureCopy is a checkpoint of version 1 that may be changed.
func fixtureCopy(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "00000001")
	if err := os.CopyFS(dir, os.DirFS("testdata/v1/checkpoints/00000001")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestViewFileIsTheFile(t *testing.T) {
	dir := fixtureCopy(t)
	c, err := Open(vfs.Default, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range c.Manifest.Views {
		want, err := os.ReadFile(filepath.Join(dir, v.File.Name))
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.ViewFile(v.Name)
		if err != nil {
			t.Fatal(err)
		}
		if f.Size != int64(len(want)) || f.SHA256 != v.File.SHA256 {
			t.Errorf("%s: size %d, sha256 %s", v.Name, f.Size, f.SHA256)
		}
		for _, n := range []int{1, 7, 4096, len(want), len(want) + 1} {
			for at := 0; at < len(want); at += max(1, len(want)/37) {
				p := make([]byte, n)
				m, err := f.ReadAt(p, int64(at))
				if !bytes.Equal(p[:m], want[at:min(len(want), at+n)]) || (m < n) != errors.Is(err, io.EOF) {
					t.Fatalf("%s: %d of %d bytes at %d: %v", v.Name, m, n, at, err)
				}
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.ViewFile("nope"); !errors.Is(err, ErrMismatch) {
		t.Error(err)
	}
}

// TestViewFileGivesNoDamagedByte flips a bit in each part of a file in turn: the
// read of that place is an error that gives nothing of its segment, or the file
// does not open.
func TestViewFileGivesNoDamagedByte(t *testing.T) {
	dir := fixtureCopy(t)
	c, err := Open(vfs.Default, dir)
	if err != nil {
		t.Fatal(err)
	}
	v := c.Manifest.Views[0]
	path := filepath.Join(dir, v.File.Name)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(whole); at += max(1, len(whole)/101) {
		b := bytes.Clone(whole)
		b[at] ^= 0x10
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := c.ViewFile(v.Name)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("byte %d: %v", at, err)
			}
			continue
		}
		p := make([]byte, 1)
		if n, err := f.ReadAt(p, int64(at)); n != 0 || !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d: %d bytes, %v", at, n, err)
		}
		all := make([]byte, len(b))
		if n, err := f.ReadAt(all, 0); !errors.Is(err, ErrDamaged) || !bytes.Equal(all[:n], whole[:n]) || n > at {
			t.Fatalf("byte %d: %d bytes from the beginning, %v", at, n, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
