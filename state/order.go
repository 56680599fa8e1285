package state

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
)

// A ranked entry sorts by rank, which is its slot and what tells its key from
// the others of the view; entries of one rank need their keys compared.
type ranked struct {
	rank  uint64
	entry uint32 // in cut.ents
}

const (
	digitBits = 11
	slotBits  = 8
)

// sort makes c.order of c.ents: view by view, each by slot and key.
func (c *cut) sort() {
	c.order = slices.Grow(c.order[:0], len(c.ents))[:len(c.ents)]
	c.spare = slices.Grow(c.spare[:0], len(c.ents))[:len(c.ents)]
	for _, g := range c.groups {
		c.sortGroups(g.from, g.to)
	}
}

// sortGroups sorts those of one view by the digits of their ranks, the lowest
// first, which takes a pass for each digit in which any differ.
func (c *cut) sortGroups(from, to int) {
	order, spare := c.order[from:to], c.spare[from:to]
	width := c.rank(order, from)
	for at := 0; at < width; at += digitBits {
		scatter(spare, order, at)
		order, spare = spare, order
	}
	if len(order) > 0 && &order[0] != &c.order[from] {
		copy(c.order[from:to], order)
		order = c.order[from:to]
	}
	for at := 0; at < len(order); {
		n := 1
		for at+n < len(order) && order[at+n].rank == order[at].rank {
			n++
		}
		if n > 1 {
			slices.SortFunc(order[at:at+n], func(a, b ranked) int {
				return bytes.Compare(c.key(a.entry), c.key(b.entry))
			})
		}
		at += n
	}
}

// rank ranks the entries from one on, and says how many bits ranks have.
func (c *cut) rank(order []ranked, from int) (width int) {
	var differ, first uint64
	for i := range order {
		b := beginning(c.key(uint32(from + i))[1:])
		if i == 0 {
			first = b
		}
		differ |= b ^ first
		order[i] = ranked{b, uint32(from + i)}
	}
	// The bits above the highest that differs tell nothing; of the others, those
	// that have room beside the slot.
	high := bits.Len64(differ)
	low := max(bits.TrailingZeros64(differ|1<<63), high-(64-slotBits))
	width = max(0, high-low)
	for i := range order {
		o := &order[i]
		o.rank = o.rank>>low&(1<<width-1) | uint64(c.key(o.entry)[0])<<width
	}
	return width + slotBits
}

// scatter sorts by one digit and leaves the order within it.
func scatter(to, from []ranked, at int) {
	var starts [1 << digitBits]uint32
	const mask = 1<<digitBits - 1
	for i := range from {
		starts[from[i].rank>>at&mask]++
	}
	sum := uint32(0)
	for i, n := range starts {
		starts[i] = sum
		sum += n
	}
	for i := range from {
		d := from[i].rank >> at & mask
		to[starts[d]] = from[i]
		starts[d]++
	}
}

// key is the slot and key of an entry, without the view.
func (c *cut) key(entry uint32) []byte {
	e := &c.ents[entry]
	return c.buf[e.at+4 : e.val]
}

// size is about what the batch of the cut takes.
func (c *cut) size() int {
	const perEntry, others = 8, 16 << 10 // lengths and kind; what is not groups
	return len(c.buf) + perEntry*len(c.ents) + others
}

// beginning is the first eight bytes of a key as a number that sorts as they do;
// what is missing is 0.
func beginning(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}
