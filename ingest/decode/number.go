package decode

import "encoding/binary"

// scaled is the number of a text times 10^scale, as a sign and a magnitude.
type scaled struct {
	neg  bool
	mag  u128
	half bool // the first digit cut off is 5 or more
	rest bool // some digit cut off is not 0
}

// scale reads the number in t, which follows JSON's grammar, times 10^s. It
// answers false when the magnitude passes 128 bits. No digit is lost on the way:
// what stands behind the last kept place is told by half and rest.
func scale(t []byte, s int) (v scaled, ok bool) {
	i := 0
	if t[0] == '-' {
		v.neg, i = true, 1
	}
	mantissa := t[i:]
	whole := 0 // digits before the point
	for whole < len(mantissa) && mantissa[whole]-'0' <= 9 {
		whole++
	}
	end := whole
	if end < len(mantissa) && mantissa[end] == '.' {
		end = digits(mantissa, end+1)
	}
	keep := whole + s + exponent(mantissa[end:]) // digits that count
	seen := 0
	for _, c := range mantissa[:end] {
		if c == '.' {
			continue
		}
		d := uint64(c - '0')
		switch {
		case seen < keep:
			if v.mag, ok = v.mag.mulAdd(10, d); !ok {
				return v, false
			}
		default:
			v.half = v.half || seen == keep && d >= 5
			v.rest = v.rest || d != 0
		}
		seen++
	}
	if v.mag == (u128{}) {
		return v, true
	}
	for ; seen < keep; seen++ {
		if v.mag, ok = v.mag.mulAdd(10, 0); !ok {
			return v, false
		}
	}
	return v, true
}

// exponent reads e+12. Beyond what could matter it is held at a million million,
// which adds up without overflow.
func exponent(t []byte) int {
	if len(t) == 0 {
		return 0
	}
	i, neg, e := 1, false, 0
	if t[i] == '+' || t[i] == '-' {
		neg = t[i] == '-'
		i++
	}
	for ; i < len(t); i++ {
		e = min(e*10+int(t[i]-'0'), 1e12)
	}
	if neg {
		return -e
	}
	return e
}

// small reads -?digits of at most 18 digits.
func small(t []byte) int64 {
	neg := t[0] == '-'
	if neg {
		t = t[1:]
	}
	var v int64
	for len(t) >= 8 {
		v = v*1e8 + int64(eight(binary.LittleEndian.Uint64(t)))
		t = t[8:]
	}
	for _, c := range t {
		v = v*10 + int64(c-'0')
	}
	if neg {
		return -v
	}
	return v
}

// eight is the number of eight digits: neighbours are joined to pairs, pairs to
// fours, fours to the whole.
func eight(w uint64) uint64 {
	w &= ones * 0xF
	w = (w*10 + w>>8) & 0x00FF00FF00FF00FF
	w = (w*100 + w>>16) & 0x0000FFFF0000FFFF
	return (w*10000 + w>>32) & 0xFFFFFFFF
}

// integer appends a number to a column of integers; the answer is a refusal.
func (n *node) integer(t []byte, k kind) string {
	if k == kInt && len(t) <= 18 {
		v := small(t)
		if v < n.lim.min || v > n.lim.max {
			return "out of range"
		}
		if n.col.width == 16 {
			n.col.wide(uint64(v), uint64(v>>63))
		} else {
			n.col.Int(v)
		}
		return ""
	}
	v, ok := scale(t, 0)
	if ok && v.rest {
		return "not a whole number"
	}
	return n.exact(v, ok)
}

// decimal appends a number to a DECIMAL column, rounded half away from zero.
func (n *node) decimal(t []byte, k kind) string {
	if v, ok := n.short(t); ok {
		n.col.wide(uint64(v), uint64(v>>63))
		return ""
	}
	v, ok := scale(t, int(n.col.typ.Scale))
	if ok && v.half {
		v.mag, ok = v.mag.mulAdd(1, 1)
	}
	return n.exact(v, ok)
}

// short reads the usual decimal: at most 18 digits in all once scaled, none of
// them cut off.
func (n *node) short(t []byte) (int64, bool) {
	i, neg := 0, t[0] == '-'
	if neg {
		i = 1
	}
	if len(t) > 18 {
		return 0, false
	}
	var v int64
	frac := int(n.col.typ.Scale)
	for ; i < len(t) && t[i] != '.'; i++ {
		d := int64(t[i]) - '0'
		if d > 9 {
			return 0, false // an exponent
		}
		v = v*10 + d
	}
	whole := i
	if i++; i < len(t) {
		for ; i < len(t); i++ {
			d := int64(t[i]) - '0'
			if d > 9 || d < 0 || frac == 0 {
				return 0, false
			}
			v = v*10 + d
			frac--
		}
	}
	if whole+int(n.col.typ.Scale) > 18 {
		return 0, false
	}
	for ; frac > 0; frac-- {
		v *= 10
	}
	if neg {
		v = -v
	}
	return v, v >= n.lim.min && v <= n.lim.max
}

// exact appends a magnitude with a sign, if it is within the type's limits.
func (n *node) exact(v scaled, ok bool) string {
	limit := n.lim.above
	if v.neg {
		limit = n.lim.below
	}
	if !ok || limit.less(v.mag) {
		return "out of range"
	}
	if v.neg {
		v.mag = v.mag.neg()
	}
	if n.col.width == 16 {
		n.col.wide(v.mag.lo, v.mag.hi)
	} else {
		n.col.Int(int64(v.mag.lo))
	}
	return ""
}
