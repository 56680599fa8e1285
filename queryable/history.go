package queryable

import (
	"encoding/json"
	"time"

	"github.com/gofiber/fiber/v2"
)

// history is GET /api/v1/views/{view}/history: one group in every checkpoint.
func (a *API) history(c *fiber.Ctx) error {
	key, err := askedKey(c, "numbers", "timeout")
	if err != nil {
		return err
	}
	view, err := param(c, "view")
	if err != nil {
		return err
	}
	f, err := form(c)
	if err != nil {
		return err
	}
	k := a.begin(c, a.o.QueryTime, true)
	defer k.end()
	if err := a.scans.enter(k, "scans"); err != nil {
		return err
	}
	schema, err := a.b.Schema(view, "")
	if err != nil {
		return k.fault(err)
	}
	batch, whole, err := keyBatch(schema, []map[string]json.RawMessage{key}, true)
	if err != nil {
		return err
	}
	defer batch.Release()
	if !whole {
		return Errorf(BadRequest, "a history is of one group: give its whole key, %s", keyNames(schema))
	}
	h, err := a.b.History(k.ctx, HistoryRequest{View: view, Keys: batch})
	if err != nil {
		return k.fault(err)
	}
	for i := range h.Moments {
		if g := h.Moments[i].Groups; g != nil {
			defer g.Batch.Release()
		}
	}
	sayBackfilling(c, h.Backfilling)
	a.answerHeaders(c, h.Answer)
	asked := &found{Groups: &Groups{Batch: batch}, asked: batch, schema: schema, form: f}
	if err := asked.bindAsked(); err != nil {
		return err
	}
	out := append([]byte(`{"key":`), appendObject(nil, asked.askedNames, asked.askedCells, 0)...)
	out = append(out, `,"history":[`...)
	for i := range h.Moments {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = appendMoment(out, &h.Moments[i], asked); err != nil {
			return err
		}
	}
	out = h.appendTo(append(out, "],"...))
	out = append(out, "}\n"...)
	c.Set(fiber.HeaderContentType, mediaJSON)
	return c.Send(out)
}

// appendMoment is {"id","epoch","savepoint"?,"created","present","value"}: value is
// null when the group is not there, and "error" stands in its place when it has none.
func appendMoment(dst []byte, m *Moment, asked *found) ([]byte, error) {
	dst = m.Past.appendTo(append(dst, "\n{"...))
	dst = append(dst, `,"created":`...)
	dst = appendString(dst, m.Created.UTC().Format(time.RFC3339Nano))
	why := m.Error
	switch {
	case m.Error != "":
		dst = append(dst, `,"present":null`...)
	case m.Groups == nil:
		dst = append(dst, `,"present":false,"value":null`...)
	default:
		dst = append(dst, `,"present":true`...)
		l := &found{Groups: m.Groups, asked: asked.asked, schema: asked.schema, form: asked.form}
		if err := l.bind(); err != nil {
			return nil, err
		}
		if l.Batch.NumRows() != 1 {
			return nil, Errorf(Internal, "a history has %d groups at one time", l.Batch.NumRows())
		}
		if why = l.fault(0); why == "" {
			dst = append(dst, `,"value":`...)
			dst = appendObject(dst, l.valueNames, l.valueCells, 0)
		}
	}
	if why != "" {
		dst = append(dst, `,"error":`...)
		dst = appendString(dst, why)
	}
	return append(dst, '}'), nil
}
