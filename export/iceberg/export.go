package iceberg

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/export"
	"weir/internal/atomicfile"
	"weir/state/sqltype"
)

const (
	ours       = "weir-" // begins the names of our files
	lockName   = "weir-lock"
	keepCount  = 10 // snapshots, if Options.Keep does not say
	keptOldLog = 20 // older files of metadata
)

// Options of an export.
type Options struct {
	// View is the name of the view, which the table is of for good.
	View string
	// Properties are put into the summary of the snapshot, for example weir.epoch.
	Properties map[string]string
	// Keep is how many snapshots stay, the new one included; 0 is 10.
	Keep int
	// Once names the properties that tell one export from another. When the newest
	// snapshot has the same values of all of them, nothing is written, and it is that
	// snapshot which Export gives.
	Once []string
	// Now is the time of the snapshot; zero is now.
	Now time.Time
}

// A Snapshot is what an export wrote.
type Snapshot struct {
	ID       int64
	Version  int // of the table's metadata
	Rows     int64
	Bytes    int64  // of the data file
	Metadata string // the file of metadata: the table, for readers without a catalogue
	Time     time.Time
	Summary  map[string]string
	Old      bool // it was there before, see Options.Once
}

// Export makes the rows of a reader the content of the table in dir, which it
// makes if there is none. dir is an absolute path; it is how the table names its
// files, so tables do not move. columns are the names and SQL types of the
// reader's columns, whose batches are in file form. One export at a time runs on
// a table; another is refused.
func Export(ctx context.Context, fsys vfs.FS, dir string, columns []sqltype.Field, rows array.RecordReader, o Options) (_ *Snapshot, err error) {
	if err := vacant(fsys, dir); err != nil {
		return nil, err
	}
	for _, d := range []string{dir, fsys.PathJoin(dir, "data"), fsys.PathJoin(dir, "metadata")} {
		if err := fsys.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("make table: %w", err)
		}
		if err := atomicfile.SyncDir(fsys, fsys.PathDir(d)); err != nil {
			return nil, err
		}
	}
	lock, err := fsys.Lock(fsys.PathJoin(dir, "metadata", lockName))
	if err != nil {
		return nil, fmt.Errorf("another export to %s is running: %w", dir, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()

	m, version, err := load(fsys, dir)
	if err != nil {
		return nil, err
	}
	if m == nil {
		m = newTable(dir, o.View)
	}
	if err := m.fits(dir, o.View); err != nil {
		return nil, err
	}
	if version > 0 { // a crash may have come between the two
		if err := hint(fsys, dir, version); err != nil {
			return nil, err
		}
	}
	if err := sweep(fsys, dir, m); err != nil {
		return nil, err
	}
	if old := m.newest(fsys, dir, version); old != nil && o.repeats(old) {
		old.Old = true
		return old, nil
	}
	if err := m.evolve(columns); err != nil {
		return nil, err
	}
	e := &exporting{ctx: ctx, fs: fsys, dir: dir, m: m, o: o, version: version + 1}
	if err := e.write(columns, rows); err != nil {
		return nil, err
	}
	if err := m.publish(fsys, dir, e.version); err != nil {
		return nil, err
	}
	if err := sweep(fsys, dir, m); err != nil {
		return nil, fmt.Errorf("the snapshot is written; removing old ones: %w", err)
	}
	return &e.done, nil
}

// Newest gives the newest snapshot of the table of a view; nil when there is none.
// A directory that holds something else is an error.
func Newest(fsys vfs.FS, dir, view string) (*Snapshot, error) {
	m, version, err := load(fsys, dir)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, vacant(fsys, dir)
	}
	if err := m.fits(dir, view); err != nil {
		return nil, err
	}
	return m.newest(fsys, dir, version), nil
}

// Check says what keeps columns from being exported to dir, as far as can be known
// before: another table, or one whose columns these do not continue.
func Check(fsys vfs.FS, dir, view string, columns []sqltype.Field) error {
	m, _, err := load(fsys, dir)
	if err != nil {
		return err
	}
	if m == nil {
		m = newTable(dir, view)
	}
	if err := m.fits(dir, view); err != nil {
		return err
	}
	return m.evolve(columns)
}

// newest is the newest snapshot of a table that has that version.
func (m *metadata) newest(fsys vfs.FS, dir string, version int) *Snapshot {
	s := m.snapshot(m.CurrentSnapshot)
	if s == nil {
		return nil
	}
	number := func(key string) int64 {
		n, _ := strconv.ParseInt(s.Summary[key], 10, 64)
		return n
	}
	return &Snapshot{
		ID: s.ID, Version: version, Rows: number("total-records"), Bytes: number("total-files-size"), Summary: s.Summary,
		Metadata: fsys.PathJoin(dir, "metadata", metadataName(version)), Time: time.UnixMilli(s.Timestamp),
	}
}

// repeats says whether s is of what is to be exported.
func (o *Options) repeats(s *Snapshot) bool {
	for _, key := range o.Once {
		if v, ok := s.Summary[key]; !ok || v != o.Properties[key] {
			return false
		}
	}
	return len(o.Once) > 0
}

func newTable(dir, view string) *metadata {
	return &metadata{
		FormatVersion: 2, UUID: uuid(), Location: dir, Specs: []spec{{Fields: []int{}}}, LastPartition: 999,
		SortOrders: []sortOrder{{Fields: []int{}}}, CurrentSnapshot: -1, MetadataLog: []metadataLog{},
		Properties: map[string]string{viewProperty: view, "write.parquet.compression-codec": "zstd"},
	}
}

// fits refuses a table that an export must not replace.
func (m *metadata) fits(dir, view string) error {
	switch of, ok := m.Properties[viewProperty]; {
	case m.FormatVersion != 2:
		return fmt.Errorf("the table in %s has format version %d, not 2", dir, m.FormatVersion)
	case !ok:
		return fmt.Errorf("the table in %s was not written by Weir: export to another directory", dir)
	case of != view:
		return fmt.Errorf("the table in %s is of view %s, not %s: export to another directory", dir, of, view)
	case m.Location != dir:
		return fmt.Errorf("the table in %s was written as %s: tables do not move, since they name their files by whole paths; export to another directory", dir, m.Location)
	}
	return nil
}

// exporting is one export under way.
type exporting struct {
	ctx     context.Context
	fs      vfs.FS
	dir     string
	m       *metadata
	o       Options
	version int
	done    Snapshot
}

func (e *exporting) path(parts ...string) string {
	return e.fs.PathJoin(append([]string{e.dir}, parts...)...)
}

// create writes and syncs a file that nothing names yet, and says how long it is.
func (e *exporting) create(name string, write func(io.Writer) error) (n int64, err error) {
	err = atomicfile.Create(e.fs, name, func(w io.Writer) error {
		c := &counter{w: w}
		defer func() { n = c.n }()
		return write(c)
	})
	return n, err
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// write writes all files of the new snapshot and puts it into the metadata.
func (e *exporting) write(columns []sqltype.Field, rows array.RecordReader) (err error) {
	s := e.snapshot()
	e.done = Snapshot{ID: s.ID, Version: e.version, Metadata: e.path("metadata", metadataName(e.version))}
	stored := make([]sqltype.Field, len(columns))
	for i, c := range columns {
		stored[i] = sqltype.Field{Name: c.Name, Type: physicalDeep(c.Type)}
	}
	in := newWidened(rows, columns)
	defer in.drop()
	fields := e.m.current().Fields
	data := e.path("data", dataName(s.ID))
	e.done.Bytes, err = e.create(data, func(w io.Writer) error {
		e.done.Rows, err = export.Parquet(e.ctx, w, stored, in, export.Options{
			Metadata: e.o.Properties, FieldID: func(path []string) int32 { return id(fields, path) },
		})
		return err
	})
	if err != nil {
		return err
	}
	entries := []entry{{Status: added, Snapshot: &s.ID, File: newDataFile(data, e.done.Rows, e.done.Bytes)}}
	list := manifestFile{Sequence: s.Sequence, MinSequence: s.Sequence, Snapshot: s.ID, Added: 1, AddedRows: e.done.Rows}
	if old := e.m.snapshot(e.m.CurrentSnapshot); old != nil {
		gone, err := e.replaced(old, s)
		if err != nil {
			return err
		}
		entries, list.Deleted, list.DeletedRows, list.MinSequence = append(entries, gone), 1, gone.File.Records, s.Sequence
	}
	list.Path = e.path("metadata", manifestName(s.ID))
	list.Length, err = e.create(list.Path, func(w io.Writer) error { return writeManifest(w, e.m.current(), entries) })
	if err != nil {
		return err
	}
	if _, err := e.create(s.ManifestList, func(w io.Writer) error { return writeList(w, s, []manifestFile{list}) }); err != nil {
		return err
	}
	for _, d := range []string{"data", "metadata"} {
		if err := atomicfile.SyncDir(e.fs, e.path(d)); err != nil {
			return err
		}
	}
	e.summarize(s, list.DeletedRows)
	e.done.Time, e.done.Summary = time.UnixMilli(s.Timestamp), s.Summary
	e.commit(s)
	return nil
}

// snapshot begins a snapshot with an id of its own.
func (e *exporting) snapshot() *snapshot {
	now := e.o.Now
	if now.IsZero() {
		now = time.Now()
	}
	s := &snapshot{Sequence: e.m.LastSequence + 1, Timestamp: max(now.UnixMilli(), e.m.LastUpdated+1), Schema: e.m.CurrentSchema}
	for s.ID == 0 || e.m.snapshot(s.ID) != nil {
		var b [8]byte
		rand.Read(b[:]) // never fails
		s.ID = int64(binary.LittleEndian.Uint64(b[:]) >> 1)
	}
	if e.m.CurrentSnapshot > 0 {
		parent := e.m.CurrentSnapshot
		s.Parent = &parent
	}
	s.ManifestList = e.path("metadata", listName(s.ID))
	return s
}

// replaced is the entry that says that the rows of the snapshot before are gone.
func (e *exporting) replaced(old, s *snapshot) (entry, error) {
	rows, err1 := strconv.ParseInt(old.Summary["total-records"], 10, 64)
	size, err2 := strconv.ParseInt(old.Summary["total-files-size"], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return entry{}, fmt.Errorf("the snapshot %d of the table was not written by Weir: %w; export to another directory", old.ID, err)
	}
	return entry{
		Status: deleted, Snapshot: &s.ID, Sequence: &old.Sequence, FileSequence: &old.Sequence,
		File: newDataFile(e.path("data", dataName(old.ID)), rows, size),
	}, nil
}

func (e *exporting) summarize(s *snapshot, gone int64) {
	s.Summary = maps.Clone(e.o.Properties)
	if s.Summary == nil {
		s.Summary = map[string]string{}
	}
	count := func(key string, n int64) { s.Summary[key] = strconv.FormatInt(n, 10) }
	s.Summary["operation"] = "append"
	if s.Parent != nil {
		s.Summary["operation"] = "overwrite"
		count("deleted-data-files", 1)
		count("deleted-records", gone)
	}
	count("added-data-files", 1)
	count("added-records", e.done.Rows)
	count("added-files-size", e.done.Bytes)
	count("total-data-files", 1)
	count("total-records", e.done.Rows)
	count("total-files-size", e.done.Bytes)
	count("total-delete-files", 0)
	count("total-position-deletes", 0)
	count("total-equality-deletes", 0)
}

// commit makes s the current snapshot and forgets those beyond what is kept.
func (e *exporting) commit(s *snapshot) {
	m := e.m
	if e.version > 1 {
		m.MetadataLog = append(m.MetadataLog, metadataLog{e.path("metadata", metadataName(e.version-1)), m.LastUpdated})
		m.MetadataLog = m.MetadataLog[max(0, len(m.MetadataLog)-keptOldLog):]
	}
	m.LastSequence, m.LastUpdated, m.CurrentSnapshot = s.Sequence, s.Timestamp, s.ID
	m.Snapshots = append(m.Snapshots, *s)
	m.SnapshotLog = append(m.SnapshotLog, snapshotLog{s.ID, s.Timestamp})
	m.Refs = map[string]ref{"main": {s.ID, "branch"}}
	keep := e.o.Keep
	if keep <= 0 {
		keep = keepCount
	}
	m.Snapshots = m.Snapshots[max(0, len(m.Snapshots)-keep):]
	m.SnapshotLog = slices.DeleteFunc(m.SnapshotLog, func(l snapshotLog) bool { return m.snapshot(l.ID) == nil })
}

func dataName(id int64) string     { return fmt.Sprintf("%s%d.parquet", ours, id) }
func manifestName(id int64) string { return fmt.Sprintf("%s%d-manifest.avro", ours, id) }
func listName(id int64) string     { return fmt.Sprintf("%s%d-list.avro", ours, id) }

// sweep removes our files of snapshots that m does not have: what exports left
// that did not end, and what is kept no longer. The lock must be held, and m be
// what stands on the disk.
func sweep(fsys vfs.FS, dir string, m *metadata) error {
	oldest := 0 // version that is kept
	if n := len(m.MetadataLog); n == keptOldLog {
		oldest = versionOf(fsys.PathBase(m.MetadataLog[0].File))
	}
	for _, d := range []string{"data", "metadata"} {
		names, err := fsys.List(fsys.PathJoin(dir, d))
		if err != nil {
			return fmt.Errorf("list table: %w", err)
		}
		for _, name := range names {
			version := versionOf(name)
			id, mine := snapshotOf(name)
			switch {
			case mine && m.snapshot(id) == nil, version > 0 && version < oldest, unfinished(name):
			default:
				continue
			}
			if err := fsys.Remove(fsys.PathJoin(dir, d, name)); err != nil {
				return fmt.Errorf("remove %s of the table: %w", name, err)
			}
		}
	}
	return nil
}

// snapshotOf says whether a name is one that we give to files of a snapshot, and
// of which.
func snapshotOf(name string) (int64, bool) {
	rest, ok := strings.CutPrefix(name, ours)
	for _, end := range []string{".parquet", "-manifest.avro", "-list.avro"} {
		if digits, found := strings.CutSuffix(rest, end); ok && found {
			id, err := strconv.ParseInt(digits, 10, 64)
			return id, err == nil
		}
	}
	return 0, false
}

// unfinished says whether a name is one under which we write metadata.
func unfinished(name string) bool {
	rest, ok := strings.CutPrefix(name, atomicfile.TempPrefix)
	return ok && (rest == hintName || versionOf(rest) > 0)
}

// uuid is a random one.
func uuid() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
