package export_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"weir/export"
	"weir/internal/testkit/faultfs"
	"weir/state/sqltype"
)

// put exports one row, n, to the folder /f.
func put(t testing.TB, fsys vfs.FS, n int64, o export.FolderOptions) (*export.FolderFile, error) {
	t.Helper()
	column := sqltype.Field{Name: "n", Type: sqltype.MustParse("BIGINT")}
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	b.Append(n)
	col := b.NewArray()
	defer col.Release()
	schema := arrow.NewSchema([]arrow.Field{column.Type.FileField("n")}, nil)
	rec := array.NewRecordBatch(schema, []arrow.Array{col}, 1)
	defer rec.Release()
	rows, err := array.NewRecordReader(schema, []arrow.RecordBatch{rec})
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Release()
	if o.View == "" {
		o.View = "v"
	}
	return export.Folder(t.Context(), faultfs.Honest{FS: fsys}, "/f", []sqltype.Field{column}, rows, o)
}

// row reads the n of a file; "" when there is no such file.
func row(t testing.TB, fsys vfs.FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	tbl, err := pqarrow.ReadTable(t.Context(), bytes.NewReader(text), parquet.NewReaderProperties(nil), pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer tbl.Release()
	return tbl.Column(0).Data().Chunk(0).ValueStr(0)
}

func listed(t testing.TB, fsys vfs.FS, dir string) []string {
	t.Helper()
	all, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

func numbered(epochs ...int) (out []string) {
	for _, e := range epochs {
		out = append(out, fmt.Sprintf("%020d.parquet", e))
	}
	return out
}

func TestFolderKeepsTheNewest(t *testing.T) {
	mem := vfs.NewMem()
	for _, epoch := range []int{7, 30, 200} {
		f, err := put(t, mem, int64(epoch), export.FolderOptions{Epoch: uint64(epoch), Keep: 2, Metadata: map[string]string{"weir.checkpoint": "x"}})
		if err != nil {
			t.Fatal(err)
		}
		if f.Rows != 1 || f.Bytes == 0 || f.Old {
			t.Errorf("%+v", f)
		}
	}
	if diff := cmp.Diff(numbered(30, 200), listed(t, mem, "/f/epochs")); diff != "" {
		t.Error(diff)
	}
	got, err := export.NewestFile(mem, "/f", "v")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"weir.view": "v", "weir.epoch": "200", "weir.checkpoint": "x"}, got.Metadata); diff != "" {
		t.Error(diff)
	}
	// The state went back: what was exported of later epochs is not the view's any more.
	if _, err := put(t, mem, 31, export.FolderOptions{Epoch: 31, Keep: 2}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(numbered(30, 31), listed(t, mem, "/f/epochs")); diff != "" {
		t.Error(diff)
	}
	// The same epoch of another history takes the place of the old one.
	if _, err := put(t, mem, 310, export.FolderOptions{Epoch: 31, Keep: 2}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/f/newest.parquet", "/f/epochs/" + numbered(31)[0]} {
		if got := row(t, mem, name); got != "310" {
			t.Errorf("%s has %s", name, got)
		}
	}
	if diff := cmp.Diff([]string{"epochs", "newest.parquet", "weir-lock"}, listed(t, mem, "/f")); diff != "" {
		t.Error(diff)
	}
}

func TestFolderWritesAnExportOnce(t *testing.T) {
	mem := vfs.NewMem()
	o := export.FolderOptions{Epoch: 5, Keep: 3, Metadata: map[string]string{"weir.checkpoint": "1"}, Once: []string{"weir.checkpoint"}}
	if _, err := put(t, mem, 1, o); err != nil {
		t.Fatal(err)
	}
	f, err := put(t, mem, 2, o)
	if err != nil || !f.Old || row(t, mem, "/f/newest.parquet") != "1" {
		t.Fatalf("%+v, %v: %s", f, err, row(t, mem, "/f/newest.parquet"))
	}
	o.Metadata["weir.checkpoint"] = "2"
	f, err = put(t, mem, 2, o)
	if err != nil || f.Old || row(t, mem, "/f/newest.parquet") != "2" {
		t.Fatalf("%+v, %v: %s", f, err, row(t, mem, "/f/newest.parquet"))
	}
}

// TestFolderLeavesOthersAlone wants directories that hold anything else to be
// refused, and left as they are.
func TestFolderLeavesOthersAlone(t *testing.T) {
	write := func(fsys vfs.FS, name, text string) {
		t.Helper()
		if err := fsys.MkdirAll(fsys.PathDir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := fsys.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	for name, want := range map[string]string{
		"/f/mine.txt":                             "/f holds mine.txt, and no export of Weir",
		"/f/metadata/v1.metadata.json":            "/f holds metadata",
		"/f/metadata/version-hint.text":           "/f holds an Iceberg table: an export keeps its format",
		"/f/epochs/1.parquet":                     "/f holds epochs/1.parquet",
		"/f/epochs/" + numbered(1)[0] + ".backup": "/f holds epochs/",
		"/f/newest.parquet":                       "is damaged, or no Parquet file",
	} {
		mem := vfs.NewMem()
		write(mem, name, "PAR1 not quite\x00PAR1")
		if _, err := put(t, mem, 1, export.FolderOptions{Epoch: 1, Keep: 1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
		if n := listed(t, mem, "/f"); len(n) != 1 {
			t.Errorf("%s: then there is %v", name, n)
		}
	}
	mem := vfs.NewMem()
	if _, err := put(t, mem, 1, export.FolderOptions{Epoch: 1, Keep: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := put(t, mem, 2, export.FolderOptions{View: "w", Epoch: 2, Keep: 1}); err == nil || !strings.Contains(err.Error(), "is of view v, not w") {
		t.Error(err)
	}
	mem = vfs.NewMem() // a Parquet file of somebody else
	column := sqltype.Field{Name: "n", Type: sqltype.MustParse("BIGINT")}
	schema := arrow.NewSchema([]arrow.Field{column.Type.FileField("n")}, nil)
	rows, err := array.NewRecordReader(schema, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Release()
	var foreign bytes.Buffer
	if _, err := export.Parquet(t.Context(), &foreign, []sqltype.Field{column}, rows, export.Options{}); err != nil {
		t.Fatal(err)
	}
	write(mem, "/f/newest.parquet", foreign.String())
	if _, err := put(t, mem, 1, export.FolderOptions{Epoch: 1, Keep: 1}); err == nil || !strings.Contains(err.Error(), "was not written by Weir") {
		t.Error(err)
	}
}

// TestFolderDamaged flips every byte of a small file: looking at it is an answer
// or an error, never a panic.
func TestFolderDamaged(t *testing.T) {
	mem := vfs.NewMem()
	if _, err := put(t, mem, 1, export.FolderOptions{Epoch: 1, Keep: 1}); err != nil {
		t.Fatal(err)
	}
	f, err := mem.Open("/f/newest.parquet")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 0xff
		bad := vfs.NewMem()
		if err := bad.MkdirAll("/f", 0o755); err != nil {
			t.Fatal(err)
		}
		w, err := bad.Create("/f/newest.parquet", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(damaged); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if _, err := export.NewestFile(bad, "/f", "v"); err != nil {
			refused++
		}
	}
	if refused < 20 {
		t.Errorf("only %d of %d damages were seen", refused, len(whole))
	}
}

// TestFolderCrash fails every call that Folder makes of the file system, one run
// each, alone or with all later ones, as a full disk does, and cuts the power right
// after. newest.parquet is the old one or the new one, whole; the new one when
// Folder said so. The next export succeeds and leaves nothing of the failed one.
func TestFolderCrash(t *testing.T) {
	for _, first := range []bool{false, true} {
		for _, full := range []bool{false, true} {
			t.Run(fmt.Sprintf("first=%v/disk full=%v", first, full), func(t *testing.T) { testFolderCrash(t, first, full) })
		}
	}
}

func testFolderCrash(t *testing.T, first, full bool) {
	at, failed := 0, 0
	for ; ; at++ {
		mem := vfs.NewCrashableMem()
		before := ""
		if !first {
			if _, err := put(t, mem, 1, export.FolderOptions{Epoch: 1, Keep: 1}); err != nil {
				t.Fatal(err)
			}
			before = "1"
		}
		root, err := mem.OpenDir("/")
		if err != nil {
			t.Fatal(err)
		}
		if err := root.Sync(); err != nil {
			t.Fatal(err)
		}
		failing := &faultfs.FailAt{At: int64(at), Full: full}
		_, err = put(t, errorfs.Wrap(mem, failing), 2, export.FolderOptions{Epoch: 2, Keep: 1})
		if err != nil && !strings.Contains(err.Error(), "injected error") {
			t.Fatalf("call %d: %v", at, err)
		}
		for _, kept := range []int{0, 50} { // percent of the unsynced that survives
			crashed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: rand.New(rand.NewPCG(uint64(at), 3))})
			got := row(t, crashed, "/f/newest.parquet")
			if got != "2" && (got != before || err == nil) {
				t.Fatalf("call %d (%v): a reader sees %q", at, err, got)
			}
			if _, err := put(t, crashed, 3, export.FolderOptions{Epoch: 3, Keep: 1}); err != nil {
				t.Fatalf("call %d: the next export: %v", at, err)
			}
			if got := row(t, crashed, "/f/newest.parquet"); got != "3" {
				t.Fatalf("call %d: after the next export %q", at, got)
			}
			if diff := cmp.Diff(numbered(3), listed(t, crashed, "/f/epochs")); diff != "" {
				t.Fatalf("call %d: leftovers: %s", at, diff)
			}
		}
		if !failing.Met() {
			break // fewer calls than that
		}
		if err != nil {
			failed++
		}
	}
	if failed < 20 {
		t.Fatalf("only %d of %d calls made an export fail", failed, at)
	}
}
