package demo

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"
)

// Generator makes the shop's events in the order of their time. It is not for
// concurrent use.
type Generator struct {
	rnd    *rand.Rand
	people *rand.Zipf
	goods  *rand.Zipf
	now    time.Time
	order  int64
	arena  []byte
}

// New returns a generator whose first event comes shortly after start.
func New(seed uint64, start time.Time) *Generator {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	return &Generator{
		rnd:    r,
		people: rand.NewZipf(r, 1.2, 20, customers-1),
		goods:  rand.NewZipf(r, 1.3, 8, products-1),
		now:    start.UTC().Truncate(time.Millisecond),
		// Order numbers go on where a generator of an earlier start can't have been.
		order: (start.Unix() - 1_577_836_800) * 1000,
	}
}

// Now is the time of the last event.
func (g *Generator) Now() time.Time { return g.now }

// Next goes on by a random gap, every on the day's average, and makes the event
// of that time.
func (g *Generator) Next(every time.Duration) Event {
	gap := g.rnd.ExpFloat64() * float64(every) / Rhythm(g.now)
	return g.At(g.now.Add(time.Duration(gap)))
}

// At makes the event of time t, which must not be before the last one's.
func (g *Generator) At(t time.Time) Event {
	g.now = t.UTC()
	e := Event{Topic: PageViews, Time: g.now.Truncate(time.Millisecond)}
	at := e.Time
	if g.rnd.IntN(100) == 0 { // late: it was on its way for up to half an hour
		at = at.Add(-time.Duration(60+g.rnd.IntN(1740)) * time.Second)
	}
	g.reserve(2048)
	if g.rnd.IntN(5) == 0 {
		e.Topic = Orders
		g.newOrder(&e, at)
	} else {
		g.newView(&e, at)
	}
	if g.rnd.IntN(1000) == 0 {
		e.Value = g.spoil(e.Topic, e.Value)
	}
	return e
}

// Rhythm is the rate at a time of day, in UTC, as a multiple of the day's
// average: most in the evening, some at noon, little at dawn.
func Rhythm(t time.Time) float64 {
	h, m, s := t.Clock()
	day := (float64(h) + float64(m)/60 + float64(s)/3600) / 24 * 2 * math.Pi
	return 1 + 0.6*math.Cos(day-18.5/24*2*math.Pi) + 0.2*math.Cos(2*day)
}

// reserve makes room for n bytes of keys and values. Blocks are never reused, so
// an event may be kept; a block serves some hundred events.
func (g *Generator) reserve(n int) {
	if cap(g.arena)-len(g.arena) < n {
		g.arena = make([]byte, 0, 128<<10)
	}
}

// write runs f over the arena and answers what it appended.
func (g *Generator) write(f func([]byte) []byte) []byte {
	start := len(g.arena)
	g.arena = f(g.arena)
	return g.arena[start:len(g.arena):len(g.arena)]
}

func (g *Generator) newOrder(e *Event, at time.Time) {
	g.order++
	c := customerOf(int64(g.people.Uint64()) + 1)
	where := c.home
	if g.rnd.IntN(20) == 0 {
		where = cityAt(g.rnd.IntN(weights))
	}
	e.Key = g.write(func(b []byte) []byte { return strconv.AppendInt(b, c.id, 10) })
	e.Value = g.write(func(b []byte) []byte {
		b = append(b, `{"order_id":`...)
		b = strconv.AppendInt(b, g.order, 10)
		b = appendCustomer(b, c)
		b = append(b, `,"items":[`...)
		var total int64
		for i := range 1 + min(g.rnd.IntN(4), g.rnd.IntN(6)) {
			sku, qty := int(g.goods.Uint64()), int64(1+min(g.rnd.IntN(4), g.rnd.IntN(4)))
			if i > 0 {
				b = append(b, ',')
			}
			b = appendItem(b, sku, qty)
			total += qty * price(sku)
		}
		b = append(b, `],"city":"`...)
		b = append(b, where.name...)
		b = append(b, `","amount":`...)
		b = appendCents(b, total)
		b = append(b, `,"currency":"EUR","status":"`...)
		b = append(b, pick(g.rnd, statuses)...)
		b = append(b, `","placed_at":"`...)
		b = appendTime(b, at)
		return append(b, `"}`...)
	})
}

func appendCustomer(b []byte, c customer) []byte {
	b = append(b, `,"customer":{"id":`...)
	b = strconv.AppendInt(b, c.id, 10)
	b = append(b, `,"name":"`...)
	b = append(b, c.first...)
	b = append(b, ' ')
	b = append(b, c.last...)
	b = append(b, `","country":"`...)
	b = append(b, c.home.country...)
	b = append(b, `","tier":"`...)
	b = append(b, c.tier...)
	return append(b, `"}`...)
}

func appendItem(b []byte, sku int, qty int64) []byte {
	b = append(b, `{"sku":"`...)
	b = appendSKU(b, sku)
	b = append(b, `","qty":`...)
	b = strconv.AppendInt(b, qty, 10)
	b = append(b, `,"price":`...)
	b = appendCents(b, price(sku))
	return append(b, '}')
}

func (g *Generator) newView(e *Event, at time.Time) {
	c := customerOf(int64(g.people.Uint64()) + 1)
	// A customer keeps a session for an hour.
	session := scatter(uint64(c.id)<<24 ^ uint64(at.Unix()/3600))
	e.Key = g.write(func(b []byte) []byte { return appendSession(b, session) })
	e.Value = g.write(func(b []byte) []byte {
		b = append(b, `{"path":"`...)
		if g.rnd.IntN(3) > 0 {
			b = append(b, "/product/"...)
			b = appendSKU(b, int(g.goods.Uint64()))
		} else {
			b = append(b, pick(g.rnd, sections)...)
		}
		b = append(b, `","session":"`...)
		b = appendSession(b, session)
		b = append(b, `","user_id":`...)
		if session%3 == 0 {
			b = append(b, "null"...) // not signed in
		} else {
			b = strconv.AppendInt(b, c.id, 10)
		}
		b = append(b, `,"country":"`...)
		b = append(b, c.home.country...)
		b = append(b, `","device":"`...)
		b = append(b, devices[session>>32%uint64(len(devices))]...)
		b = append(b, `","ms":`...)
		b = strconv.AppendInt(b, 15+int64(math.Exp(g.rnd.NormFloat64()*0.8+4)), 10)
		b = append(b, `,"viewed_at":"`...)
		b = appendTime(b, at)
		return append(b, `"}`...)
	})
}

func appendSession(b []byte, session uint64) []byte {
	const digit = "0123456789abcdef"
	b = append(b, "s-"...)
	for i := range 12 {
		b = append(b, digit[session>>(4*i)&15])
	}
	return b
}

func appendSKU(b []byte, sku int) []byte {
	b = append(b, "SKU-"...)
	for unit := 1000; unit > 0; unit /= 10 {
		b = append(b, byte('0'+sku/unit%10))
	}
	return b
}

func appendCents(b []byte, cents int64) []byte {
	b = strconv.AppendInt(b, cents/100, 10)
	return append(b, '.', byte('0'+cents/10%10), byte('0'+cents%10))
}

func appendTime(b []byte, t time.Time) []byte {
	return t.AppendFormat(b, "2006-01-02T15:04:05.000Z07:00")
}
