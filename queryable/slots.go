package queryable

import (
	"strconv"
	"strings"
)

// slotCount is the number of slots, which format version 1 fixes.
const slotCount = 256

// slots reads ?slot=: one slot, a range such as 0-63, or all when it is empty.
func slots(s string) (from, to int, err error) {
	if s == "" {
		return 0, slotCount, nil
	}
	lo, hi, ranged := strings.Cut(s, "-")
	if !ranged {
		hi = lo
	}
	from, err1 := strconv.Atoi(lo)
	last, err2 := strconv.Atoi(hi)
	if err1 != nil || err2 != nil || from < 0 || last < from || last >= slotCount {
		return 0, 0, Errorf(BadRequest, "slot is a number from 0 to %d, or a range such as 0-63", slotCount-1)
	}
	return from, last + 1, nil
}
