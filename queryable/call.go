package queryable

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
)

// Why a call's context ended, besides its time.
var (
	errLeft     = errors.New("the client left")
	errAsked    = errors.New("cancelled on request")
	errStopping = errors.New("weir is stopping")
)

// A call is the life of one request in the backend. It outlives the handler
// when the answer is a stream. It ends by end, by the client's leaving, by its
// time limit, by DELETE of its query, and when the API stops.
type call struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	onEnd  []func()
	once   sync.Once
}

// begin starts a call that lives for at most limit. A watched one ends when its
// client leaves; watching costs a goroutine, so short calls go without.
func (a *API) begin(c *fiber.Ctx, limit time.Duration, watched bool) *call {
	ctx, cancel := context.WithCancelCause(a.base)
	k := &call{ctx: ctx, cancel: cancel}
	k.timer = time.AfterFunc(limit, func() { cancel(context.DeadlineExceeded) })
	if conn := c.Context().Conn(); watched && conn != nil {
		a.running.Go(func() { watch(ctx, conn, func() { cancel(errLeft) }) })
	}
	return k
}

// limit gives the call a new span of time from now on.
func (k *call) limit(d time.Duration) { k.timer.Reset(d) }

// defers adds what end is to do, last first.
func (k *call) defers(f func()) { k.onEnd = append(k.onEnd, f) }

// end frees all that the call holds. It may be called more than once.
func (k *call) end() {
	k.once.Do(func() {
		k.timer.Stop()
		k.cancel(context.Canceled)
		for i := len(k.onEnd) - 1; i >= 0; i-- {
			k.onEnd[i]()
		}
	})
}

// fault is err as the client should see it. When the call ended, that is the
// reason, however the backend put it.
func (k *call) fault(err error) *Error {
	if err == nil {
		return nil
	}
	switch cause := context.Cause(k.ctx); {
	case cause == nil:
	case errors.Is(cause, errStopping):
		return &Error{Code: Unavailable, Message: "weir is stopping", Position: -1, Cause: err}
	case errors.Is(cause, errLeft), errors.Is(cause, errAsked):
		return &Error{Code: Cancelled, Message: cause.Error(), Position: -1, Cause: err}
	case errors.Is(cause, context.DeadlineExceeded):
		if e, ok := errors.AsType[*Error](err); ok && e.Code == Timeout {
			return e
		}
		return &Error{Code: Timeout, Message: "the time for this request is over", Position: -1, Cause: err}
	}
	return AsError(err)
}

// gate bounds how many calls of one kind run at once.
type gate chan struct{}

// enter takes a place until the call ends, or refuses.
func (g gate) enter(k *call, what string) error {
	select {
	case g <- struct{}{}:
		k.defers(func() { <-g })
		return nil
	default:
		return Errorf(Busy, "%d %s run already; try again in a moment", cap(g), what)
	}
}
