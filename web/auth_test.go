package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/queryable"
)

func TestToken(t *testing.T) {
	const token = "0123456789abcdef"
	s, _, addr := start(t, func(o *Options) { o.Token = token })
	base := "http://" + addr
	status := base + "/api/v1/status"
	for _, path := range []string{"/api/v1/status", "/api/v1/events", "/api/v1/views/x/scan.arrow", "/metrics", "/api/v1/nothing"} {
		a := do(t, "GET", base+path, "")
		a.code(t, queryable.Unauthed)
		if a.header.Get("WWW-Authenticate") != "Bearer" {
			t.Error("401 without WWW-Authenticate")
		}
	}
	do(t, "POST", base+"/api/v1/sql", `{"sql":"x"}`, "Content-Type", "application/json").code(t, queryable.Unauthed)
	for _, path := range []string{"/", "/healthz", "/readyz", "/assets/index-Dx3k9_aB.js"} {
		if a := do(t, "GET", base+path, ""); a.status != 200 {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	for _, h := range []string{"Bearer x", "Bearer " + token + "x", "Bearer", "Basic " + token, token, "Bearer " + token[:15]} {
		do(t, "GET", status, "", "Authorization", h).code(t, queryable.Unauthed)
	}
	for _, h := range []string{"Bearer " + token, "bearer  " + token} {
		if a := do(t, "GET", status, "", "Authorization", h); a.status != 200 {
			t.Errorf("%q: %d", h, a.status)
		}
	}
	login := func(body string) answer {
		return do(t, "POST", base+"/api/v1/login", body, "Content-Type", "application/json")
	}
	login(`{"token":"wrong"}`).code(t, queryable.Unauthed)
	for _, body := range []string{`nope`, ``, `["` + token + `"]`, `{"token":"x","token":"` + token + `"}`, `{"Token":"` + token + `"}`, `{"token":"` + token + `","user":"me"}`, `{"token":"` + token + `"}}`} {
		login(body).code(t, queryable.BadRequest)
	}
	a := login(`{"token":"` + token + `"}`)
	cookie, err := http.ParseSetCookie(a.header.Get("Set-Cookie"))
	if err != nil || a.status != 200 {
		t.Fatal(a, err)
	}
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || strings.Contains(cookie.Value, token) {
		t.Errorf("the cookie is %v", cookie)
	}
	if a := do(t, "GET", status, "", "Cookie", cookie.Name+"="+cookie.Value); a.status != 200 {
		t.Errorf("with the cookie: %d", a.status)
	}
	do(t, "GET", status, "", "Cookie", cookie.Name+"=x").code(t, queryable.Unauthed)
	do(t, "GET", status, "", "Cookie", cookie.Name+"="+cookie.Value, "Sec-Fetch-Site", "cross-site").code(t, queryable.Forbidden)
	if newAuth(token).session != cookie.Value || newAuth("other").session == cookie.Value {
		t.Error("a session does not go with its token")
	}
	out := do(t, "DELETE", base+"/api/v1/login", "")
	if c, err := http.ParseSetCookie(out.header.Get("Set-Cookie")); err != nil || c.Value != "" || c.Name != cookie.Name || !c.Expires.Before(time.Unix(10, 0)) {
		t.Errorf("logging out sets %q", out.header.Get("Set-Cookie"))
	}

	for range maxWrong {
		login(`{"token":"wrong"}`)
	}
	login(`{"token":"`+token+`"}`).code(t, queryable.Busy)
	do(t, "GET", status, "", "Authorization", "Bearer "+token).code(t, queryable.Busy)
	if a := do(t, "GET", status, "", "Cookie", cookie.Name+"="+cookie.Value); a.status != 200 {
		t.Errorf("someone else's guesses ended a session: %d", a.status)
	}
	s.auth.mu.Lock()
	s.auth.now = func() time.Time { return time.Now().Add(wrongSpan) }
	s.auth.mu.Unlock()
	if a := login(`{"token":"` + token + `"}`); a.status != 200 {
		t.Errorf("after a minute: %d", a.status)
	}
}

func TestWithoutTokenAllAreIn(t *testing.T) {
	_, _, addr := start(t, nil)
	a := do(t, "POST", "http://"+addr+"/api/v1/login", `{"token":""}`, "Content-Type", "application/json")
	if a.status != 200 || a.header.Get("Set-Cookie") != "" {
		t.Errorf("login without a token: %v", a)
	}
}
