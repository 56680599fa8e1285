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
		{"GET", "/api/v1/nothing", queryable.NotFound},
		{"DELETE", "/api/v1/nothing", queryable.NotFound},
		{"DELETE", "/assets/x", queryable.NotFound},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) { do(t, c.method, base+c.path, "").code(t, c.code) })
	}
}
