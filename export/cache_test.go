package export_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir/export"
)

func openCache(t *testing.T, dir string, limit int64) *export.Cache {
	t.Helper()
	c, err := export.OpenCache(dir, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if n := len(names(t, dir)); n > 0 {
			t.Errorf("%d files are left", n)
		}
	})
	return c
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	es, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		out = append(out, e.Name())
	}
	return out
}

// writing gives a writer of some bytes.
func writing(b []byte) func(context.Context, io.Writer) error {
	return func(_ context.Context, w io.Writer) error {
		for len(b) > 0 { // in pieces that do not fit the blocks
			n := min(len(b), 10_007)
			if _, err := w.Write(b[:n]); err != nil {
				return err
			}
			b = b[n:]
		}
		return nil
	}
}

func get(t *testing.T, c *export.Cache, key string, b []byte) *export.File {
	t.Helper()
	f, err := c.Get(t.Context(), key, writing(b))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func content(t *testing.T, f *export.File) []byte {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func text(n int, what string) []byte {
	return bytes.Repeat([]byte(what), n/len(what)+1)[:n]
}

func TestCacheGivesWhatWasWritten(t *testing.T) {
	c := openCache(t, t.TempDir(), 1<<30)
	for _, n := range []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 1 << 20, 777_777} {
		want := text(n, "abcdefg")
		f := get(t, c, fmt.Sprint(n), want)
		if f.Size != int64(n) || !bytes.Equal(content(t, f), want) {
			t.Fatalf("%d bytes differ", n)
		}
		for _, at := range []int{0, 1, 65_535, 65_536, 70_000, n - 1} {
			if at < 0 || at >= n {
				continue
			}
			p := make([]byte, 66_000)
			m, err := f.ReadAt(p, int64(at))
			if !bytes.Equal(p[:m], want[at:min(n, at+len(p))]) || (m < len(p)) != errors.Is(err, io.EOF) {
				t.Fatalf("%d bytes at %d of %d: %v", m, at, n, err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCacheMakesOnce has many ask for one key at once.
func TestCacheMakesOnce(t *testing.T) {
	c := openCache(t, t.TempDir(), 1<<30)
	var made atomic.Int32
	begun := make(chan struct{})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			f, err := c.Get(t.Context(), "k", func(context.Context, io.Writer) error {
				made.Add(1)
				<-begun
				return nil
			})
			if err != nil {
				t.Error(err)
				return
			}
			f.Close()
		})
	}
	close(begun)
	wg.Wait()
	if n := made.Load(); n != 1 {
		t.Errorf("made %d times", n)
	}
}

// TestCacheKeepsNoFailure has a writer fail, panic and be too large. The next
// who asks has the file made anew, and no half of one is left.
func TestCacheKeepsNoFailure(t *testing.T) {
	dir := t.TempDir()
	c := openCache(t, dir, 1000)
	broken := errors.New("broken")
	for name, write := range map[string]func(context.Context, io.Writer) error{
		"broken": func(_ context.Context, w io.Writer) error {
			_, err := w.Write([]byte("half"))
			return errors.Join(err, broken)
		},
		"panic":                              func(context.Context, io.Writer) error { panic("of a library") },
		"larger than the cache of exported ": writing(text(1001, "x")),
	} {
		if _, err := c.Get(t.Context(), "k", write); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if n := names(t, dir); len(n) > 0 {
			t.Errorf("%s left %v", name, n)
		}
	}
	f := get(t, c, "k", []byte("whole"))
	defer f.Close()
	if got := content(t, f); string(got) != "whole" {
		t.Errorf("got %q", got)
	}
}

// TestCacheStopsWhenNobodyWaits has the only one who waits leave.
func TestCacheStopsWhenNobodyWaits(t *testing.T) {
	dir := t.TempDir()
	c := openCache(t, dir, 1000)
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	_, err := c.Get(ctx, "k", func(ctx context.Context, w io.Writer) error {
		leave()
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	f := get(t, c, "k", []byte("whole"))
	if got := content(t, f); string(got) != "whole" {
		t.Errorf("got %q", got)
	}
	f.Close()
}

// TestCacheIsBounded has files go in the order of their use, while who reads one
// goes on reading it.
func TestCacheIsBounded(t *testing.T) {
	dir := t.TempDir()
	c := openCache(t, dir, 250)
	a := get(t, c, "a", text(100, "a"))
	get(t, c, "b", text(100, "b")).Close()
	if f, ok := c.Peek("a"); !ok {
		t.Fatal("a is not there")
	} else {
		f.Close()
	}
	get(t, c, "c", text(100, "c")).Close() // b was not used for longest
	if _, ok := c.Peek("b"); ok {
		t.Error("b is still there")
	}
	get(t, c, "d", text(200, "d")).Close()
	if _, ok := c.Peek("a"); ok {
		t.Error("a is still there")
	}
	if got := content(t, a); !bytes.Equal(got, text(100, "a")) {
		t.Error("who had a open reads other bytes")
	}
	if n := names(t, dir); len(n) != 2 { // a, which is open, and d
		t.Errorf("%v", n)
	}
	a.Close()
	a.Close()
	if n := names(t, dir); len(n) != 1 {
		t.Errorf("%v", n)
	}
	c.Drop(func(key string) bool { return key == "d" })
	if n := names(t, dir); len(n) != 0 {
		t.Errorf("%v", n)
	}
}

// TestCacheTrustsNoDisk has bytes change on disk, and a process find what the
// one before it left.
func TestCacheTrustsNoDisk(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"00000001.made", "00000002.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := openCache(t, dir, 1<<20)
	if n := names(t, dir); len(n) != 0 {
		t.Fatalf("%v are left of another process", n)
	}
	f := get(t, c, "k", text(200_000, "k"))
	defer f.Close()
	path := filepath.Join(dir, names(t, dir)[0])
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[150_000] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 10)
	if _, err := f.ReadAt(p, 0); err != nil {
		t.Errorf("a sound block: %v", err)
	}
	if _, err := f.ReadAt(p, 190_000); err == nil || !strings.Contains(err.Error(), "changed on disk") {
		t.Errorf("a changed block: %v", err)
	}
	again := get(t, c, "k", text(200_000, "k"))
	defer again.Close()
	if !bytes.Equal(content(t, again), text(200_000, "k")) {
		t.Error("it was not made anew")
	}
}

// TestETagIsThatOfTheBytes holds what If-Range and If-Match need.
func TestETagIsThatOfTheBytes(t *testing.T) {
	c := openCache(t, t.TempDir(), 1<<20)
	a, b, d := get(t, c, "a", []byte("same")), get(t, c, "b", []byte("same")), get(t, c, "c", []byte("other"))
	if a.ETag != b.ETag || a.ETag == d.ETag || len(a.ETag) != 34 || a.ETag[0] != '"' {
		t.Errorf("%s %s %s", a.ETag, b.ETag, d.ETag)
	}
	for _, f := range []*export.File{a, b, d} {
		f.Close()
	}
}
