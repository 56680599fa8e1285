package decode

import (
	"math"
	"math/bits"

	"weir/state/sqltype"
)

func swap(v uint64) uint64 { return bits.ReverseBytes64(v) }

// moment appends a DATE, TIME or TIMESTAMP of any kind from ISO 8601 text.
func moment(c *Column, text []byte) string {
	p := clock{text: text}
	id := c.typ.ID
	var days, nanos int64
	ok := true
	if id != sqltype.Time {
		days, ok = p.date()
	}
	switch {
	case !ok:
		return "want YYYY-MM-DD, then a time if any" + unboundedTime(text)
	case id == sqltype.Date:
		if p.i < len(text) {
			return "more than a date: declare the column TIMESTAMP and cast it"
		}
		c.Int(days) // years have six digits at most
		return ""
	case id == sqltype.Time:
		if nanos, ok = p.time(); !ok || p.i < len(text) {
			return "want HH:MM[:SS[.fraction]] without a zone"
		}
		c.Int(nanos / 1000)
		return ""
	}
	if p.i < len(text) {
		if sep := text[p.i]; sep != 'T' && sep != 't' && sep != ' ' {
			return "want T or a space behind the date"
		}
		p.i++
		if nanos, ok = p.time(); !ok {
			return "want HH:MM[:SS[.fraction]] behind the date"
		}
		zone, ok := p.zone()
		if !ok || p.i < len(text) {
			return "want nothing, Z, +HH, +HHMM or +HH:MM behind the time"
		}
		nanos -= zone
	}
	v, ok := ticks(id, days, nanos)
	if !ok {
		return "out of range"
	}
	c.Int(v)
	return ""
}

func unboundedTime(text []byte) string {
	if equalFold("infinity", text) || equalFold("-infinity", text) {
		return "; infinity is no point in time"
	}
	return ""
}

const (
	second = int64(1e9)
	day    = 86400 * second
)

// ticks is the instant in the unit of the type, what is finer cut off. The
// largest and the smallest int64 are DuckDB's infinities and out of range.
func ticks(id sqltype.ID, days, nanos int64) (int64, bool) {
	for nanos < 0 {
		nanos += day
		days--
	}
	unit := int64(1000)
	switch id {
	case sqltype.TimestampS:
		unit = second
	case sqltype.TimestampMS:
		unit = 1e6
	case sqltype.TimestampNS:
		unit = 1
	}
	hi, lo := bits.Mul64(uint64(max(days, -days)), uint64(day/unit))
	if hi != 0 || lo > math.MaxInt64 {
		return 0, false
	}
	v := int64(lo)
	rest := nanos / unit
	if days < 0 {
		return rest - v, rest-v > -math.MaxInt64
	}
	if v > math.MaxInt64-1-rest {
		return 0, false
	}
	return v + rest, true
}

// clock reads ISO 8601 text from i on.
type clock struct {
	text []byte
	i    int
}

// digits reads exactly n of them.
func (p *clock) digits(n int) (int64, bool) {
	if len(p.text)-p.i < n {
		return 0, false
	}
	var v int64
	for range n {
		d := p.text[p.i] - '0'
		if d > 9 {
			return 0, false
		}
		v = v*10 + int64(d)
		p.i++
	}
	return v, true
}

func (p *clock) accept(c byte) bool {
	if p.i < len(p.text) && p.text[p.i] == c {
		p.i++
		return true
	}
	return false
}

// date reads YYYY-MM-DD, with up to six digits of year, as days since 1970.
func (p *clock) date() (int64, bool) {
	y, ok := p.digits(4)
	for n := 4; ok && n < 6 && p.i < len(p.text) && p.text[p.i]-'0' <= 9; n++ {
		d, _ := p.digits(1)
		y = y*10 + d
	}
	if !ok || !p.accept('-') {
		return 0, false
	}
	m, ok := p.digits(2)
	if !ok || m < 1 || m > 12 || !p.accept('-') {
		return 0, false
	}
	d, ok := p.digits(2)
	if !ok || d < 1 || d > monthDays(y, m) {
		return 0, false
	}
	return civil(y, m, d), true
}

func monthDays(y, m int64) int64 {
	switch m {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if y%4 == 0 && (y%100 != 0 || y%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// civil counts the days from 1970-01-01 in the Gregorian calendar, which is
// carried back beyond its beginning. Years start in March here, so that the leap
// day is the last; 146,097 days are 400 years.
func civil(y, m, d int64) int64 {
	if m < 3 {
		y--
		m += 12
	}
	era := y / 400
	if y < 0 {
		era = -1 // the first two months of year 0
	}
	y -= era * 400
	return era*146097 + y*365 + y/4 - y/100 + (153*(m-3)+2)/5 + d - 1 - 719468
}

// time reads HH:MM[:SS[.fraction]] as nanoseconds; more digits are cut off.
func (p *clock) time() (int64, bool) {
	h, ok := p.digits(2)
	if !ok || h > 23 || !p.accept(':') {
		return 0, false
	}
	m, ok := p.digits(2)
	if !ok || m > 59 {
		return 0, false
	}
	v := (h*60 + m) * 60 * second
	if !p.accept(':') {
		return v, true
	}
	s, ok := p.digits(2)
	if !ok || s > 59 {
		return 0, false
	}
	v += s * second
	if !p.accept('.') {
		return v, true
	}
	start, unit := p.i, second/10
	for ; p.i < len(p.text) && p.text[p.i]-'0' <= 9; p.i++ {
		v += int64(p.text[p.i]-'0') * unit
		unit /= 10
	}
	return v, p.i > start
}

// zone reads what stands behind a time as nanoseconds east of UTC.
func (p *clock) zone() (int64, bool) {
	if p.i == len(p.text) || p.accept('Z') || p.accept('z') {
		return 0, true
	}
	sign := second
	switch {
	case p.accept('-'):
		sign = -second
	case !p.accept('+'):
		return 0, false
	}
	h, ok := p.digits(2)
	if !ok || h > 18 {
		return 0, false
	}
	if p.i == len(p.text) {
		return sign * h * 3600, true
	}
	p.accept(':')
	m, ok := p.digits(2)
	return sign * (h*60 + m) * 60, ok && m <= 59
}

// dayCache remembers the last date of a column: records of one time share it.
type dayCache struct {
	text [10]byte
	day  int64 // in microseconds since 1970
}

// stamp reads the usual timestamp, YYYY-MM-DDTHH:MM:SS[.fraction][Z] with a year
// of four digits, as microseconds. The answer false means nothing but that the
// text has to be read in the long way.
func (c *dayCache) stamp(t []byte) (int64, bool) {
	if len(t) < 19 || t[13] != ':' || t[16] != ':' || t[10] != 'T' && t[10] != ' ' {
		return 0, false
	}
	frac := t[19:]
	if n := len(frac); n > 0 && frac[n-1] == 'Z' {
		frac = frac[:n-1]
	}
	if [10]byte(t) != c.text {
		p := clock{text: t[:10]}
		days, ok := p.date()
		if !ok || p.i != 10 {
			return 0, false
		}
		c.text, c.day = [10]byte(t), days*86400e6
	}
	h, ok1 := pairOfDigits(t[11], t[12])
	m, ok2 := pairOfDigits(t[14], t[15])
	s, ok3 := pairOfDigits(t[17], t[18])
	if !ok1 || !ok2 || !ok3 || h > 23 || m > 59 || s > 59 {
		return 0, false
	}
	v := c.day + ((h*60+m)*60+s)*1e6
	switch {
	case len(frac) == 0:
		return v, true
	case len(frac) == 4 && frac[0] == '.':
		a, ok1 := pairOfDigits(frac[1], frac[2])
		b, ok2 := pairOfDigits('0', frac[3])
		return v + a*10000 + b*1000, ok1 && ok2
	case len(frac) == 7 && frac[0] == '.':
		a, ok1 := pairOfDigits(frac[1], frac[2])
		b, ok2 := pairOfDigits(frac[3], frac[4])
		c, ok3 := pairOfDigits(frac[5], frac[6])
		return v + a*10000 + b*100 + c, ok1 && ok2 && ok3
	}
	return 0, false
}

func pairOfDigits(a, b byte) (int64, bool) {
	a, b = a-'0', b-'0'
	return int64(a)*10 + int64(b), a <= 9 && b <= 9
}
