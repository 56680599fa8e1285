package agg

// An Arena holds the values of variable width of many groups in one slice, so
// that the garbage collector sees no pointer per group. A value is known by two
// words in the row: its offset, and its length with its room.
type Arena struct {
	buf  []byte
	dead int
}

// Len is the bytes the arena takes, Dead how many of them no row refers to.
func (a *Arena) Len() int  { return cap(a.buf) }
func (a *Arena) Dead() int { return a.dead }

func (a *Arena) get(w []uint64) []byte {
	n := w[1] & (1<<32 - 1)
	return a.buf[w[0] : w[0]+n : w[0]+n]
}

// put stores v for the row's words, in the old room when it fits.
func (a *Arena) put(w []uint64, v []byte) {
	if room := int(w[1] >> 32); len(v) <= room {
		copy(a.buf[w[0]:], v)
		w[1] = uint64(room)<<32 | uint64(len(v))
		return
	} else {
		a.dead += room
	}
	w[0] = uint64(len(a.buf))
	w[1] = uint64(len(v))<<32 | uint64(len(v))
	a.buf = append(a.buf, v...)
}
