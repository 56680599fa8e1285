package state

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/internal/atomicfile"
)

// pebbleLogger passes Pebble's notes on. Fatalf is how Pebble reports a failed
// write of the log or the manifest; it expects not to return.
type pebbleLogger struct{ s *Store }

func (l pebbleLogger) Infof(format string, args ...any) {
	l.s.o.Logger.Debug("pebble: " + fmt.Sprintf(format, args...))
}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.s.o.Logger.Error("pebble: " + fmt.Sprintf(format, args...))
}

func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.s.fail(fmt.Errorf("the disk failed a commit: "+format, args...))
	select {} // Pebble's goroutine must not go on
}

// backgroundError is how Pebble reports a flush or a compaction that failed. It
// tries again without end, with its locks held while it opens; where the disk is
// full or broken that would be for ever.
func (l pebbleLogger) backgroundError(err error) {
	for _, e := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EIO, syscall.EROFS} {
		if errors.Is(err, e) {
			l.s.fail(fmt.Errorf("the disk failed a write: %w", err))
			return
		}
	}
	l.Errorf("in the background: %v", err)
}

// A disk is the file system as Pebble is to see it.
//
// It makes the name of a new manifest durable at once: Pebble writes the file
// that points to it before it syncs the directory, and a disk that keeps the
// second name but not the first leaves a database that does not open.
//
// Where a directory cannot be synced, or a log cannot be written, synced or
// closed, Pebble panics in whatever goroutine, sometimes with its locks astray.
// Here these are more ways for the disk to fail a commit.
type disk struct {
	vfs.FS
	s *Store
}

// Create makes a file.
func (d disk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := d.FS.Create(name, c)
	if isLog(d.FS, name) {
		return d.log(file, err)
	}
	if err != nil || !strings.HasPrefix(d.PathBase(name), "MANIFEST-") {
		return file, err
	}
	if err := atomicfile.SyncDir(d.FS, d.PathDir(name)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// ReuseForWrite makes a file of an old one, as Pebble does with logs.
func (d disk) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := d.FS.ReuseForWrite(oldname, newname, c)
	if isLog(d.FS, newname) {
		return d.log(file, err)
	}
	return file, err
}

func isLog(fs vfs.FS, name string) bool { return strings.HasSuffix(fs.PathBase(name), ".log") }

func (d disk) log(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		pebbleLogger{d.s}.Fatalf("make a log: %v", err)
	}
	return logFile{file, d.s}, nil
}

// OpenDir opens a directory to sync it.
func (d disk) OpenDir(name string) (vfs.File, error) {
	file, err := d.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return directory{file, d.s}, nil
}

// Unwrap returns the wrapped file system.
func (d disk) Unwrap() vfs.FS { return d.FS }

type directory struct {
	vfs.File
	s *Store
}

// Sync does not return when it fails.
func (d directory) Sync() error {
	if err := d.File.Sync(); err != nil {
		pebbleLogger{d.s}.Fatalf("sync of the directory: %v", err)
	}
	return nil
}

// logFile is a log that is written. What fails does not return.
type logFile struct {
	vfs.File
	s *Store
}

func (f logFile) must(what string, err error) error {
	if err != nil {
		pebbleLogger{f.s}.Fatalf("%s a log: %v", what, err)
	}
	return nil
}

func (f logFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.must("write", err)
}

func (f logFile) Close() error    { return f.must("close", f.File.Close()) }
func (f logFile) Sync() error     { return f.must("sync", f.File.Sync()) }
func (f logFile) SyncData() error { return f.must("sync", f.File.SyncData()) }

func (f logFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	return full, f.must("sync", err)
}
