package state

import (
	"bytes"
	"slices"

	"github.com/zeebo/xxh3"

	"weir/state/agg"
)

// A table holds the resident groups of one view: an open-addressing index over
// rows of words. There is no pointer per group, so the garbage collector does
// not walk the groups. A row is
//
//	word 0   offset of the key in keys (40 bits), its length (24)
//	word 1   epoch of the last change (40 bits), bytes of the stored value (24)
//	word 2.. accumulators, see agg.Layout
//
// An index entry is the top half of the key's hash and the row plus one; its
// place is that half modulo the size of the index.
type table struct {
	layout *agg.Layout
	rows   agg.Rows
	n      uint32
	keys   []byte // slot and key of each row
	index  []uint64
	dirty  []uint32          // rows changed in the open epoch, with unrecorded or without
	errs   map[uint32]string // rows in error

	fetched byte // so that the compiler keeps what fetch reads; it means nothing
}

const (
	rowMeta  = 2
	sizeMask = 1<<24 - 1

	// unrecorded marks a dirty row whose key goes into the change index. A table
	// of 2^31 rows would take 50 GiB.
	unrecorded = 1 << 31
)

func newTable(l *agg.Layout) *table {
	return &table{
		layout: l, index: make([]uint64, 64), errs: map[uint32]string{},
		rows: agg.Rows{Stride: rowMeta + l.Words(), Base: rowMeta, Side: new(agg.Arena)},
	}
}

// bytes is the memory that the table takes.
func (t *table) bytes() int64 {
	return int64(8*cap(t.rows.Words) + cap(t.keys) + 8*len(t.index) + t.rows.Side.Len() + 4*cap(t.dirty))
}

// key is the slot and key of a row.
func (t *table) key(r uint32) []byte {
	w := t.rows.Words[int(r)*t.rows.Stride]
	off, n := w>>24, w&sizeMask
	return t.keys[off : off+n : off+n]
}

// ahead is how many rows fetch takes at a time: what they take fits the cache.
const ahead = 256

// fetch brings rows and their keys near. Nobody waits for one of them before
// the next is asked for, as those do who read row by row.
func (t *table) fetch(dirty []uint32) {
	var at [ahead]uint64
	for i, r := range dirty {
		at[i] = t.rows.Words[int(r&^unrecorded)*t.rows.Stride] >> 24
	}
	for i := range dirty {
		t.fetched += t.keys[at[i]]
	}
}

func (t *table) epoch(r uint32) uint64 { return t.rows.Words[int(r)*t.rows.Stride+1] >> 24 }
func (t *table) size(r uint32) int64   { return int64(t.rows.Words[int(r)*t.rows.Stride+1] & sizeMask) }

// setStored notes the epoch and the stored size of a row.
func (t *table) setStored(r uint32, epoch uint64, size int) {
	t.rows.Words[int(r)*t.rows.Stride+1] = epoch<<24 | uint64(min(size, sizeMask))
}

// resolve finds the rows of keys and adds those that are not there, with all
// accumulators NULL. New rows are those from the returned one on.
//
// With many groups each step waits for memory. So it goes step by step for the
// whole batch, where the processor waits for many at once: index entries, then
// where their keys lie, then the keys.
func (t *table) resolve(k *keyed) (first uint32) {
	first = t.n
	k.at = slices.Grow(k.at[:0], k.rows)[:k.rows]
	k.guess = slices.Grow(k.guess[:0], k.rows)[:k.rows]
	mask := len(t.index) - 1
	for i, h := range k.hashes {
		k.at[i] = 0
		if e := t.index[int(h>>32)&mask]; e>>32 == h>>32 {
			k.at[i] = uint32(e) // the row plus one, or 0
		}
	}
	for i, r := range k.at {
		if r != 0 {
			k.guess[i] = t.rows.Words[int(r-1)*t.rows.Stride]
		}
	}
	for i, r := range k.at {
		key := k.key(i)
		if r != 0 {
			if off, n := k.guess[i]>>24, k.guess[i]&sizeMask; bytes.Equal(t.keys[off:off+n], key) {
				k.at[i] = r - 1
				continue
			}
		}
		k.at[i] = t.row(k.hashes[i], key)
	}
	return first
}

func (t *table) row(h uint64, key []byte) uint32 {
	mask, tag := len(t.index)-1, h>>32
	for i := int(tag) & mask; ; i = (i + 1) & mask {
		e := t.index[i]
		if e == 0 {
			break
		}
		if e>>32 == tag && bytes.Equal(t.key(uint32(e)-1), key) {
			return uint32(e) - 1
		}
	}
	return t.add(tag, key)
}

func (t *table) add(tag uint64, key []byte) uint32 {
	if int(t.n) >= len(t.index)/3*2 {
		t.reindex(2 * len(t.index))
	}
	r := t.n
	t.n++
	t.rows.Words = slices.Grow(t.rows.Words, t.rows.Stride)[:int(t.n)*t.rows.Stride]
	w := t.rows.Words[int(r)*t.rows.Stride:]
	clear(w)
	w[0] = uint64(len(t.keys))<<24 | uint64(len(key))
	t.keys = append(t.keys, key...)
	t.place(tag, r)
	return r
}

func (t *table) place(tag uint64, r uint32) {
	mask := len(t.index) - 1
	i := int(tag) & mask
	for t.index[i] != 0 {
		i = (i + 1) & mask
	}
	t.index[i] = tag<<32 | uint64(r+1)
}

func (t *table) reindex(size int) {
	old := t.index
	t.index = make([]uint64, size)
	for _, e := range old {
		if e != 0 {
			t.place(e>>32, uint32(e)-1)
		}
	}
}

// truncate takes back the rows from n on. None of them is dirty.
func (t *table) truncate(n uint32) {
	for r := n; r < t.n; r++ {
		delete(t.errs, r)
	}
	if n < t.n {
		t.keys = t.keys[:t.rows.Words[int(n)*t.rows.Stride]>>24]
	}
	t.n = n
	t.rows.Words = t.rows.Words[:int(n)*t.rows.Stride]
	clear(t.index)
	for r := range n {
		t.place(xxh3.Hash(t.key(r)[1:])>>32, r)
	}
}

// evict keeps about a share of the rows, those that changed last, and in any
// case the rows that changed after the durable epoch. Those of the open epoch
// are the dirty ones.
func (t *table) evict(share float64, durable, open uint64) *table {
	cut, part := t.cutoff(share, durable)
	kept := newTable(t.layout)
	for r := range t.n {
		key := t.key(r)
		h := xxh3.Hash(key[1:])
		e := t.epoch(r)
		if e <= durable && (e < cut || e == cut && uint32(h) > part) {
			continue
		}
		to := kept.add(h>>32, key)
		t.layout.Copy(&kept.rows, to, &t.rows, r)
		kept.setStored(to, e, int(t.size(r)))
		if msg, ok := t.errs[r]; ok {
			kept.errs[to] = msg
		}
		if e == open {
			kept.dirty = append(kept.dirty, to|unrecorded) // perhaps a second time, which does no harm
		}
	}
	return kept
}

// cutoff estimates from a sample the epoch below which rows go; of the rows of
// that epoch those stay whose hash is not above part.
func (t *table) cutoff(share float64, durable uint64) (cut uint64, part uint32) {
	step := max(1, t.n/4096)
	var sample []uint64
	for r := uint32(0); r < t.n; r += step {
		if e := t.epoch(r); e <= durable {
			sample = append(sample, e)
		}
	}
	if len(sample) == 0 {
		return 0, 0
	}
	slices.Sort(sample)
	gone := min(int(float64(len(sample))*(1-share)), len(sample)-1)
	cut = sample[gone]
	lo, _ := slices.BinarySearch(sample, cut)
	hi, _ := slices.BinarySearch(sample, cut+1)
	return cut, uint32(float64(hi-gone) / float64(hi-lo) * (1<<32 - 1))
}
