package iceberg

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// honest keeps to io.Writer's rule that what is written is left alone. Under the
// race detector Pebble's file system in memory flips it, and Arrow writes the
// magic bytes of Parquet from a variable.
type honest struct{ vfs.FS }

func (h honest) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := h.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	return honestFile{f}, nil
}

type honestFile struct{ vfs.File }

func (f honestFile) Write(p []byte) (int, error) { return f.File.Write(bytes.Clone(p)) }
