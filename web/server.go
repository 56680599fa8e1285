// Package web is the appliance's one HTTP server: it decides who may ask, keeps
// connections honest, and serves the console beside the API of package
// queryable.
//
// A request passes, in this order: security headers, recovery from panics, the
// host allow-list (421), then for everything but the console's own files and
// the health checks the same-origin check (403), the token (401), and the form
// of its body (415). There are no CORS headers and no way to turn any on.
//
// Connections: a request must arrive whole within ReadTimeout, and a client
// must take each piece of an answer within WriteTimeout; how long a stream as a
// whole may last is the API's business. The package knows nothing of what is
// served.
package web

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"weir/queryable"
)

// Options of a server. Zero values take the defaults named.
type Options struct {
	Backend queryable.Backend
	API     queryable.Options
	Console fs.FS // index.html and assets/; nil serves none

	// Token is what clients must show. Without one the server refuses to
	// listen anywhere but on loopback.
	Token string
	// Hosts are names, besides localhost and the addresses of the machine that
	// a connection came in on, by which the server may be called.
	Hosts []string

	Logger *slog.Logger // nil discards

	ReadTimeout  time.Duration // for a whole request; 10 s
	WriteTimeout time.Duration // for each piece of an answer; 30 s
	IdleTimeout  time.Duration // between two requests; 60 s
	MaxBody      int           // bytes; 1 MiB
	MaxConns     int           // 4096
}

// Server is the HTTP server.
type Server struct {
	app  *fiber.App
	api  *queryable.API
	auth *auth
	o    Options
}

// New makes a server. It listens to nothing yet.
func New(o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for d, v := range map[*time.Duration]time.Duration{
		&o.ReadTimeout: 10 * time.Second, &o.WriteTimeout: 30 * time.Second, &o.IdleTimeout: time.Minute,
	} {
		if *d == 0 {
			*d = v
		}
	}
	if o.MaxBody == 0 {
		o.MaxBody = 1 << 20
	}
	if o.MaxConns == 0 {
		o.MaxConns = 4096
	}
	if o.API.Logger == nil {
		o.API.Logger = o.Logger
	}
	api, err := queryable.New(o.Backend, o.API)
	if err != nil {
		return nil, err
	}
	s := &Server{api: api, auth: newAuth(o.Token), o: o}
	s.app = fiber.New(fiber.Config{
		AppName:               "weir",
		DisableStartupMessage: true,
		CaseSensitive:         true,
		ReadTimeout:           o.ReadTimeout,
		IdleTimeout:           o.IdleTimeout, // WriteTimeout is the connection's, see conn.go
		BodyLimit:             o.MaxBody,
		ReadBufferSize:        16 << 10,
		Concurrency:           o.MaxConns,
		ErrorHandler:          s.fail,
		// A multipart body is refused, not read.
		DisablePreParseMultipartForm: true,
	})
	s.app.Server().Logger = fasthttpLog{o.Logger}
	s.app.Server().CloseOnShutdown = true
	s.app.Use(s.recovered, s.knownHost, s.guard)
	s.app.Post("/api/v1/login", s.login)
	s.app.Delete("/api/v1/login", s.logout)
	api.Mount(s.app)
	if o.Console != nil {
		c, err := newConsole(o.Console)
		if err != nil {
			return nil, err
		}
		s.app.Get("/*", func(ctx *fiber.Ctx) error {
			if strings.HasPrefix(ctx.Path(), "/api/") {
				return s.nothing(ctx)
			}
			return c.serve(ctx)
		})
	}
	s.app.Use(s.nothing)
	return s, nil
}

// nothing answers a request that no route took: its path is wrong, or its method.
func (s *Server) nothing(c *fiber.Ctx) error {
	if err := s.wrongMethod(c); err != nil {
		return err
	}
	return queryable.Errorf(queryable.NotFound, "there is nothing at this path")
}

// wrongMethod refuses a request whose path takes other methods only, and lists them
// in Allow.
func (s *Server) wrongMethod(c *fiber.Ctx) error {
	var allowed []string
	for _, r := range s.app.GetRoutes(true) {
		if r.Path != "/*" && fiber.RoutePatternMatch(c.Path(), r.Path) {
			allowed = append(allowed, r.Method)
		}
	}
	if len(allowed) == 0 || slices.Contains(allowed, c.Method()) {
		return nil
	}
	slices.Sort(allowed)
	list := strings.Join(slices.Compact(allowed), ", ")
	c.Set(fiber.HeaderAllow, list)
	return queryable.Errorf(queryable.BadMethod, "%s is not for this path; it takes %s", c.Method(), list)
}

// Serve answers on a listener until Shutdown. It takes the listener over.
func (s *Server) Serve(ln net.Listener) error {
	if s.o.Token == "" && !loopback(ln.Addr()) {
		err := fmt.Errorf("listening on %s lets others in: set a token (WEIR_TOKEN or --make-token) or listen on 127.0.0.1", ln.Addr())
		return errors.Join(err, ln.Close())
	}
	return s.app.Listener(patient{ln, s.o.WriteTimeout})
}

func loopback(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// Shutdown stops streams and statements first, then waits for the other
// requests and closes. What is not done when ctx ends is left.
func (s *Server) Shutdown(ctx context.Context) error {
	s.api.Stop()
	if err := s.app.ShutdownWithContext(ctx); err != nil {
		return fmt.Errorf("stop serving http: %w", err)
	}
	s.api.Close()
	return nil
}

// fail answers with an error. fasthttp's own refusals come here without having
// passed the middleware, hence the headers.
func (s *Server) fail(c *fiber.Ctx, err error) error {
	secure(c)
	if e := queryable.AsError(err); e.Code == queryable.Internal && e.Cause != nil {
		if _, ok := errors.AsType[*fiber.Error](err); !ok {
			s.o.Logger.Error("a request failed", "method", c.Method(), "path", strings.Clone(c.Path()), "err", err)
		}
	}
	return queryable.Fail(c, err)
}

// recovered sets the headers of every answer and turns a panic into a 500.
func (s *Server) recovered(c *fiber.Ctx) (err error) {
	secure(c)
	defer func() {
		if r := recover(); r != nil {
			s.o.Logger.Error("panic in a handler", "path", strings.Clone(c.Path()), "panic", r, "stack", string(debug.Stack()))
			err = queryable.Errorf(queryable.Internal, "internal error; the log has more")
		}
	}()
	return c.Next()
}

// fasthttpLog passes fasthttp's complaints, which are about single
// connections, on at debug level.
type fasthttpLog struct{ log *slog.Logger }

// Printf logs.
func (l fasthttpLog) Printf(format string, args ...any) {
	l.log.Debug("http: " + fmt.Sprintf(format, args...))
}
