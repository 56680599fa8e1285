// Package faultfs has file systems for tests of what must survive failures.
package faultfs

import (
	"bytes"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Honest keeps to io.Writer's rule that what is written is left alone. Under the
// race detector Pebble's file system in memory flips it, and Arrow writes the
// magic bytes of Parquet from a variable.
type Honest struct{ vfs.FS }

// Create makes a file whose writes are of copies.
func (h Honest) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := h.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	return honestFile{f}, nil
}

type honestFile struct{ vfs.File }

func (f honestFile) Write(p []byte) (int, error) { return f.File.Write(bytes.Clone(p)) }

// FailAt is an injector that fails the call with the number At, counted from 0, or,
// when the disk is Full, that and all that follow.
type FailAt struct {
	At   int64
	Full bool

	n   atomic.Int64
	met atomic.Bool
}

// MaybeError counts a call.
func (f *FailAt) MaybeError(errorfs.Op) error {
	n := f.n.Add(1) - 1
	if n == f.At || f.Full && n > f.At {
		f.met.Store(true)
		return errorfs.ErrInjected
	}
	return nil
}

// Met says whether a call has failed.
func (f *FailAt) Met() bool { return f.met.Load() }

// String names it.
func (f *FailAt) String() string { return fmt.Sprint(f.At) }
