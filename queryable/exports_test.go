package queryable

import (
	"errors"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

const (
	parquetPath = "/api/v1/checkpoints/42/v.parquet"
	parquetText = "PAR1 0123456789" // 15 bytes
)

// TestRanges holds RFC 9110 for single ranges. A range of none, or of more than
// one, is the whole file.
func TestRanges(t *testing.T) {
	s := serve(t, newFake())
	for _, c := range []struct {
		header, body, content string
	}{
		{"bytes=0-3", "PAR1", "bytes 0-3/15"},
		{"bytes=5-5", "0", "bytes 5-5/15"},
		{"bytes=5-", "0123456789", "bytes 5-14/15"},
		{"bytes=5-9999", "0123456789", "bytes 5-14/15"},
		{"bytes=14-14", "9", "bytes 14-14/15"},
		{"bytes=-4", "6789", "bytes 11-14/15"},
		{"bytes=-15", parquetText, "bytes 0-14/15"},
		{"bytes=-9999", parquetText, "bytes 0-14/15"},
		{"BYTES=0-0", "P", "bytes 0-0/15"},
	} {
		r := s.do("GET", parquetPath, "", "Range", c.header)
		r.want(t, 206, c.body)
		if got := r.header.Get("Content-Range"); got != c.content || r.header.Get("Content-Length") != strconv.Itoa(len(c.body)) {
			t.Errorf("%s: Content-Range %q, length %s", c.header, got, r.header.Get("Content-Length"))
		}
	}
	for _, header := range []string{"bytes=15-", "bytes=15-20", "bytes=-0", "bytes=99999999999-"} {
		r := s.do("GET", parquetPath, "", "Range", header)
		r.code(t, BadRange, "15 bytes")
		if got := r.header.Get("Content-Range"); got != "bytes */15" {
			t.Errorf("%s: Content-Range %q", header, got)
		}
	}
	for _, header := range []string{
		"", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=3-1", "lines=0-3", "bytes=0-1,3-4", "bytes=+0-1", "bytes=--3", "bytes=0 - 3",
		"bytes=99999999999999999999-",
	} {
		r := s.do("GET", parquetPath, "", "Range", header)
		r.want(t, 200, parquetText)
		if r.header.Get("Content-Range") != "" || r.header.Get("Accept-Ranges") != "bytes" || r.header.Get("Weir-Backfilling") != "v" || r.header.Get("ETag") != `"P"` {
			t.Errorf("%q: %v", header, r.header)
		}
	}
}

func TestHeadOfAFile(t *testing.T) {
	f := &files{}
	s := serve(t, newFake(), func(o *Options) { o.Exports = f })
	for _, path := range []string{parquetPath, "/api/v1/checkpoints/42/v.arrow", "/api/v1/views/v/scan.parquet"} {
		whole := s.get(path)
		for _, r := range []reply{s.do("HEAD", path, ""), s.do("HEAD", path, "", "Range", "bytes=0-1")} {
			if r.status != 200 || r.body != "" || r.header.Get("Content-Length") != strconv.Itoa(len(whole.body)) ||
				r.header.Get("ETag") != whole.header.Get("ETag") || r.header.Get("Content-Type") != whole.header.Get("Content-Type") ||
				r.header.Get("Accept-Ranges") != "bytes" || r.header.Get("Weir-Epoch") != "7" {
				t.Errorf("%s: %d %v", path, r.status, r.header)
			}
		}
	}
	if f.closed != 9 {
		t.Errorf("%d of 9 files were closed", f.closed)
	}
	if r := s.do("HEAD", "/api/v1/checkpoints/42/w.parquet", ""); r.status != 404 {
		t.Errorf("a view that is not there: %d", r.status)
	}
	s.get("/api/v1/checkpoints/42/w.parquet").code(t, NotFound, "w")
}

func TestConditions(t *testing.T) {
	s := serve(t, newFake())
	const part = "bytes=0-3"
	for _, c := range []struct {
		headers []string
		status  int
		body    string
	}{
		{[]string{"If-Range", `"P"`, "Range", part}, 206, "PAR1"},
		{[]string{"If-Range", `"old"`, "Range", part}, 200, parquetText},
		{[]string{"If-Range", `W/"P"`, "Range", part}, 200, parquetText},
		{[]string{"If-Range", "Sun, 29 Nov 2026 18:00:00 GMT", "Range", part}, 200, parquetText},
		{[]string{"If-Match", `"P"`, "Range", part}, 206, "PAR1"},
		{[]string{"If-Match", `"old", "P"`, "Range", part}, 206, "PAR1"},
		{[]string{"If-Match", "*"}, 200, parquetText},
		{[]string{"If-None-Match", `"old"`}, 200, parquetText},
		{[]string{"If-None-Match", `"P"`}, 304, ""},
		{[]string{"If-None-Match", `W/"P"`}, 304, ""},
	} {
		r := s.do("GET", parquetPath, "", c.headers...)
		r.want(t, c.status, c.body)
		if r.header.Get("ETag") != `"P"` {
			t.Errorf("%v: ETag %q", c.headers, r.header.Get("ETag"))
		}
	}
	s.do("GET", parquetPath, "", "If-Match", `"old"`, "Range", part).code(t, Changed, "from its beginning")
	s.do("GET", parquetPath, "", "If-Match", `W/"P"`).code(t, Changed, "")
}

// TestDamageCutsADownload has a file whose bytes cannot be given any more: the
// client sees its download break off, and the log says why.
func TestDamageCutsADownload(t *testing.T) {
	log := make(lines, 10)
	f := &files{damaged: iotest.ErrReader(errors.New("its batch 7 is damaged"))}
	s := serve(t, newFake(), func(o *Options) { o.Exports, o.Logger = f, slog.New(slog.NewTextHandler(log, nil)) })
	res, err := s.send(t.Context(), "GET", parquetPath, "")
	if err == nil {
		_, err = io.ReadAll(res.Body)
		res.Body.Close()
	}
	if err == nil {
		t.Error("the client got a whole file")
	}
	if line := <-log; !strings.Contains(line, "batch 7 is damaged") {
		t.Errorf("the log: %s", line)
	}
}

// lines is a log's writer.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// TestScanParquetSaysWhatIsAskedFor tells the backend what decides between files
// of two epochs.
func TestScanParquetSaysWhatIsAskedFor(t *testing.T) {
	f := &files{}
	s := serve(t, newFake(), func(o *Options) { o.Exports = f })
	const path = "/api/v1/views/a%2Fb/scan.parquet"
	s.do("HEAD", path, "")
	s.get(path)
	s.do("GET", path, "", "Range", "bytes=0-3").want(t, 206, "live")
	s.do("GET", path, "", "Range", "bytes=0-3", "If-Range", `"x"`)
	s.do("GET", path, "", "If-Match", `"x", "y"`)
	s.get(path + "?min_epoch=5")
	s.get(path + "?min_position=orders/0:3")
	s.get(path + "?epoch=7")
	s.get(path+"?epoch=6").code(t, Gone, "6")
	s.get(path+"?epoch=x").code(t, BadRequest, "epoch")
	want := []ExportRequest{
		{View: "a/b", Begins: true},
		{View: "a/b", Begins: true},
		{View: "a/b"},
		{View: "a/b", ETags: []string{`"x"`}},
		{View: "a/b", ETags: []string{`"x"`, `"y"`}, Begins: true},
		{View: "a/b", Begins: true, MinEpoch: 5},
		{View: "a/b", Begins: true, MinEpoch: 7},
		{View: "a/b", Begins: true, Epoch: new(uint64(7))},
		{View: "a/b", Begins: true, Epoch: new(uint64(6))},
	}
	if d := cmp.Diff(want, f.requests); d != "" {
		t.Error(d)
	}
}
