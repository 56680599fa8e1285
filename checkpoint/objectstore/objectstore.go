package objectstore

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"weir/internal/atomicfile"
)

// Options are the settings of an [FS]. The zero value is usable but for Last.
type Options struct {
	// Last is the base name of the file that makes a directory whole.
	Last string
	// Retry is how long a request is tried again: 30s when 0. The wait
	// between tries begins with Backoff (100ms when 0) and doubles up to 5s.
	Retry, Backoff time.Duration
	// Part is how many bytes of a file that is written are in memory, 32 MiB when
	// 0. A store wants at least 5 MiB, and takes 10,000 parts a file.
	Part int
	// Credentials are for tests; nil is the usual chain: environment, shared file
	// and, on Amazon, the machine's role.
	Credentials *credentials.Credentials
}

const (
	// attempt is the most time for one request.
	attempt = time.Minute
	// maxParts is how many parts an object may have.
	maxParts = 10_000
	// maxCopy is the largest object that a store copies in one request.
	maxCopy = 5 << 30
)

// An FS is a vfs.FS over a bucket. Names are keys: the prefix of a Location is
// the directory to use, not the root. It is safe for concurrent use; its files
// are as those of any vfs.FS.
type FS struct {
	ctx                  context.Context // ends all requests
	core                 minio.Core
	bucket, last         string
	retry, wait, maxWait time.Duration
	part                 int
	down                 atomic.Bool                  // the last request was given up
	fence                atomic.Pointer[func() error] // of a [Lease]
}

var (
	_ vfs.FS            = (*FS)(nil)
	_ atomicfile.Direct = (*FS)(nil)
)

// New makes an FS of the bucket of l. It asks the store nothing yet. When ctx
// ends every request fails.
func New(ctx context.Context, l Location, o Options) (*FS, error) {
	endpoint := cmp.Or(l.Endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), "https://s3.amazonaws.com")
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("endpoint of %s: %w", l, err)
	}
	amazon := u.Host == "s3.amazonaws.com"
	region := cmp.Or(l.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	if region == "" && !amazon {
		region = "us-east-1" // what stores without regions go by
	}
	if o.Credentials == nil {
		chain := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
		if amazon {
			chain = append(chain, &credentials.IAM{})
		}
		o.Credentials = credentials.NewChainCredentials(chain)
	}
	transport, err := minio.DefaultTransport(u.Scheme == "https")
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", l, err)
	}
	transport.ResponseHeaderTimeout = attempt / 2
	core, err := minio.NewCore(u.Host, &minio.Options{
		Creds: o.Credentials, Secure: u.Scheme == "https", Region: region, Transport: transport,
		MaxRetries: 1, // do tries again
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", l, err)
	}
	return &FS{
		ctx: ctx, core: *core, bucket: l.Bucket, last: o.Last, part: cmp.Or(o.Part, 32<<20),
		retry: cmp.Or(o.Retry, 30*time.Second), wait: cmp.Or(o.Backoff, 100*time.Millisecond), maxWait: 5 * time.Second,
	}, nil
}

// Last is the name of the file that publishes a directory.
func (f *FS) Last() string { return f.last }

// do makes a request, and makes it again while that may help. After one that was
// given up the next are tried once, until one succeeds: who gives up and cleans
// up waits for a store that is away only once. Its error is an [*Error].
func (f *FS) do(op, key string, call func(context.Context) error) error {
	deadline := time.Now().Add(f.retry)
	for wait := f.wait; ; wait = min(2*wait, f.maxWait) {
		ctx, cancel := context.WithTimeout(f.ctx, attempt)
		err := call(ctx)
		cancel()
		if err == nil || !again(err) {
			f.down.Store(false)
		}
		if err == nil {
			return nil
		}
		if !again(err) || f.ctx.Err() != nil {
			return f.fault(op, key, err)
		}
		if f.down.Load() || time.Now().Add(wait).After(deadline) {
			f.down.Store(true)
			return f.fault(op, key, err)
		}
		t := time.NewTimer(wait/2 + rand.N(wait/2+1))
		select {
		case <-t.C:
		case <-f.ctx.Done():
			t.Stop()
		}
	}
}

// head asks for an object's size and ETag.
func (f *FS) head(key string) (info minio.ObjectInfo, err error) {
	err = f.do("look up", key, func(ctx context.Context) error {
		info, err = f.core.StatObject(ctx, f.bucket, key, minio.StatObjectOptions{})
		return err
	})
	return info, err
}

// objects lists what is under a prefix: objects, and with a delimiter also
// common prefixes, which end in a slash. limit is the most, 0 is all.
func (f *FS) objects(prefix string, recursive bool, limit int) (out []minio.ObjectInfo, err error) {
	err = f.do("list", prefix, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		out = nil
		for o := range f.core.ListObjectsIter(ctx, f.bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: recursive, MaxKeys: limit}) {
			if o.Err != nil {
				return o.Err
			}
			if out = append(out, o); len(out) == limit {
				break
			}
		}
		return nil
	})
	return out, err
}

// copy has the store copy an object.
func (f *FS) copy(from, to string, size int64) error {
	return f.do("copy to", to, func(ctx context.Context) error {
		src := minio.CopySrcOptions{Bucket: f.bucket, Object: from}
		dst := minio.CopyDestOptions{Bucket: f.bucket, Object: to}
		var err error
		if size <= maxCopy {
			_, err = f.core.Client.CopyObject(ctx, dst, src)
		} else {
			_, err = f.core.ComposeObject(ctx, dst, src) // in parts
		}
		return err
	})
}

// fenced asks the [Lease], when there is one, before something is published or
// removed.
func (f *FS) fenced() error {
	if check := f.fence.Load(); check != nil {
		return (*check)()
	}
	return nil
}

// remove removes an object, whether it is there or not.
func (f *FS) remove(key string) error {
	return f.do("delete", key, func(ctx context.Context) error {
		err := f.core.RemoveObject(ctx, f.bucket, key, minio.RemoveObjectOptions{})
		if response(err).StatusCode == http.StatusNotFound && response(err).Code != minio.NoSuchBucket {
			return nil
		}
		return err
	})
}
