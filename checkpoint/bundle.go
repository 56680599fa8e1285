package checkpoint

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/internal/atomicfile"
)

// BundleSuffix ends the name of a bundle.
const BundleSuffix = ".weir"

// WriteBundle writes the checkpoint as one file of the local file system: a ZIP
// archive whose entries are the checkpoint's files as they are, not compressed once
// more, manifest.json first. Every byte is verified on its way. The file is whole or
// absent, and must not exist.
func (c *Checkpoint) WriteBundle(file string) (err error) {
	if _, err := os.Lstat(file); err == nil {
		return &Error{Kind: ErrExists, Path: file, What: "there is a file of that name", Do: "give another name, or remove it first"}
	}
	err = atomicfile.Write(vfs.Default, file, func(w io.Writer) error {
		z := zip.NewWriter(w)
		return errors.Join(c.bundle(z), z.Close())
	})
	if err != nil {
		return fmt.Errorf("write bundle %s: %w", file, err)
	}
	return nil
}

func (c *Checkpoint) bundle(z *zip.Writer) error {
	add := func(name string, want *File) error {
		in, err := c.fs.Open(c.fs.PathJoin(c.dir, name))
		if err != nil {
			return err
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store, Modified: c.Manifest.Created})
		if err != nil {
			return errors.Join(err, in.Close())
		}
		h := sha256.New()
		n, err := io.Copy(io.MultiWriter(w, h), in)
		if err = errors.Join(err, in.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if want != nil {
			return want.same(c.fs.PathJoin(c.dir, name), n, h)
		}
		return nil
	}
	if err := add(ManifestName, nil); err != nil {
		return err
	}
	for _, f := range c.Manifest.files() {
		if err := add(f.Name, &f); err != nil {
			return err
		}
	}
	return nil
}

// same compares what was copied with what the manifest says of the file.
func (f *File) same(path string, bytes int64, h hash.Hash) error {
	if bytes != f.Bytes {
		return damaged(path, "it has %d bytes, not %d", bytes, f.Bytes)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != f.SHA256 {
		return damaged(path, "its sha256 is %s, not %s", got, f.SHA256)
	}
	return nil
}

// Unbundle unpacks a bundle of the local file system into dir, which must not
// exist, and opens it. The manifest is verified before another entry is looked at,
// and each file while it is unpacked; entries that the manifest does not name are
// passed over. When it fails dir does not exist.
func Unbundle(file string, fsys vfs.FS, dir string) (_ *Checkpoint, err error) {
	if _, err := fsys.Stat(dir); err == nil {
		return nil, &Error{Kind: ErrNotEmpty, Path: dir, What: "it exists", Do: "give a new directory"}
	}
	z, err := zip.OpenReader(file)
	if errors.Is(err, zip.ErrFormat) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, &Error{Kind: ErrDamaged, Path: file, What: "it is no bundle, or not a whole one", Do: "use another copy", Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("open bundle: %w", err)
	}
	defer z.Close()
	if err := fsys.MkdirAll(fsys.PathJoin(dir, "views"), 0o755); err != nil {
		return nil, fmt.Errorf("create %s: %w", dir, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, fsys.RemoveAll(dir))
		}
	}()
	u := &unbundling{file: file, entries: map[string]*zip.File{}, fs: fsys, dir: dir}
	for _, f := range z.File {
		if _, twice := u.entries[f.Name]; twice {
			return nil, damaged(file, "it has two entries %s", f.Name)
		}
		u.entries[f.Name] = f
	}
	if err := u.unpack(ManifestName, nil); err != nil {
		return nil, err
	}
	c, err := Open(fsys, dir)
	if e, ok := errors.AsType[*Error](err); ok {
		e.Path = file + ": " + ManifestName
	}
	if err != nil {
		return nil, err
	}
	for _, f := range c.Manifest.files() {
		if err := u.unpack(f.Name, &f); err != nil {
			return nil, err
		}
	}
	return c, nil
}

type unbundling struct {
	file    string
	entries map[string]*zip.File
	fs      vfs.FS
	dir     string
}

func (u *unbundling) unpack(name string, want *File) error {
	path := u.file + ": " + name
	e, ok := u.entries[name]
	if !ok {
		return &Error{Kind: ErrMissing, Path: path, What: "the bundle has no such entry", Do: "use another copy"}
	}
	limit := int64(manifestLimit)
	if want != nil {
		limit = want.Bytes
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return damaged(path, "its name leads out of the bundle")
		}
	}
	if e.UncompressedSize64 > uint64(limit) {
		return damaged(path, "it has %d bytes, more than %d", e.UncompressedSize64, limit)
	}
	in, err := e.Open()
	if err != nil {
		return damaged(path, "%v", err)
	}
	defer in.Close()
	to := u.fs.PathJoin(u.dir, name)
	if err := u.fs.MkdirAll(u.fs.PathDir(to), 0o755); err != nil {
		return fmt.Errorf("create %s: %w", u.fs.PathDir(to), err)
	}
	h, src := sha256.New(), &entry{in: in}
	var n int64
	err = atomicfile.Create(u.fs, to, func(w io.Writer) (err error) {
		n, err = io.Copy(io.MultiWriter(w, h), io.LimitReader(src, limit+1))
		return err
	})
	switch {
	case src.err != nil:
		return damaged(path, "%v", src.err)
	case err != nil:
		return fmt.Errorf("unpack %s: %w", path, err)
	case want != nil:
		return want.same(path, n, h)
	}
	return nil
}

// An entry remembers why reading it failed.
type entry struct {
	in  io.Reader
	err error
}

func (e *entry) Read(p []byte) (int, error) {
	n, err := e.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		e.err = err
	}
	return n, err
}
