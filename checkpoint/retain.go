package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/internal/atomicfile"
)

// Keep is how many checkpoints [Retain] keeps by default.
const Keep = 3

// Sweep removes what a crash left in dir: checkpoints that were not finished,
// or only half removed. It is called at start, before the first Write.
func Sweep(fsys vfs.FS, dir string) (swept []string, err error) {
	swept, err = atomicfile.Sweep(fsys, dir)
	if d, ok := fsys.(atomicfile.Direct); ok && err == nil {
		var more []string
		more, err = sweepDirect(d, dir)
		swept = append(swept, more...)
	}
	return swept, errors.Join(err, sweepParts(fsys, dir))
}

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
		m, err := readNumber(fsys, dir, id)
		if unfinished(fsys, err) {
			continue
		}
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

// A Retention bounds the checkpoints of a directory. One goes when it is beyond
// any of the bounds; the newest stays. Savepoints do not count and do not go.
type Retention struct {
	Count int           // so many at most; 0 is 1
	Age   time.Duration // none that is older; 0 is no bound
	Bytes int64         // of the files of all, a file that several share counted once; 0 is no bound
}

// Retain applies r to dir and returns the numbers of what it removed, newest
// first. A reader that has a file open goes on reading it. What has a manifest that
// cannot be read may be a savepoint, and is left alone; what has none goes when it is
// older than those that stay.
func (r Retention) Retain(fsys vfs.FS, dir string, now time.Time) (removed []uint64, err error) {
	ids, err := numbers(fsys, dir)
	if err != nil {
		return nil, err
	}
	good, bytes, full := 0, int64(0), false
	seen := map[string]bool{}
	for _, id := range slices.Backward(ids) {
		m, err := readNumber(fsys, dir, id)
		switch {
		case err == nil && m.Savepoint != "", err != nil && !errors.Is(err, ErrMissing):
			continue
		case err == nil && !full:
			for _, f := range m.files() {
				if !seen[f.SHA256] {
					seen[f.SHA256] = true
					bytes += f.Bytes
				}
			}
			full = good >= max(1, r.Count) || good > 0 && (r.Age > 0 && now.Sub(m.Created) > r.Age || r.Bytes > 0 && bytes > r.Bytes)
			good++
		}
		if !full {
			continue
		}
		if err := Remove(fsys, dir, id); err != nil {
			return removed, err
		}
		removed = append(removed, id)
	}
	return removed, nil
}

// Retain removes all but the newest keep checkpoints of dir: see [Retention].
func Retain(fsys vfs.FS, dir string, keep int) (removed []uint64, err error) {
	return Retention{Count: keep}.Retain(fsys, dir, time.Time{})
}

// Remove removes checkpoint id of dir, savepoint or not. After a crash it is
// whole or gone; a reader that has a file open goes on reading it. It fails
// with [ErrMissing] when there is none.
func Remove(fsys vfs.FS, dir string, id uint64) error {
	path := Path(fsys, dir, id)
	if _, err := fsys.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return &Error{Kind: ErrMissing, Path: path, What: "there is no such checkpoint"}
	}
	ids, err := numbers(fsys, dir)
	if err != nil {
		return err
	}
	if len(ids) > 0 && ids[len(ids)-1] == id {
		if err := reserve(fsys, dir, id+1); err != nil {
			return err
		}
	}
	return atomicfile.Remove(fsys, path)
}

// nextFile has the next number to be given, where that is not one above the
// greatest there is: a number that meant a removed checkpoint must not mean
// another one.
const nextFile = "next"

// reserve makes next the least number that may be given, unless that is greater
// already: it is never lowered.
func reserve(fsys vfs.FS, dir string, next uint64) error {
	if have, err := reserved(fsys, dir); err != nil || have >= next {
		return err
	}
	return atomicfile.Write(fsys, fsys.PathJoin(dir, nextFile), func(f io.Writer) error {
		_, err := fmt.Fprintln(f, next)
		return err
	})
}

// reserved is the least number that may be given.
func reserved(fsys vfs.FS, dir string) (uint64, error) {
	path := fsys.PathJoin(dir, nextFile)
	b, err := readAll(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0, &Error{Kind: ErrDamaged, Path: path, What: "it is not the number of the next checkpoint", Do: "write a number into it that no checkpoint had"}
	}
	return n, nil
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
