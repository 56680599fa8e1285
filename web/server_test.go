package web

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/queryable"
	"weir/state/sqltype"
)

// backend is as much of one as these tests reach.
type backend struct {
	queryable.Backend
	started, ended chan struct{}
	rows           *queryable.Rows
}

func (b *backend) Scan(context.Context, queryable.ScanRequest) (*queryable.Rows, error) {
	return b.rows, nil
}

func (b *backend) Topology() queryable.Topology { return queryable.Topology{Version: 1} }
func (b *backend) Status() queryable.Status     { return queryable.Status{State: "RUNNING"} }
func (b *backend) Ready() (string, bool)        { return "RUNNING", true }
func (b *backend) Views(context.Context) ([]queryable.View, queryable.Answer, error) {
	panic("a bug in the backend")
}

func (b *backend) Changed() (uint64, time.Time, <-chan struct{}) { return 1, time.Time{}, nil }

func (b *backend) Query(ctx context.Context, _ queryable.QueryRequest) (*queryable.Rows, error) {
	b.started <- struct{}{}
	<-ctx.Done()
	b.ended <- struct{}{}
	return nil, ctx.Err()
}

const bigScript = "console.log('a script that is long enough for gzip to be of use, is it not, is it not, is it not, is it not?')"

var files = fstest.MapFS{
	"index.html":                {Data: []byte("<!doctype html><title>Weir</title>")},
	"assets/index-Dx3k9_aB.js":  {Data: []byte(bigScript)},
	"assets/index-Dx3k9_aB.css": {Data: []byte("a{}")},
	"icon.svg":                  {Data: []byte("<svg/>")},
}

// start serves on loopback and gives the address.
func start(t *testing.T, set func(*Options)) (*Server, *backend, string) {
	t.Helper()
	b := &backend{started: make(chan struct{}, 1), ended: make(chan struct{}, 1)}
	o := Options{Backend: b, Console: files, API: queryable.Options{File: func([]sqltype.Field, arrow.RecordBatch) (arrow.RecordBatch, error) {
		return nil, nil
	}}}
	if set != nil {
		set(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Serve(ln); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
	return s, b, ln.Addr().String()
}

type answer struct {
	status int
	header http.Header
	body   string
}

// do sends one request on a connection of its own. Headers come in pairs.
func do(t *testing.T, method, url, body string, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	tr := &http.Transport{DisableCompression: true}
	defer tr.CloseIdleConnections()
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(data)}
}

func (a answer) code(t *testing.T, code queryable.Code) {
	t.Helper()
	var e struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal([]byte(a.body), &e); err != nil || a.status != code.Status() || e.Error.Code != string(code) || e.Error.Message == "" {
		t.Errorf("got %d %s, want %s", a.status, a.body, code)
	}
}

func TestHosts(t *testing.T) {
	_, _, addr := start(t, func(o *Options) { o.Hosts = []string{"weir.example"} })
	_, port, _ := net.SplitHostPort(addr)
	for _, host := range []string{
		"localhost", "LOCALHOST:" + port, "localhost.", "127.0.0.1", addr, "[::1]", "[::1]:8080", "weir.example", "Weir.Example:443", "localhost:1",
	} {
		for _, path := range []string{"/", "/healthz", "/api/v1/status"} {
			if a := do(t, "GET", "http://"+addr+path, "", "Host", host); a.status != 200 {
				t.Errorf("%s%s: %d %s", host, path, a.status, a.body)
			}
		}
	}
	for _, host := range []string{
		"evil.example", "localhost.evil.example", "evil.localhost", "127.0.0.1.nip.io", "127.0.0.2", "0.0.0.0", "[::]", "10.0.0.1", "localhost:x",
		"localhost:80:80", "[::1", "[::1]x", "2130706433", "0x7f.1", "127.1", "xweir.example", "weir.example.evil", "localhost@evil.example", "1", "[fe80::1]",
	} {
		for _, path := range []string{"/", "/healthz", "/api/v1/status", "/metrics", "/assets/index-Dx3k9_aB.js"} {
			got := raw(t, addr, "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
			if !strings.HasPrefix(got, "HTTP/1.1 421") && !strings.HasPrefix(got, "HTTP/1.1 400") {
				t.Errorf("%s%s: %.60q", host, path, got)
			}
		}
	}
}

// raw sends bytes and reads until the server closes.
func raw(t *testing.T, addr, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	data, _ := io.ReadAll(c) // a reset after the answer is as good as a close
	return string(data)
}

func TestCrossSite(t *testing.T) {
	_, _, addr := start(t, nil)
	base := "http://" + addr
	for _, c := range []struct {
		headers []string
		ok      bool
	}{
		{nil, true},
		{[]string{"Sec-Fetch-Site", "same-origin", "Origin", "http://anything"}, true},
		{[]string{"Sec-Fetch-Site", "none"}, true},
		{[]string{"Origin", base}, true},
		{[]string{"Sec-Fetch-Site", "cross-site"}, false},
		{[]string{"Sec-Fetch-Site", "same-site"}, false},
		{[]string{"Sec-Fetch-Site", "bogus"}, false},
		{[]string{"Origin", "http://evil.example"}, false},
		{[]string{"Origin", "null"}, false},
		{[]string{"Origin", "http://127.0.0.1:1"}, false},
		{[]string{"Origin", base + ".evil.example"}, false},
	} {
		for _, path := range []string{"/api/v1/status", "/api/v1/topology", "/metrics"} {
			a := do(t, "GET", base+path, "", c.headers...)
			if c.ok && a.status != 200 {
				t.Errorf("%v %s: %d", c.headers, path, a.status)
			}
			if !c.ok {
				a.code(t, queryable.Forbidden)
			}
			if a.header.Get("Access-Control-Allow-Origin") != "" {
				t.Error("a CORS header")
			}
		}
		if !c.ok {
			do(t, "POST", base+"/api/v1/sql", `{"sql":"x"}`, append(c.headers, "Content-Type", "application/json")...).code(t, queryable.Forbidden)
			do(t, "POST", base+"/api/v1/login", `{}`, append(c.headers, "Content-Type", "application/json")...).code(t, queryable.Forbidden)
			do(t, "GET", base+"/api/v1/events", "", c.headers...).code(t, queryable.Forbidden)
			do(t, "DELETE", base+"/api/v1/queries/1", "", c.headers...).code(t, queryable.Forbidden)
		}
		// A link from elsewhere may open the console.
		if a := do(t, "GET", base+"/", "", c.headers...); a.status != 200 {
			t.Errorf("%v /: %d", c.headers, a.status)
		}
	}
	if a := do(t, "OPTIONS", base+"/api/v1/sql", "", "Origin", base, "Access-Control-Request-Method", "POST"); a.status < 400 {
		t.Errorf("a preflight is answered %d", a.status)
	}
}

func TestBodies(t *testing.T) {
	_, _, addr := start(t, func(o *Options) { o.MaxBody = 1000 })
	url := "http://" + addr + "/api/v1/sql"
	for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx", ""} {
		do(t, "POST", url, `{"sql":"x"}`, "Content-Type", media).code(t, queryable.BadType)
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	fmt.Fprint(w, `{"sql":"x"}`)
	w.Close()
	do(t, "POST", url, zipped.String(), "Content-Type", "application/json", "Content-Encoding", "gzip").code(t, queryable.BadType)
	a := do(t, "POST", url, `{"sql":"`+strings.Repeat("x", 2000)+`"}`, "Content-Type", "application/json")
	a.code(t, queryable.TooLarge)
	if a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Error("a refusal of fasthttp goes without the security headers")
	}
	if got := raw(t, addr, "GET / HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 20000)+"\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 431") {
		t.Errorf("a long header: %.60q", got)
	}
}

// TestSmuggling sends what an old fasthttp took for two requests, or one.
func TestSmuggling(t *testing.T) {
	_, _, addr := start(t, func(o *Options) { o.ReadTimeout = 200 * time.Millisecond })
	const second = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for name, request := range map[string]string{
		"newline in chunk extension": "POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2;\nxx\r\n{}\r\n0\r\n\r\n" + second,
		"two lengths":                "POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second,
		"two hosts":                  "GET /api/v1/login HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n" + second,
		"no host":                    "GET /api/v1/login HTTP/1.1\r\n\r\n" + second,
		"negative length":            "POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n" + second,
	} {
		if got := raw(t, addr, request); strings.Contains(got, `{"ok":true}HTTP`) || strings.Contains(got, "HTTP/1.1 200") && strings.Count(got, "HTTP/1.1") > 1 {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestSlowRequestIsCut(t *testing.T) {
	_, _, addr := start(t, func(o *Options) { o.ReadTimeout = 100 * time.Millisecond })
	if got := raw(t, addr, "GET / HTTP/1.1\r\nHost: local"); got != "" && !strings.HasPrefix(got, "HTTP/1.1 408") {
		t.Errorf("half a header: %q", got)
	}
	got := raw(t, addr, "POST /api/v1/sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	if got != "" && !strings.HasPrefix(got, "HTTP/1.1 408") {
		t.Errorf("half a body: %q", got)
	}
}

func TestSecurityHeaders(t *testing.T) {
	_, _, addr := start(t, nil)
	for _, path := range []string{"/", "/healthz", "/api/v1/status", "/api/v1/views", "/nothing", "/assets/index-Dx3k9_aB.js"} {
		a := do(t, "GET", "http://"+addr+path, "")
		for name, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
			"Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Server": "",
		} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		if strings.HasPrefix(path, "/api/") && a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s may be cached", path)
		}
	}
}

func TestPanicIsOneRequests(t *testing.T) {
	_, _, addr := start(t, nil)
	a := do(t, "GET", "http://"+addr+"/api/v1/views", "")
	a.code(t, queryable.Internal)
	if strings.Contains(a.body, "bug") {
		t.Errorf("it tells %s", a.body)
	}
	if a := do(t, "GET", "http://"+addr+"/healthz", ""); a.status != 200 {
		t.Errorf("afterwards: %d", a.status)
	}
}

func TestConsole(t *testing.T) {
	_, _, addr := start(t, nil)
	base := "http://" + addr
	a := do(t, "GET", base+"/", "")
	if a.status != 200 || !strings.Contains(a.body, "Weir") || a.header.Get("Cache-Control") != "no-cache" || a.header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("/: %v", a)
	}
	if a := do(t, "GET", base+"/", "", "If-None-Match", a.header.Get("ETag")); a.status != 304 || a.body != "" {
		t.Errorf("a page that did not change: %v", a)
	}
	a = do(t, "GET", base+"/assets/index-Dx3k9_aB.js", "", "Accept-Encoding", "br, gzip")
	if a.header.Get("Content-Encoding") != "gzip" || !strings.Contains(a.header.Get("Cache-Control"), "immutable") || a.header.Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("a script: %v", a.header)
	}
	z, err := gzip.NewReader(strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := io.ReadAll(z); err != nil || string(plain) != bigScript {
		t.Errorf("%q, %v", plain, err)
	}
	for _, accept := range []string{"", "gzip;q=0", "br"} {
		if a := do(t, "GET", base+"/assets/index-Dx3k9_aB.js", "", "Accept-Encoding", accept); a.body != bigScript {
			t.Errorf("Accept-Encoding %q: %q", accept, a.header.Get("Content-Encoding"))
		}
	}
	for _, path := range []string{"/assets/", "/../server.go", "/%2e%2e/server.go", "/assets/index-Dx3k9_aB.js/", "/api", "/api/v2", "/nope"} {
		do(t, "GET", base+path, "").code(t, queryable.NotFound)
	}
	if a := do(t, "HEAD", base+"/", ""); a.status != 200 || a.body != "" {
		t.Errorf("HEAD: %v", a)
	}
	if _, err := New(Options{Backend: &backend{}, Console: fstest.MapFS{}}); err == nil {
		t.Error("a console without an index.html is taken")
	}
}

// TestBuiltConsole checks that what is embedded is whole and fits the policy.
func TestBuiltConsole(t *testing.T) {
	c, err := newConsole(Console())
	if err != nil {
		t.Fatal(err)
	}
	page := string(c.files["/index.html"].plain)
	for _, part := range strings.Split(page, `"./`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		a := c.files["/"+name]
		if a == nil {
			t.Errorf("the page wants %s, which is not there", name)
		} else if !a.hashed {
			t.Errorf("%s is not cached", name)
		}
	}
	if strings.Contains(page, "<style") || strings.Contains(page, "<script>") || strings.Contains(page, "http://") || strings.Contains(page, "https://") {
		t.Error("the page has inline code or asks elsewhere")
	}
}

func TestShutdownIsQuick(t *testing.T) {
	s, b, addr := start(t, nil)
	idle := &http.Client{}
	res, err := idle.Get("http://" + addr + "/healthz") // leaves a connection open
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
	for range 50 {
		res, err := idle.Get("http://" + addr + "/api/v1/events")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if line, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil || line != ": ok\n" {
			t.Fatal(line, err)
		}
	}
	got := make(chan answer, 1)
	go func() {
		got <- do(t, "POST", "http://"+addr+"/api/v1/sql", `{"sql":"x"}`, "Content-Type", "application/json")
	}()
	<-b.started
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // an idle connection would be waited for for a minute
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("after %s: %v", time.Since(begin), err)
	}
	<-b.ended
	a := <-got
	a.code(t, queryable.Unavailable)
}

func TestServeRefusesTheWorld(t *testing.T) {
	s, err := New(Options{Backend: &backend{}, API: queryable.Options{File: func([]sqltype.Field, arrow.RecordBatch) (arrow.RecordBatch, error) {
		return nil, nil
	}}})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(ln); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("got %v", err)
	}
}

// TestClientThatDoesNotRead fills the socket of a client that has stopped
// reading; the server must not hold the view's snapshot for it.
func TestClientThatDoesNotRead(t *testing.T) {
	_, b, addr := start(t, func(o *Options) { o.WriteTimeout = 50 * time.Millisecond })
	freed := make(chan struct{})
	b.rows = endless(t, freed)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /api/v1/views/v/scan HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-freed
}

// endlessReader gives the same batch for ever.
type endlessReader struct {
	array.RecordReader
	batch arrow.RecordBatch
	freed chan struct{}
}

func (r endlessReader) Next() bool                     { return true }
func (r endlessReader) RecordBatch() arrow.RecordBatch { return r.batch }
func (r endlessReader) Err() error                     { return nil }
func (r endlessReader) Release()                       { close(r.freed) }

func endless(t *testing.T, freed chan struct{}) *queryable.Rows {
	t.Helper()
	s := array.NewStringBuilder(memory.DefaultAllocator)
	for range 1000 {
		s.Append(strings.Repeat("x", 1000))
	}
	typ := sqltype.MustParse("VARCHAR")
	batch := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{typ.InsideField("s")}, nil), []arrow.Array{s.NewArray()}, 1000)
	return &queryable.Rows{
		Columns: []queryable.Column{{Field: sqltype.Field{Name: "s", Type: typ}}},
		Records: endlessReader{batch: batch, freed: freed},
	}
}
