package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/minio/minio-go/v7"
)

// Create makes a file that appears when it is synced or closed. It then takes no
// more bytes. A file that was not completed can be given up: it has a method
// Abort.
func (f *FS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return &writeFile{noFile: noFile{f, key(name)}}, nil
}

// Open opens a file to be read.
func (f *FS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	info, err := f.head(key(name))
	if err != nil {
		return nil, err
	}
	r := &readFile{noFile: noFile{f, key(name)}, info: fileInfo{path.Base(key(name)), info.Size, info.LastModified, false}, etag: info.ETag}
	for _, o := range opts {
		o.Apply(r)
	}
	return r, nil
}

// OpenDir opens a directory, which has nothing to be synced.
func (f *FS) OpenDir(name string) (vfs.File, error) { return &dirFile{noFile{f, key(name)}}, nil }

// Link copies a file.
func (f *FS) Link(oldname, newname string) error {
	info, err := f.head(key(oldname))
	if err != nil {
		return err
	}
	return f.copy(key(oldname), key(newname), info.Size)
}

// Rename copies a file or directory and then removes the old one. A directory's
// Last is copied last and removed first.
func (f *FS) Rename(oldname, newname string) error {
	from, to := key(oldname), key(newname)
	if from == to {
		return nil
	}
	if info, err := f.head(from); err == nil {
		return errors.Join(f.copy(from, to, info.Size), f.remove(from))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	all, err := f.objects(from+"/", true, 0)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return &Error{Op: "rename", Bucket: f.bucket, Key: from, Err: fs.ErrNotExist}
	}
	f.lastFirst(all)
	for _, o := range slices.Backward(all) {
		if err := f.copy(o.Key, path.Join(to, strings.TrimPrefix(o.Key, from+"/")), o.Size); err != nil {
			return err
		}
	}
	for _, o := range all {
		if err := f.remove(o.Key); err != nil {
			return err
		}
	}
	return nil
}

// lastFirst puts the objects that make their directory whole before the others.
func (f *FS) lastFirst(all []minio.ObjectInfo) {
	rank := func(o minio.ObjectInfo) int {
		if path.Base(o.Key) == f.last {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b minio.ObjectInfo) int { return rank(a) - rank(b) })
}

// Remove removes a file. It succeeds when there is none.
func (f *FS) Remove(name string) error {
	if err := f.fenced(); err != nil {
		return err
	}
	return f.remove(key(name))
}

// RemoveAll removes a file, or a directory, its Last first. Uploads beneath it
// that were never finished end.
func (f *FS) RemoveAll(name string) error {
	k := key(name)
	if k == "" {
		return f.unsupported("remove all of", name) // never a whole bucket
	}
	if err := f.fenced(); err != nil {
		return err
	}
	all, err := f.objects(k+"/", true, 0)
	if err != nil {
		return err
	}
	f.lastFirst(all)
	for _, o := range all {
		if err := f.remove(o.Key); err != nil {
			return err
		}
	}
	if err := f.remove(k); err != nil {
		return err
	}
	return f.AbortUploads(name)
}

// AbortUploads ends the uploads beneath a directory that were never finished:
// they are not listed, but cost. Stores that cannot list them, or do not allow
// it, end them by a rule of the bucket.
func (f *FS) AbortUploads(dir string) error {
	prefix := key(dir) + "/"
	type upload struct{ key, id string }
	var found []upload
	err := f.do("list uploads of", prefix, func(ctx context.Context) error {
		found = nil
		for keyMarker, idMarker := "", ""; ; {
			r, err := f.core.ListMultipartUploads(ctx, f.bucket, prefix, keyMarker, idMarker, "", 1000)
			if err != nil {
				return err
			}
			for _, u := range r.Uploads {
				if strings.HasPrefix(u.Key, prefix) {
					found = append(found, upload{u.Key, u.UploadID})
				}
			}
			keyMarker, idMarker = r.NextKeyMarker, r.NextUploadIDMarker
			if !r.IsTruncated {
				return nil
			}
		}
	})
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, u := range found {
		err = errors.Join(err, f.abort(u.key, u.id))
	}
	return err
}

// MkdirAll does nothing: a directory is there when a file is.
func (f *FS) MkdirAll(string, os.FileMode) error { return nil }

// List lists a directory. One that does not exist is empty.
func (f *FS) List(dir string) ([]string, error) {
	prefix := key(dir) + "/"
	if prefix == "/" {
		prefix = ""
	}
	all, err := f.objects(prefix, false, 0)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, o := range all {
		// Consoles of object stores make an empty object where a directory is made.
		if name := strings.TrimSuffix(strings.TrimPrefix(o.Key, prefix), "/"); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Stat finds a file or a directory.
func (f *FS) Stat(name string) (vfs.FileInfo, error) {
	k := key(name)
	if k == "" {
		return fileInfo{name: "/", dir: true}, nil
	}
	info, err := f.head(k)
	if err == nil {
		return fileInfo{path.Base(k), info.Size, info.LastModified, false}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	some, e := f.objects(k+"/", true, 1)
	if e != nil {
		return nil, e
	}
	if len(some) == 0 {
		return nil, err
	}
	return fileInfo{name: path.Base(k), modified: some[0].LastModified, dir: true}, nil
}

// PathBase is path.Base.
func (f *FS) PathBase(p string) string { return path.Base(p) }

// PathJoin is path.Join.
func (f *FS) PathJoin(elem ...string) string { return path.Join(elem...) }

// PathDir is path.Dir.
func (f *FS) PathDir(p string) string { return path.Dir(p) }

// Unwrap gives nil: there is no file system beneath.
func (f *FS) Unwrap() vfs.FS { return nil }

// String names the bucket.
func (f *FS) String() string { return fmt.Sprintf("%s%s", Scheme, f.bucket) }

// OpenReadWrite is not supported.
func (f *FS) OpenReadWrite(name string, _ vfs.DiskWriteCategory, _ ...vfs.OpenOption) (vfs.File, error) {
	return nil, f.unsupported("open to write", name)
}

// ReuseForWrite is not supported.
func (f *FS) ReuseForWrite(name, _ string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, f.unsupported("reuse", name)
}

// Lock is not supported: object stores have no locks. See [Lease].
func (f *FS) Lock(name string) (io.Closer, error) { return nil, f.unsupported("lock", name) }

// GetDiskUsage is not supported.
func (f *FS) GetDiskUsage(name string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{}, f.unsupported("measure", name)
}
