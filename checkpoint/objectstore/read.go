package objectstore

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/minio/minio-go/v7"
)

// A request for a few bytes takes as long as one for many: ReadAt asks for at
// least readAhead, Read, whose next bytes are sure to be wanted, for more.
const (
	readAhead       = 1 << 20
	readSequential  = 4 << 20
	readAtOnceLimit = 64 << 20 // a request that takes longer than an attempt would never end
)

// A readFile reads one object. It keeps the bytes that the last request brought
// beyond what was asked for.
type readFile struct {
	noFile
	info fileInfo
	etag string

	mu     sync.Mutex
	pos    int64  // of Read
	window []byte // bytes from at
	at     int64
	closed bool
}

func (r *readFile) Stat() (vfs.FileInfo, error) { return r.info, nil }

func (r *readFile) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed, r.window = true, nil
	return nil
}

// Read reads on from where the last Read ended.
func (r *readFile) Read(p []byte) (int, error) {
	r.mu.Lock()
	pos := r.pos
	r.mu.Unlock()
	n, err := r.readAt(p, pos, readSequential)
	r.mu.Lock()
	r.pos = pos + int64(n)
	r.mu.Unlock()
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// ReadAt may be called concurrently.
func (r *readFile) ReadAt(p []byte, off int64) (int, error) { return r.readAt(p, off, readAhead) }

func (r *readFile) readAt(p []byte, off int64, ahead int) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("read %s: offset %d: %w", r.key, off, fs.ErrInvalid)
	}
	for n < len(p) {
		from := off + int64(n)
		if from >= r.info.size {
			return n, io.EOF
		}
		r.mu.Lock()
		closed := r.closed
		if from >= r.at && from < r.at+int64(len(r.window)) {
			n += copy(p[n:], r.window[from-r.at:])
			r.mu.Unlock()
			continue
		}
		r.mu.Unlock()
		if closed {
			return n, fmt.Errorf("read %s: %w", r.key, fs.ErrClosed)
		}
		got, err := r.get(p[n:], from, ahead)
		n += got
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// get requests p's bytes at from; what comes beyond them becomes the window.
func (r *readFile) get(p []byte, from int64, ahead int) (int, error) {
	if len(p) > readAtOnceLimit {
		p = p[:readAtOnceLimit]
	}
	size := min(int64(max(len(p), ahead)), r.info.size-from)
	if int64(len(p)) > size {
		p = p[:size]
	}
	extra := make([]byte, size-int64(len(p)))
	err := r.fs.do("get", r.key, func(ctx context.Context) error {
		var o minio.GetObjectOptions
		if err := o.SetRange(from, from+size-1); err != nil {
			return err
		}
		if r.etag != "" {
			if err := o.SetMatchETag(r.etag); err != nil {
				return err
			}
		}
		body, info, header, err := r.fs.core.GetObject(ctx, r.fs.bucket, r.key, o)
		if err != nil {
			return err
		}
		defer body.Close()
		if info.ETag != r.etag {
			return errReplaced // the store does not know If-Match
		}
		if want := fmt.Sprintf("bytes %d-%d/%d", from, from+size-1, r.info.size); header.Get("Content-Range") != want {
			return fmt.Errorf("%w: asked for %s, it gave %q", errOurs, want, header.Get("Content-Range"))
		}
		if _, err := io.ReadFull(body, p); err != nil {
			return err
		}
		_, err = io.ReadFull(body, extra)
		return err
	})
	if err != nil {
		return 0, err
	}
	if len(extra) > 0 {
		r.mu.Lock()
		if !r.closed {
			r.window, r.at = extra, from+int64(len(p))
		}
		r.mu.Unlock()
	}
	return len(p), nil
}
