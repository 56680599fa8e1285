package decode

import (
	"math"
	"math/bits"

	"weir/state/sqltype"
)

// u128 is an unsigned integer of 128 bits.
type u128 struct{ hi, lo uint64 }

func (u u128) less(v u128) bool { return u.hi < v.hi || u.hi == v.hi && u.lo < v.lo }

// mulAdd is u*m+a; false when that passes 128 bits.
func (u u128) mulAdd(m, a uint64) (u128, bool) {
	h1, lo := bits.Mul64(u.lo, m)
	over, hi := bits.Mul64(u.hi, m)
	hi, c1 := bits.Add64(hi, h1, 0)
	lo, c2 := bits.Add64(lo, a, 0)
	hi, c3 := bits.Add64(hi, 0, c2)
	return u128{hi, lo}, over == 0 && c1 == 0 && c3 == 0
}

// neg is the two's complement.
func (u u128) neg() u128 {
	lo, borrow := bits.Sub64(0, u.lo, 0)
	hi, _ := bits.Sub64(0, u.hi, borrow)
	return u128{hi, lo}
}

// pow10 is 10^n for n up to 38.
func pow10(n int) u128 {
	u := u128{0, 1}
	for range n {
		u, _ = u.mulAdd(10, 0)
	}
	return u
}

// limits are the largest magnitudes of a column's type on each side of zero.
type limits struct {
	below, above u128
	min, max     int64 // the same where they fit
}

func limitsOf(t sqltype.Type) limits {
	var l limits
	switch t.ID {
	case sqltype.TinyInt, sqltype.SmallInt, sqltype.Integer, sqltype.BigInt:
		l.below = u128{0, 1 << (8<<(t.ID-sqltype.TinyInt) - 1)}
		l.above = u128{0, l.below.lo - 1}
	case sqltype.UTinyInt, sqltype.USmallInt, sqltype.UInteger, sqltype.UBigInt:
		l.above = u128{0, math.MaxUint64 >> (64 - 8<<(t.ID-sqltype.UTinyInt))}
	case sqltype.HugeInt:
		l.below = u128{1 << 63, 0}
		l.above = u128{1<<63 - 1, math.MaxUint64}
	case sqltype.UHugeInt:
		l.above = u128{math.MaxUint64, math.MaxUint64}
	case sqltype.Decimal:
		p := pow10(int(t.Width))
		lo, borrow := bits.Sub64(p.lo, 1, 0)
		l.above = u128{p.hi - borrow, lo}
		l.below = l.above
	}
	l.min, l.max = math.MinInt64, math.MaxInt64
	if l.below.hi == 0 && l.below.lo <= 1<<63 {
		l.min = int64(-l.below.lo)
	}
	if l.above.hi == 0 && l.above.lo <= math.MaxInt64 {
		l.max = int64(l.above.lo)
	}
	return l
}
