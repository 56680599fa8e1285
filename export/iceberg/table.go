package iceberg

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/internal/atomicfile"
	"weir/state/sqltype"
)

// A metadata is vN.metadata.json.
type metadata struct {
	FormatVersion    int               `json:"format-version"`
	UUID             string            `json:"table-uuid"`
	Location         string            `json:"location"`
	LastSequence     int64             `json:"last-sequence-number"`
	LastUpdated      int64             `json:"last-updated-ms"`
	LastColumn       int               `json:"last-column-id"`
	CurrentSchema    int               `json:"current-schema-id"`
	Schemas          []schema          `json:"schemas"`
	DefaultSpec      int               `json:"default-spec-id"`
	Specs            []spec            `json:"partition-specs"`
	LastPartition    int               `json:"last-partition-id"`
	DefaultSortOrder int               `json:"default-sort-order-id"`
	SortOrders       []sortOrder       `json:"sort-orders"`
	Properties       map[string]string `json:"properties"`
	CurrentSnapshot  int64             `json:"current-snapshot-id"`
	Snapshots        []snapshot        `json:"snapshots"`
	SnapshotLog      []snapshotLog     `json:"snapshot-log"`
	MetadataLog      []metadataLog     `json:"metadata-log"`
	Refs             map[string]ref    `json:"refs"`
}

type schema struct {
	Type   string  `json:"type"` // struct
	ID     int     `json:"schema-id"`
	Fields []field `json:"fields"`
}

type spec struct {
	ID     int   `json:"spec-id"`
	Fields []int `json:"fields"` // none
}

type sortOrder struct {
	ID     int   `json:"order-id"`
	Fields []int `json:"fields"` // none
}

type snapshot struct {
	ID           int64             `json:"snapshot-id"`
	Parent       *int64            `json:"parent-snapshot-id,omitempty"`
	Sequence     int64             `json:"sequence-number"`
	Timestamp    int64             `json:"timestamp-ms"`
	ManifestList string            `json:"manifest-list"`
	Summary      map[string]string `json:"summary"`
	Schema       int               `json:"schema-id"`
}

type snapshotLog struct {
	ID        int64 `json:"snapshot-id"`
	Timestamp int64 `json:"timestamp-ms"`
}

type metadataLog struct {
	File      string `json:"metadata-file"`
	Timestamp int64  `json:"timestamp-ms"`
}

type ref struct {
	ID   int64  `json:"snapshot-id"`
	Type string `json:"type"` // branch
}

const hintName = "version-hint.text"

// viewProperty names the view whose table it is. A table without it is not ours.
const viewProperty = "weir.view"

// load reads the newest metadata in dir; nil when there is no table.
func load(fsys vfs.FS, dir string) (m *metadata, version int, err error) {
	names, err := fsys.List(fsys.PathJoin(dir, "metadata"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("list table: %w", err)
	}
	for _, name := range names {
		v := versionOf(name)
		if v == 0 && strings.HasSuffix(name, ".metadata.json") && !strings.HasPrefix(name, atomicfile.TempPrefix) {
			return nil, 0, fmt.Errorf("the table in %s was not written by Weir (it has %s): export to another directory", dir, name)
		}
		version = max(version, v)
	}
	if version == 0 {
		return nil, 0, nil
	}
	path := fsys.PathJoin(dir, "metadata", metadataName(version))
	f, err := fsys.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("open table: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", path, err)
	}
	m = &metadata{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, 0, fmt.Errorf("%s is not the metadata of a table that Weir wrote: %w", path, err)
	}
	return m, version, nil
}

// vacant refuses a directory without a table of ours that holds anything else than
// what an export leaves that did not end.
func vacant(fsys vfs.FS, dir string) error {
	if m, _, err := load(fsys, dir); err != nil || m != nil {
		return err
	}
	for _, d := range []string{"", "data", "metadata"} {
		names, err := fsys.List(fsys.PathJoin(dir, d))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("list table: %w", err)
		}
		for _, name := range names {
			_, mine := snapshotOf(name)
			switch {
			case d == "" && name == "epochs":
				return fmt.Errorf("%s holds Parquet files of an export: an export keeps its format; export to another directory, or remove this one if nobody reads the files", dir)
			case d == "" && (name == "data" || name == "metadata"):
			case d != "" && (mine || unfinished(name)), d == "metadata" && (name == lockName || name == hintName):
			default:
				return fmt.Errorf("%s holds %s, and no table that Weir wrote: export to a directory that is empty, or not there yet", dir, fsys.PathJoin(d, name))
			}
		}
	}
	return nil
}

func metadataName(version int) string { return fmt.Sprintf("v%d.metadata.json", version) }

// versionOf is N of vN.metadata.json, 0 of other names.
func versionOf(name string) int {
	v, ok := strings.CutSuffix(name, ".metadata.json")
	if !ok || !strings.HasPrefix(v, "v") {
		return 0
	}
	n, err := strconv.Atoi(v[1:])
	if err != nil || metadataName(n) != name {
		return 0
	}
	return n
}

// publish writes the metadata of a version, with which the table is the new one,
// and then the hint for readers.
func (m *metadata) publish(fsys vfs.FS, dir string, version int) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(fsys, fsys.PathJoin(dir, "metadata", metadataName(version)), text); err != nil {
		return fmt.Errorf("publish snapshot: %w", err)
	}
	if err := hint(fsys, dir, version); err != nil {
		return fmt.Errorf("the snapshot is there, but readers who go by version-hint.text do not see it yet; export again: %w", err)
	}
	return nil
}

// hint tells readers who go by it which version is the newest.
func hint(fsys vfs.FS, dir string, version int) error {
	return writeFile(fsys, fsys.PathJoin(dir, "metadata", hintName), []byte(strconv.Itoa(version)))
}

func writeFile(fsys vfs.FS, path string, text []byte) error {
	return atomicfile.Write(fsys, path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// current is the schema that new rows have.
func (m *metadata) current() *schema {
	i := slices.IndexFunc(m.Schemas, func(s schema) bool { return s.ID == m.CurrentSchema })
	if i < 0 {
		return &schema{}
	}
	return &m.Schemas[i]
}

// snapshot finds a snapshot by its id.
func (m *metadata) snapshot(id int64) *snapshot {
	i := slices.IndexFunc(m.Snapshots, func(s snapshot) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return &m.Snapshots[i]
}

// evolve makes the current schema that of columns. Columns may be new; their
// order may change.
func (m *metadata) evolve(columns []sqltype.Field) error {
	old := m.current()
	next := schema{Type: "struct", ID: len(m.Schemas)}
	for _, s := range m.Schemas {
		next.ID = max(next.ID, s.ID+1)
	}
	same := len(old.Fields) == len(columns)
	seen := map[string]bool{}
	for i, c := range columns {
		t, err := typeOf(c.Type)
		if err != nil {
			return fmt.Errorf("column %s: %w", c.Name, err)
		}
		if seen[c.Name] {
			return fmt.Errorf("there are two columns %s", c.Name)
		}
		seen[c.Name] = true
		f := field{Name: c.Name, Type: t}
		at := slices.IndexFunc(old.Fields, func(o field) bool { return o.Name == c.Name })
		switch {
		case at < 0:
			m.LastColumn++
			f.ID = m.LastColumn
			f.Type.number(&m.LastColumn)
		case old.Fields[at].Type.String() != t.String():
			return fmt.Errorf("column %s is %s in the table and %s in the view: types do not change; export to another directory", c.Name, old.Fields[at].Type, t)
		default:
			f = old.Fields[at]
		}
		same = same && at == i
		next.Fields = append(next.Fields, f)
	}
	for _, f := range old.Fields {
		if !seen[f.Name] {
			return fmt.Errorf("column %s of the table is not in the view any more: export to another directory", f.Name)
		}
	}
	if !same || len(m.Schemas) == 0 {
		m.Schemas, m.CurrentSchema = append(m.Schemas, next), next.ID
	}
	return nil
}
