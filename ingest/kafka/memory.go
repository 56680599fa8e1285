package kafka

// memory keeps buffers and decoders for reuse. The Reader's mu guards it.
type memory struct {
	keep     int // bytes of free buffers to keep
	maxBatch int
	kept     int
	buffers  [][]byte
	decoders []*batchDecoder
}

// maxKeptBatch is the decompressed size beyond which a decoder is not kept.
const maxKeptBatch = 32 << 20

// alloc gives a buffer of at least n bytes, the smallest free one if it is not
// far too large.
func (m *memory) alloc(n int) []byte {
	best := -1
	for i, b := range m.buffers {
		if cap(b) >= n && cap(b) <= 4*n+smallAnswer && (best < 0 || cap(b) < cap(m.buffers[best])) {
			best = i
		}
	}
	if best < 0 {
		return make([]byte, n, n+n/4+1024)
	}
	b := m.buffers[best]
	last := len(m.buffers) - 1
	m.buffers[best], m.buffers[last] = m.buffers[last], nil
	m.buffers = m.buffers[:last]
	m.kept -= cap(b)
	return b[:n]
}

func (m *memory) free(b []byte) {
	if m.kept+cap(b) > m.keep || len(m.buffers) == 16 {
		return
	}
	m.kept += cap(b)
	m.buffers = append(m.buffers, b[:0])
}

func (m *memory) decoder() *batchDecoder {
	if n := len(m.decoders); n > 0 {
		d := m.decoders[n-1]
		m.decoders = m.decoders[:n-1]
		return d
	}
	return &batchDecoder{inflater: inflater{limit: m.maxBatch}}
}

func (m *memory) freeDecoder(d *batchDecoder) {
	clear(d.recs[:cap(d.recs)]) // they point into buffers
	if cap(d.inflater.out) <= maxKeptBatch && len(m.decoders) < 8 {
		m.decoders = append(m.decoders, d)
	}
}
