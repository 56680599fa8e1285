// Package fakes3 is an S3 server over loopback, for tests: the protocol is
// gofakes3's, the faults are ours.
package fakes3

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"weir/checkpoint/objectstore"
)

const (
	// Bucket is there from the start.
	Bucket = "weir-test"
	// AccessKey and SecretKey are what the server takes.
	AccessKey = "test"
	SecretKey = "secret"
)

// A Fault is what happens to a request.
type Fault int

// The faults. A request that was Cut was not carried out; that of which the
// Answer is lost was.
const (
	None     Fault = iota
	Cut            // the connection ends before the request is looked at
	Answer         // the request is carried out and the connection ends without an answer
	Half           // the answer breaks off in its middle
	Error500       // 500 InternalError
	SlowDown       // 503 SlowDown
)

func (f Fault) String() string {
	return [...]string{"none", "cut", "answer lost", "half an answer", "500", "503 SlowDown"}[f]
}

// A Server is one bucket in memory.
type Server struct {
	URL string

	mu    sync.Mutex
	fault func(call int, r *http.Request) Fault
	calls int
	cond  Conditions
}

// Conditions are what the server makes of a put on a condition.
type Conditions int

// Stores keep conditions, do not know of them and write all the same, or refuse the
// request, in one way or the other.
const (
	Kept Conditions = iota
	Ignored
	Refused
	Misunderstood
)

// Conditional decides over the puts from now on.
func (s *Server) Conditional(c Conditions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cond = c
}

// Start serves until the test ends.
func Start(t testing.TB) *Server {
	backend := s3mem.New()
	if err := backend.CreateBucket(Bucket); err != nil {
		t.Fatal(err)
	}
	s := &Server{}
	fake := gofakes3.New(backend, gofakes3.WithoutVersioning(), gofakes3.WithTimeSkewLimit(0)).Server()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(fake, w, r) }))
	h.Config.ErrorLog = nil
	t.Cleanup(h.Close)
	s.URL = h.URL
	return s
}

// Location is the text of a place in the bucket.
func (s *Server) Location(prefix string) string {
	return objectstore.Location{Bucket: Bucket, Prefix: prefix, Endpoint: s.URL}.String()
}

// FS is a file system over the bucket that waits next to nothing between tries.
// retry is for how long it tries.
func (s *Server) FS(t testing.TB, retry time.Duration, o objectstore.Options) *objectstore.FS {
	t.Helper()
	l, err := objectstore.ParseLocation(s.Location(""))
	if err != nil {
		t.Fatal(err)
	}
	o.Retry, o.Backoff = retry, time.Microsecond
	if o.Last == "" {
		o.Last = "manifest.json"
	}
	if o.Credentials == nil {
		o.Credentials = credentials.NewStaticV4(AccessKey, SecretKey, "")
	}
	fs, err := objectstore.New(t.Context(), l, o)
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

// Fail decides over the requests from now on, which are counted from 0. nil lets
// all pass. It returns how many there were since the last Fail.
func (s *Server) Fail(fault func(call int, r *http.Request) Fault) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.calls
	s.fault, s.calls = fault, 0
	return n
}

func (s *Server) next(r *http.Request) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.fault == nil {
		return None
	}
	return s.fault(s.calls-1, r)
}

func (s *Server) serve(fake http.Handler, w http.ResponseWriter, r *http.Request) {
	fault := s.next(r)
	if r.Method == http.MethodPut && (r.Header.Get("If-Match") != "" || r.Header.Get("If-None-Match") != "") {
		s.mu.Lock()
		cond := s.cond
		s.mu.Unlock()
		switch cond {
		case Ignored:
			r.Header.Del("If-Match")
			r.Header.Del("If-None-Match")
		case Refused:
			answer(w, http.StatusNotImplemented, "NotImplemented", "A header you provided implies functionality that is not implemented.")
			return
		case Misunderstood:
			answer(w, http.StatusBadRequest, "InvalidArgument", "Invalid Argument")
			return
		}
	}
	if !strings.Contains(r.Header.Get("Authorization"), "Credential="+AccessKey+"/") {
		answer(w, http.StatusForbidden, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")
		return
	}
	switch fault {
	case None:
		fake.ServeHTTP(w, r)
	case Cut:
		panic(http.ErrAbortHandler)
	case Error500, SlowDown:
		_, _ = io.Copy(io.Discard, r.Body)
		if fault == SlowDown {
			answer(w, http.StatusServiceUnavailable, "SlowDown", "Please reduce your request rate.")
		} else {
			answer(w, http.StatusInternalServerError, "InternalError", "We encountered an internal error. Please try again.")
		}
	case Answer, Half:
		rec := httptest.NewRecorder()
		fake.ServeHTTP(rec, r)
		if body := rec.Body.Bytes(); fault == Half && len(body) > 1 {
			maps.Copy(w.Header(), rec.Header())
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			w.WriteHeader(rec.Code)
			_, _ = w.Write(body[:len(body)/2])
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	}
}

func answer(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>%s</Code><Message>%s</Message></Error>", code, message)
}
