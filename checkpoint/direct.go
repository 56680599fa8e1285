package checkpoint

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/internal/atomicfile"
)

// unfinished says whether err, of reading a manifest, means a checkpoint that is
// being written, or was not finished: in object storage it bears its number from
// the beginning.
func unfinished(fsys vfs.FS, err error) bool {
	_, ok := fsys.(atomicfile.Direct)
	return ok && errors.Is(err, ErrMissing)
}

// sweepDirect removes the numbered directories of dir that have no manifest.
// One that holds anything but what a checkpoint does is left alone: a bucket may
// be shared, and eight digits may be a date.
func sweepDirect(fsys atomicfile.Direct, dir string) (swept []string, err error) {
	ids, err := numbers(fsys, dir)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		path := Path(fsys, dir, id)
		if _, err := fsys.Stat(fsys.PathJoin(path, ManifestName)); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return swept, err
		}
		names, err := fsys.List(path)
		if err != nil {
			return swept, err
		}
		if slices.ContainsFunc(names, func(n string) bool {
			return n != "views" && n != quarantineFile && !strings.HasPrefix(n, atomicfile.TempPrefix)
		}) {
			continue
		}
		if err := fsys.RemoveAll(path); err != nil {
			return swept, err
		}
		swept = append(swept, dirName(id))
	}
	return swept, fsys.AbortUploads(dir)
}
