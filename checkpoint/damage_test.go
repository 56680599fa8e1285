package checkpoint

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/state"
)

// corrupt rewrites a file.
func corrupt(t *testing.T, fsys vfs.FS, name string, change func([]byte) []byte) {
	t.Helper()
	b, err := readAll(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	put(t, fsys, name, change(b))
}

func put(t *testing.T, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := fsys.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(append([]byte{}, b...)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDamage flips bits and cuts every kind of file. Reading it is always a
// named error, by the checksums of the parts as well as by that of the whole,
// and never another value or a panic.
func TestDamage(t *testing.T) { onEvery(t, testDamage) }

func testDamage(t *testing.T, fsys vfs.FS) {
	r, f := rng(t), newFake()
	f.add(r, revenue(), 100, 50, true)
	change := f.addChanging(t, r, revenueNamed("changing"), 100)
	write(t, fsys, f)
	change()
	m := write(t, fsys, f)
	root := Path(fsys, dir, 2)
	names := []string{ManifestName, m.Views[0].File.Name, quarantineFile}
	for _, part := range m.Views[1].Parts {
		names = append(names, part.Name)
	}
	if len(names) != 5 {
		t.Fatalf("files: %v", names)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			path := fsys.PathJoin(root, name)
			good, err := readAll(fsys, path)
			if err != nil {
				t.Fatal(err)
			}
			if err := readEverything(t, fsys, root); err != nil {
				t.Fatal(err)
			}
			try := func(what string, at int, b []byte) {
				put(t, fsys, path, b)
				err := readEverything(t, fsys, root)
				var named *Error
				if !errors.As(err, &named) || named.Path == "" || named.What == "" {
					t.Fatalf("%s at %d: %v", what, at, err)
				}
				if !strings.Contains(err.Error(), name) {
					t.Fatalf("%s at %d: the error does not name the file: %v", what, at, err)
				}
			}
			flips, cuts := 2000, 100
			if _, ok := fsys.(*vfs.MemFS); !ok {
				flips, cuts = 20, 3 // what is wrong with bytes does not depend on where they are
			}
			for range flips {
				b := append([]byte{}, good...)
				at := r.IntN(len(b))
				b[at] ^= 1 << r.IntN(8)
				try("bit flipped", at, b)
			}
			for at := range len(good) { // each of the first and last lengths, and some between
				if at >= 64*cuts/100 && at < len(good)-128*cuts/100 && r.IntN(len(good)/cuts+1) > 0 {
					continue
				}
				try("cut", at, good[:at])
			}
			try("longer", len(good), append(append([]byte{}, good...), 0))
			put(t, fsys, path, good)
		})
	}
	if err := fsys.Remove(fsys.PathJoin(root, m.Views[0].File.Name)); err != nil {
		t.Fatal(err)
	}
	if err := readEverything(t, fsys, root); !errors.Is(err, ErrMissing) {
		t.Errorf("a missing file: %v", err)
	}
	if err := open(t, fsys, 2).Verify(t.Context()); !errors.Is(err, ErrMissing) {
		t.Errorf("a missing file: %v", err)
	}
}

// readEverything reads all values of a checkpoint, without the sha256 first.
// Where it finds nothing wrong, Verify must not either, and the other way round.
func readEverything(t *testing.T, fsys vfs.FS, root string) error {
	c, err := Open(fsys, root)
	if err != nil {
		return err
	}
	err = readValues(t, c)
	if whole := c.Verify(t.Context()); (whole == nil) != (err == nil) {
		t.Fatalf("reading says %v, sha256 says %v", err, whole)
	}
	return err
}

func readValues(t *testing.T, c *Checkpoint) error {
	if _, err := c.Refused(t.Context()); err != nil {
		return err
	}
	for _, v := range c.Manifest.Views {
		tab, err := c.Table(v.Name)
		if err != nil {
			return err
		}
		defer tab.Close()
		r, err := tab.Scan(t.Context(), state.ScanRequest{Extra: allExtra})
		if err != nil {
			return err
		}
		defer r.Release()
		for r.Next() {
			renderRecord(r.RecordBatch())
		}
		if err := r.Err(); err != nil {
			return err
		}
	}
	return nil
}

// TestPartialRead: damage in one batch is no concern of who reads another.
func TestPartialRead(t *testing.T) { onEvery(t, testPartialRead) }

func testPartialRead(t *testing.T, fsys vfs.FS) {
	r, f := rng(t), newFake()
	f.add(r, revenue(), 2*batchRows, 5000, false)
	m := write(t, fsys, f)
	x := mustIndex(t, fsys, m, 0)
	second := x.Batches[1]
	corrupt(t, fsys, fsys.PathJoin(Path(fsys, dir, 1), m.Views[0].File.Name), func(b []byte) []byte {
		b[second.Offset+second.Length/2] ^= 1
		return b
	})
	tab := table(t, open(t, fsys, 1), "revenue_by_city")
	scan := func(from, to int) error {
		r, err := tab.Scan(t.Context(), state.ScanRequest{FromSlot: from, ToSlot: to})
		if err != nil {
			return err
		}
		defer r.Release()
		for r.Next() {
		}
		return r.Err()
	}
	if err := scan(0, 100); err != nil {
		t.Errorf("slots of the first batch: %v", err)
	}
	if err := scan(200, 256); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "batch 1") {
		t.Errorf("slots of the second batch: %v", err)
	}
}

// TestVersions: a newer format is refused by name, unknown members are ignored,
// and what is no checkpoint says so.
func TestVersions(t *testing.T) { onEvery(t, testVersions) }

func testVersions(t *testing.T, fsys vfs.FS) {
	r, f := rng(t), newFake()
	f.add(r, revenue(), 10, 50, false)
	write(t, fsys, f)
	path := fsys.PathJoin(Path(fsys, dir, 1), ManifestName)
	good, err := readAll(fsys, path)
	if err != nil {
		t.Fatal(err)
	}
	edit := func(old, repl string) error {
		text := string(good[:strings.LastIndex(string(good), checksumKey)])
		if !strings.Contains(text, old) {
			t.Fatalf("the manifest has no %s", old)
		}
		text = strings.Replace(text, old, repl, 1)
		put(t, fsys, path, []byte(text+checksumOf([]byte(text))))
		_, err := Open(fsys, Path(fsys, dir, 1))
		return err
	}
	for _, c := range []struct {
		old, repl string
		kind      error
	}{
		{`"format_version": 2`, `"format_version": 3`, ErrNewer},
		{`"format_version": 2`, `"format_version": 0`, ErrMismatch},
		{`"format_version": 2`, `"format_version": "2"`, ErrMismatch},
		{`"format_version": 2`, `"format_version": 2, "novelty": {"x": [1]}`, nil},
		{`"format": "weir-checkpoint"`, `"format": "parquet"`, ErrMismatch},
		{`"slots": 256`, `"slots": 512`, ErrMismatch},
		{`"views/revenue_by_city.arrow"`, `"../../etc/passwd"`, ErrMismatch},
		{`"accumulator": "__sum_big"`, `"accumulator": "__sum_bug"`, ErrMismatch},
		{`"topic_id": "01020300`, `"topic_id": "x1020300`, ErrMismatch},
		{`"epoch": 1000`, `"epoch": "many"`, ErrMismatch},
	} {
		if err := edit(c.old, c.repl); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", c.repl, err, c.kind)
		}
	}
	if _, err := Open(fsys, dir); !errors.Is(err, ErrMissing) {
		t.Errorf("a directory that is no checkpoint: %v", err)
	}
	put(t, fsys, path, good)
	if _, err := open(t, fsys, 1).Table("nonsense"); !errors.Is(err, ErrMismatch) {
		t.Errorf("an unknown view: %v", err)
	}
}
