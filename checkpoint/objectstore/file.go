package objectstore

import (
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// noFile is what all files of the package cannot do.
type noFile struct {
	fs  *FS
	key string
}

func (n *noFile) Read([]byte) (int, error)           { return 0, n.fs.unsupported("read", n.key) }
func (n *noFile) ReadAt([]byte, int64) (int, error)  { return 0, n.fs.unsupported("read", n.key) }
func (n *noFile) Write([]byte) (int, error)          { return 0, n.fs.unsupported("write", n.key) }
func (n *noFile) WriteAt([]byte, int64) (int, error) { return 0, n.fs.unsupported("write", n.key) }
func (n *noFile) Preallocate(_, _ int64) error       { return nil }
func (n *noFile) Prefetch(_, _ int64) error          { return nil }
func (n *noFile) SyncTo(int64) (bool, error)         { return false, nil }
func (n *noFile) Sync() error                        { return nil }
func (n *noFile) SyncData() error                    { return nil }
func (n *noFile) Close() error                       { return nil }
func (n *noFile) Fd() uintptr                        { return vfs.InvalidFd }

// A dirFile is an open directory.
type dirFile struct{ noFile }

func (d *dirFile) Stat() (vfs.FileInfo, error) { return d.fs.Stat(d.key) }

// A fileInfo describes an object or a prefix.
type fileInfo struct {
	name     string
	size     int64
	modified time.Time
	dir      bool
}

func (i fileInfo) Name() string           { return i.name }
func (i fileInfo) Size() int64            { return i.size }
func (i fileInfo) ModTime() time.Time     { return i.modified }
func (i fileInfo) IsDir() bool            { return i.dir }
func (i fileInfo) Sys() any               { return nil }
func (i fileInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }

func (i fileInfo) Mode() os.FileMode {
	if i.dir {
		return os.ModeDir | 0o755
	}
	return 0o644
}
