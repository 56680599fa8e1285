package objectstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"weir/checkpoint/objectstore"
	"weir/checkpoint/objectstore/fakes3"
	"weir/internal/atomicfile"
)

// minio-go rests after its one try, too.
func TestMain(m *testing.M) {
	minio.DefaultRetryUnit = 0
	os.Exit(m.Run())
}

const (
	once   = time.Nanosecond // no second try
	forAll = time.Minute
)

func start(t *testing.T, o objectstore.Options) (*fakes3.Server, *objectstore.FS) {
	s := fakes3.Start(t)
	return s, s.FS(t, forAll, o)
}

func put(t *testing.T, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	err := atomicfile.Create(fsys, name, func(w io.Writer) error {
		for len(b) > 0 {
			n := min(len(b), 1000)
			if _, err := w.Write(b[:n]); err != nil {
				return err
			}
			b = b[n:]
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, fsys vfs.FS, name string) []byte {
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
	return b
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7 >> (i % 5))
	}
	return b
}

// TestFiles writes, reads and copies files of sizes around those of parts and
// of what is read ahead.
func TestFiles(t *testing.T) {
	const part = 64 << 10
	_, fsys := start(t, objectstore.Options{Part: part})
	for _, size := range []int{0, 1, part - 1, part, part + 1, 3 * part, 5<<20 + 3} {
		want := pattern(size)
		name := fmt.Sprintf("a dir/größe %d+%%.arrow", size)
		put(t, fsys, name, want)
		if !bytes.Equal(get(t, fsys, name), want) {
			t.Fatalf("%d bytes came back changed", size)
		}
		if err := fsys.Link(name, "linked"); err != nil {
			t.Fatal(err)
		}
		f, err := fsys.Open("linked")
		if err != nil {
			t.Fatal(err)
		}
		if info, err := f.Stat(); err != nil || info.Size() != int64(size) || info.Name() != "linked" || info.IsDir() {
			t.Fatal(info, err)
		}
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for off := i; off < size; off += size/3 + 1 {
					b := make([]byte, min(size-off, 100_000))
					if n, err := f.ReadAt(b, int64(off)); err != nil || !bytes.Equal(b[:n], want[off:off+len(b)]) {
						t.Errorf("%d bytes at %d: %d, %v", len(b), off, n, err)
					}
				}
				if n, err := f.ReadAt(make([]byte, 10), int64(max(0, size-5))); n != min(5, size) || !errors.Is(err, io.EOF) {
					t.Errorf("beyond the end: %d, %v", n, err)
				}
			})
		}
		wg.Wait()
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := f.ReadAt(make([]byte, 1), 0); size > 0 && !errors.Is(err, fs.ErrClosed) {
			t.Errorf("read of a closed file: %v", err)
		}
	}
}

// TestReadAhead: a file that is read in small steps is not requested so.
func TestReadAhead(t *testing.T) {
	s, fsys := start(t, objectstore.Options{})
	put(t, fsys, "f", pattern(9<<20))
	s.Fail(nil)
	get(t, fsys, "f")
	if n := s.Fail(nil); n != 1+3 {
		t.Errorf("%d requests", n)
	}
	f, err := fsys.Open("f")
	if err != nil {
		t.Fatal(err)
	}
	for off := int64(0); off < 2<<20; off += 1000 {
		if _, err := f.ReadAt(make([]byte, 1000), off); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Fail(nil); n != 1+3 {
		t.Errorf("%d requests", n)
	}
}

// TestUnfinished: a file that is given up, or whose writer dies, never appears,
// and what it uploaded is freed.
func TestUnfinished(t *testing.T) {
	s, fsys := start(t, objectstore.Options{Part: 1000})
	broken := errors.New("broken")
	for _, size := range []int{10, 5000} {
		err := atomicfile.Create(fsys, "d/f", func(w io.Writer) error {
			if _, err := w.Write(pattern(size)); err != nil {
				return err
			}
			return broken
		})
		if !errors.Is(err, broken) {
			t.Fatal(err)
		}
		f, err := fsys.Create("d/g", vfs.WriteCategoryUnspecified) // and nothing more
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(pattern(size)); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := fsys.List("d"); err != nil || len(names) > 0 {
		t.Fatal(names, err)
	}
	aborted := 0
	s.Fail(func(_ int, r *http.Request) fakes3.Fault {
		if r.Method == http.MethodDelete {
			aborted++
		}
		return fakes3.None
	})
	for _, want := range []int{1, 1} { // the second finds none
		if err := fsys.AbortUploads("d"); err != nil {
			t.Fatal(err)
		}
		if aborted != want {
			t.Fatalf("%d uploads were aborted, not %d", aborted, want)
		}
	}
	f, err := fsys.Create("h", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("x")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a file that appeared was changed: %v", err)
	}
}

// TestDirectories compares with a file system in memory.
func TestDirectories(t *testing.T) {
	_, fsys := start(t, objectstore.Options{})
	mem := vfs.NewMem()
	both := func(what string, do func(vfs.FS) (any, error)) {
		t.Helper()
		want, err := do(mem)
		got, e := do(fsys)
		if (err == nil) != (e == nil) || errors.Is(err, fs.ErrNotExist) != errors.Is(e, fs.ErrNotExist) {
			t.Fatalf("%s: %v, want %v", what, e, err)
		}
		if diff := cmp.Diff(want, got); diff != "" && err == nil {
			t.Fatalf("%s: %s", what, diff)
		}
	}
	list := func(dir string) {
		t.Helper()
		both("list "+dir, func(f vfs.FS) (any, error) {
			names, err := f.List(dir)
			slices.Sort(names)
			return names, err
		})
	}
	stat := func(name string) {
		t.Helper()
		both("stat "+name, func(f vfs.FS) (any, error) {
			i, err := f.Stat(name)
			if err != nil {
				return nil, err
			}
			return []any{i.Name(), i.IsDir(), i.IsDir() || i.Size() == 3}, nil
		})
	}
	for _, dir := range []string{"top/a/views", "top/ab/views", "top/c"} {
		if err := mem.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"top/a/manifest.json", "top/a/views/x", "top/a/views/y", "top/ab/views/z", "top/c/f", "top/file"} {
		put(t, mem, name, []byte("abc"))
		put(t, fsys, name, []byte("abc"))
	}
	look := func() {
		t.Helper()
		for _, dir := range []string{"top", "top/", "/top", "top/a", "top/ab", "top/c"} {
			if i, err := mem.Stat(dir); err == nil && i.IsDir() {
				list(dir)
			}
		}
		for _, name := range []string{"top", "top/a", "top/a/manifest.json", "top/b", "top/b/views/x", "top/file", "top/fil", "top/a/view", "top/nothing"} {
			stat(name)
		}
	}
	look()
	rename := func(from, to string) {
		t.Helper()
		both("rename "+from, func(f vfs.FS) (any, error) { return nil, f.Rename(from, to) })
		look()
	}
	rename("top/a", "top/b")
	rename("top/file", "top/d")
	rename("top/nothing", "top/x")
	both("remove all", func(f vfs.FS) (any, error) { return nil, f.RemoveAll("top/d") }) // not ab
	look()
	both("remove all", func(f vfs.FS) (any, error) { return nil, f.RemoveAll("top/b") })
	look()
	if err := fsys.RemoveAll("/"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("the whole bucket: %v", err)
	}
	if names, err := fsys.List("top/nothing"); err != nil || len(names) > 0 {
		t.Errorf("a directory without files: %v, %v", names, err)
	}
}

// TestLast: of a directory the file that makes it whole is copied last and
// removed first.
func TestLast(t *testing.T) {
	s, fsys := start(t, objectstore.Options{})
	for _, name := range []string{"a/manifest.json", "a/views/x", "a/zzz"} {
		put(t, fsys, name, []byte(name))
	}
	var trace []string
	s.Fail(func(_ int, r *http.Request) fakes3.Fault {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			trace = append(trace, r.Method+strings.TrimPrefix(r.URL.Path, "/"+fakes3.Bucket))
		}
		return fakes3.None
	})
	if err := fsys.Rename("a", "b"); err != nil {
		t.Fatal(err)
	}
	if err := fsys.RemoveAll("b"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"PUT/b/zzz", "PUT/b/views/x", "PUT/b/manifest.json",
		"DELETE/a/manifest.json", "DELETE/a/views/x", "DELETE/a/zzz",
		"DELETE/b/manifest.json", "DELETE/b/views/x", "DELETE/b/zzz", "DELETE/b",
	}
	if diff := cmp.Diff(want, trace); diff != "" {
		t.Error(diff)
	}
}

// TestStage: what is published is never built upon, also when a listing does not
// show it; what is left of an attempt is cleared.
func TestStage(t *testing.T) {
	_, fsys := start(t, objectstore.Options{})
	put(t, fsys, "ck/00000001/views/old", []byte("left"))
	at, err := atomicfile.Stage(fsys, "ck/00000001")
	if err != nil || at != "ck/00000001" {
		t.Fatal(at, err)
	}
	if names, err := fsys.List("ck"); err != nil || len(names) > 0 {
		t.Fatal(names, err)
	}
	text := func(s string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
	}
	if err := atomicfile.Write(fsys, at+"/manifest.json", text("{}")); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Publish(fsys, at, "ck/00000001"); err != nil {
		t.Fatal(err)
	}
	if _, err := atomicfile.Stage(fsys, "ck/00000001"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("staged over what is published: %v", err)
	}
	broken := errors.New("broken")
	err = atomicfile.Write(fsys, at+"/manifest.json", func(w io.Writer) error { return errors.Join(text("other")(w), broken) })
	if got := get(t, fsys, at+"/manifest.json"); !errors.Is(err, broken) || string(got) != "{}" {
		t.Errorf("a write that failed left %q, %v", got, err)
	}
	if err := atomicfile.Remove(fsys, "ck/00000001"); err != nil {
		t.Fatal(err)
	}
	if names, err := fsys.List("ck"); err != nil || len(names) > 0 {
		t.Error(names, err)
	}
}

// TestFaults: every request of a life fails once, in every way, and is made
// again; nothing differs in the end.
func TestFaults(t *testing.T) {
	want := pattern(3500)
	live := func(t *testing.T, fsys *objectstore.FS) error {
		f, err := fsys.Create("d/.tmp/f", vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		if _, err := f.Write(slices.Clone(want)); err != nil {
			return errors.Join(err, f.Close())
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
		if err := fsys.Link("d/.tmp/f", "d/.tmp/g"); err != nil {
			return err
		}
		if err := fsys.Rename("d/.tmp", "d/1"); err != nil {
			return err
		}
		g, err := fsys.Open("d/1/g")
		if err != nil {
			return err
		}
		defer g.Close()
		b, err := io.ReadAll(g)
		if err != nil {
			return err
		}
		if !bytes.Equal(b, want) {
			t.Fatal("other bytes")
		}
		if names, err := fsys.List("d"); err != nil || !slices.Equal(names, []string{"1"}) {
			return errors.Join(fmt.Errorf("list: %v", names), err)
		}
		if err := fsys.RemoveAll("d/1"); err != nil {
			return err
		}
		return nil
	}
	for _, fault := range []fakes3.Fault{fakes3.Cut, fakes3.Answer, fakes3.Half, fakes3.Error500, fakes3.SlowDown} {
		t.Run(fault.String(), func(t *testing.T) {
			s, fsys := start(t, objectstore.Options{Part: 1000})
			all := func() int {
				if err := live(t, fsys); err != nil {
					t.Fatal(err)
				}
				if names, err := fsys.List(""); err != nil || len(names) > 0 {
					t.Fatal(names, err)
				}
				return s.Fail(nil)
			}
			n := all()
			if n < 20 {
				t.Fatalf("only %d requests", n)
			}
			for at := range n {
				s.Fail(func(call int, _ *http.Request) fakes3.Fault {
					if call == at {
						return fault
					}
					return fakes3.None
				})
				all()
			}
			// A store that goes away is an error that says so, and is asked only once
			// by those who clean up.
			impatient := s.FS(t, once, objectstore.Options{Part: 1000})
			for at := range n - 1 { // the last is a List of all
				s.Fail(func(call int, _ *http.Request) fakes3.Fault {
					if call >= at {
						return fault
					}
					return fakes3.None
				})
				err := live(t, impatient)
				var named *objectstore.Error
				if !errors.Is(err, objectstore.ErrUnavailable) || !errors.As(err, &named) || named.Bucket != fakes3.Bucket || named.Do == "" {
					t.Fatalf("request %d: %v", at, err)
				}
				s.Fail(nil)
				if err := impatient.RemoveAll("d"); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestErrors: what a person reads.
func TestErrors(t *testing.T) {
	s := fakes3.Start(t)
	fsys := s.FS(t, once, objectstore.Options{})
	_, err := fsys.Open("ck/00000001/manifest.json")
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "s3://weir-test/ck/00000001/manifest.json") {
		t.Errorf("a missing file: %v", err)
	}
	wrong := s.FS(t, forAll, objectstore.Options{Credentials: credentials.NewStaticV4("other", "secret", "")})
	if _, err := wrong.List("ck"); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "AWS_SECRET_ACCESS_KEY") {
		t.Errorf("wrong credentials: %v", err)
	}
	l, err := objectstore.ParseLocation(strings.Replace(s.Location("ck"), fakes3.Bucket, "other-bucket", 1))
	if err != nil {
		t.Fatal(err)
	}
	other, err := objectstore.New(t.Context(), l, objectstore.Options{Credentials: credentials.NewStaticV4(fakes3.AccessKey, fakes3.SecretKey, "")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.List("ck"); err == nil || !strings.Contains(err.Error(), "create the bucket") || !strings.Contains(err.Error(), "s3://other-bucket/ck/") {
		t.Errorf("a bucket that is not there: %v", err)
	}
	put(t, fsys, "f", pattern(9<<20))
	f, err := fsys.Open("f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(make([]byte, 10), 0); err != nil {
		t.Fatal(err)
	}
	put(t, fsys, "f", pattern(9<<20 + 1)[1:])
	if _, err := f.ReadAt(make([]byte, 10), 8<<20); err == nil || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("a file that was replaced: %v", err)
	}
	if err := fsys.Remove("f"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(make([]byte, 10), 5<<20); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that was removed: %v", err)
	}
	for _, do := range []func() error{
		func() error { _, err := fsys.OpenReadWrite("f", vfs.WriteCategoryUnspecified); return err },
		func() error { _, err := fsys.ReuseForWrite("f", "g", vfs.WriteCategoryUnspecified); return err },
		func() error { _, err := fsys.Lock("f"); return err },
		func() error { _, err := fsys.GetDiskUsage("f"); return err },
		func() error { _, err := f.Write([]byte("x")); return err },
	} {
		if err := do(); !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
	}
}

// TestContext: when it ends nothing is tried again.
func TestContext(t *testing.T) {
	s := fakes3.Start(t)
	l, err := objectstore.ParseLocation(s.Location(""))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	fsys, err := objectstore.New(ctx, l, objectstore.Options{Credentials: credentials.NewStaticV4(fakes3.AccessKey, fakes3.SecretKey, ""), Backoff: time.Hour, Retry: 10 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	s.Fail(func(int, *http.Request) fakes3.Fault { cancel(); return fakes3.SlowDown })
	if _, err := fsys.List("d"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestLocation(t *testing.T) {
	for text, want := range map[string]objectstore.Location{
		"s3://b":             {Bucket: "b"},
		"s3://b/":            {Bucket: "b"},
		"s3://b/p/q/":        {Bucket: "b", Prefix: "p/q"},
		"s3://b/a%20b//../c": {Bucket: "b", Prefix: "c"},
		"s3://b/p?endpoint=http://127.0.0.1:9000&region=x": {Bucket: "b", Prefix: "p", Endpoint: "http://127.0.0.1:9000", Region: "x"},
	} {
		got, err := objectstore.ParseLocation(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		if again, err := objectstore.ParseLocation(got.String()); err != nil || again != got {
			t.Errorf("%s became %s: %v", text, got, err)
		}
	}
	for _, text := range []string{
		"s3://", "s3:///p", "/p", "http://b/p", "s3://b:9000/p", "s3://key:secret@b/p", "s3://b/p?endpont=http://x", "s3://b/p?endpoint=localhost:9000",
		"s3://b/p?endpoint=http://x/path", "s3://b/p?region=a&region=b", "s3://b/p#x", "s3://b/%zz", "s3://b/p?endpoint=http://k:s@x",
	} {
		l, err := objectstore.ParseLocation(text)
		if err == nil {
			t.Errorf("%s: %+v", text, l)
		} else if strings.Contains(err.Error(), "secret@") {
			t.Errorf("the error tells the secret: %v", err)
		}
	}
}
