//go:build duckdb_arrow

package appliance

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestPins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pins
		if err := p.wait(t.Context(), 1); err != nil || p.held() != nil {
			t.Fatalf("nobody reads: %v, %v", err, p.held())
		}
		a, b, other := p.pin(1), p.pin(1), p.pin(2)
		if !slices.Equal(p.held(), []uint64{1, 2}) {
			t.Errorf("held %v", p.held())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.wait(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waited %v", err)
		}
		done := make(chan error, 1)
		go func() { done <- p.wait(t.Context(), 1) }()
		for _, free := range []func(){a, a, other} { // twice is once
			free()
			synctest.Wait()
			select {
			case err := <-done:
				t.Fatalf("one reader is left: %v", err)
			default:
			}
		}
		b()
		if err := <-done; err != nil || p.held() != nil {
			t.Errorf("all have left: %v, %v", err, p.held())
		}
	})
}
