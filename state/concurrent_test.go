package state

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Two cursors fold, the commit loop runs, statements come and readers check
// every epoch they see against the log. Memory is small, so groups are evicted
// and read back all the time.
func TestConcurrent(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), Options{Memory: 60_000, Interval: time.Millisecond})
	c := withViews(t, s, "by_city", "by_id")
	own := createView(t, s, "total", true)
	ctx, stop := context.WithCancel(t.Context())
	var background, folds sync.WaitGroup
	background.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error("run:", err)
		}
	})
	for range 2 {
		background.Go(func() {
			for seen := uint64(0); ctx.Err() == nil; {
				sn, err := s.Snapshot()
				if err != nil {
					t.Error(err)
					return
				}
				if sn.Epoch() < seen {
					t.Error("epochs went back")
				}
				seen = sn.Epoch()
				if err := verify(ctx, sn); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				sn.Close()
			}
		})
	}
	for i, cursor := range []CursorID{c, own.Cursor} {
		folds.Go(func() {
			for n := range 60 {
				if err := foldNext(ctx, s, cursor, int32(n%3), int64(20+i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	folds.Go(func() {
		for range 8 {
			v := createView(t, s, "by_id2", true)
			if err := foldNext(ctx, s, v.Cursor, 1, 30); err != nil {
				t.Error(err)
			}
			if err := s.Drop("by_id2"); err != nil {
				t.Error(err)
			}
		}
	})
	folds.Go(func() { // as checkpoints do
		for range 20 {
			if _, err := s.Mark(ctx); err != nil {
				t.Error(err)
			}
			sn, err := s.Snapshot()
			if err != nil {
				t.Error(err)
				return
			}
			if err := verify(ctx, sn); err != nil {
				t.Error(err)
			}
			if err := s.Trim(sn.Epoch()); err != nil {
				t.Error(err)
			}
			sn.Close()
		}
	})
	folds.Wait()
	stop()
	background.Wait()
	verifyStore(t, s)
	do(t, s.Close())
}
