package decode

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weir/state/sqltype"
)

// TestStampIsMoment compares the short way for timestamps with the long one, and
// both with package time.
func TestStampIsMoment(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	pool := NewPool(newJSON(t).pool)
	defer pool.Close()
	c := NewColumn(sqltype.MustParse("TIMESTAMP"), pool)
	defer c.Release()
	var cache dayCache
	short := 0
	const n = 50000
	for range n {
		at := time.Unix(r.Int64N(253402300800+62135596800)-62135596800, r.Int64N(1e9)).UTC()
		layout := []string{"2006-01-02T15:04:05Z", "2006-01-02 15:04:05.000Z", "2006-01-02T15:04:05.000000Z", "2006-01-02T15:04:05.00Z", "2006-01-02T15:04:05", "2006-01-02 15:04:05.000"}[r.IntN(6)]
		text := []byte(at.Format(layout))
		want, err := time.Parse(layout, string(text))
		if err != nil {
			t.Fatal(err)
		}
		if r.IntN(4) == 0 {
			text[r.IntN(len(text))] = "0123456789:TZ.x"[r.IntN(15)]
			want, err = time.Parse(layout, string(text))
		}
		micros, ok := cache.stamp(text)
		if why := moment(c, text); why != "" {
			if ok {
				t.Fatalf("%s: %d, but %s", text, micros, why)
			}
			if err == nil {
				t.Fatalf("%s: %s", text, why)
			}
			continue
		}
		last := c.value(c.n - 1)
		if ok && last != micros || err == nil && last != want.UnixMicro() {
			t.Fatalf("%s: short %d (%v), long %d, want %d (%v)", text, micros, ok, last, want.UnixMicro(), err)
		}
		if ok {
			short++
		}
	}
	if short < n/3 {
		t.Errorf("%d of %d in the short way", short, n)
	}
}

// value is value i of a column of 64 bits.
func (c *Column) value(i int) (v int64) {
	for j, b := range c.data[8*i : 8*i+8] {
		v |= int64(b) << (8 * j)
	}
	return v
}

// TestCalendar compares every day of 800 years, and every month beyond them,
// with package time.
func TestCalendar(t *testing.T) {
	check := func(at time.Time) {
		y, m, d := at.Date()
		p := clock{text: fmt.Appendf(nil, "%04d-%02d-%02d", y, m, d)}
		if days, ok := p.date(); !ok || days*86400 != at.Unix() || p.i != len(p.text) {
			t.Fatalf("%s: day %d, want %d", p.text, days, at.Unix()/86400)
		}
	}
	for at := time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2400; at = at.AddDate(0, 0, 1) {
		check(at)
	}
	for y := 0; y < 999999; y += 61 {
		for m := range 12 {
			check(time.Date(y, time.Month(m+1), 1, 0, 0, 0, 0, time.UTC))
		}
	}
}
