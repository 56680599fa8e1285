package ingest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"weir/ingest/kafka"
	"weir/state"
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

// trickle gives a record at even intervals, for ever; burst is how many are there at
// the beginning.
type trickle struct {
	every time.Duration
	burst int
	taken int
	begin time.Time
}

func (r *trickle) Ready() (*kafka.Fetched, error) {
	if r.taken >= r.burst+int(time.Since(r.begin)/r.every) {
		return nil, nil
	}
	r.taken++
	return &kafka.Fetched{}, nil
}

func (r *trickle) Next(ctx context.Context) (*kafka.Fetched, error) {
	if f, _ := r.Ready(); f != nil {
		return f, ctx.Err()
	}
	select {
	case <-time.After(time.Until(r.begin.Add(time.Duration(r.taken-r.burst+1) * r.every))):
		return r.Ready()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A batch is handed on soon after its first record, however evenly others come.
func TestGather(t *testing.T) {
	for _, every := range []time.Duration{time.Millisecond, 7 * time.Millisecond, gather - 1, gather, gather + 1, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			r := &trickle{every: every, begin: time.Now()}
			b := &builder{batch: &batch{next: map[int32]state.Position{}}}
			for range 3 {
				var first time.Time
				n := 0
				for {
					_, err := next(t.Context(), r, b)
					if errors.Is(err, errGathered) {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					if n++; n == 1 {
						first = time.Now()
					}
					b.moved(state.Position{})
				}
				if took := time.Since(first); took != gather || n < int(gather/every) {
					t.Errorf("a record each %v: %d in %v", every, n, took)
				}
				clear(b.batch.next)
			}
		})
	}
}

// What has come while a batch could not be handed on is taken with it.
func TestGatherTakesWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &trickle{every: time.Hour, burst: 1000, begin: time.Now()}
		b := &builder{batch: &batch{next: map[int32]state.Position{}}}
		n := 0
		for ; ; n++ {
			_, err := next(t.Context(), r, b)
			if errors.Is(err, errGathered) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			b.moved(state.Position{})
			time.Sleep(gather) // it takes long to decode
		}
		if n != r.burst {
			t.Errorf("%d taken of %d", n, r.burst)
		}
	})
}
