package state

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Commits begin an interval apart, or as soon as the one before has ended. While a
// source is behind, the store rests as long as a commit took, a second at most.
func TestRests(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		behind     bool
		took, next time.Duration
	}{
		{false, 10 * ms, 250 * ms},
		{false, 200 * ms, 250 * ms},
		{false, 400 * ms, 400 * ms},
		{true, 10 * ms, 250 * ms},
		{true, 100 * ms, 250 * ms},
		{true, 200 * ms, 400 * ms},
		{true, 400 * ms, 800 * ms},
		{true, 3000 * ms, 4000 * ms},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			var s *Store
			var cursor CursorID
			var began []time.Duration
			from, running := time.Now(), false
			s = mustOpen(t, vfs.NewMem(), Options{Hook: func(point string) {
				if point != PointCommit || !running || ctx.Err() != nil {
					return
				}
				began = append(began, time.Since(from))
				if len(began) == 4 {
					stop()
				}
				if err := s.Fold(ctx, Fold{Cursor: cursor, Records: 1, Behind: c.behind}); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				time.Sleep(c.took)
			}})
			cursor = withViews(t, s)
			from, running = time.Now(), true
			do(t, s.Run(ctx))
			want := []time.Duration{250 * ms, 250*ms + c.next, 250*ms + 2*c.next, 250*ms + 3*c.next}
			if !slices.Equal(began, want) {
				t.Errorf("behind %v, commits of %v begin at %v, want %v", c.behind, c.took, began, want)
			}
			do(t, s.Close())
		})
	}
}
