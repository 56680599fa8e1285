package appliance

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A temp is a directory for as long as a command runs. While it does the file lock
// in it is locked; what is not was left by one that was killed.
type temp struct {
	path string
	lock io.Closer
}

// makeTemp makes a directory in dir whose name begins with prefix, and first removes
// those of that prefix that were left there.
func makeTemp(dir, prefix string) (*temp, error) {
	sweepTemp(dir, prefix)
	for try := 0; ; try++ {
		path, err := os.MkdirTemp(dir, prefix)
		if err != nil {
			return nil, err
		}
		lock, err := vfs.Default.Lock(filepath.Join(path, lockFile))
		if err == nil {
			return &temp{path, lock}, nil
		}
		// Another that sweeps may have come between the file and its lock.
		if err = errors.Join(err, os.RemoveAll(path)); try == 2 {
			return nil, err
		}
	}
}

// Close removes the directory. The lock is given back last, so that nobody else
// removes it meanwhile.
func (t *temp) Close() error {
	return errors.Join(os.RemoveAll(t.path), t.lock.Close())
}

// sweepTemp removes what was left, as far as it can: it is no reason not to go on.
// The directory may be one that all users share, so it looks only at what is this
// user's alone. One without a lock may have been made a moment ago, and is empty.
func sweepTemp(dir, prefix string) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range list {
		if !strings.HasPrefix(e.Name(), prefix) || !ownDir(e) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if st, err := os.Lstat(filepath.Join(path, lockFile)); err != nil || !st.Mode().IsRegular() {
			continue
		}
		lock, err := vfs.Default.Lock(filepath.Join(path, lockFile))
		if err != nil {
			continue // it is in use
		}
		_ = errors.Join(os.RemoveAll(path), lock.Close())
	}
}

// ownDir says whether only this user reaches what is in a directory, which is no link.
func ownDir(e fs.DirEntry) bool {
	info, err := e.Info()
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
