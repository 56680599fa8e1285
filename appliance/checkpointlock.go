package appliance

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/internal/atomicfile"
)

// lockFile lies in a directory of checkpoints on this machine. Who writes there
// holds a lock on it, which ends with the process. The file stays.
const lockFile = "lock"

// errInUse says that somebody else writes to a directory of checkpoints.
var errInUse = errors.New("an appliance runs on it, or a command writes to it")

// noLock is held where there are no locks.
type noLock struct{}

func (noLock) Close() error { return nil }

// lockCheckpoints locks a directory of checkpoints, which exists, by whatever path
// it is named. It fails with errInUse when another has locked it. Object stores
// have no locks.
func lockCheckpoints(fsys vfs.FS, dir string) (io.Closer, error) {
	if _, objects := fsys.(atomicfile.Direct); objects {
		return noLock{}, nil
	}
	if fsys == vfs.Default {
		var err error
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return nil, fmt.Errorf("lock directory of checkpoints: %w", err)
		}
	}
	lock, err := fsys.Lock(fsys.PathJoin(dir, lockFile))
	if err == nil {
		return lock, nil
	}
	held := true // what the process holds itself has no type
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		held = false
	} else if e, ok := errors.AsType[syscall.Errno](err); ok {
		held = e == syscall.EAGAIN || e == syscall.EACCES
	}
	if held {
		return nil, fmt.Errorf("%s is in use: %w", dir, errInUse)
	}
	return nil, fmt.Errorf("lock directory of checkpoints: %w", err)
}
