package queryable

import (
	"math"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
)

const microsPerDay = 24 * 60 * 60 * 1_000_000

// appendDate appends a day since 1970 as ISO 8601. Years before 0000 and after
// 9999 take a sign and at least six digits, as ECMAScript reads them. DuckDB's
// two infinite dates are words.
func appendDate(dst []byte, day int64) []byte {
	switch day {
	case math.MaxInt32:
		return append(dst, "infinity"...)
	case -math.MaxInt32:
		return append(dst, "-infinity"...)
	}
	return appendDay(dst, day)
}

func appendDay(dst []byte, day int64) []byte {
	y, m, d := civil(day)
	switch {
	case y < 0:
		dst = append(dst, '-')
		dst = appendPadded(dst, uint64(-y), 6)
	case y > 9999:
		dst = append(dst, '+')
		dst = appendPadded(dst, uint64(y), 6)
	default:
		dst = appendPadded(dst, uint64(y), 4)
	}
	dst = append(dst, '-')
	dst = appendPadded(dst, uint64(m), 2)
	dst = append(dst, '-')
	return appendPadded(dst, uint64(d), 2)
}

// civil gives the proleptic Gregorian date of a day since 1970, with
// astronomical years (0 is 1 BC).
func civil(day int64) (y, m, d int64) {
	z := day + 719468
	era := floorDiv(z, 146097)
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d = doy - (153*mp+2)/5 + 1
	m = mp + 3
	if m > 12 {
		m -= 12
	}
	y = yoe + era*400
	if m <= 2 {
		y++
	}
	return y, m, d
}

// daysOf is the inverse of civil. The date must exist.
func daysOf(y, m, d int64) int64 {
	if m <= 2 {
		y--
	}
	era := floorDiv(y, 400)
	yoe := y - era*400
	mp := (m + 9) % 12
	doy := (153*mp+2)/5 + d - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	return era*146097 + doe - 719468
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// appendTimestamp appends v units since 1970 (unit in fractions of a second) as
// ISO 8601: a T between date and time, the fraction without trailing zeros and
// only when there is one.
func appendTimestamp(dst []byte, v, perSecond int64, zone string) []byte {
	switch v {
	case math.MaxInt64:
		return append(dst, "infinity"...)
	case -math.MaxInt64:
		return append(dst, "-infinity"...)
	}
	day := floorDiv(v, 86400*perSecond)
	dst = appendDay(dst, day)
	dst = append(dst, 'T')
	dst = appendClock(dst, v-day*86400*perSecond, perSecond)
	return append(dst, zone...)
}

// appendClock appends a time of day, or of an interval, that is not negative.
func appendClock(dst []byte, v, perSecond int64) []byte {
	s := v / perSecond
	dst = appendPadded(dst, uint64(s/3600), 2)
	dst = append(dst, ':')
	dst = appendPadded(dst, uint64(s/60%60), 2)
	dst = append(dst, ':')
	dst = appendPadded(dst, uint64(s%60), 2)
	f := v % perSecond
	if f == 0 {
		return dst
	}
	dst = append(dst, '.')
	dst = appendPadded(dst, uint64(f), len(strconv.FormatInt(perSecond, 10))-1)
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

// appendInterval appends an interval as DuckDB prints it, which DuckDB also
// reads: 1 year 2 months 3 days 04:05:06.5.
func appendInterval(dst []byte, v arrow.MonthDayNanoInterval) []byte {
	start := len(dst)
	part := func(n int64, name string) {
		if n == 0 {
			return
		}
		if len(dst) > start {
			dst = append(dst, ' ')
		}
		dst = strconv.AppendInt(dst, n, 10)
		dst = append(dst, name...)
		if n != 1 && n != -1 {
			dst = append(dst, 's')
		}
	}
	part(int64(v.Months)/12, " year")
	part(int64(v.Months)%12, " month")
	part(int64(v.Days), " day")
	micros := v.Nanoseconds / 1000
	if micros == 0 && len(dst) > start {
		return dst
	}
	if len(dst) > start {
		dst = append(dst, ' ')
	}
	if micros < 0 {
		dst = append(dst, '-')
		micros = -micros
	}
	return appendClock(dst, micros, 1_000_000)
}

// perSecond is the number of a timestamp's units in a second.
func perSecond(u arrow.TimeUnit) int64 {
	switch u {
	case arrow.Second:
		return 1
	case arrow.Millisecond:
		return 1_000
	case arrow.Microsecond:
		return 1_000_000
	default:
		return 1_000_000_000
	}
}
