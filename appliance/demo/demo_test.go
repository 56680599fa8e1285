package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

var start = time.Date(2026, 11, 28, 18, 0, 0, 0, time.UTC)

// digest sums up n events, every byte of them.
func digest(seed uint64, start time.Time, n int) uint64 {
	h := fnv.New64a()
	g := New(seed, start)
	for range n {
		e := g.Next(432 * time.Millisecond)
		fmt.Fprintf(h, "%s %q %q %d\n", e.Topic, e.Key, e.Value, e.Time.UnixNano())
	}
	return h.Sum64()
}

func TestSameSeedSameBytes(t *testing.T) {
	one := digest(1, start, 5000)
	if again := digest(1, start, 5000); again != one {
		t.Error("two runs of one seed differ")
	}
	if digest(2, start, 5000) == one {
		t.Error("the seed makes no difference")
	}
	if zone := digest(1, start.In(time.FixedZone("", 7200)), 5000); zone != one {
		t.Error("the time zone makes a difference")
	}
}

type order struct {
	OrderID  int64 `json:"order_id"`
	Customer struct {
		ID                  int64
		Name, Country, Tier string
	}
	Items []struct {
		SKU   string
		Qty   int64
		Price json.Number
	}
	City, Currency, Status string
	Amount                 json.Number
	PlacedAt               time.Time `json:"placed_at"`
}

type view struct {
	Path, Session, Country, Device string
	UserID                         *int64 `json:"user_id"`
	MS                             int64
	ViewedAt                       time.Time `json:"viewed_at"`
}

// read checks an event against its Go form and answers when it happened.
func read(e Event) (time.Time, error) {
	dec := json.NewDecoder(bytes.NewReader(e.Value))
	dec.DisallowUnknownFields()
	if !utf8.Valid(e.Value) {
		return time.Time{}, errors.New("not UTF-8")
	}
	if e.Topic == PageViews {
		var v view
		err := dec.Decode(&v)
		if err == nil && (v.Path == "" || v.Session != string(e.Key) || v.Country == "" || v.Device == "" || v.MS <= 0) {
			err = fmt.Errorf("incomplete: %s", e.Value)
		}
		return v.ViewedAt, err
	}
	var o order
	if err := dec.Decode(&o); err != nil {
		return time.Time{}, err
	}
	total := int64(0)
	for _, i := range o.Items {
		total += i.Qty * cents(i.Price)
	}
	if fmt.Sprint(o.Customer.ID) != string(e.Key) || o.OrderID == 0 || o.City == "" || len(o.Items) == 0 || total != cents(o.Amount) {
		return time.Time{}, fmt.Errorf("inconsistent: %s", e.Value)
	}
	return o.PlacedAt, nil
}

func cents(n json.Number) (c int64) {
	whole, frac, _ := strings.Cut(string(n), ".")
	if len(frac) != 2 {
		return -1
	}
	fmt.Sscan(whole+frac, &c)
	return c
}

func TestEvents(t *testing.T) {
	g := New(1, start)
	var events, orders, late, broken int
	keys := map[string]int{}
	var last time.Time
	kept := g.Next(time.Second)
	before := string(kept.Value)
	for g.Now().Before(start.Add(24 * time.Hour)) {
		e := g.Next(432 * time.Millisecond)
		events++
		if e.Time.Before(last) || e.Time.Nanosecond()%1e6 != 0 {
			t.Fatalf("time %s follows %s", e.Time, last)
		}
		if last = e.Time; e.Topic == Orders {
			orders++
			keys[string(e.Key)]++
		}
		at, err := read(e)
		switch {
		case err != nil:
			broken++
		case at.Equal(e.Time):
		case at.Before(e.Time.Add(-30*time.Second)) && at.After(e.Time.Add(-time.Hour)):
			late++
		default:
			t.Fatalf("%s: %s at %s", e.Time, e.Value, at)
		}
		if e.Value == nil {
			t.Fatal("a tombstone")
		}
	}
	within := func(what string, got, low, high float64) {
		t.Helper()
		if got < low || got > high {
			t.Errorf("%s: %v, want %v to %v", what, got, low, high)
		}
	}
	n := float64(events)
	within("events in a day", n, 195_000, 205_000)
	within("orders", float64(orders)/n, 0.19, 0.21)
	within("late", float64(late)/n, 0.008, 0.012)
	within("broken", float64(broken)/n, 0.0007, 0.0013)
	within("customers", float64(len(keys)), 5_000, 40_000)
	top := 0
	for _, c := range keys {
		top = max(top, c)
	}
	within("share of the best customer", float64(top)/float64(orders), 0.005, 0.05)
	if string(kept.Value) != before {
		t.Error("an event's memory was used again")
	}
}

func TestEveryKindOfBroken(t *testing.T) {
	g := New(3, start)
	for _, topic := range Topics() {
		kinds := map[string]bool{}
		for range 2000 {
			e := g.Next(time.Second)
			if _, err := read(e); e.Topic != topic || err != nil {
				continue
			}
			e.Value = g.spoil(topic, e.Value)
			_, err := read(e)
			if err == nil {
				t.Fatalf("not broken: %s", e.Value)
			}
			switch {
			case len(e.Value) == 0:
				kinds["empty"] = true
			case e.Value[0] != '{':
				kinds["log line"] = true
			case !utf8.Valid(e.Value):
				kinds["Latin-1"] = true
			case bytes.Contains(e.Value, []byte("yesterday")):
				kinds["time"] = true
			case bytes.Contains(e.Value, []byte(`"n/a"`)):
				kinds["number"] = json.Valid(e.Value)
			default:
				kinds["cut"] = true
			}
		}
		for _, k := range []string{"empty", "log line", "Latin-1", "time", "number", "cut"} {
			if !kinds[k] {
				t.Errorf("%s: no event of kind %s", topic, k)
			}
		}
	}
}

func TestRhythm(t *testing.T) {
	var rates []float64
	sum := 0.0
	for m := range 24 * 60 {
		r := Rhythm(start.Add(time.Duration(m) * time.Minute))
		rates = append(rates, r)
		sum += r
	}
	if mean := sum / float64(len(rates)); math.Abs(mean-1) > 1e-9 {
		t.Errorf("mean %v", mean)
	}
	if low, high := slices.Min(rates), slices.Max(rates); low < 0.1 || high < 1.4 || high > 2 {
		t.Errorf("from %v to %v", low, high)
	}
}

func TestCities(t *testing.T) {
	sum := 0
	for _, c := range cities {
		sum += c.weight
	}
	if sum != weights {
		t.Errorf("weights add up to %d, not %d", sum, weights)
	}
}

func TestNextAllocatesLittle(t *testing.T) {
	g := New(1, start)
	if n := testing.AllocsPerRun(10_000, func() { g.Next(time.Millisecond) }); n >= 1 {
		t.Errorf("%v allocations per event", n)
	}
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		begin := time.Now()
		var history, live int
		var last time.Time
		done := make(chan error)
		go func() {
			done <- Run(ctx, 1, Pace{History: 1000, Span: time.Hour, Rate: 500}, func(e Event) error {
				if e.Time.Before(last) || e.Time.After(time.Now()) {
					t.Errorf("event of %s after %s at %s", e.Time, last, time.Now())
				}
				if last = e.Time; time.Now().Equal(begin) {
					history++
				} else {
					live++
				}
				return nil
			})
		}()
		time.Sleep(time.Minute + tick/2)
		synctest.Wait()
		want := 0.0
		for s := range 60 {
			want += 500 * Rhythm(begin.Add(time.Duration(s)*time.Second))
		}
		if math.Abs(float64(live)-want) > 20 {
			t.Errorf("%d live events in a minute, want %.0f", live, want)
		}
		if history > 1500 || history < 500 {
			t.Errorf("%d events of the past", history)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestRunLeavesOutWhatIsTooSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		done := make(chan error)
		go func() {
			done <- Run(ctx, 1, Pace{Rate: 1000}, func(Event) error {
				if n++; n == 1 {
					time.Sleep(time.Hour) // the broker is away
				}
				return nil
			})
		}()
		time.Sleep(time.Hour + 2*time.Second)
		synctest.Wait()
		if n > 6000 {
			t.Errorf("%d events caught up with", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestRunFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		for _, p := range []Pace{{History: 10, Span: time.Hour, Rate: 1}, {Rate: 100}} {
			if err := Run(t.Context(), 1, p, func(Event) error { return broken }); !errors.Is(err, broken) {
				t.Errorf("got %v", err)
			}
		}
	})
}

func TestSQL(t *testing.T) {
	for word, least := range map[string]int{"CREATE SOURCE": 2, "CREATE MATERIALIZED VIEW": 5, "CREATE VIEW": 2} {
		if n := strings.Count(SQL, word); n < least {
			t.Errorf("%d of %s, want %d", n, word, least)
		}
	}
	for _, topic := range Topics() {
		if !strings.Contains(SQL, "topic = '"+topic+"'") {
			t.Errorf("no source of topic %s", topic)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	g := New(1, start)
	b.ReportAllocs()
	for b.Loop() {
		g.Next(time.Millisecond)
	}
}
