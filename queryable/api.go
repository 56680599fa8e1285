package queryable

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
)

// The headers of Weir.
const (
	headerEpoch     = "Weir-Epoch"
	headerPosition  = "Weir-Position"
	headerPast      = "Weir-Checkpoint"
	headerTopology  = "Weir-Topology-Version"
	headerQuery     = "Weir-Query"
	headerTruncated = "Weir-Truncated"
	headerCut       = "Weir-Rows-Cut"
	headerPartial   = "Weir-Partial" // names, as in headerBackfill
	headerUndecoded = "Weir-Undecoded"
	headerNext      = "Weir-Next"
)

// Options of an API. Zero values take the defaults named.
type Options struct {
	// File makes the batches of Arrow streams. Required.
	File FileForm
	// Exports gives files of views. Nil is none: their routes answer 404.
	Exports Exporter
	// Registry is what /metrics shows, and where the API's own metrics go. Nil
	// is an empty one.
	Registry *prometheus.Registry
	Logger   *slog.Logger // nil discards

	QueryTime  time.Duration // until a statement's first rows; 30 s
	ReadTime   time.Duration // for look-ups and lists; 10 s
	WaitTime   time.Duration // longest ?timeout= of ?min_epoch=; 60 s
	StreamTime time.Duration // for a stream, first byte to last; 10 min
	Heartbeat  time.Duration // of the event stream; 10 s
	Pace       time.Duration // least time between two epochs in it; 250 ms

	MaxRows int64 // of an answer to SQL; 100,000
	MaxSize int64 // its Arrow bytes; 64 MiB

	Queries, Scans, Streams, Downloads int // at once: statements 64, scans 16, event streams 256, downloads 256
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.QueryTime, 30*time.Second)
	def(&o.ReadTime, 10*time.Second)
	def(&o.WaitTime, 60*time.Second)
	def(&o.StreamTime, 10*time.Minute)
	def(&o.Heartbeat, 10*time.Second)
	def(&o.Pace, 250*time.Millisecond)
	num := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	num(&o.Queries, 64)
	num(&o.Scans, 16)
	num(&o.Streams, 256)
	num(&o.Downloads, 256)
	if o.MaxRows == 0 {
		o.MaxRows = 100_000
	}
	if o.MaxSize == 0 {
		o.MaxSize = 64 << 20
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// API serves a backend. Its handlers assume that whoever calls them may.
type API struct {
	b       Backend
	o       Options
	base    context.Context // ends at Stop
	stop    context.CancelCauseFunc
	running sync.WaitGroup // the watchers
	metrics *metrics

	queries, scans, streams, downloads gate

	mu   sync.Mutex
	byID map[string]*call // running statements; guarded by mu
}

// New makes an API over a backend. It starts nothing.
func New(b Backend, o Options) (*API, error) {
	o = o.withDefaults()
	if o.File == nil {
		return nil, errors.New("queryable: Options.File is missing")
	}
	m, err := newMetrics(o.Registry)
	if err != nil {
		return nil, err
	}
	base, stop := context.WithCancelCause(context.Background())
	return &API{
		b: b, o: o, base: base, stop: stop, metrics: m, byID: make(map[string]*call),
		queries: make(gate, o.Queries), scans: make(gate, o.Scans), streams: make(gate, o.Streams), downloads: make(gate, o.Downloads),
	}, nil
}

// Mount puts the routes on r, which is the root of the server.
func (a *API) Mount(r fiber.Router) {
	r.Get("/healthz", a.health)
	r.Get("/readyz", a.ready)
	r.Get("/metrics", a.showMetrics)
	v1 := r.Group("/api/v1", a.observe)
	waits := []string{"min_epoch", "min_position", "timeout"}
	with := func(more ...string) []string { return append(more, waits...) }
	v1.Post("/sql", takes(a.sql, with("numbers", "spreadsheet")...))
	v1.Delete("/queries/:id", takes(a.cancelQuery))
	v1.Get("/views", takes(a.listViews, waits...))
	v1.Get("/views/:view", takes(a.oneView, waits...))
	v1.Get("/views/:view/lookup", a.lookup) // other parameters are columns of the key
	v1.Post("/views/:view/lookup", takes(a.lookupMany, with("numbers")...))
	v1.Get("/views/:view/history", a.history) // likewise
	v1.Get("/views/:view/scan", takes(a.scan, with("slot", "columns", "limit", "after", "numbers")...))
	v1.Get("/views/:view/scan.arrow", takes(a.scanArrow, with("slot", "columns", "limit", "after")...))
	v1.Get("/views/:view/scan.parquet", takes(a.scanParquet, with("epoch")...))
	v1.Get("/sources", takes(a.listSources, waits...))
	v1.Get("/sources/:source/quarantine", takes(a.quarantine, with("limit", "after")...))
	v1.Get("/checkpoints", takes(a.listCheckpoints, waits...))
	v1.Post("/checkpoints", takes(a.takeCheckpoint))
	v1.Get("/checkpoints/:id", takes(a.oneCheckpoint))
	v1.Delete("/checkpoints/:id", takes(a.dropSavepoint))
	v1.Get("/checkpoints/:id/:file", takes(a.checkpointFile))
	v1.Get("/topology", takes(a.topology))
	v1.Get("/status", takes(a.status))
	v1.Get("/events", takes(a.events))
}

// takes refuses query parameters that a route does not know, rather than to
// answer something else than was asked.
func takes(h fiber.Handler, names ...string) fiber.Handler {
	return func(c *fiber.Ctx) error {
		var seen []string
		for name := range c.Context().QueryArgs().All() {
			n := string(name)
			switch {
			case !slices.Contains(names, n) && len(names) == 0:
				return Errorf(BadRequest, "there is no parameter %s here: this route takes none", clip(n))
			case !slices.Contains(names, n):
				return Errorf(BadRequest, "there is no parameter %s here: this route takes %s", clip(n), strings.Join(names, ", "))
			case slices.Contains(seen, n):
				return Errorf(BadRequest, "%s is given twice", n)
			}
			seen = append(seen, n)
		}
		return h(c)
	}
}

// Stop ends every running call: streams are cut (event streams end well),
// waiting requests are refused. It returns at once.
func (a *API) Stop() { a.stop(errStopping) }

// Close is Stop, and waits for the goroutines of the API.
func (a *API) Close() {
	a.Stop()
	a.running.Wait()
}

// answerHeaders says which state an answer is of.
func (a *API) answerHeaders(c *fiber.Ctx, from Answer) {
	c.Set(headerEpoch, strconv.FormatUint(from.Epoch, 10))
	c.Set(headerTopology, strconv.FormatUint(a.b.Topology().Version, 10))
	if len(from.Positions) > 0 {
		c.Set(headerPosition, formatPositions(from.Positions))
	}
	if len(from.Past) > 0 {
		ids := make([]string, len(from.Past))
		for i, p := range from.Past {
			ids[i] = strconv.FormatUint(p.ID, 10)
		}
		c.Set(headerPast, strings.Join(ids, ","))
	}
}

// formatPositions is topic/partition:next, sorted, comma-separated, each
// partition once: at its lowest when views stand apart, which is what is in all.
func formatPositions(ps []Position) string {
	ps = append([]Position(nil), ps...)
	sort.Slice(ps, func(i, j int) bool {
		a, b := ps[i], ps[j]
		if a.Topic != b.Topic {
			return a.Topic < b.Topic
		}
		if a.Partition != b.Partition {
			return a.Partition < b.Partition
		}
		return a.Next < b.Next
	})
	var out []byte
	for i, p := range ps {
		if i > 0 {
			if ps[i-1].Topic == p.Topic && ps[i-1].Partition == p.Partition {
				continue
			}
			out = append(out, ',')
		}
		out = append(out, p.Topic...)
		out = append(out, '/')
		out = strconv.AppendInt(out, int64(p.Partition), 10)
		out = append(out, ':')
		out = strconv.AppendInt(out, p.Next, 10)
	}
	return string(out)
}

func parsePositions(s string) ([]Position, error) {
	var ps []Position
	for one := range strings.SplitSeq(s, ",") {
		colon := strings.LastIndexByte(one, ':')
		slash := strings.LastIndexByte(one[:max(colon, 0)], '/')
		if slash < 1 {
			return nil, Errorf(BadRequest, "min_position is topic/partition:next, comma-separated; %q is not", one)
		}
		partition, err1 := strconv.ParseInt(one[slash+1:colon], 10, 32)
		next, err2 := strconv.ParseInt(one[colon+1:], 10, 64)
		if err1 != nil || err2 != nil || partition < 0 || next < 0 {
			return nil, Errorf(BadRequest, "min_position is topic/partition:next, comma-separated; %q is not", one)
		}
		ps = append(ps, Position{Topic: one[:slash], Partition: int32(partition), Next: next})
	}
	return ps, nil
}

// param is a path parameter, unescaped and copied.
func param(c *fiber.Ctx, name string) (string, error) {
	s, err := url.PathUnescape(strings.Clone(c.Params(name)))
	if err != nil {
		return "", Errorf(BadRequest, "the path has a bad %% escape")
	}
	return s, nil
}

// query is a query parameter, copied.
func query(c *fiber.Ctx, name string) string { return strings.Clone(c.Query(name)) }

func flag(c *fiber.Ctx, name string) (bool, error) {
	switch c.Query(name) {
	case "", "0", "false":
		return false, nil
	case "1", "true":
		return true, nil
	}
	return false, Errorf(BadRequest, "%s is 0 or 1", name)
}

// number is a whole query parameter from lo to hi, def when absent.
func number(c *fiber.Ctx, name string, lo, hi, def int) (int, error) {
	s := c.Query(name)
	if s == "" {
		return def, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < lo || n > hi {
		return 0, Errorf(BadRequest, "%s is a number from %d to %d", name, lo, hi)
	}
	return n, nil
}

func form(c *fiber.Ctx) (Form, error) {
	switch c.Query("numbers") {
	case "":
		return Form{}, nil
	case "string":
		return Form{IntegersAsStrings: true}, nil
	}
	return Form{}, Errorf(BadRequest, "numbers is string, or left out")
}

// Fail writes an error as the answer. It is the error handler of the server,
// too, so every fault has one form.
func Fail(c *fiber.Ctx, err error) error {
	e := AsError(err)
	if f, ok := errors.AsType[*fiber.Error](err); ok {
		e = ofStatus(f)
	}
	if e.Code == Busy {
		c.Set(fiber.HeaderRetryAfter, "1")
	}
	c.Status(e.Code.Status())
	return c.JSON(e)
}

// ofStatus is the router's or fasthttp's own refusal in our form.
func ofStatus(f *fiber.Error) *Error {
	for _, code := range []Code{NotFound, BadMethod, TooLarge, HeaderLarge, BadRequest} {
		if code.Status() == f.Code {
			return Errorf(code, "%s", f.Message)
		}
	}
	if f.Code == fiber.StatusRequestTimeout {
		return Errorf(SlowRequest, "the request came too slowly")
	}
	return Errorf(BadRequest, "%s", f.Message)
}
