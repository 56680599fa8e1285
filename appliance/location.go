package appliance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/checkpoint"
	"weir/checkpoint/objectstore"
	"weir/queryable"
)

// locate opens the place of a checkpoint, or of a directory of checkpoints: a
// path of this machine, or s3://bucket/prefix in object storage. Nothing is
// asked of the store yet; its requests end with ctx.
func locate(ctx context.Context, place string, o objectstore.Options) (fsys vfs.FS, dir string, err error) {
	if !objectstore.IsLocation(place) {
		dir, err := filepath.Abs(place)
		return vfs.Default, dir, err
	}
	l, err := objectstore.ParseLocation(place)
	if err != nil {
		return nil, "", err
	}
	o.Last = checkpoint.ManifestName
	f, err := objectstore.New(ctx, l, o)
	if err != nil {
		return nil, "", fmt.Errorf("object storage: %w", err)
	}
	return f, l.Prefix, nil
}

// unstored says in the words of the API that an object store does not answer, or
// refuses, or that the disk is full.
func unstored(err error) error {
	for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) {
			return &queryable.Error{Code: queryable.Unavailable, Message: fmt.Sprintf("the disk that holds the checkpoints is full (%v), and nothing was written: free space on it, then try again", full), Position: -1, Cause: err}
		}
	}
	if e := inUse(err); errors.Is(e, errInUse) {
		return &queryable.Error{Code: queryable.Conflict, Message: fmt.Sprintf("%v; nothing was written: %s, and start this one again", e, ownPlace), Position: -1, Cause: err}
	}
	switch {
	case errors.Is(err, objectstore.ErrUnavailable):
		return &queryable.Error{Code: queryable.Unavailable, Message: "the object store that holds the checkpoints does not answer: try again when it does", Position: -1, Cause: err}
	case errors.As(err, new(*objectstore.Error)) && errors.Is(err, fs.ErrPermission):
		return &queryable.Error{Code: queryable.Unavailable, Message: "the object store that holds the checkpoints refuses the credentials: the log says of which file", Position: -1, Cause: err}
	}
	return err
}
