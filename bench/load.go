package main

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"weir/appliance/devbroker"
)

const partitions = 4

// load writes events at a fixed rate, as the clock says and not as the broker
// keeps up.
type load struct {
	tape *tape
	rate float64
	sent atomic.Int64

	mu    sync.Mutex
	marks [partitions][]mark // by offset
}

// A mark is a record whose time to become visible is measured.
type mark struct {
	offset int64
	at     time.Time
}

func newLoad(ctx context.Context, b *devbroker.Broker, topic string, rate float64) (*load, error) {
	t, err := newTape(ctx, b.Addr(), topic)
	if err != nil {
		return nil, err
	}
	return &load{tape: t, rate: rate}, nil
}

// run writes until the context ends.
func (l *load) run(ctx context.Context) error {
	start := time.Now()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for {
			now := time.Now()
			due := int(now.Sub(start).Seconds()*l.rate)/batchEvents - n
			if due <= 0 || ctx.Err() != nil {
				break
			}
			offsets, err := l.tape.write(ctx, n, due, now)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			l.sent.Add(int64(len(offsets)) * batchEvents)
			l.mu.Lock()
			for i, o := range offsets {
				p := (n + i) % partitions
				l.marks[p] = append(l.marks[p], mark{o, now})
			}
			l.mu.Unlock()
			n += len(offsets)
		}
	}
}

// passed takes the marks before the next offset of a partition.
func (l *load) passed(partition int, next int64) []mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.marks[partition]
	i, _ := slices.BinarySearchFunc(m, next, func(m mark, next int64) int { return cmp.Compare(m.offset, next) })
	l.marks[partition] = m[i:]
	return m[:i]
}

// commits follows a view: each commit's time and positions, and how old records
// were when they became visible.
type commits struct {
	p *process
	l *load

	mu   sync.Mutex
	seen []commit
	ages []aged
}

type commit struct {
	at      time.Time
	records int64
}

type aged struct {
	at  time.Time // when it became visible
	age time.Duration
}

// viewJSON is what the benchmarks read of GET /api/v1/views/{view}.
type viewJSON struct {
	Epoch     uint64 `json:"epoch"`
	Groups    int64  `json:"groups"`
	Positions []struct {
		Partition int   `json:"partition"`
		Next      int64 `json:"next"`
	} `json:"positions"`
}

// run waits for one commit after the other until the context ends.
func (c *commits) run(ctx context.Context) error {
	epoch := uint64(0)
	for ctx.Err() == nil {
		var v viewJSON
		if err := c.p.get(ctx, "/api/v1/views/v?timeout=60s&min_epoch="+strconv.FormatUint(epoch+1, 10), &v); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		epoch = v.Epoch
		now := time.Now()
		var n int64
		c.mu.Lock()
		for _, p := range v.Positions {
			n += p.Next
			for _, m := range c.l.passed(p.Partition, p.Next) {
				c.ages = append(c.ages, aged{now, now.Sub(m.at)})
			}
		}
		c.seen = append(c.seen, commit{now, n})
		c.mu.Unlock()
	}
	return nil
}

// span is what happened between two times.
type span struct {
	rate    float64 // records committed a second
	gap     time.Duration
	fresh   []time.Duration // sorted
	commits int
}

func (c *commits) between(from, to time.Time) (s span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first, last commit
	for _, k := range c.seen {
		if k.at.Before(from) || k.at.After(to) {
			continue
		}
		s.commits++
		if first.at.IsZero() {
			first = k
		} else {
			s.gap = max(s.gap, k.at.Sub(last.at))
		}
		last = k
	}
	if d := last.at.Sub(first.at).Seconds(); d > 0 {
		s.rate = float64(last.records-first.records) / d
	}
	for _, a := range c.ages {
		if !a.at.Before(from) && !a.at.After(to) {
			s.fresh = append(s.fresh, a.age)
		}
	}
	slices.Sort(s.fresh)
	return s
}

// quantile of sorted durations.
func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	return d[min(int(float64(len(d))*q), len(d)-1)]
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
