package demo

import (
	"context"
	"fmt"
	"time"
)

// Pace says how much a run produces.
type Pace struct {
	History int           // events of the past to begin with, about so many, as fast as they are taken
	Span    time.Duration // how far the history goes back
	Rate    float64       // then events a second, on the day's average
}

// DefaultPace fills the screen at once and then goes on at a walk.
func DefaultPace() Pace { return Pace{History: 200_000, Span: 24 * time.Hour, Rate: 700} }

const (
	tick    = 20 * time.Millisecond
	overdue = time.Second // more than this is not caught up with
)

// Run makes events up to the present, then as time passes, and hands each to
// produce, until the context ends (nil) or produce fails. Should produce be too
// slow, what a second could not take is left out.
func Run(ctx context.Context, seed uint64, p Pace, produce func(Event) error) error {
	g := New(seed, time.Now().Add(-p.Span))
	err := g.run(ctx, p, func(e Event) error {
		if err := produce(e); err != nil {
			return fmt.Errorf("produce to topic %s: %w", e.Topic, err)
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (g *Generator) run(ctx context.Context, p Pace, produce func(Event) error) error {
	if p.History > 0 {
		every := p.Span / time.Duration(p.History)
		for {
			e := g.Next(every)
			if ctx.Err() != nil {
				return nil
			}
			if e.Time.After(time.Now()) {
				break // the present is live's
			}
			if err := produce(e); err != nil {
				return err
			}
		}
	}
	return g.live(ctx, p.Rate, produce)
}

// live produces at the rate, in small lots.
func (g *Generator) live(ctx context.Context, rate float64, produce func(Event) error) error {
	t := time.NewTicker(tick)
	defer t.Stop()
	last, due := time.Now(), 0.0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		now := time.Now()
		since := min(now.Sub(last), overdue)
		last = now
		due += rate * Rhythm(now) * since.Seconds()
		n := int(due)
		due -= float64(n)
		for i := range n {
			at := now.Add(-since + since*time.Duration(i+1)/time.Duration(n))
			if err := produce(g.At(at)); err != nil {
				return err
			}
		}
	}
}
