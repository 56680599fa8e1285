package objectstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7"
)

// errChanged says that an object is not what it was.
var errChanged = errors.New("somebody else has written it meanwhile")

// fetch reads a small object and its ETag.
func (f *FS) fetch(key string) (body []byte, etag string, err error) {
	err = f.do("get", key, func(ctx context.Context) error {
		r, info, _, err := f.core.GetObject(ctx, f.bucket, key, minio.GetObjectOptions{})
		if err != nil {
			return err
		}
		defer r.Close()
		etag = info.ETag
		body, err = io.ReadAll(io.LimitReader(r, 1<<16))
		return err
	})
	return body, etag, err
}

// swap puts an object if its ETag is still old, or if there is none when old is "".
// Else it fails with errChanged. body must be like no other: what was carried out
// though its answer was lost is told by that. A store that does not know conditions, or
// refuses them, writes in any case.
func (f *FS) swap(key string, body []byte, old string) error {
	sum := sha256Of(body)
	put := func(ctx context.Context, o minio.PutObjectOptions) error {
		o.ContentType, o.DisableContentSha256 = "application/json", true
		_, err := f.core.PutObject(ctx, f.bucket, key, bytes.NewReader(body), int64(len(body)), "", sum, o)
		return err
	}
	changed := false
	err := f.do("put", key, func(ctx context.Context) error {
		var o minio.PutObjectOptions
		if old == "" {
			o.SetMatchETagExcept("*")
		} else {
			o.SetMatchETag(old)
		}
		err := put(ctx, o)
		switch response(err).StatusCode {
		case http.StatusNotImplemented, http.StatusBadRequest, http.StatusMethodNotAllowed:
			return put(ctx, minio.PutObjectOptions{})
		case http.StatusPreconditionFailed, http.StatusNotFound: // of If-Match, when there is none
			if response(err).Code != minio.NoSuchBucket {
				changed = true
				return nil
			}
		}
		return err
	})
	if err != nil || !changed {
		return err
	}
	if have, _, err := f.fetch(key); err == nil && bytes.Equal(have, body) {
		return nil
	}
	return &Error{Op: "put", Bucket: f.bucket, Key: key, Err: errChanged}
}

// detached is the same bucket with requests that end with ctx instead.
func (f *FS) detached(ctx context.Context) *FS {
	return &FS{ctx: ctx, core: f.core, bucket: f.bucket, last: f.last, retry: f.retry, wait: f.wait, maxWait: f.maxWait, part: f.part}
}
