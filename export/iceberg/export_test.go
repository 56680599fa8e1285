package iceberg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/avro/ocf"

	"weir/internal/testkit/faultfs"
	"weir/state/sqltype"
)

var (
	cityColumn  = sqltype.Field{Name: "city", Type: sqltype.MustParse("VARCHAR")}
	countColumn = sqltype.Field{Name: "n", Type: sqltype.MustParse("BIGINT")}
)

// put exports rows of (city, n) to /t.
func put(t testing.TB, fsys vfs.FS, o Options, rows ...[]string) (*Snapshot, error) {
	t.Helper()
	columns := []sqltype.Field{cityColumn, countColumn}
	if o.View == "" {
		o.View = "v"
	}
	return Export(t.Context(), faultfs.Honest{FS: fsys}, "/t", columns, rowsOf(t, columns, rows...), o)
}

// slurp reads a file.
func slurp(t testing.TB, fsys vfs.FS, path string) []byte {
	t.Helper()
	f, err := fsys.Open(path)
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

// decoded reads an Avro file.
func decoded[T any](t testing.TB, b []byte) (out []T) {
	t.Helper()
	r, err := ocf.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		var row T
		err := r.Decode(&row)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, row)
	}
}

// read follows a snapshot from its list to the rows, and gives those as text.
func read(t testing.TB, fsys vfs.FS, s *snapshot) string {
	t.Helper()
	var out strings.Builder
	for _, m := range decoded[manifestFile](t, slurp(t, fsys, s.ManifestList)) {
		b := slurp(t, fsys, m.Path)
		if int64(len(b)) != m.Length {
			t.Fatalf("%s has %d bytes, not %d", m.Path, len(b), m.Length)
		}
		for _, e := range decoded[entry](t, b) {
			if e.Status == deleted {
				continue
			}
			data := slurp(t, fsys, e.File.Path)
			if int64(len(data)) != e.File.Bytes {
				t.Fatalf("%s has %d bytes, not %d", e.File.Path, len(data), e.File.Bytes)
			}
			f, err := file.NewParquetReader(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
			if err != nil {
				t.Fatal(err)
			}
			table, err := r.ReadTable(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if table.NumRows() != e.File.Records {
				t.Fatalf("%s has %d rows, not %d", e.File.Path, table.NumRows(), e.File.Records)
			}
			for c := range int(table.NumCols()) {
				fmt.Fprintf(&out, "%s=%v ", table.Schema().Field(c).Name, table.Column(c).Data().Chunks())
			}
		}
	}
	return out.String()
}

// newest is what a reader sees who looks for the highest version, and hinted what
// one sees who goes by the hint. Both are "" when there is no table.
func newest(t testing.TB, fsys vfs.FS) (newest, hinted string) {
	t.Helper()
	m, version, err := load(fsys, "/t")
	if err != nil {
		t.Fatal(err)
	}
	if m == nil {
		return "", ""
	}
	f, err := fsys.Open("/t/metadata/version-hint.text")
	if errors.Is(err, fs.ErrNotExist) {
		return read(t, fsys, m.snapshot(m.CurrentSnapshot)), ""
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	newest = read(t, fsys, m.snapshot(m.CurrentSnapshot))
	hint, err := strconv.Atoi(string(slurp(t, fsys, "/t/metadata/version-hint.text")))
	if err != nil || hint > version {
		t.Fatalf("the hint is %d, %v", hint, err)
	}
	old := &metadata{}
	unmarshal(t, slurp(t, fsys, "/t/metadata/"+metadataName(hint)), old)
	return newest, read(t, fsys, old.snapshot(old.CurrentSnapshot))
}

func list(t testing.TB, fsys vfs.FS, dir string) []string {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func TestEachExportIsASnapshot(t *testing.T) {
	mem := vfs.NewMem()
	var want []string
	for i := range 5 {
		s, err := put(t, mem, Options{Keep: 3, Now: sampleTime, Properties: map[string]string{"weir.epoch": strconv.Itoa(i)}}, []string{`"Paris"`, strconv.Itoa(i)})
		if err != nil {
			t.Fatal(err)
		}
		if s.Version != i+1 || s.Rows != 1 || s.Metadata != "/t/metadata/"+metadataName(i+1) {
			t.Errorf("%+v", s)
		}
		want = append(want, fmt.Sprintf(`city=["Paris"] n=[%d] `, i))
	}
	m, _, err := load(mem, "/t")
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Snapshots) != 3 || len(m.SnapshotLog) != 3 || m.LastSequence != 5 {
		t.Fatalf("%+v", m)
	}
	for i, s := range m.Snapshots {
		if got := strings.NewReplacer("[[", "[", "]]", "]").Replace(read(t, mem, &s)); got != want[i+2] || s.Summary["weir.epoch"] != strconv.Itoa(i+2) {
			t.Errorf("snapshot %d: %s, %v", i, got, s.Summary)
		}
		if i > 0 && (*s.Parent != m.Snapshots[i-1].ID || s.Timestamp <= m.Snapshots[i-1].Timestamp || s.Sequence != m.Snapshots[i-1].Sequence+1) {
			t.Errorf("snapshot %d does not follow the one before: %+v", i, s)
		}
	}
	if n := list(t, mem, "/t/data"); len(n) != 3 {
		t.Errorf("data files: %v", n)
	}
	if m.Refs["main"].ID != m.CurrentSnapshot || m.CurrentSnapshot != m.Snapshots[2].ID {
		t.Errorf("main is %v", m.Refs)
	}
}

func TestSchemaEvolves(t *testing.T) {
	mem := vfs.NewMem()
	export := func(typs ...string) error {
		var columns []sqltype.Field
		for _, c := range typs {
			name, typ, _ := strings.Cut(c, " ")
			columns = append(columns, sqltype.Field{Name: name, Type: sqltype.MustParse(typ)})
		}
		_, err := Export(t.Context(), faultfs.Honest{FS: mem}, "/t", columns, rowsOf(t, columns), Options{View: "v"})
		return err
	}
	ids := func() (out []string) {
		m, _, err := load(mem, "/t")
		if err != nil {
			t.Fatal(err)
		}
		var walk func(prefix string, fs []field)
		walk = func(prefix string, fs []field) {
			for _, f := range fs {
				out = append(out, fmt.Sprintf("%s%s %d", prefix, f.Name, f.ID))
				walk(prefix+f.Name+".", f.Type.parts)
			}
		}
		walk("", m.current().Fields)
		return out
	}
	for _, step := range []struct {
		columns []string
		refused string
		ids     string
	}{
		{[]string{"a INTEGER", "s STRUCT(x INTEGER[], y VARCHAR)"}, "", "a 1, s 2, s.x 3, s.x.element 5, s.y 4"},
		{[]string{"a INTEGER", "s STRUCT(x INTEGER[], y VARCHAR)"}, "", "a 1, s 2, s.x 3, s.x.element 5, s.y 4"},
		{[]string{"m MAP(VARCHAR, DATE)", "a INTEGER", "s STRUCT(x INTEGER[], y VARCHAR)"}, "", "m 6, m.key 7, m.value 8, a 1, s 2, s.x 3, s.x.element 5, s.y 4"},
		{[]string{"a BIGINT", "s STRUCT(x INTEGER[], y VARCHAR)", "m MAP(VARCHAR, DATE)"}, "column a is int in the table and long in the view", ""},
		{[]string{"a INTEGER", "s STRUCT(x VARCHAR[], y VARCHAR)", "m MAP(VARCHAR, DATE)"}, "column s is struct", ""},
		{[]string{"a INTEGER", "m MAP(VARCHAR, DATE)"}, "column s of the table is not in the view any more", ""},
		{[]string{"a INTEGER", "a INTEGER", "s STRUCT(x INTEGER[], y VARCHAR)", "m MAP(VARCHAR, DATE)"}, "two columns a", ""},
		{[]string{"a SMALLINT", "s STRUCT(x INTEGER[], y VARCHAR)", "m MAP(VARCHAR, DATE)", "z TIMESTAMP_NS"}, "column z: no type of Iceberg, version 2, is like TIMESTAMP_NS", ""},
		// SMALLINT and INTEGER are one type of Iceberg.
		{[]string{"a SMALLINT", "s STRUCT(x INTEGER[], y VARCHAR)", "m MAP(VARCHAR, DATE)"}, "", "a 1, s 2, s.x 3, s.x.element 5, s.y 4, m 6, m.key 7, m.value 8"},
	} {
		before := list(t, mem, "/")
		err := export(step.columns...)
		if step.refused != "" {
			if err == nil || !strings.Contains(err.Error(), step.refused) {
				t.Errorf("%v: %v", step.columns, err)
			}
			if d := cmp.Diff(before, list(t, mem, "/")); d != "" {
				t.Error(d)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%v: %v", step.columns, err)
		}
		if got := strings.Join(ids(), ", "); got != step.ids {
			t.Errorf("%v: ids %s, not %s", step.columns, got, step.ids)
		}
	}
}

func TestForeignTablesAreRefused(t *testing.T) {
	mem := vfs.NewMem()
	if _, err := put(t, mem, Options{}, []string{`"a"`, "1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := put(t, mem, Options{View: "w"}); err == nil || !strings.Contains(err.Error(), "is of view v, not w") {
		t.Error(err)
	}
	if err := mem.Rename("/t", "/u"); err != nil {
		t.Fatal(err)
	}
	columns := []sqltype.Field{cityColumn, countColumn}
	if _, err := Export(t.Context(), faultfs.Honest{FS: mem}, "/u", columns, rowsOf(t, columns), Options{View: "v"}); err == nil || !strings.Contains(err.Error(), "tables do not move") {
		t.Error(err)
	}
	if err := mem.MkdirAll("/t/metadata", 0o755); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"format-version":2,"table-uuid":"x","location":"/t","properties":{}}`:                "was not written by Weir",
		`{"format-version":1,"table-uuid":"x","location":"/t","properties":{"weir.view":"v"}}`: "format version 1",
		`{"format-version":`: "not the metadata of a table",
	} {
		if err := writeFile(mem, "/t/metadata/v1.metadata.json", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, err := put(t, mem, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestTableOfACatalogueIsRefused has metadata as catalogues name it.
func TestTableOfACatalogueIsRefused(t *testing.T) {
	for _, name := range []string{"00000-3f1c.metadata.json", "v1.gz.metadata.json"} {
		mem := vfs.NewMem()
		if err := mem.MkdirAll("/t/metadata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := writeFile(mem, "/t/metadata/"+name, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if _, err := put(t, mem, Options{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOthersFilesStay has files in the table's directories that are not Weir's.
func TestOthersFilesStay(t *testing.T) {
	mem := vfs.NewMem()
	for i := range 3 {
		if _, err := put(t, mem, Options{Keep: 1}, []string{`"a"`, strconv.Itoa(i)}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"/t/data/part-0.parquet", "/t/data/weir-mine.parquet", "/t/metadata/snap-1.avro", "/t/metadata/stats.puffin"} {
			if err := writeFile(mem, name, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := list(t, mem, "/t/data"); len(n) != 3 || n[0] != "part-0.parquet" || n[2] != "weir-mine.parquet" {
		t.Error(n)
	}
	if n := list(t, mem, "/t/metadata"); len(n) != 9 { // three of others, three versions, the hint, the lock, the newest list and manifest
		t.Error(n)
	}
}

func TestOneExportAtATime(t *testing.T) {
	dir := t.TempDir()
	columns := []sqltype.Field{cityColumn, countColumn}
	inner := make(chan error, 1)
	rows := &calling{RecordReader: rowsOf(t, columns, []string{`"a"`, "1"}), call: func() {
		_, err := Export(t.Context(), vfs.Default, dir, columns, rowsOf(t, columns), Options{View: "v"})
		inner <- err
	}}
	if _, err := Export(t.Context(), vfs.Default, dir, columns, rows, Options{View: "v"}); err != nil {
		t.Fatal(err)
	}
	if err := <-inner; err == nil || !strings.Contains(err.Error(), "another export") {
		t.Error(err)
	}
}

// TestExportEnds has the reader fail, and the context end: the table is that of
// before, and the next export leaves nothing of the one that failed.
func TestExportEnds(t *testing.T) {
	mem := vfs.NewMem()
	if _, err := put(t, mem, Options{}, []string{`"a"`, "1"}); err != nil {
		t.Fatal(err)
	}
	before := append(list(t, mem, "/t/data"), list(t, mem, "/t/metadata")...)
	columns := []sqltype.Field{cityColumn, countColumn}
	broken := errors.New("broken")
	_, err := Export(t.Context(), faultfs.Honest{FS: mem}, "/t", columns, &calling{RecordReader: rowsOf(t, columns, []string{`"a"`, "2"}), err: broken}, Options{View: "v"})
	if !errors.Is(err, broken) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = Export(ctx, faultfs.Honest{FS: mem}, "/t", columns, &calling{RecordReader: rowsOf(t, columns, []string{`"a"`, "2"}), call: cancel}, Options{View: "v"})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if d := cmp.Diff(before, append(list(t, mem, "/t/data"), list(t, mem, "/t/metadata")...)); d != "" {
		t.Error(d)
	}
}

func TestAnExportIsWrittenOnce(t *testing.T) {
	mem := vfs.NewMem()
	o := Options{Properties: map[string]string{"weir.epoch": "5", "weir.checkpoint": "1"}, Once: []string{"weir.epoch", "weir.checkpoint"}}
	first, err := put(t, mem, o, []string{`"a"`, "1"})
	if err != nil || first.Old {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := put(t, mem, o, []string{`"b"`, "2"})
	if err != nil || !again.Old || again.ID != first.ID || again.Rows != 1 || again.Summary["weir.epoch"] != "5" || !again.Time.Equal(first.Time) {
		t.Fatalf("%+v, %v", again, err)
	}
	if got, hinted := newest(t, mem); !strings.Contains(got, `"a"`) || got != hinted {
		t.Errorf("%q, %q", got, hinted)
	}
	// The same epoch of another checkpoint is another export: the state went back.
	o.Properties["weir.checkpoint"] = "2"
	other, err := put(t, mem, o, []string{`"b"`, "2"})
	if err != nil || other.Old || other.Version != 2 {
		t.Fatalf("%+v, %v", other, err)
	}
	looked, err := Newest(mem, "/t", "v")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(other, looked); diff != "" {
		t.Error(diff)
	}
	if looked, err := Newest(mem, "/none", "v"); looked != nil || err != nil {
		t.Errorf("%v, %v", looked, err)
	}
	if _, err := Newest(mem, "/t", "w"); err == nil || !strings.Contains(err.Error(), "is of view v, not w") {
		t.Error(err)
	}
}

// TestDirectoriesOfOthersAreRefused has what is no table, and leaves it as it is.
func TestDirectoriesOfOthersAreRefused(t *testing.T) {
	for name, words := range map[string]string{
		"newest.parquet": ", and no table that Weir wrote", "data/part-0.parquet": ", and no table that Weir wrote", "metadata/notes.txt": ", and no table that Weir wrote",
		"epochs/00000000000000000001.parquet": "an export keeps its format",
	} {
		mem := vfs.NewMem()
		path := mem.PathJoin("/t", name)
		if err := mem.MkdirAll(mem.PathDir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := writeFile(mem, path, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := put(t, mem, Options{}); err == nil || !strings.Contains(err.Error(), "/t holds ") || !strings.Contains(err.Error(), words) || strings.HasPrefix(words, ",") && !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if n := list(t, mem, "/t"); len(n) != 1 {
			t.Errorf("%s: then there is %v", name, n)
		}
	}
}
