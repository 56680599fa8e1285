package ingest

import "time"

// meter measures a rate over the last few seconds, from a counter that starts
// again at 0 now and then.
type meter struct {
	samples [16]sample // a ring; the newest is at last
	last    int
	n       int
	total   int64 // of all counters before the present one
	seen    int64
}

type sample struct {
	at    time.Time
	count int64
}

const (
	sampleEvery = 250 * time.Millisecond
)

// add notes that the counter stands at n.
func (m *meter) add(now time.Time, n int64) {
	if n < m.seen {
		m.total += m.seen
	}
	m.seen = n
	if m.n > 0 && now.Sub(m.samples[m.last].at) < sampleEvery {
		return
	}
	m.last = (m.last + 1) % len(m.samples)
	m.samples[m.last] = sample{now, m.total + n}
	m.n = min(m.n+1, len(m.samples))
}

// rate is per second, over the samples kept (about four seconds).
func (m *meter) rate() float64 {
	if m.n < 2 {
		return 0
	}
	first := m.samples[(m.last-m.n+1+len(m.samples))%len(m.samples)]
	last := m.samples[m.last]
	d := last.at.Sub(first.at).Seconds()
	if d <= 0 {
		return 0
	}
	return float64(last.count-first.count) / d
}
