package ingest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"weir/ingest/kafka"
)

// A lane that is stopped in the moment in which it has waited long enough for
// more records is stopped, and has not failed.
func TestStoppedWhileItWaited(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	late := fmt.Errorf("fetch: %w", context.DeadlineExceeded)
	for _, c := range []struct {
		ctx       context.Context
		err, want error
	}{
		{t.Context(), nil, nil},
		{t.Context(), late, errGathered},
		{t.Context(), kafka.ErrClosed, kafka.ErrClosed},
		{stopped, late, context.Canceled},
		{stopped, kafka.ErrClosed, context.Canceled},
	} {
		if got := waited(c.ctx, c.err); !errors.Is(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%v, context %v: %v, not %v", c.err, c.ctx.Err(), got, c.want)
		}
	}
}
