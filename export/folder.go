package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/internal/atomicfile"
	"weir/state/sqltype"
)

// A folder of Parquet files of one view:
//
//	DIR/newest.parquet                       the newest export
//	    epochs/00000000000000001234.parquet  the same file, and those before it
//
// newest.parquet is what says that an export is done: it gets that name by one
// rename, when the file is synced under its other name.
const (
	newestFile = "newest.parquet"
	epochsName = "epochs"
	lockFile   = "weir-lock"
	epochEnd   = ".parquet"

	viewKey  = "weir.view"
	epochKey = "weir.epoch"
)

// FolderOptions are how a view is exported to a folder.
type FolderOptions struct {
	// View is the name of the view, which the folder is of for good.
	View string
	// Epoch is that of the rows; it names their file.
	Epoch uint64
	// Metadata is put into the file, with weir.view and weir.epoch.
	Metadata map[string]string
	// Once names the metadata that tell one export from another. When the newest
	// file has the same values of all of them, nothing is written.
	Once []string
	// Keep is how many files stay, the new one included: at least 1.
	Keep int
}

// A FolderFile is one export.
type FolderFile struct {
	Rows, Bytes int64
	Time        time.Time         // when it was written
	Metadata    map[string]string // weir.epoch and the like
	Old         bool              // it was there before, see FolderOptions.Once
}

// Folder writes the rows of a reader as the newest file of the folder dir, which
// it makes if there is none; columns and rows are those of [Parquet]. An export
// that ends at any point, by a crash or by an error, leaves newest.parquet as it
// was, or the new one. Then files go: those of epochs above (the state went back,
// and they are of what was given up), and of the others the oldest. Only files
// that are named as exports are were written by them and are removed.
func Folder(ctx context.Context, fsys vfs.FS, dir string, columns []sqltype.Field, rows array.RecordReader, o FolderOptions) (_ *FolderFile, err error) {
	old, err := NewestFile(fsys, dir, o.View)
	if err != nil {
		return nil, err
	}
	epochs := fsys.PathJoin(dir, epochsName)
	for _, d := range []string{dir, epochs} {
		if err := fsys.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("make folder: %w", err)
		}
		if err := atomicfile.SyncDir(fsys, fsys.PathDir(d)); err != nil {
			return nil, err
		}
	}
	lock, err := fsys.Lock(fsys.PathJoin(dir, lockFile))
	if err != nil {
		return nil, fmt.Errorf("another export to %s is running: %w", dir, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	for _, d := range []string{dir, epochs} {
		if err := clean(fsys, d); err != nil {
			return nil, err
		}
	}
	if old != nil && o.repeats(old) {
		old.Old = true
		return old, nil
	}
	out := &FolderFile{Metadata: maps.Clone(o.Metadata)}
	if out.Metadata == nil {
		out.Metadata = map[string]string{}
	}
	out.Metadata[viewKey], out.Metadata[epochKey] = o.View, strconv.FormatUint(o.Epoch, 10)
	name := fsys.PathJoin(epochs, epochFile(o.Epoch))
	err = atomicfile.Write(fsys, name, func(w io.Writer) (err error) {
		out.Rows, err = Parquet(ctx, w, columns, rows, Options{Metadata: out.Metadata})
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := publish(fsys, name, fsys.PathJoin(dir, newestFile)); err != nil {
		return nil, err
	}
	st, err := fsys.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("look at export: %w", err)
	}
	out.Bytes, out.Time = st.Size(), st.ModTime()
	if err := trim(fsys, epochs, o.Epoch, o.Keep); err != nil {
		return nil, fmt.Errorf("the export is written; removing old ones: %w", err)
	}
	return out, nil
}

// publish gives a file that is written a second name, in place of what has it.
func publish(fsys vfs.FS, name, newest string) error {
	dir := fsys.PathDir(newest)
	tmp := fsys.PathJoin(dir, atomicfile.TempPrefix+newestFile)
	err := vfs.LinkOrCopy(fsys, name, tmp) // a copy is synced
	if err == nil {
		err = fsys.Rename(tmp, newest)
	}
	if err != nil {
		return fmt.Errorf("publish export: %w", err)
	}
	return atomicfile.SyncDir(fsys, dir)
}

// clean removes what exports left that did not end.
func clean(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return fmt.Errorf("list folder: %w", err)
	}
	for _, name := range names {
		if unfinished(name) {
			if err := fsys.Remove(fsys.PathJoin(dir, name)); err != nil {
				return fmt.Errorf("remove %s: %w", name, err)
			}
		}
	}
	return nil
}

// trim leaves the newest files up to an epoch.
func trim(fsys vfs.FS, epochs string, last uint64, keep int) error {
	names, err := fsys.List(epochs)
	if err != nil {
		return fmt.Errorf("list folder: %w", err)
	}
	slices.Sort(names)
	for _, name := range slices.Backward(names) {
		e, ok := epochOf(name)
		if !ok {
			continue
		}
		if e <= last && keep > 0 {
			keep--
			continue
		}
		if err := fsys.Remove(fsys.PathJoin(epochs, name)); err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return nil
}

// NewestFile looks at the newest export in a folder of a view; nil when there is
// none. A directory that holds something else is an error.
func NewestFile(fsys vfs.FS, dir, view string) (*FolderFile, error) {
	path := fsys.PathJoin(dir, newestFile)
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, vacant(fsys, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open the newest export: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("open the newest export: %w", err)
	}
	out, err := footer(io.NewSectionReader(f, 0, st.Size()))
	if err != nil {
		return nil, fmt.Errorf("%s is damaged, or no Parquet file: remove it, and it is written again: %w", path, err)
	}
	switch of, ok := out.Metadata[viewKey]; {
	case !ok:
		return nil, fmt.Errorf("%s was not written by Weir: export to another directory", path)
	case of != view:
		return nil, fmt.Errorf("%s is of view %s, not %s: export to another directory", path, of, view)
	}
	out.Bytes, out.Time = st.Size(), st.ModTime()
	return out, nil
}

// footer reads what a Parquet file says of itself. The decoder panics on some
// damage.
func footer(r *io.SectionReader) (out *FolderFile, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("%v", p)
		}
	}()
	pq, err := file.NewParquetReader(r)
	if err != nil {
		return nil, err
	}
	defer pq.Close()
	out = &FolderFile{Rows: pq.NumRows(), Metadata: map[string]string{}}
	kv := pq.MetaData().KeyValueMetadata()
	for i, k := range kv.Keys() {
		if strings.HasPrefix(k, "weir.") && k != columnsKey {
			out.Metadata[k] = kv.Values()[i]
		}
	}
	return out, nil
}

// vacant refuses a directory that holds anything else than what an export leaves
// that did not end.
func vacant(fsys vfs.FS, dir string) error {
	if _, err := fsys.Stat(fsys.PathJoin(dir, "metadata", "version-hint.text")); err == nil {
		return fmt.Errorf("%s holds an Iceberg table: an export keeps its format; export to another directory, or remove this one if nobody reads the table", dir)
	}
	for _, d := range []string{"", epochsName} {
		names, err := fsys.List(fsys.PathJoin(dir, d))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("list folder: %w", err)
		}
		for _, name := range names {
			_, file := epochOf(name)
			switch {
			case d == "" && (name == epochsName || name == lockFile), d != "" && file, unfinished(name):
			default:
				return fmt.Errorf("%s holds %s, and no export of Weir: export to a directory that is empty, or not there yet", dir, fsys.PathJoin(d, name))
			}
		}
	}
	return nil
}

// repeats says whether f is of what is to be exported.
func (o *FolderOptions) repeats(f *FolderFile) bool {
	for _, key := range o.Once {
		if v, ok := f.Metadata[key]; !ok || v != o.Metadata[key] {
			return false
		}
	}
	return len(o.Once) > 0
}

func epochFile(epoch uint64) string { return fmt.Sprintf("%020d%s", epoch, epochEnd) }

// epochOf says whether a name is one of a file of an epoch, and of which.
func epochOf(name string) (uint64, bool) {
	digits, _ := strings.CutSuffix(name, epochEnd)
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && epochFile(n) == name
}

// unfinished says whether a name is one under which files are written.
func unfinished(name string) bool {
	rest, ok := strings.CutPrefix(name, atomicfile.TempPrefix)
	_, file := epochOf(rest)
	return ok && (file || rest == newestFile)
}
