package queryable

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
)

// defaultWait is how long ?min_epoch= and ?min_position= wait when ?timeout=
// does not say.
const defaultWait = 10 * time.Second

// await holds a read until the state is as new as ?min_epoch= and
// ?min_position= ask, so that a writer can read its own writes. It waits as
// long as ?timeout= says, and gives the call its time from then on.
func (a *API) await(c *fiber.Ctx, k *call, view string) error {
	minEpoch, minPosition := c.Query("min_epoch"), query(c, "min_position")
	for _, name := range []string{"min_epoch", "min_position"} {
		if c.Context().QueryArgs().Has(name) && c.Query(name) == "" { // a script's variable without a value, perhaps
			return Errorf(BadRequest, "%s is empty: leave it out to wait for nothing", name)
		}
	}
	wait, err := a.timeout(c)
	if err != nil || minEpoch == "" && minPosition == "" {
		return err
	}
	var epoch uint64
	var positions []Position
	if minEpoch != "" {
		if epoch, err = strconv.ParseUint(minEpoch, 10, 64); err != nil {
			return Errorf(BadRequest, "min_epoch is a number")
		}
	}
	if minPosition != "" {
		if positions, err = parsePositions(minPosition); err != nil {
			return err
		}
	}
	k.limit(wait + a.o.QueryTime)
	ctx, cancel := context.WithTimeout(k.ctx, wait)
	defer cancel()
	if err := a.awaitEpoch(ctx, epoch); err != nil {
		return a.late(k, err, "epoch "+minEpoch, wait)
	}
	if positions != nil {
		if err := a.b.WaitPosition(ctx, view, positions); err != nil {
			return a.late(k, err, "position "+clip(minPosition), wait)
		}
	}
	return nil
}

func (a *API) awaitEpoch(ctx context.Context, epoch uint64) error {
	for {
		now, _, next := a.b.Changed()
		if now >= epoch {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// late says that a wait was too short, when it was.
func (a *API) late(k *call, err error, what string, wait time.Duration) error {
	if k.ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	now, _, _ := a.b.Changed()
	return Errorf(Timeout, "%s was not reached within %s; the newest epoch is %d", what, wait, now)
}

// timeout is ?timeout=, in seconds or as 500ms.
func (a *API) timeout(c *fiber.Ctx) (time.Duration, error) {
	s := c.Query("timeout")
	if s == "" {
		return min(defaultWait, a.o.WaitTime), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		d, err = time.ParseDuration(s + "s")
	}
	if err != nil || d <= 0 || d > a.o.WaitTime {
		return 0, Errorf(BadRequest, "timeout is in seconds, more than 0 and at most %s", a.o.WaitTime)
	}
	return d, nil
}
