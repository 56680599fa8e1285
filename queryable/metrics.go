package queryable

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// metrics counts what the API does. Routes are labels by their pattern, never
// by what a client sent.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_http_requests_total", Help: "Requests answered, by route and status.",
		}, []string{"route", "method", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "weir_http_seconds", Help: "Time until an answer's headers, by route.",
			Buckets: []float64{.0002, .0005, .001, .002, .005, .01, .05, .1, .5, 1, 5, 30},
		}, []string{"route", "method"}),
	}
	if err := r.Register(m.requests); err != nil {
		return nil, err
	}
	return m, r.Register(m.seconds)
}

// observe is the middleware that counts. Errors are answered here, so that
// their status is counted too, and the internal ones logged.
func (a *API) observe(c *fiber.Ctx) error {
	start := time.Now()
	err := c.Next()
	route, method := c.Route().Path, c.Route().Method
	if err != nil {
		if e := AsError(err); e.Code == Internal && !isRouters(err) {
			a.o.Logger.Error("a request failed", "route", route, "method", method, "err", err, "cause", e.Cause)
		}
		if err := Fail(c, err); err != nil {
			return err
		}
	}
	m := a.metrics
	m.requests.WithLabelValues(route, method, strconv.Itoa(c.Response().StatusCode())).Inc()
	m.seconds.WithLabelValues(route, method).Observe(time.Since(start).Seconds())
	return nil
}

func isRouters(err error) bool {
	_, ok := errors.AsType[*fiber.Error](err)
	return ok
}

// showMetrics is GET /metrics.
func (a *API) showMetrics(c *fiber.Ctx) error {
	families, err := a.o.Registry.Gather()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	format := expfmt.NewFormat(expfmt.TypeTextPlain)
	enc := expfmt.NewEncoder(&out, format)
	for _, f := range families {
		if err := enc.Encode(f); err != nil {
			return err
		}
	}
	c.Set(fiber.HeaderContentType, strings.Split(string(format), "; escaping")[0])
	return c.Send(out.Bytes())
}
