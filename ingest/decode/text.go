package decode

import (
	"unicode/utf16"
	"unicode/utf8"
)

// escape measures the escape at the start of b: its bytes, 0 when it is
// malformed. A surrogate pair is one escape; half says that a surrogate stands
// alone.
func escape(b []byte) (n int, half bool) {
	if len(b) < 2 {
		return 0, false
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, false
	case 'u':
		r, ok := hex4(b)
		if !ok {
			return 0, false
		}
		if !utf16.IsSurrogate(r) {
			return 6, false
		}
		if r < 0xDC00 {
			if low, ok := hex4(b[6:]); ok && low >= 0xDC00 && low <= 0xDFFF {
				return 12, false
			}
		}
		return 6, true
	}
	return 0, false
}

// hex4 reads \uXXXX.
func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		d, ok := unhex(c)
		if !ok {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}

func unhex(c byte) (byte, bool) {
	switch {
	case c-'0' <= 9:
		return c - '0', true
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

// unescape appends the text of a scanned string, quotes already cut off. It
// answers false at half a surrogate pair, which is no character.
func unescape(dst, b []byte) ([]byte, bool) {
	for i := 0; i < len(b); {
		if b[i] != '\\' {
			j := i + 1
			for j < len(b) && b[j] != '\\' {
				j++
			}
			dst = append(dst, b[i:j]...)
			i = j
			continue
		}
		n, half := escape(b[i:])
		if half || n == 0 {
			return dst, false
		}
		switch c := b[i+1]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, _ := hex4(b[i:])
			if n == 12 {
				low, _ := hex4(b[i+6:])
				r = utf16.DecodeRune(r, low)
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
		i += n
	}
	return dst, true
}

// equalFold compares as DuckDB compares names: letters A to Z in either case,
// everything else byte by byte.
func equalFold(name string, key []byte) bool {
	if len(name) != len(key) {
		return false
	}
	for i := range len(name) {
		if lower(name[i]) != lower(key[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c-'A' < 26 {
		return c | 0x20
	}
	return c
}
