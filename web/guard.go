package web

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"

	"weir/queryable"
)

// policy is the console's content security policy: its own files and nothing
// else, no inline code or style, and no string ever becomes markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

func secure(c *fiber.Ctx) {
	h := &c.Context().Response.Header
	h.Set(fiber.HeaderContentSecurityPolicy, policy)
	h.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	h.Set(fiber.HeaderXFrameOptions, "DENY")
	h.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Embedder-Policy", "require-corp")
	h.Set(fiber.HeaderPermissionsPolicy, "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set(fiber.HeaderCacheControl, "no-store") // the console's files say otherwise
}

// knownHost refuses names that are not the server's own. A page whose name
// points at this machine (DNS rebinding) is of the same origin to a browser,
// but its Host header tells.
func (s *Server) knownHost(c *fiber.Ctx) error {
	if s.mayCall(string(c.Context().Host()), c.Context().LocalAddr()) {
		return c.Next()
	}
	return queryable.Errorf(queryable.WrongHost, "this server is not called by that name; --allow-host adds one")
}

func (s *Server) mayCall(hostport string, local net.Addr) bool {
	host := strings.ToLower(hostOf(hostport))
	if host == "localhost" || slices.ContainsFunc(s.o.Hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	if ip == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || ip == netip.IPv6Loopback() {
		return true
	}
	t, ok := local.(*net.TCPAddr)
	return ok && t.AddrPort().Addr().Unmap() == ip.Unmap()
}

// hostOf is the name in host[:port], brackets of IPv6 taken off; "" when it is
// neither.
func hostOf(hostport string) string {
	name := hostport
	if rest, ok := strings.CutPrefix(hostport, "["); ok {
		v6, port, found := strings.Cut(rest, "]")
		if !found || port != "" && !digitsAfterColon(port) {
			return ""
		}
		return v6
	}
	if i := strings.IndexByte(hostport, ':'); i >= 0 {
		if !digitsAfterColon(hostport[i:]) {
			return ""
		}
		name = hostport[:i]
	}
	return strings.TrimSuffix(name, ".")
}

func digitsAfterColon(s string) bool {
	return strings.HasPrefix(s, ":") && strings.Trim(s[1:], "0123456789") == ""
}

// guard protects everything that acts, tells or streams: the API and the
// metrics. The console's files are the same for all, and hold no secret.
func (s *Server) guard(c *fiber.Ctx) error {
	path := c.Path()
	if path != "/metrics" && path != "/api" && !strings.HasPrefix(path, "/api/") {
		return c.Next()
	}
	if !sameOrigin(c) {
		return queryable.Errorf(queryable.Forbidden, "a page of another site may not ask this server")
	}
	if path != "/api/v1/login" && !s.auth.admits(c) {
		c.Set(fiber.HeaderWWWAuthenticate, "Bearer")
		return s.auth.refuse(c)
	}
	if c.Get(fiber.HeaderContentEncoding) != "" {
		if err := s.wrongMethod(c); err != nil {
			return err
		}
		return queryable.Errorf(queryable.BadType, "a compressed body is not read; send it as it is")
	}
	if c.Method() == fiber.MethodPost {
		media, _, _ := strings.Cut(c.Get(fiber.HeaderContentType), ";")
		if !strings.EqualFold(strings.TrimSpace(media), fiber.MIMEApplicationJSON) {
			if err := s.wrongMethod(c); err != nil {
				return err // whatever its body was
			}
			return queryable.Errorf(queryable.BadType, "POST takes Content-Type: application/json")
		}
	}
	return c.Next()
}

// sameOrigin is the check of Go's CrossOriginProtection, made of safe methods
// too, since here a GET can stream. Browsers set Sec-Fetch-Site, older ones
// Origin; a client that sends neither is none, and carries no one's cookies.
func sameOrigin(c *fiber.Ctx) bool {
	switch c.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return true
	case "":
	default:
		return false
	}
	origin := c.Get(fiber.HeaderOrigin)
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, string(c.Context().Host()))
}
