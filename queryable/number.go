package queryable

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// appendUint128 appends hi<<64|lo in decimal.
func appendUint128(dst []byte, hi, lo uint64) []byte {
	if hi == 0 {
		return strconv.AppendUint(dst, lo, 10)
	}
	const chunk = 1e19 // the largest power of ten in 64 bits
	q1, r := bits.Div64(0, hi, chunk)
	q0, low := bits.Div64(r, lo, chunk)
	dst = appendUint128(dst, q1, q0)
	return appendPadded(dst, low, 19)
}

// appendPadded appends v with leading zeros to at least width digits.
func appendPadded(dst []byte, v uint64, width int) []byte {
	var buf [20]byte
	s := strconv.AppendUint(buf[:0], v, 10)
	for n := len(s); n < width; n++ {
		dst = append(dst, '0')
	}
	return append(dst, s...)
}

// appendHugeInt appends 16 little-endian bytes as a number in decimal.
func appendHugeInt(dst, b []byte, signed bool) []byte {
	lo, hi := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	if signed && int64(hi) < 0 {
		dst = append(dst, '-')
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
	}
	return appendUint128(dst, hi, lo)
}

// appendDecimal appends v with exactly scale digits behind the point.
func appendDecimal(dst []byte, v decimal128.Num, scale int) []byte {
	hi, lo := uint64(v.HighBits()), v.LowBits()
	if v.Sign() < 0 {
		dst = append(dst, '-')
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
	}
	var buf [40]byte
	s := appendUint128(buf[:0], hi, lo)
	if scale == 0 {
		return append(dst, s...)
	}
	if n := len(s) - scale; n > 0 {
		dst = append(dst, s[:n]...)
		s = s[n:]
	} else {
		dst = append(dst, '0')
	}
	dst = append(dst, '.')
	for n := len(s); n < scale; n++ {
		dst = append(dst, '0')
	}
	return append(dst, s...)
}

// appendFloat appends the shortest text that reads back as v, always with a
// point or an exponent, so that a DOUBLE never looks like an integer.
func appendFloat(dst []byte, v float64, size int) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, "NaN"...)
	case math.IsInf(v, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(v, -1):
		return append(dst, "-Infinity"...)
	}
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, v, format, -1, size)
	for _, c := range dst[start:] {
		if c == '.' || c == 'e' {
			return dst
		}
	}
	return append(dst, ".0"...)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
