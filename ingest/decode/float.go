package decode

import (
	"strconv"
	"unsafe"
)

// float appends a number to a FLOAT or DOUBLE column, correctly rounded.
func (n *node) float(t []byte, k kind) string {
	if n.col.width == 8 {
		if v, ok := shortFloat(t); ok {
			n.col.float(v)
			return ""
		}
	}
	// The string lives for the call alone; its grammar was checked.
	v, err := strconv.ParseFloat(unsafe.String(&t[0], len(t)), 8*n.col.width)
	if err != nil {
		return "out of range"
	}
	n.col.float(v)
	return ""
}

var exactPowers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// shortFloat reads numbers of at most 15 digits without an exponent: digits and
// power of ten are exact doubles then, so one division rounds correctly.
func shortFloat(t []byte) (float64, bool) {
	if len(t) > 16 {
		return 0, false
	}
	i, neg := 0, t[0] == '-'
	if neg {
		i = 1
	}
	var v int64
	n, point := 0, -1
	for ; i < len(t); i++ {
		if t[i] == '.' {
			point = n
			continue
		}
		d := t[i] - '0'
		if d > 9 {
			return 0, false
		}
		v = v*10 + int64(d)
		n++
	}
	if n > 15 {
		return 0, false
	}
	f := float64(v)
	if point >= 0 {
		f /= exactPowers[n-point]
	}
	if neg {
		f = -f
	}
	return f, true
}
