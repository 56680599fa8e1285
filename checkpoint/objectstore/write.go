package objectstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/minio/minio-go/v7"
)

const contentType = "application/octet-stream"

// A writeFile holds what was written until it is enough for a part. Small files
// are one request; larger ones are uploaded in parts and appear with the last.
type writeFile struct {
	noFile
	buf    []byte // at most a part
	size   int64
	upload string // its id, "" until the first part
	parts  []minio.CompletePart
	done   bool
	err    error // of the first request that failed: nothing follows it
}

func (w *writeFile) Stat() (vfs.FileInfo, error) {
	return fileInfo{w.fs.PathBase(w.key), w.size, time.Time{}, false}, nil
}

// Write uploads full parts before it returns.
func (w *writeFile) Write(p []byte) (n int, err error) {
	if w.done {
		return 0, fmt.Errorf("write %s: %w", w.key, fs.ErrClosed)
	}
	for w.err == nil && len(p) > 0 {
		// A part that is full waits until more comes: the last one completes the file.
		if len(w.buf) >= w.fs.part {
			w.err = w.put()
			continue
		}
		k := min(len(p), w.fs.part-len(w.buf))
		if need := len(w.buf) + k; need > cap(w.buf) {
			w.buf = append(make([]byte, 0, min(w.fs.part, max(need, 2*cap(w.buf)))), w.buf...)
		}
		w.buf = append(w.buf, p[:k]...)
		p, n = p[k:], n+k
		w.size += int64(k)
	}
	return n, w.err
}

// Sync makes the file appear. Nothing can be written after it.
func (w *writeFile) Sync() error {
	if w.done || w.err != nil {
		return w.err
	}
	if w.fs.PathBase(w.key) == w.fs.last {
		w.err = w.fs.fenced()
	}
	if w.err != nil {
		return w.err
	}
	if w.upload == "" {
		w.err = w.putWhole()
	} else if w.err = w.put(); w.err == nil {
		w.err = w.complete()
	}
	w.done = w.err == nil
	return w.err
}

// SyncData is Sync.
func (w *writeFile) SyncData() error { return w.Sync() }

// Close makes the file appear, unless it was synced, or writing it failed.
func (w *writeFile) Close() error {
	if w.err != nil {
		return w.Abort()
	}
	return w.Sync()
}

// Abort gives up a file that is not synced: it does not appear.
func (w *writeFile) Abort() error {
	if w.done {
		return nil
	}
	w.done, w.buf = true, nil
	if w.upload == "" {
		return nil
	}
	return w.fs.abort(w.key, w.upload)
}

func (f *FS) abort(key, upload string) error {
	return f.do("abort upload of", key, func(ctx context.Context) error {
		err := f.core.AbortMultipartUpload(ctx, f.bucket, key, upload)
		if response(err).Code == minio.NoSuchUpload {
			return nil
		}
		return err
	})
}

func (w *writeFile) putWhole() error {
	b := w.buf
	sum := sha256Of(b)
	return w.fs.do("put", w.key, func(ctx context.Context) error {
		_, err := w.fs.core.PutObject(ctx, w.fs.bucket, w.key, bytes.NewReader(b), int64(len(b)), "", sum, minio.PutObjectOptions{ContentType: contentType, DisableContentSha256: true})
		return err
	})
}

// put uploads the buffer as the next part.
func (w *writeFile) put() error {
	f := w.fs
	if len(w.parts) == maxParts {
		return &Error{Op: "put", Bucket: f.bucket, Key: w.key, Err: fmt.Errorf("%w: a file has at most %d bytes", errors.ErrUnsupported, maxParts*int64(f.part))}
	}
	if w.upload == "" {
		err := f.do("begin upload of", w.key, func(ctx context.Context) (err error) {
			w.upload, err = f.core.NewMultipartUpload(ctx, f.bucket, w.key, minio.PutObjectOptions{ContentType: contentType})
			return err
		})
		if err != nil {
			return err
		}
	}
	number, b := len(w.parts)+1, w.buf
	sum := sha256Of(b)
	err := f.do("put", w.key, func(ctx context.Context) error {
		p, err := f.core.PutObjectPart(ctx, f.bucket, w.key, w.upload, number, bytes.NewReader(b), int64(len(b)), minio.PutObjectPartOptions{Sha256Hex: sum, DisableContentSha256: true})
		if err == nil {
			w.parts = append(w.parts, minio.CompletePart{PartNumber: number, ETag: p.ETag})
		}
		return err
	})
	w.buf = w.buf[:0]
	return err
}

// complete makes an object of the parts. When an answer was lost the upload may
// be gone because it is complete: then the object is there, with its size.
func (w *writeFile) complete() error {
	f, tries := w.fs, 0
	return f.do("complete upload of", w.key, func(ctx context.Context) error {
		tries++
		_, err := f.core.CompleteMultipartUpload(ctx, f.bucket, w.key, w.upload, w.parts, minio.PutObjectOptions{})
		if r := response(err); tries > 1 && (r.Code == minio.NoSuchUpload || r.StatusCode == http.StatusNotFound) {
			info, e := f.core.StatObject(ctx, f.bucket, w.key, minio.StatObjectOptions{})
			if e == nil && info.Size == w.size {
				return nil
			}
		}
		return err
	})
}

// sha256Of goes into the signature: the store refuses what arrives changed.
func sha256Of(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
