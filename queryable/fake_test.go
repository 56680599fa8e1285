package queryable

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/gofiber/fiber/v2"

	"weir/state/sqltype"
)

// fake is a backend of functions. One that a test does not set is not_found.
type fake struct {
	query  func(context.Context, QueryRequest) (*Rows, error)
	lookup func(context.Context, LookupRequest) (*Groups, error)
	scan   func(context.Context, ScanRequest) (*Rows, error)
	past   func(context.Context, HistoryRequest) (*History, error)
	schema Schema
	ready  bool

	mu      sync.Mutex
	epoch   uint64
	changed chan struct{}
	waited  []Position
}

func newFake() *fake { return &fake{ready: true, epoch: 7, changed: make(chan struct{})} }

var committed = time.Date(2026, 11, 29, 18, 0, 0, 0, time.UTC)

func (f *fake) Query(ctx context.Context, r QueryRequest) (*Rows, error) { return f.query(ctx, r) }
func (f *fake) Lookup(ctx context.Context, r LookupRequest) (*Groups, error) {
	return f.lookup(ctx, r)
}
func (f *fake) Scan(ctx context.Context, r ScanRequest) (*Rows, error) { return f.scan(ctx, r) }

func (f *fake) History(ctx context.Context, r HistoryRequest) (*History, error) {
	return f.past(ctx, r)
}

func (f *fake) DropSavepoint(_ context.Context, id string) error {
	if id != "before" {
		return Errorf(NotFound, "there is no savepoint %s", id)
	}
	return nil
}

func (f *fake) Schema(view, _ string) (Schema, error) {
	if view != f.schema.Name {
		return Schema{}, Errorf(NotFound, "there is no view %s", view)
	}
	return f.schema, nil
}

var fakeAnswer = Answer{Epoch: 7, Positions: []Position{{"orders", 1, 20}, {"orders", 0, 10}, {"clicks", 0, 3}}}

func (f *fake) view() View {
	groups := int64(2)
	return View{
		Name: "revenue by/city", Kind: "materialized", SQL: "CREATE …", Source: "orders", Columns: cols("city", "VARCHAR"),
		Groups: &groups, Bytes: 99, Epoch: 7, Positions: []Position{{"orders", 0, 10}}, State: "running",
	}
}

func (f *fake) Views(context.Context) ([]View, Answer, error) {
	return []View{f.view(), {Name: "empty"}}, fakeAnswer, nil
}

func (f *fake) View(_ context.Context, name string) (View, Answer, error) {
	if name != f.view().Name {
		return View{}, Answer{}, Errorf(NotFound, "there is no view %s", name)
	}
	return f.view(), fakeAnswer, nil
}

func (f *fake) Sources(context.Context) ([]Source, Answer, error) {
	return []Source{{
		Name: "orders", Connector: "kafka", Topic: "orders", Format: "json", State: "running", Records: 30,
		Partitions: []Partition{{0, 10, new(int64(12)), new(int64(2))}, {1, 3, nil, nil}},
	}}, fakeAnswer, nil
}

func (f *fake) Quarantine(_ context.Context, r QuarantineRequest) ([]Rejected, string, Answer, error) {
	if r.Source != "orders" {
		return nil, "", Answer{}, Errorf(NotFound, "there is no source %s", r.Source)
	}
	return []Rejected{{Partition: 1, Offset: 5, Timestamp: committed, Reason: "<img onerror=x>", Value: []byte("\x00{")}}, "c1", fakeAnswer, nil
}

func (f *fake) Topology() Topology {
	return Topology{Version: 3, Slots: 256, Nodes: []Node{{"http://127.0.0.1:8080", 0, 256}}}
}

func (f *fake) Status() Status {
	return Status{Epoch: 7, State: "RUNNING", Committed: &committed, Uptime: 1.5, Version: "test"}
}

func (f *fake) Ready() (string, bool) {
	if f.ready {
		return "RUNNING", true
	}
	return "RESTORING", false
}

func (f *fake) Changed() (uint64, time.Time, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.epoch, committed, f.changed
}

func (f *fake) commit() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.epoch++
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fake) WaitPosition(ctx context.Context, _ string, at []Position) error {
	f.mu.Lock()
	f.waited = at
	f.mu.Unlock()
	if at[0].Next > 100 {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (f *fake) Checkpoints(context.Context) ([]Checkpoint, error) {
	return []Checkpoint{{ID: 42, Epoch: 6, Created: committed, Bytes: 11, Views: []string{"v"}}}, nil
}

func (f *fake) TakeCheckpoint(_ context.Context, name string) (Checkpoint, error) {
	return Checkpoint{ID: 43, Savepoint: name, Epoch: 7, Created: committed}, nil
}

func (f *fake) Manifest(_ context.Context, id string) (json.RawMessage, error) {
	if id != "42" {
		return nil, Errorf(NotFound, "there is no checkpoint %s", id)
	}
	return json.RawMessage(`{"version":1}`), nil
}

// files are exports of texts.
type files struct {
	requests []ExportRequest
	closed   int
	damaged  io.Reader // what reading gives, if it is set
}

// ReadAt reads what is damaged.
func (f *files) ReadAt(p []byte, _ int64) (int, error) { return f.damaged.Read(p) }

func (f *files) file(text string) *File {
	if f.damaged != nil {
		return &File{ReaderAt: f, Size: int64(len(text)), ETag: `"d"`, Close: func() error { f.closed++; return nil }}
	}
	return &File{
		Answer: fakeAnswer, Backfilling: []string{"v"}, ReaderAt: strings.NewReader(text), Size: int64(len(text)), ETag: `"` + text[:1] + `"`,
		Close: func() error { f.closed++; return nil },
	}
}

func (f *files) CheckpointFile(_ context.Context, id, view, format string) (*File, error) {
	if id != "42" || view != "v" && view != "v.arrow" {
		return nil, Errorf(NotFound, "checkpoint %s has no view %s", id, view)
	}
	return f.file(map[string]string{"arrow": "ARROW1 data", "parquet": "PAR1 0123456789"}[format]), nil
}

func (f *files) ScanParquet(_ context.Context, r ExportRequest) (*File, error) {
	f.requests = append(f.requests, r)
	if r.Epoch != nil && *r.Epoch != 7 {
		return nil, Errorf(Gone, "epoch %d is gone", *r.Epoch)
	}
	return f.file("live PAR1"), nil
}

// cols makes columns of names and types, in turn.
func cols(pairs ...string) []Column {
	var cs []Column
	for i := 0; i < len(pairs); i += 2 {
		cs = append(cs, Column{Field: sqltype.Field{Name: pairs[i], Type: sqltype.MustParse(pairs[i+1])}})
	}
	return cs
}

// record makes a batch of rows given as JSON arrays.
func record(t testing.TB, columns []Column, rows ...string) arrow.RecordBatch {
	t.Helper()
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = c.Type.InsideField(c.Name)
	}
	rb := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer rb.Release()
	for _, row := range rows {
		var values []json.RawMessage
		if err := json.Unmarshal([]byte(row), &values); err != nil {
			t.Fatalf("%s: %v", row, err)
		}
		for i, c := range columns {
			if err := appendJSON(rb.Field(i), c.Type, values[i]); err != nil {
				t.Fatalf("%s: %v", row, err)
			}
		}
	}
	return rb.NewRecordBatch()
}

// reader is a record reader of batches made by a function until it gives nil.
type reader struct {
	array.RecordReader
	next  func() (arrow.RecordBatch, error)
	batch arrow.RecordBatch
	err   error
	freed chan struct{}
}

func (r *reader) Next() bool                     { r.batch, r.err = r.next(); return r.batch != nil && r.err == nil }
func (r *reader) RecordBatch() arrow.RecordBatch { return r.batch }
func (r *reader) Err() error                     { return r.err }
func (r *reader) Release()                       { close(r.freed) }

// table is an answer of some batches, then err.
func table(columns []Column, err error, batches ...arrow.RecordBatch) *Rows {
	return &Rows{Answer: fakeAnswer, Columns: columns, Records: &reader{freed: make(chan struct{}), next: func() (arrow.RecordBatch, error) {
		if len(batches) == 0 {
			return nil, err
		}
		b := batches[0]
		batches = batches[1:]
		return b, nil
	}}}
}

// sameForm is a converter for types whose two forms are one.
func sameForm(_ []sqltype.Field, b arrow.RecordBatch) (arrow.RecordBatch, error) {
	b.Retain()
	return b, nil
}

// server is an API over a backend on a loopback port.
type server struct {
	t   *testing.T
	api *API
	url string
	hc  *http.Client
}

func serve(t *testing.T, b Backend, set ...func(*Options)) *server {
	t.Helper()
	o := Options{File: sameForm, Exports: &files{}}
	for _, f := range set {
		f(&o)
	}
	api, err := New(b, o)
	if err != nil {
		t.Fatal(err)
	}
	app := fiber.New(fiber.Config{DisableStartupMessage: true, ErrorHandler: Fail, Concurrency: 4096})
	api.Mount(app)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := app.Listener(ln); err != nil {
			t.Error(err)
		}
	})
	tr := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		api.Stop()
		if err := app.Shutdown(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		api.Close()
	})
	return &server{t: t, api: api, url: "http://" + ln.Addr().String(), hc: &http.Client{Transport: tr}}
}

type reply struct {
	status int
	header http.Header
	body   string
	trail  http.Header
	err    error // of reading the body
}

// do sends a request. The headers come in pairs.
func (s *server) do(method, path, body string, headers ...string) reply {
	s.t.Helper()
	res, err := s.send(s.t.Context(), method, path, body, headers...)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(data), res.Trailer, err}
}

func (s *server) send(ctx context.Context, method, path, body string, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return s.hc.Do(req)
}

func (s *server) get(path string) reply { s.t.Helper(); return s.do("GET", path, "") }

// want checks status and body.
func (r reply) want(t *testing.T, status int, body string) {
	t.Helper()
	if r.err != nil {
		t.Errorf("reading the body: %v", r.err)
	}
	if r.status != status || strings.TrimSuffix(r.body, "\n") != body {
		t.Errorf("got  %d %s\nwant %d %s", r.status, r.body, status, body)
	}
}

// code checks that it is an error of a code.
func (r reply) code(t *testing.T, code Code, part string) {
	t.Helper()
	var e struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal([]byte(r.body), &e); err != nil {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	if r.status != code.Status() || e.Error.Code != string(code) || !strings.Contains(e.Error.Message, part) {
		t.Errorf("got %d %s, want %s with %q", r.status, r.body, code, part)
	}
}
