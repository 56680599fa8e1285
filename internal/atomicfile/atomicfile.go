// Package atomicfile publishes files and directories so that a reader, or the
// next start after a crash, sees either nothing of them or all of them.
//
// A file is written under a temporary name, synced, closed and renamed; then
// its directory is synced, without which the rename itself may be lost. A
// directory is built under a temporary name ([Stage]) and renamed once
// ([Publish]). Temporary names begin with [TempPrefix]: what a crash left behind
// is found and removed by [Sweep].
//
// An object store has no such renames; see [Direct].
//
// Everything goes through a vfs.FS, so that tests can fail each call and cut
// the power after it. The package knows nothing of what is in the files.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TempPrefix begins the name of everything that is not published yet, or is
// on its way out.
const TempPrefix = ".tmp-"

// ErrUnsynced says that what was published stands under its name, and that a power
// cut may still undo that: its directory could not be synced.
var ErrUnsynced = errors.New("it is written, but a power cut may still undo that")

const category = vfs.WriteCategoryUnspecified

// A Direct file system is an object store: renaming a directory copies it, and
// is not atomic; but a file appears under its name whole, when it is synced or
// closed, or not at all. So directories are built there in their place, and are
// published by the file with the base name Last, which is written last and which
// RemoveAll removes first. Who lists directories takes one without it as absent.
type Direct interface {
	vfs.FS
	Last() string
	// AbortUploads frees what files beneath dir hold that never appeared.
	AbortUploads(dir string) error
}

// Write publishes a file: write fills it, then it is synced and renamed to
// name, and the directory is synced. On an error nothing stands under name that
// did not stand there before, unless it is [ErrUnsynced].
func Write(fsys vfs.FS, name string, write func(io.Writer) error) (err error) {
	if _, ok := fsys.(Direct); ok { // what stood there before is not removed
		f, err := fsys.Create(name, category)
		if err != nil {
			return fmt.Errorf("create %s: %w", name, err)
		}
		return fill(f, name, write)
	}
	dir := fsys.PathDir(name)
	tmp := fsys.PathJoin(dir, TempPrefix+fsys.PathBase(name))
	if err := Create(fsys, tmp, write); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return errors.Join(fmt.Errorf("rename %s: %w", tmp, err), fsys.Remove(tmp))
	}
	return published(fsys, name)
}

// published makes a name durable that was just given.
func published(fsys vfs.FS, name string) error {
	if err := SyncDir(fsys, fsys.PathDir(name)); err != nil {
		return fmt.Errorf("%s: %w: %w", name, ErrUnsynced, err)
	}
	return nil
}

// Create writes and syncs a file under its final name, for files inside a
// directory that is not published yet. The caller syncs the directory. On an
// error the file is removed; one that has a method Abort never appears.
func Create(fsys vfs.FS, name string, write func(io.Writer) error) (err error) {
	f, err := fsys.Create(name, category)
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	if err := fill(f, name, write); err != nil {
		return errors.Join(err, fsys.Remove(name))
	}
	return nil
}

// fill writes, syncs and closes a file. One that has a method Abort is given up
// on an error.
func fill(f vfs.File, name string, write func(io.Writer) error) (err error) {
	if err = write(f); err == nil {
		if err = f.Sync(); err != nil {
			err = fmt.Errorf("sync %s: %w", name, err)
		}
	}
	if a, ok := f.(interface{ Abort() error }); ok && err != nil {
		return errors.Join(err, a.Abort(), f.Close())
	}
	if e := f.Close(); e != nil && err == nil {
		err = fmt.Errorf("close %s: %w", name, e)
	}
	return err
}

// Stage says where to build the directory that [Publish] is to publish as name,
// and clears that place: a temporary name beside it or, in a Direct file system,
// name itself, which must not be published yet.
func Stage(fsys vfs.FS, name string) (string, error) {
	d, ok := fsys.(Direct)
	if !ok {
		tmp := fsys.PathJoin(fsys.PathDir(name), TempPrefix+fsys.PathBase(name))
		return tmp, removeAll(fsys, tmp)
	}
	if _, err := fsys.Stat(fsys.PathJoin(name, d.Last())); err == nil {
		return "", fmt.Errorf("stage %s: %w", name, fs.ErrExist)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("stage %s: %w", name, err)
	}
	return name, removeAll(fsys, name)
}

// Publish renames the directory tmp, whose files and directories are already
// synced, to name and syncs the parent that both share. name must not exist:
// a published directory never changes. Where [Stage] gave name itself its last
// file has published it. On an error nothing stands under name, unless it is
// [ErrUnsynced].
func Publish(fsys vfs.FS, tmp, name string) error {
	if tmp == name {
		return SyncDir(fsys, fsys.PathDir(name))
	}
	if _, err := fsys.Stat(name); err == nil {
		return fmt.Errorf("publish %s: %w", name, fs.ErrExist)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("publish %s: %w", name, err)
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return fmt.Errorf("publish %s: %w", name, err)
	}
	return published(fsys, name)
}

// Remove unpublishes a directory: it is first renamed to a temporary name, so
// that nobody ever finds half of it under its own, then deleted.
func Remove(fsys vfs.FS, name string) error {
	if _, ok := fsys.(Direct); ok {
		return removeAll(fsys, name)
	}
	dir := fsys.PathDir(name)
	tmp := fsys.PathJoin(dir, TempPrefix+"removed-"+fsys.PathBase(name))
	if err := removeAll(fsys, tmp); err != nil {
		return err
	}
	if err := fsys.Rename(name, tmp); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	if err := SyncDir(fsys, dir); err != nil {
		return err
	}
	return removeAll(fsys, tmp)
}

// Sweep removes everything in dir that was never published or half removed,
// and returns the names. A directory that does not exist has no leftovers. The
// caller makes sure that nobody else is publishing into dir.
func Sweep(fsys vfs.FS, dir string) (swept []string, err error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, TempPrefix) {
			continue
		}
		if err := removeAll(fsys, fsys.PathJoin(dir, name)); err != nil {
			return swept, err
		}
		swept = append(swept, name)
	}
	return swept, nil
}

// SyncDir makes the names in dir durable.
func SyncDir(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return fmt.Errorf("open directory %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}

func removeAll(fsys vfs.FS, name string) error {
	if err := fsys.RemoveAll(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}
