package queryable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gofiber/fiber/v2"
)

// forever is longer than any event stream lives.
const forever = 365 * 24 * time.Hour

// events is GET /api/v1/events: an event a commit, at most one each Pace, always
// the newest. A comment comes at once, so that proxies pass the headers on, and
// at each Heartbeat.
func (a *API) events(c *fiber.Ctx) error {
	k := a.begin(c, forever, true)
	if err := a.streams.enter(k, "event streams"); err != nil {
		defer k.end()
		return err
	}
	epoch, _, _ := a.b.Changed()
	a.answerHeaders(c, Answer{Epoch: epoch})
	c.Set(fiber.HeaderContentType, "text/event-stream")
	a.stream(c, k, func(w io.Writer) error {
		err := a.writeEvents(k.ctx, w)
		if errors.Is(context.Cause(k.ctx), errStopping) {
			return nil // the stream ends well: the client comes back
		}
		return err
	})
	return nil
}

func (a *API) writeEvents(ctx context.Context, w io.Writer) error {
	if _, err := io.WriteString(w, ": ok\n\n"); err != nil {
		return err
	}
	beat := time.NewTicker(a.o.Heartbeat)
	defer beat.Stop()
	pace := time.NewTimer(0)
	defer pace.Stop()
	var sent uint64
	first := true
	for {
		// Not before its time; then the newest there is.
		select {
		case <-pace.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		epoch, committed, next := a.b.Changed()
		if first || epoch != sent {
			first, sent = false, epoch
			data, err := json.Marshal(struct {
				Epoch     uint64     `json:"epoch"`
				Committed *time.Time `json:"committed"`
			}{epoch, Known(committed)})
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "event: epoch\nid: %d\ndata: %s\n\n", epoch, data); err != nil {
				return err
			}
		}
		pace.Reset(a.o.Pace)
		for waiting := true; waiting; {
			select {
			case <-next:
				waiting = false
			case <-beat.C:
				if _, err := io.WriteString(w, ": \n\n"); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}
