package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"weir/queryable"
)

// Wrong tokens allowed from one address in a span.
const (
	maxWrong  = 20
	wrongSpan = time.Minute
	maxAddrs  = 10_000
)

// auth knows the token. The cookie of a login holds a value derived from it, so
// sessions outlive a restart, end when the token changes, and the cookie does
// not give the token away.
type auth struct {
	open    bool // there is no token: everyone is admitted
	token   [32]byte
	session string
	cookie  string // its name: cookies know no ports, and two appliances may share a host

	mu    sync.Mutex
	wrong map[string]*attempts // by address; guarded by mu
	now   func() time.Time
}

type attempts struct {
	n     int
	since time.Time
}

func newAuth(token string) *auth {
	mac := func(what string) string {
		h := hmac.New(sha256.New, []byte(token))
		h.Write([]byte(what))
		return hex.EncodeToString(h.Sum(nil))
	}
	return &auth{
		open: token == "", token: sha256.Sum256([]byte(token)),
		session: mac("weir session"), cookie: "weir_" + mac("weir cookie")[:8],
		wrong: make(map[string]*attempts), now: time.Now,
	}
}

// is compares without telling by its time how much was right.
func (a *auth) is(token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], a.token[:]) == 1
}

// admits is whether a request shows the token, as Bearer or by its session.
func (a *auth) admits(c *fiber.Ctx) bool {
	if a.open {
		return true
	}
	if subtle.ConstantTimeCompare([]byte(c.Cookies(a.cookie)), []byte(a.session)) == 1 {
		return true
	}
	scheme, token, _ := strings.Cut(c.Get(fiber.HeaderAuthorization), " ")
	return strings.EqualFold(scheme, "Bearer") && !a.tired(c.IP()) && a.is(strings.TrimSpace(token))
}

// refuse is the answer to a request that was not admitted.
func (a *auth) refuse(c *fiber.Ctx) error {
	if c.Get(fiber.HeaderAuthorization) == "" {
		return queryable.Errorf(queryable.Unauthed, "a token is needed: Authorization: Bearer …, or log in")
	}
	return a.missed(c.IP())
}

// tired is whether an address has tried too many wrong tokens of late.
func (a *auth) tired(ip string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.wrong[ip]
	return w != nil && w.n >= maxWrong && a.now().Sub(w.since) < wrongSpan
}

// missed counts a wrong token and is the error for it.
func (a *auth) missed(ip string) error {
	if a.tired(ip) {
		return queryable.Errorf(queryable.Busy, "too many wrong tokens; wait a minute")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	w := a.wrong[ip]
	if w == nil || now.Sub(w.since) >= wrongSpan {
		if len(a.wrong) >= maxAddrs {
			clear(a.wrong)
		}
		w = &attempts{since: now}
		a.wrong[strings.Clone(ip)] = w
	}
	w.n++
	return queryable.Errorf(queryable.Unauthed, "the token is not the right one")
}

// login is POST /api/v1/login: it trades the token for a session cookie.
func (s *Server) login(c *fiber.Ctx) error {
	var token string
	if err := queryable.ReadBody(c, queryable.Members{"token": &token}); err != nil {
		return err
	}
	if s.auth.open {
		return c.JSON(map[string]bool{"ok": true})
	}
	if s.auth.tired(c.IP()) || !s.auth.is(token) {
		return s.auth.missed(c.IP())
	}
	c.Cookie(&fiber.Cookie{
		Name: s.auth.cookie, Value: s.auth.session, Path: "/", MaxAge: 30 * 24 * 3600,
		HTTPOnly: true, SameSite: fiber.CookieSameSiteStrictMode,
	})
	return c.JSON(map[string]bool{"ok": true})
}

// logout is DELETE /api/v1/login: it forgets the cookie.
func (s *Server) logout(c *fiber.Ctx) error {
	c.Cookie(&fiber.Cookie{
		Name: s.auth.cookie, Path: "/", Expires: time.Unix(1, 0), HTTPOnly: true, SameSite: fiber.CookieSameSiteStrictMode,
	})
	return c.SendStatus(fiber.StatusNoContent)
}
