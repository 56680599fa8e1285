package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// answering is a client of a server that answers with h.
func answering(t *testing.T, token string, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := New(strings.TrimPrefix(s.URL, "http://"), token)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestQuery(t *testing.T) {
	c := answering(t, "secret", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if got := r.Method + r.URL.Path + r.Header.Get("Authorization") + r.Header.Get("Content-Type") + string(body); got !=
			`POST/api/v1/sqlBearer secretapplication/json{"params":[1,"x"],"sql":"SELECT ?"}` {
			t.Error(got)
		}
		io.WriteString(w, `{"columns":[{"name":"n","type":"BIGINT"}],"rows":[[9007199254740993],[null]],"epoch":5,"truncated":true,"rows_cut":true,"partial":["s"],"undecoded":3,"backfilling":["v"]}`)
	})
	r, err := c.Query(t.Context(), "SELECT ?", 1, "x")
	if err != nil {
		t.Fatal(err)
	}
	want := &Result{
		Columns: []Column{{"n", "BIGINT"}}, Rows: [][]json.RawMessage{{json.RawMessage("9007199254740993")}, {json.RawMessage("null")}},
		Epoch: 5, Truncated: true, RowsCut: true, Partial: []string{"s"}, Undecoded: 3, Backfilling: []string{"v"},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

func TestRefusals(t *testing.T) {
	status, body := 0, ""
	c := answering(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	})
	for _, test := range []struct {
		status int
		body   string
		want   Error
	}{
		{400, `{"error":{"code":"bad_request","message":"no column x","position":7}}`, Error{400, "bad_request", "no column x", 7}},
		{429, `{"error":{"code":"busy","message":"wait"}}`, Error{429, "busy", "wait", -1}},
		{502, `<html>`, Error{502, "unknown", "the server answered 502 Bad Gateway; is it Weir?", -1}},
	} {
		status, body = test.status, test.body
		_, err := c.Query(t.Context(), "x")
		got, ok := errors.AsType[*Error](err)
		if !ok || *got != test.want {
			t.Errorf("got %v, want %v", err, test.want)
		}
	}
}

func TestCopy(t *testing.T) {
	fail := false
	c := answering(t, "", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Weir-Truncated, Weir-Rows-Cut, Weir-Partial, Weir-Undecoded")
		w.Header().Set("Weir-Backfilling", "v,w%20%C3%BC%2C")
		io.WriteString(w, r.Header.Get("Accept")+"\n")
		w.(http.Flusher).Flush()
		if fail {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Weir-Truncated", "1")
		w.Header().Set("Weir-Rows-Cut", "1")
		w.Header().Set("Weir-Partial", "a%2Cb,c")
		w.Header().Set("Weir-Undecoded", "4")
	})
	var out strings.Builder
	part, err := c.Copy(t.Context(), &out, "text/csv", "x")
	if err != nil || !part.Truncated || !part.RowsCut || !slices.Equal(part.Partial, []string{"a,b", "c"}) || part.Undecoded != 4 || !slices.Equal(part.Backfilling, []string{"v", "w ü,"}) || out.String() != "text/csv\n" {
		t.Errorf("%q, %+v, %v", out.String(), part, err)
	}
	fail = true
	if _, err := c.Copy(t.Context(), io.Discard, "text/csv", "x"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a cut answer: %v", err)
	}
	if _, err := c.Query(t.Context(), "x"); err == nil {
		t.Error("a cut answer is taken for a result")
	}
}

func TestUnreached(t *testing.T) {
	c, err := New("127.0.0.1:1", "") // nobody may listen there but root, and nobody does
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Query(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "start weir") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Query(ctx, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for _, addr := range []string{"", "ftp://x", "http://", "a b"} {
		if c, err := New(addr, ""); err == nil {
			t.Errorf("%q is taken as %s", addr, c.base)
		}
	}
	if c, err := New(":8080", ""); err != nil || c.base != "http://127.0.0.1:8080" {
		t.Errorf("%v, %v", c, err)
	}
}

func TestTable(t *testing.T) {
	raw := func(vs ...string) (row []json.RawMessage) {
		for _, v := range vs {
			row = append(row, json.RawMessage(v))
		}
		return row
	}
	var out strings.Builder
	err := WriteTable(&out, &Result{
		Columns: []Column{{"city", "VARCHAR"}, {"n", "BIGINT"}, {"list", "INTEGER[]"}},
		Rows: [][]json.RawMessage{
			raw(`"東京"`, `12`, `[1,null]`),
			raw(`"a\u001b[2J\n\u202e"`, `null`, `[]`),
			raw(`""`, `-9007199254740993`, `null`),
		},
		Epoch: 9, Truncated: true, RowsCut: true, Partial: []string{"a\nb"}, Undecoded: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := ` city               |                 n | list
--------------------+-------------------+----------
 東京               |                12 | [1,null]
 a\x1b[2J\n\u{202e} |              NULL | []
                    | -9007199254740993 | NULL
(3 rows, epoch 9)
1 of the newest records could not be decoded and is not shown
only the newest 1,000 records of source a\nb were read: the answer is one over these
the answer was cut at the limit on rows or bytes: there is more
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	out.Reset()
	if err := WriteTable(&out, &Result{Epoch: 1, Rows: [][]json.RawMessage{raw()}}); err != nil || out.String() != "(1 row, epoch 1)\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	out.Reset()
	if err := WriteTable(&out, &Result{Epoch: 1, Backfilling: []string{"a\nb"}}); err != nil || out.String() != "(0 rows, epoch 1)\nview a\\nb is not whole yet: it still reads old records\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	out.Reset()
	past := []Checkpoint{{ID: 2, Epoch: 4, Savepoint: "a\nb"}, {ID: 3, Epoch: 5}}
	if err := WriteTable(&out, &Result{Epoch: 4, Checkpoints: past}); err != nil || out.String() != "(0 rows, epoch 4, from checkpoint 2 'a\\nb' and checkpoint 3)\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestPoint(t *testing.T) {
	sql := "SELECT é,\n  東 nope FROM t\r\n"
	for at, want := range map[int]string{
		0:  "line 1: SELECT é,\n        ^",
		7:  "line 1: SELECT é,\n               ^",
		9:  "line 1: SELECT é,\n                ^",
		17: "line 2:   東 nope FROM t\n             ^",
		-1: "", 1000: "",
	} {
		if got := (&Error{Position: at}).Point(sql); got != want {
			t.Errorf("%d:\n%s\nwant\n%s", at, got, want)
		}
	}
}
