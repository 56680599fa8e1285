package decode

import (
	"bytes"
	"math"
)

// duration adds up the parts of an interval as DuckDB holds them.
type duration struct {
	months, days, micros int64
	bad                  bool // some part is out of range
}

// add counts n of a unit; of is what one of them has of months, days or micros.
func (d *duration) add(to *int64, n, of, limit int64) {
	if n > limit/of || n < -limit/of {
		d.bad = true
		return
	}
	if *to += n * of; *to > limit || *to < -limit {
		d.bad = true
	}
}

// The time part travels as nanoseconds.
const maxMicros = math.MaxInt64 / 1000

// unit adds n of the named unit, and false if there is no such unit.
func (d *duration) unit(name []byte, n int64) bool {
	if len(name) > 1 && name[len(name)-1] == 's' {
		name = name[:len(name)-1]
	}
	switch string(name) {
	case "year", "Y":
		d.add(&d.months, n, 12, math.MaxInt32)
	case "month", "mon", "M":
		d.add(&d.months, n, 1, math.MaxInt32)
	case "week", "W":
		d.add(&d.days, n, 7, math.MaxInt32)
	case "day", "D":
		d.add(&d.days, n, 1, math.MaxInt32)
	case "hour", "H":
		d.add(&d.micros, n, 3600e6, maxMicros)
	case "minute", "min", "TM":
		d.add(&d.micros, n, 60e6, maxMicros)
	case "millisecond", "ms":
		d.add(&d.micros, n, 1e3, maxMicros)
	case "microsecond", "us":
		d.add(&d.micros, n, 1, maxMicros)
	default:
		return false
	}
	return true
}

// amount reads a signed number of at most 15 digits and its micros of fraction.
func (p *clock) amount() (n, frac int64, neg, ok bool) {
	neg = p.accept('-')
	if !neg {
		p.accept('+')
	}
	start := p.i
	for ; p.i < len(p.text) && p.text[p.i]-'0' <= 9; p.i++ {
		n = n*10 + int64(p.text[p.i]-'0')
		if p.i-start >= 15 {
			return 0, 0, neg, false
		}
	}
	if p.i == start {
		return 0, 0, neg, false
	}
	frac = -1
	if p.accept('.') {
		frac = 0
		unit := int64(1e5)
		at := p.i
		for ; p.i < len(p.text) && p.text[p.i]-'0' <= 9; p.i++ {
			frac += int64(p.text[p.i]-'0') * unit
			unit /= 10
		}
		if p.i == at {
			return 0, 0, neg, false
		}
	}
	return n, frac, neg, true
}

// seconds adds seconds with a fraction.
func (d *duration) seconds(n, frac int64, neg bool) {
	sign := int64(1)
	if neg {
		sign = -1
	}
	d.add(&d.micros, sign*n, 1e6, maxMicros)
	d.add(&d.micros, sign*max(frac, 0), 1, maxMicros)
}

func putInterval(c *Column, text []byte) string {
	d, ok := isoDuration(text)
	if !ok {
		d, ok = wordDuration(text)
	}
	switch {
	case !ok:
		return "want ISO 8601, such as P1DT2H, or DuckDB's form, such as 1 day 02:00:00"
	case d.bad:
		return "out of range"
	}
	c.interval(int32(d.months), int32(d.days), d.micros*1000)
	return ""
}

// isoDuration reads P1Y2M3W4DT5H6M7.8S; each number may have a sign.
func isoDuration(text []byte) (d duration, ok bool) {
	p := clock{text: text}
	minus := p.accept('-')
	if !p.accept('P') || p.i == len(text) {
		return d, false
	}
	date, order := true, "YMWD"
	for p.i < len(text) {
		if date && p.accept('T') {
			date, order = false, "HMS"
			if p.i == len(text) {
				return d, false
			}
		}
		n, frac, neg, ok := p.amount()
		if !ok || p.i == len(text) {
			return d, false
		}
		u := bytes.IndexByte([]byte(order), text[p.i])
		if u < 0 || frac >= 0 && text[p.i] != 'S' {
			return d, false
		}
		name := order[u : u+1]
		order = order[u+1:]
		p.i++
		neg = neg != minus
		if name == "S" {
			d.seconds(n, frac, neg)
			continue
		}
		if !date && name == "M" {
			name = "TM"
		}
		if neg {
			n = -n
		}
		d.unit([]byte(name), n)
	}
	return d, true
}

// wordDuration reads 1 year 2 months 3 days 04:05:06.789, in any order, as DuckDB
// prints it.
func wordDuration(text []byte) (d duration, ok bool) {
	p := clock{text: text}
	for {
		n, frac, neg, ok := p.amount()
		if !ok {
			return d, false
		}
		switch {
		case frac < 0 && p.accept(':'):
			m, ok1 := p.digits(2)
			ok2 := p.accept(':')
			s, f, minus, ok3 := p.amount()
			if !ok1 || !ok2 || !ok3 || minus || m > 59 || s > 59 {
				return d, false
			}
			if d.seconds(m*60+s, f, neg); neg {
				n = -n
			}
			d.unit([]byte("hour"), n)
		default:
			for p.accept(' ') {
			}
			start := p.i
			for p.i < len(text) && lower(text[p.i])-'a' < 26 {
				p.i++
			}
			name := bytes.ToLower(text[start:p.i])
			switch {
			case string(name) == "second" || string(name) == "seconds" || string(name) == "s":
				d.seconds(n, frac, neg)
			case frac >= 0 || len(name) < 2:
				return d, false
			default:
				if neg {
					n = -n
				}
				if !d.unit(name, n) {
					return d, false
				}
			}
		}
		if p.i == len(text) {
			return d, true
		}
		if !p.accept(' ') {
			return d, false
		}
	}
}
