package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
)

// TestRows: the file's own columns by name, as the Arrow library reads the file
// by itself.
func TestRows(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	r, f, fsys := rng(t), newFake(), vfs.NewMem()
	f.add(r, revenue(), 2*batchRows+10, 3000, true)
	m := write(t, fsys, f)
	tab := table(t, open(t, fsys, 1), "revenue_by_city")

	plain := arrowFileRows(t, fsys, fsys.PathJoin(Path(fsys, dir, 1), m.Views[0].File.Name))
	all, err := tab.Rows(t.Context(), nil, mem)
	if err != nil {
		t.Fatal(err)
	}
	if got := all.Schema().Field(2).Name; got != "orders" || all.Schema().Field(2).Metadata.Len() == 0 {
		t.Errorf("field 2 is %v", all.Schema().Field(2))
	}
	if diff := cmp.Diff(plain, rendered(t, all)); diff != "" {
		t.Fatal(diff)
	}
	some, err := tab.Rows(t.Context(), []string{"__slot", "city"}, mem)
	if err != nil {
		t.Fatal(err)
	}
	rows := rendered(t, some)
	for i, line := range plain {
		slot := line[strings.Index(line, " __slot="):]
		want := slot[:strings.Index(slot, " __epoch=")] + line[:strings.Index(line, " __key_2=")]
		if rows[i] != want {
			t.Fatalf("row %d is %s, want %s", i, rows[i], want)
		}
	}
	if _, err := tab.Rows(t.Context(), []string{"nonsense"}, mem); !errors.Is(err, ErrMismatch) {
		t.Errorf("an unknown column: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	late, err := tab.Rows(ctx, nil, mem)
	if err != nil {
		t.Fatal(err)
	}
	if late.Next() || !errors.Is(late.Err(), context.Canceled) {
		t.Errorf("a cancelled read: %v", late.Err())
	}
	late.Release()
	mem.AssertSize(t, 0)
}

// TestSavepoints: retention neither counts nor removes them, names are unique,
// and Remove removes one.
func TestSavepoints(t *testing.T) { onEvery(t, testSavepoints) }

func testSavepoints(t *testing.T, fsys vfs.FS) {
	r, f := rng(t), newFake()
	f.add(r, revenue(), 10, 50, false)
	save := func(name string) error {
		f.records++
		_, err := Write(t.Context(), fsys, dir, f, &finals{}, Options{Now: clock, Savepoint: name})
		return err
	}
	for _, name := range []string{"before", "Before", "größe", ""} {
		if err := save(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := save("before"); !errors.Is(err, ErrExists) {
		t.Errorf("a name given twice: %v", err)
	}
	for _, name := range []string{"a\nb", "\xff", strings.Repeat("é", 101), "\x7f"} {
		if err := save(name); err == nil {
			t.Errorf("a savepoint named %q was written", name)
		}
	}
	for range 3 {
		write(t, fsys, f)
	}
	if removed, err := Retain(fsys, dir, 1); err != nil || !cmp.Equal(removed, []uint64{6, 5, 4}) {
		t.Fatalf("removed %v, %v", removed, err)
	}
	if m, err := FindSavepoint(fsys, dir, "Before"); err != nil || m.Checkpoint != 2 {
		t.Fatalf("found %+v, %v", m, err)
	}
	put(t, fsys, fsys.PathJoin(Path(fsys, dir, 3), ManifestName), []byte("{}"))
	if removed, err := Retain(fsys, dir, 1); err != nil || removed != nil {
		t.Errorf("removed %v, %v: an unreadable one may be a savepoint", removed, err)
	}
	if err := Remove(fsys, dir, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := FindSavepoint(fsys, dir, "Before"); !errors.Is(err, ErrMissing) {
		t.Errorf("a removed savepoint: %v", err)
	}
	if err := Remove(fsys, dir, 2); !errors.Is(err, ErrMissing) {
		t.Errorf("removed twice: %v", err)
	}
	if err := Remove(fsys, dir, 7); err != nil {
		t.Fatal(err)
	}
	if m := write(t, fsys, f); m.Checkpoint != 8 {
		t.Errorf("a number that was given is given again: %d", m.Checkpoint)
	}
	whole := func(id uint64) error { return readEverything(t, fsys, Path(fsys, dir, id)) }
	if err := errors.Join(whole(1), whole(8)); err != nil {
		t.Error(err)
	}
}

// arrowFileRows reads a file with the Arrow library alone.
func arrowFileRows(t *testing.T, fsys vfs.FS, name string) []string {
	t.Helper()
	b, err := readAll(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ipc.NewFileReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out []string
	for i := range r.NumRecords() {
		rec, err := r.RecordBatchAt(i)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, renderRecord(rec)...)
	}
	return out
}
