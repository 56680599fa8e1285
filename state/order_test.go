package state

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// The order of a commit's groups is that of their bytes, whatever the keys have
// in common.
func TestCutSort(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	for name, key := range map[string]func(i int) []byte{
		"none":           func(int) []byte { return nil },
		"near integers":  func(i int) []byte { return binary.BigEndian.AppendUint64(nil, 1<<63+uint64(i*7919%100_003)) },
		"wide integers":  func(int) []byte { return random(8) },
		"far ends":       func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)<<63|uint64(i)) },
		"low bits":       func(i int) []byte { return []byte{0, 0, 0, 0, 0, 0, 0, byte(i), byte(i >> 8)} },
		"texts":          func(int) []byte { return random(rng.IntN(12)) },
		"long beginning": func(i int) []byte { return append([]byte("https://example.org/"), random(rng.IntN(4))...) },
		"zeros":          func(i int) []byte { return make([]byte, i%13) },
	} {
		t.Run(name, func(t *testing.T) {
			var c cut
			var want [][]byte
			for view, n := range []int{0, 1, 5000, 3} {
				from := len(c.ents)
				for i := range n {
					at := len(c.buf)
					c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(view))
					c.buf = append(c.buf, byte(rng.IntN(3)*127))
					c.buf = append(c.buf, key(i)...)
					val := len(c.buf)
					c.buf = append(c.buf, "value"...)
					c.ents = append(c.ents, entry{at: at, val: val, end: len(c.buf)})
					want = append(want, c.buf[at:val])
				}
				c.groups = append(c.groups, cutGroups{from: from, to: len(c.ents)})
			}
			slices.SortFunc(want, bytes.Compare) // views rise, so that they stay apart
			for range 2 {                        // the second time with what the first left
				c.sort()
				if len(c.order) != len(want) {
					t.Fatalf("%d of %d entries", len(c.order), len(want))
				}
				taken := map[uint32]bool{}
				for i, o := range c.order {
					e := c.ents[o.entry]
					if got := c.buf[e.at:e.val]; !bytes.Equal(got, want[i]) {
						t.Fatalf("entry %d is %x, not %x", i, got, want[i])
					}
					taken[o.entry] = true
				}
				if len(taken) != len(want) {
					t.Errorf("%d entries, some twice", len(taken))
				}
			}
		})
	}
}
