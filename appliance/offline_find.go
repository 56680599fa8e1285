package appliance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/checkpoint"
	"weir/checkpoint/objectstore"
)

// namingHelp says how a command line names a checkpoint.
const namingHelp = "CHECKPOINT is a checkpoint's directory, a bundle (FILE.weir), or DIR for the newest in a directory of checkpoints or a data directory (not one that transform or merge made); DIR@42 is number 42 there, DIR@name the savepoint of that name. DIR may be s3://bucket/prefix."

// A found is a checkpoint that was named. Close it.
type found struct {
	*checkpoint.Checkpoint
	fs   vfs.FS
	path string // its directory
	dir  string // the directory of checkpoints that it lies in
	temp *temp  // what Close removes, nil if nothing

	bundle string // its file, "" when it is none
}

// Close removes what was unpacked.
func (f *found) Close() error {
	if f.temp == nil {
		return nil
	}
	return f.temp.Close()
}

// A shelf is a directory of checkpoints, or one that is a checkpoint itself.
type shelf struct {
	fs  vfs.FS
	dir string
}

// shelfAt is the directory of checkpoints that a place means: itself, or that of
// the data directory that it is.
func shelfAt(ctx context.Context, place string) (shelf, error) {
	fsys, dir, err := locate(ctx, place, objectstore.Options{})
	if err != nil {
		return shelf{}, err
	}
	if inside := filepath.Join(dir, checkpointsDir); fsys == vfs.Default && isDir(inside) {
		dir = inside
	}
	return shelf{fsys, dir}, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// path is where checkpoint id of the shelf is.
func (s shelf) path(id uint64) string { return checkpoint.Path(s.fs, s.dir, id) }

// whole says whether there is a checkpoint at a path.
func (s shelf) whole(path string) (bool, error) {
	_, err := s.fs.Stat(s.fs.PathJoin(path, checkpoint.ManifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// numbers lists the directories of checkpoints, whole or not, in order.
func (s shelf) numbers() ([]uint64, error) {
	names, err := s.fs.List(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", s.dir, err)
	}
	var ids []uint64
	for _, n := range names {
		n = strings.TrimSuffix(n, "/")
		if id, ok := s.number(n); ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// number is the number of the checkpoint whose directory has a name.
func (s shelf) number(name string) (id uint64, ok bool) {
	id, err := strconv.ParseUint(name, 10, 64)
	return id, err == nil && s.fs.PathBase(s.path(id)) == name
}

func (s shelf) open(path string) (*found, error) {
	c, err := checkpoint.Open(s.fs, path)
	if err != nil {
		return nil, err
	}
	return &found{Checkpoint: c, fs: s.fs, path: path, dir: s.fs.PathDir(path)}, nil
}

// find opens a checkpoint by its number or its savepoint's name; "" is the one
// that the directory is itself, or the newest that was taken, and an error when
// that cannot be read.
func (s shelf) find(which string) (*found, error) {
	if which != "" {
		m, err := s.named(which)
		if err != nil {
			return nil, err
		}
		return s.open(s.path(m.Checkpoint))
	}
	if ok, err := s.whole(s.dir); ok || err != nil {
		return s.open(s.dir)
	}
	list, err := checkpoint.List(s.fs, s.dir)
	if len(list) == 0 {
		if err == nil {
			err = fmt.Errorf("%s holds no checkpoint: one is complete when it has a %s", s.dir, checkpoint.ManifestName)
		}
		return nil, err
	}
	m := checkpoint.Newest(list)
	if err != nil {
		ids, _ := s.numbers()
		for _, id := range ids {
			if m != nil && id < m.Checkpoint || slices.ContainsFunc(list, func(l *checkpoint.Manifest) bool { return l.Checkpoint == id }) {
				continue
			}
			return nil, fmt.Errorf("the newest checkpoint cannot be read: %w; name another, there are: %s", err, checkpoint.Listed(list))
		}
	}
	if m == nil {
		return nil, fmt.Errorf("%s: %s; there are: %s", s.dir, onlyEdited, checkpoint.Listed(list))
	}
	return s.open(s.path(m.Checkpoint))
}

// named finds a checkpoint by its number or its savepoint's name.
func (s shelf) named(which string) (*checkpoint.Manifest, error) {
	if n, err := strconv.ParseUint(which, 10, 64); err == nil {
		return checkpoint.FindNumber(s.fs, s.dir, n)
	}
	return checkpoint.FindSavepoint(s.fs, s.dir, which)
}

// find opens the checkpoint that an argument names.
func find(ctx context.Context, arg string) (*found, error) {
	if !objectstore.IsLocation(arg) {
		if info, err := os.Stat(arg); err == nil && !info.IsDir() {
			return unpacked(arg, os.TempDir())
		}
	}
	place, which, err := splitName(arg)
	if err != nil {
		return nil, err
	}
	s, err := shelfAt(ctx, place)
	if err != nil {
		return nil, err
	}
	return s.find(which)
}

// splitName takes DIR@which apart. Directories and names may hold an @ themselves:
// the first one behind a directory that exists divides them.
func splitName(arg string) (place, which string, err error) {
	if objectstore.IsLocation(arg) {
		if at := strings.LastIndexByte(arg, '@'); at > 0 {
			return arg[:at], arg[at+1:], nil
		}
		return arg, "", nil
	}
	if isDir(arg) {
		return arg, "", nil
	}
	for i := range len(arg) {
		if arg[i] == '@' && i > 0 && i+1 < len(arg) && isDir(arg[:i]) {
			return arg[:i], arg[i+1:], nil
		}
	}
	return "", "", fmt.Errorf("%s does not exist: give a checkpoint's directory, DIR, DIR@42 or DIR@name", arg)
}

// unpacked opens a bundle by way of a directory within tmp.
func unpacked(file, tmp string) (*found, error) {
	dir, err := makeTemp(tmp, "weir-bundle-")
	if err != nil {
		return nil, fmt.Errorf("make a directory to unpack %s into: %w", file, err)
	}
	path := filepath.Join(dir.path, "checkpoint")
	c, err := checkpoint.Unbundle(file, vfs.Default, path)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return &found{Checkpoint: c, fs: vfs.Default, path: path, dir: dir.path, temp: dir, bundle: file}, nil
}
