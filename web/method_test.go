package web

import (
	"testing"

	"weir/queryable"
)

func TestWrongMethod(t *testing.T) {
	_, _, addr := start(t, nil)
	base := "http://" + addr
	for _, c := range []struct {
		method, path string
		code         queryable.Code
	}{
		{"GET", "/api/v1/sql", queryable.BadMethod},
		{"PUT", "/api/v1/sql", queryable.BadMethod},
		{"DELETE", "/api/v1/views/v", queryable.BadMethod},
		{"PATCH", "/healthz", queryable.BadMethod},
		{"GET", "/api/v1/login", queryable.BadMethod},
		{"POST", "/api/v1/views/v/scan", queryable.BadMethod},
		{"GET", "/api/v1/nothing", queryable.NotFound},
		{"DELETE", "/api/v1/nothing", queryable.NotFound},
		{"DELETE", "/assets/x", queryable.NotFound},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) { do(t, c.method, base+c.path, "").code(t, c.code) })
	}
	// Allow has every method of the path, whatever form the body has.
	for _, c := range []struct{ method, path, allow string }{
		{"PUT", "/api/v1/checkpoints", "GET, HEAD, POST"},
		{"POST", "/api/v1/views/v/scan", "GET, HEAD"},
		{"POST", "/api/v1/checkpoints/1/v.arrow", "GET, HEAD"},
		{"GET", "/api/v1/sql", "POST"},
		{"POST", "/api/v1/queries/x", "DELETE"},
		{"PUT", "/api/v1/checkpoints/1", "DELETE, GET, HEAD"},
	} {
		for _, header := range [][]string{nil, {"Content-Type", "text/plain"}, {"Content-Type", "application/json"}, {"Content-Encoding", "gzip"}} {
			a := do(t, c.method, base+c.path, "", header...)
			a.code(t, queryable.BadMethod)
			if got := a.header.Get("Allow"); got != c.allow {
				t.Errorf("%s %s with %v: Allow is %q, not %q", c.method, c.path, header, got, c.allow)
			}
		}
	}
}
