package queryable

import (
	"strings"

	"github.com/gofiber/fiber/v2"
)

// read runs one short read: it waits as ?min_epoch= asks, calls f, and answers
// with its JSON and headers.
func read[T any](a *API, c *fiber.Ctx, view string, f func(*call) (T, Answer, error)) error {
	k := a.begin(c, a.o.ReadTime, waits(c))
	defer k.end()
	if err := a.await(c, k, view); err != nil {
		return k.fault(err)
	}
	v, from, err := f(k)
	if err != nil {
		return k.fault(err)
	}
	a.answerHeaders(c, from)
	return c.JSON(v)
}

// waits is whether a request may wait, and so is worth watching.
func waits(c *fiber.Ctx) bool {
	args := c.Context().QueryArgs()
	return args.Has("min_epoch") || args.Has("min_position")
}

func list[T any](v []T) []T {
	if v == nil {
		return []T{}
	}
	return v
}

// listViews is GET /api/v1/views.
func (a *API) listViews(c *fiber.Ctx) error {
	return read(a, c, "", func(k *call) (any, Answer, error) {
		views, from, err := a.b.Views(k.ctx)
		for i := range views {
			views[i].tidy()
		}
		return map[string][]View{"views": list(views)}, from, err
	})
}

// oneView is GET /api/v1/views/{view}.
func (a *API) oneView(c *fiber.Ctx) error {
	name, err := param(c, "view")
	if err != nil {
		return err
	}
	return read(a, c, name, func(k *call) (View, Answer, error) {
		v, from, err := a.b.View(k.ctx, name)
		v.tidy()
		return v, from, err
	})
}

// tidy makes empty lists [] in JSON.
func (v *View) tidy() {
	v.Columns, v.Positions = list(v.Columns), list(v.Positions)
}

// listSources is GET /api/v1/sources.
func (a *API) listSources(c *fiber.Ctx) error {
	return read(a, c, "", func(k *call) (any, Answer, error) {
		sources, from, err := a.b.Sources(k.ctx)
		for i := range sources {
			s := &sources[i]
			s.Columns, s.Partitions = list(s.Columns), list(s.Partitions)
		}
		return map[string][]Source{"sources": list(sources)}, from, err
	})
}

// quarantine is GET /api/v1/sources/{source}/quarantine.
func (a *API) quarantine(c *fiber.Ctx) error {
	name, err := param(c, "source")
	if err != nil {
		return err
	}
	limit, err := number(c, "limit", 1, 1000, 100)
	if err != nil {
		return err
	}
	r := QuarantineRequest{Source: name, After: query(c, "after"), Limit: limit}
	return read(a, c, "", func(k *call) (any, Answer, error) {
		records, next, from, err := a.b.Quarantine(k.ctx, r)
		for i := range records {
			records[i].Timestamp = records[i].Timestamp.UTC()
		}
		return struct {
			Records []Rejected `json:"records"`
			Next    string     `json:"next,omitempty"`
		}{list(records), next}, from, err
	})
}

// scan is GET /api/v1/views/{view}/scan.
func (a *API) scan(c *fiber.Ctx) error {
	f, err := form(c)
	if err != nil {
		return err
	}
	return a.scanAs(c, func(rows *Rows) (source, string) {
		return &textSource{rows: rows, layout: &lineLayout{rows: rows, form: f}}, mediaLines
	})
}

// scanArrow is GET /api/v1/views/{view}/scan.arrow.
func (a *API) scanArrow(c *fiber.Ctx) error {
	return a.scanAs(c, func(rows *Rows) (source, string) {
		return &arrowSource{rows: rows, file: a.o.File}, mediaArrow
	})
}

// maxPage bounds ?limit= of a scan: a page is made whole before it is sent, up
// to maxHold, so that its cursor stands in a header.
const maxPage = 10_000

func (a *API) scanAs(c *fiber.Ctx, as func(*Rows) (source, string)) error {
	r, err := scanRequest(c)
	if err != nil {
		return err
	}
	k := a.begin(c, a.o.QueryTime, true)
	rows, err := func() (*Rows, error) {
		if err := a.await(c, k, r.View); err != nil {
			return nil, err
		}
		if err := a.scans.enter(k, "scans"); err != nil {
			return nil, err
		}
		return a.b.Scan(k.ctx, r)
	}()
	if err != nil {
		defer k.end()
		return k.fault(err)
	}
	hold := holdBack
	if r.Limit > 0 {
		hold = maxHold
	}
	src, contentType := as(rows)
	return a.send(c, k, rows, src, contentType, hold)
}

// maxHold is more than a page should be; one that is larger has its cursor as a
// trailer, so that pages can't take the memory.
const maxHold = 8 << 20

func scanRequest(c *fiber.Ctx) (r ScanRequest, err error) {
	if r.View, err = param(c, "view"); err != nil {
		return r, err
	}
	if r.FromSlot, r.ToSlot, err = slots(c.Query("slot")); err != nil {
		return r, err
	}
	if names := query(c, "columns"); names != "" {
		r.Columns = strings.Split(names, ",")
	}
	if r.Limit, err = number(c, "limit", 1, maxPage, 0); err != nil {
		return r, err
	}
	r.After = query(c, "after")
	return r, nil
}
