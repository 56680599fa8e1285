package appliance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"

	"weir/checkpoint"
	"weir/checkpoint/objectstore"
	"weir/internal/atomicfile"
)

// outside refuses a place to write to that is a checkpoint's own directory or lies
// in one: a checkpoint does not change, and what stands in it goes with it, past the
// lock of the directory that it lies in. dir need not exist.
func outside(fsys vfs.FS, dir string) error {
	if fsys == vfs.Default {
		dir = unlinked(dir)
	}
	for d := dir; ; {
		is, err := isCheckpoint(fsys, d)
		switch {
		case err != nil:
			return err
		case is && d == dir:
			return fmt.Errorf("%s is a checkpoint's own directory, which is not written to: give another", dir)
		case is:
			return fmt.Errorf("%s lies in %s, a checkpoint's own directory, which is not written to: give another", dir, d)
		}
		up := fsys.PathDir(d)
		if up == d {
			return nil
		}
		d = up
	}
}

// isCheckpoint says whether a directory is a checkpoint, whole or damaged, or has
// the name of one among checkpoints: the next may get it.
func isCheckpoint(fsys vfs.FS, dir string) (bool, error) {
	beside := shelf{fsys, fsys.PathDir(dir)}
	_, numbered := beside.number(fsys.PathBase(dir))
	f, err := fsys.Open(fsys.PathJoin(dir, checkpoint.ManifestName))
	switch {
	case errors.Is(err, fs.ErrPermission):
		return numbered, nil
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		if !numbered {
			return false, nil
		}
		return beside.used()
	case err != nil:
		return false, fmt.Errorf("look whether %s is a checkpoint: %w", dir, err)
	}
	// Other programs have manifests of that name.
	head, err := io.ReadAll(io.LimitReader(f, 4<<10))
	_ = f.Close()
	if errors.Is(err, syscall.EISDIR) {
		return false, nil
	}
	return numbered || bytes.Contains(head, []byte(`"weir-checkpoint"`)), nil
}

// used says whether there is a whole checkpoint.
func (s shelf) used() (bool, error) {
	ids, err := s.numbers()
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	for _, id := range ids {
		if ok, err := s.whole(s.path(id)); ok || err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.ENOTDIR) {
			return ok, err
		}
	}
	return false, err
}

// outside refuses directories of an appliance that lie in a checkpoint. Whether a
// prefix of object storage does is not asked: the store need not answer at the start.
func (f *serveFlags) outside() error {
	for _, dir := range []string{f.Data, f.Checkpoints, f.ExportDir} {
		if dir == "" || objectstore.IsLocation(dir) {
			continue
		}
		if err := outside(vfs.Default, dir); err != nil {
			return err
		}
	}
	return nil
}

// writeOutput writes the file that a user names. It is replaced whole, or not at
// all, and keeps its permissions. Where a link leads is written, and the link stays.
// Into what is no file, such as a device or a FIFO, the bytes go as they come, and
// so they do where path is another name of stdout.
func writeOutput(ctx context.Context, path string, stdout io.Writer, write func(io.Writer) error) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("look at the file to write: %w", err)
	case info.IsDir():
		return fmt.Errorf("%s is a directory: give the name of a file", path)
	case isStdout(stdout, info):
		return write(stdout)
	case !info.Mode().IsRegular():
		return writeThrough(ctx, path, os.O_WRONLY, write)
	}
	target, open, err := followed(path)
	if err != nil {
		return err
	}
	if open { // the file of a descriptor: who opened it decided what becomes of what it holds
		return writeThrough(ctx, path, os.O_WRONLY|os.O_APPEND, write)
	}
	if err := outside(vfs.Default, filepath.Dir(target)); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("make the directory of the file: %w", err)
	}
	return atomicfile.Write(vfs.Default, target, func(w io.Writer) error {
		if f, ok := w.(interface{ Fd() uintptr }); ok && info != nil {
			if err := unix.Fchmod(int(f.Fd()), uint32(info.Mode().Perm())); err != nil {
				return fmt.Errorf("give the file the permissions of the one before: %w", err)
			}
		}
		return write(w)
	})
}

func isStdout(out io.Writer, info fs.FileInfo) bool {
	f, ok := unwrapped(out).(*os.File)
	if !ok {
		return false
	}
	is, err := f.Stat()
	return err == nil && os.SameFile(is, info)
}

// followed is where links at the end of a path lead, also when nothing is there yet.
// open says that they go by a descriptor of a process, as /dev/fd/3 does.
func followed(path string) (target string, open bool, err error) {
	for range 40 {
		path = filepath.Join(unlinked(filepath.Dir(path)), filepath.Base(path))
		to, err := os.Readlink(path)
		if err != nil { // no link
			return path, false, nil
		}
		if in, err := filepath.Rel("/proc", path); err == nil && filepath.IsLocal(in) {
			return path, true, nil
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return "", false, fmt.Errorf("%s: %w", path, syscall.ELOOP)
}

// writeThrough writes into what is there. Opening a FIFO waits for its reader.
func writeThrough(ctx context.Context, path string, flag int, write func(io.Writer) error) error {
	type opened struct {
		f   *os.File
		err error
	}
	got := make(chan opened, 1)
	go func() {
		f, err := os.OpenFile(path, flag, 0)
		got <- opened{f, err}
	}()
	select {
	case o := <-got:
		if o.err != nil {
			return fmt.Errorf("open the file to write: %w", o.err)
		}
		return errors.Join(write(o.f), o.f.Close())
	case <-ctx.Done():
		return fmt.Errorf("wait for a reader of %s: %w", path, ctx.Err())
	}
}
