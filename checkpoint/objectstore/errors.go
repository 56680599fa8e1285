package objectstore

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"

	"github.com/minio/minio-go/v7"
)

// ErrUnavailable is in errors of a store that could not be reached, or asked to
// be left alone, for as long as it was tried.
var ErrUnavailable = errors.New("object storage is unavailable")

// An Error says which request failed, for which object, and what to do.
type Error struct {
	Op     string // list, put, get, …
	Bucket string
	Key    string // or prefix
	Do     string // may be empty
	Err    error
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s s3://%s/%s: %v", e.Op, e.Bucket, e.Key, e.Err)
	if e.Do != "" {
		s += "; " + e.Do
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// fault makes an error of what a request ended with.
func (f *FS) fault(op, key string, err error) error {
	e := &Error{Op: op, Bucket: f.bucket, Key: key, Err: err}
	r := response(err)
	switch {
	case f.ctx.Err() != nil:
		e.Err = f.ctx.Err()
	case r.Code == minio.NoSuchBucket:
		e.Do = "create the bucket, or correct its name"
	case r.Code == "InvalidAccessKeyId", r.Code == "SignatureDoesNotMatch", r.Code == "ExpiredToken", r.Code == "InvalidToken":
		e.Do = "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"
		e.Err = fmt.Errorf("%w (%w)", err, fs.ErrPermission)
	case r.StatusCode == http.StatusForbidden || r.StatusCode == http.StatusUnauthorized:
		e.Do = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or a profile in ~/.aws/credentials) of an account that may list the bucket and get, put and delete objects"
		e.Err = fmt.Errorf("%w (%w)", err, fs.ErrPermission)
	case r.StatusCode == http.StatusNotFound:
		e.Err = fs.ErrNotExist
	case r.StatusCode == http.StatusPreconditionFailed:
		e.Err = errReplaced
	case r.StatusCode == http.StatusMovedPermanently, r.Code == "AuthorizationHeaderMalformed":
		e.Do = "give the bucket's region with ?region="
	case r.StatusCode == http.StatusNotImplemented, r.StatusCode == http.StatusMethodNotAllowed:
		e.Err = fmt.Errorf("%w (%w)", err, errors.ErrUnsupported)
	case again(err):
		e.Err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		e.Do = fmt.Sprintf("it was tried for %v: check the endpoint, or wait until the store works again", f.retry)
	}
	return e
}

// response is what the store answered; zero when it did not.
func response(err error) minio.ErrorResponse {
	var r minio.ErrorResponse
	errors.As(err, &r)
	return r
}

// again says whether a request that failed so may do better later.
func again(err error) bool {
	r := response(err)
	var cert x509.UnknownAuthorityError
	switch {
	case errors.Is(err, context.Canceled), errors.As(err, &cert), errors.Is(err, http.ErrSchemeMismatch), errors.Is(err, errOurs), errors.Is(err, errReplaced):
		return false
	case r.StatusCode == 0 && r.Code == "":
		return true // it was never answered, or the answer was cut off
	case slices.Contains([]string{"SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable", "Throttling", "RequestLimitExceeded", "OperationAborted", "ConditionalRequestConflict"}, r.Code):
		return true
	}
	return r.StatusCode == http.StatusRequestTimeout || r.StatusCode == http.StatusTooManyRequests ||
		r.StatusCode >= 500 && r.StatusCode != http.StatusNotImplemented
}

var (
	errReplaced = errors.New("the object was replaced while it was read")
	errOurs     = errors.New("unexpected answer") // of a store that answers otherwise than S3
)

// unsupported is the part of vfs.FS that checkpoints do not use.
func (f *FS) unsupported(op, name string) error {
	return &Error{Op: op, Bucket: f.bucket, Key: key(name), Err: errors.ErrUnsupported}
}
