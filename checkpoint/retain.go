package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/internal/atomicfile"
)

// Keep is how many checkpoints [Retain] keeps by default.
const Keep = 3

// Sweep removes what a crash left in dir: checkpoints that were not finished,
// or only half removed. It is called at start, before the first Write.
func Sweep(fsys vfs.FS, dir string) (swept []string, err error) { return atomicfile.Sweep(fsys, dir) }

// List reads the manifests of the checkpoints in dir, oldest first. A directory
// that does not exist has none. Those that cannot be read are left out and
// joined into the error, which says of each what is wrong; the list is right
// all the same.
func List(fsys vfs.FS, dir string) ([]*Manifest, error) {
	ids, err := numbers(fsys, dir)
	if err != nil {
		return nil, err
	}
	var list []*Manifest
	var errs []error
	for _, id := range ids {
		m, err := readManifest(fsys, Path(fsys, dir, id))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		list = append(list, m)
	}
	return list, errors.Join(errs...)
}

// Path is the directory of checkpoint id in dir.
func Path(fsys vfs.FS, dir string, id uint64) string { return fsys.PathJoin(dir, dirName(id)) }

// Retain removes all but the newest keep checkpoints of dir (at least one stays)
// and returns their numbers, newest first. A reader that has a file open goes on reading it.
// Unreadable ones do not count as kept while a readable one is older.
func Retain(fsys vfs.FS, dir string, keep int) (removed []uint64, err error) {
	ids, err := numbers(fsys, dir)
	if err != nil {
		return nil, err
	}
	good := 0
	for _, id := range slices.Backward(ids) {
		if good < max(1, keep) {
			if _, err := readManifest(fsys, Path(fsys, dir, id)); err == nil {
				good++
			}
			continue
		}
		if err := atomicfile.Remove(fsys, Path(fsys, dir, id)); err != nil {
			return removed, err
		}
		removed = append(removed, id)
	}
	return removed, nil
}

// numbers lists the checkpoint directories of dir, whole or not, in order.
func numbers(fsys vfs.FS, dir string) ([]uint64, error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	var ids []uint64
	for _, name := range names {
		if id, err := strconv.ParseUint(name, 10, 64); err == nil && dirName(id) == name {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}
