package queryable

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strconv"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// holdBack is how much of an answer is made before its headers go out. Most
// answers end within it, and so have a length, a true Weir-Truncated header,
// and a proper error instead of a cut.
const holdBack = 1 << 20

// send answers with what src makes of rows and takes over the call and the
// rows, whatever it returns. hold is how many bytes to make before the headers
// go out.
func (a *API) send(c *fiber.Ctx, k *call, rows *Rows, src source, contentType string, hold int) error {
	k.defers(func() { rows.Records.Release() })
	a.answerHeaders(c, rows.Answer)
	sayBackfilling(c, rows.Backfilling)
	var buf []byte
	var err error
	for err == nil && len(buf) <= hold {
		if err = k.ctx.Err(); err == nil {
			buf, err = src.next(buf)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		defer k.end()
		return k.fault(err)
	}
	c.Set(fiber.HeaderContentType, contentType)
	head := &c.Context().Response.Header
	if err != nil {
		defer k.end()
		finish(head, rows)
		return c.Send(buf)
	}
	k.limit(a.o.StreamTime)
	// Names of the trailers: what the headers would have said, had it been known.
	for _, name := range []string{headerTruncated, headerCut, headerPartial, headerUndecoded, headerNext} {
		if err := head.AddTrailer(name); err != nil {
			defer k.end()
			return err
		}
	}
	a.stream(c, k, func(w io.Writer) error {
		for {
			if len(buf) > 0 {
				if _, err := w.Write(buf); err != nil {
					return err
				}
			}
			if err != nil {
				finish(head, rows)
				return nil
			}
			if cause := k.ctx.Err(); cause != nil {
				return cause
			}
			if buf, err = src.next(buf[:0]); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
		}
	})
	return nil
}

// finish tells what is known once the rows have ended.
func finish(h *fasthttp.ResponseHeader, rows *Rows) {
	if rows.truncated() {
		h.Set(headerTruncated, "1")
	}
	if rows.cut() {
		h.Set(headerCut, "1")
	}
	if sources := rows.partial(); len(sources) > 0 {
		h.Set(headerPartial, headerNames(sources))
	}
	if n := rows.undecoded(); n > 0 {
		h.Set(headerUndecoded, strconv.FormatInt(n, 10))
	}
	if rows.Next != nil {
		if next := rows.Next(); next != "" {
			h.Set(headerNext, next)
		}
	}
}

// stream makes write the body of the answer, a chunk each Write, and ends the
// call after it. An error of write, or a panic, cuts the connection without the
// final chunk.
func (a *API) stream(c *fiber.Ctx, k *call, write func(io.Writer) error) {
	log := a.o.Logger.With("route", c.Route().Path)
	c.Context().Response.ImmediateHeaderFlush = true
	c.Context().SetBodyStream(&body{call: k, write: write, log: log}, -1)
}

// body is a stream in the form that fasthttp lets drive itself: WriteTo runs on
// the connection's goroutine, so a client that does not read blocks it, and
// Close comes always, also when the body is never written (HEAD).
type body struct {
	call  *call
	write func(io.Writer) error
	log   *slog.Logger
}

// SupportsBodyWriteTo makes fasthttp use WriteTo.
func (b *body) SupportsBodyWriteTo() bool { return true }

// WriteTo writes the body.
func (b *body) WriteTo(w io.Writer) (_ int64, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
			b.log.Error("panic in a stream", "panic", r, "stack", string(debug.Stack()))
		}
	}()
	err = b.write(w)
	if err != nil {
		if fault := b.call.fault(err); fault.Code != Cancelled && fault.Code != Unavailable {
			b.log.Warn("a stream was cut", "err", err)
		}
	}
	return 0, err
}

// Read is for clients of fasthttp that know no WriteTo; there are none.
func (b *body) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

// Close ends the call.
func (b *body) Close() error {
	b.call.end()
	return nil
}
