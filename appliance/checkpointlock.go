package appliance

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/checkpoint/objectstore"
)

// lockFile lies in a directory of checkpoints. Who writes there holds a lock on it: on
// this machine one of the operating system, which ends with the process while the file
// stays; in object storage the file itself, see [objectstore.Lease].
const lockFile = "lock"

// identityFile lies in the data directory of an appliance whose checkpoints are in
// object storage. After a crash it tells the lock that it left from that of another.
const identityFile = "identity"

// errInUse says that somebody else writes to a directory of checkpoints.
var errInUse = errors.New("an appliance runs on it, or a command writes to it")

// ownPlace is what to do about it.
const ownPlace = "give each appliance --checkpoints of its own"

// A placeLock is held on a directory of checkpoints. Check fails when another has it
// meanwhile, which cannot be on this machine.
type placeLock interface {
	io.Closer
	Check() error
}

type fileLock struct{ io.Closer }

func (fileLock) Check() error { return nil }

// noLock is held where nobody else can be.
type noLock struct{}

func (noLock) Close() error { return nil }
func (noLock) Check() error { return nil }

// A locker is who locks: the appliance of a data directory, which is locked itself, or,
// where that is "", a command.
type locker struct {
	data  string
	lease objectstore.LeaseOptions // in object storage
}

// ownerOf is what others read of a locker in object storage.
func ownerOf(data string) (o objectstore.Owner, err error) {
	o.What = version()
	if o.Host, err = os.Hostname(); err != nil {
		return o, fmt.Errorf("name of this machine: %w", err)
	}
	if data == "" {
		o.What += ", a command"
		return o, nil
	}
	if o.Dir, err = filepath.Abs(data); err != nil {
		return o, err
	}
	path := filepath.Join(data, identityFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		b = []byte(rand.Text() + "\n")
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		return o, fmt.Errorf("keep the identity of this appliance: %w", err)
	}
	o.ID = strings.TrimSpace(string(b))
	return o, nil
}

// lockCheckpoints locks a directory of checkpoints, which exists, by whatever path
// it is named. It fails with errInUse when another has locked it. An object store that does not
// answer is locked when it does: nothing is published there before.
func lockCheckpoints(fsys vfs.FS, dir string, by locker, log *slog.Logger) (placeLock, error) {
	if objects, ok := fsys.(*objectstore.FS); ok {
		return lockObjects(objects, dir, by, log)
	}
	if fsys == vfs.Default {
		var err error
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return nil, fmt.Errorf("lock directory of checkpoints: %w", err)
		}
	}
	lock, err := fsys.Lock(fsys.PathJoin(dir, lockFile))
	if err == nil {
		return fileLock{lock}, nil
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

func lockObjects(objects *objectstore.FS, dir string, by locker, log *slog.Logger) (placeLock, error) {
	who, err := ownerOf(by.data)
	if err != nil {
		return nil, err
	}
	by.lease.Log = log
	lease := objectstore.NewLease(objects, objects.PathJoin(dir, lockFile), who, by.lease)
	err = lease.Acquire()
	if err == nil || errors.Is(err, objectstore.ErrUnavailable) {
		return lease, nil
	}
	err = inUse(err)
	if !errors.Is(err, errInUse) {
		err = fmt.Errorf("lock the place of checkpoints: %w", err)
	}
	return nil, errors.Join(err, lease.Close())
}

// inUse says in the words of lockCheckpoints that another has a place in object
// storage.
func inUse(err error) error {
	held, ok := errors.AsType[*objectstore.HeldError](err)
	if !ok {
		return err
	}
	return fmt.Errorf("%s is in use: %w: %s, since %s", held.Place, errInUse, held.By, held.Since.Format(time.RFC3339))
}
