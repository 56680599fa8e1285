package codec

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"

	"weir/state/sqltype"
)

// size is the number of bytes of a word of t.
func size(t sqltype.Type) int {
	switch t.ID {
	case sqltype.Boolean, sqltype.TinyInt, sqltype.UTinyInt:
		return 1
	case sqltype.SmallInt, sqltype.USmallInt:
		return 2
	case sqltype.Integer, sqltype.UInteger, sqltype.Float, sqltype.Date:
		return 4
	}
	return 8
}

func unsigned(t sqltype.Type) bool {
	return t.ID == sqltype.Boolean || t.ID >= sqltype.UTinyInt && t.ID <= sqltype.UHugeInt || t.ID == sqltype.UUID
}

// Order maps a word of t to one whose unsigned order is DuckDB's order of the
// values; equal values, such as -0.0 and 0.0, map to one. Only the low bytes of
// the type's size are used.
func Order(t sqltype.Type) func(w uint64) uint64 {
	switch {
	case t.ID == sqltype.Float:
		return orderFloat
	case t.ID == sqltype.Double:
		return orderDouble
	case unsigned(t):
		return func(w uint64) uint64 { return w }
	}
	flip := uint64(1) << (8*size(t) - 1)
	mask := flip<<1 - 1
	return func(w uint64) uint64 { return (w ^ flip) & mask }
}

// unorder is the inverse of Order, up to what Order made equal.
func unorder(t sqltype.Type) func(u uint64) uint64 {
	switch {
	case t.ID == sqltype.Float:
		return func(u uint64) uint64 {
			if u>>31 != 0 {
				return u ^ 1<<31
			}
			return ^u & math.MaxUint32
		}
	case t.ID == sqltype.Double:
		return func(u uint64) uint64 {
			if u>>63 != 0 {
				return u ^ 1<<63
			}
			return ^u
		}
	case unsigned(t):
		return func(u uint64) uint64 { return u }
	}
	shift := 64 - 8*size(t)
	flip := uint64(1) << (8*size(t) - 1)
	return func(u uint64) uint64 { return uint64(int64((u^flip)<<shift) >> shift) }
}

func orderDouble(w uint64) uint64 {
	switch f := math.Float64frombits(w); {
	case f != f:
		w = 0x7ff8 << 48
	case f == 0:
		w = 0
	}
	if w>>63 != 0 {
		return ^w
	}
	return w | 1<<63
}

func orderFloat(w uint64) uint64 {
	switch f := math.Float32frombits(uint32(w)); {
	case f != f:
		w = 0x7fc0 << 16
	case f == 0:
		w = 0
	}
	if w>>31 != 0 {
		return ^w & math.MaxUint32
	}
	return w | 1<<31
}

// WideFlip is what to XOR into the high half of a wide word of t so that its
// unsigned order is DuckDB's.
func WideFlip(t sqltype.Type) uint64 {
	if unsigned(t) {
		return 0
	}
	return 1 << 63
}

const (
	microsPerDay = 24 * 60 * 60 * 1_000_000
	daysPerMonth = 30
)

// carry normalises an interval as DuckDB does to compare it.
func carry(v arrow.MonthDayNanoInterval) (months int64, days int32, micros int64) {
	micros = v.Nanoseconds / 1000
	d := int64(v.Days) + micros/microsPerDay
	return int64(v.Months) + d/daysPerMonth, int32(d % daysPerMonth), micros % microsPerDay
}

// borrow is the interval of normalised parts: months beyond 32 bits go to days.
func borrow(months int64, days int32, micros int64) (v arrow.MonthDayNanoInterval, ok bool) {
	m := min(max(months, math.MinInt32), math.MaxInt32)
	d := int64(days) + (months-m)*daysPerMonth
	if d != int64(int32(d)) || micros <= -microsPerDay || micros >= microsPerDay {
		return v, false
	}
	return arrow.MonthDayNanoInterval{Months: int32(m), Days: int32(d), Nanoseconds: micros * 1000}, true
}

// KeyExact says whether the key form of t loses nothing, so that it can stand
// for the value: true without floats and intervals.
func KeyExact(t sqltype.Type) bool {
	_, lossy := t.Find(func(t sqltype.Type) bool {
		return t.ID == sqltype.Float || t.ID == sqltype.Double || t.ID == sqltype.Interval
	})
	return !lossy
}
