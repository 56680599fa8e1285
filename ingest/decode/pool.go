package decode

import (
	"math/bits"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Pool is an allocator that keeps what is freed for the next batch, so that a
// source that runs steadily stops allocating. Sizes are powers of two; contents
// are whatever was there before. Batches may be released on any goroutine.
type Pool struct {
	mem    memory.Allocator
	mu     sync.Mutex
	free   [48][][]byte // by log2 of the size
	closed bool
}

// NewPool pools the memory of mem, which should be C memory (arrow's
// mallocator) where batches go to DuckDB.
func NewPool(mem memory.Allocator) *Pool { return &Pool{mem: mem} }

// The log2 of the smallest size, a cache line, and of the largest that is kept.
const (
	smallest = 6
	largest  = 26
)

func class(size int) int { return max(smallest, bits.Len(uint(max(size, 1)-1))) }

// Allocate returns size bytes in a slice whose capacity is the whole block.
func (p *Pool) Allocate(size int) []byte {
	c := class(size)
	p.mu.Lock()
	if l := p.free[c]; len(l) > 0 {
		b := l[len(l)-1]
		p.free[c] = l[:len(l)-1]
		p.mu.Unlock()
		return b[:size]
	}
	p.mu.Unlock()
	return p.mem.Allocate(1 << c)[: size : 1<<c]
}

// Reallocate moves b to a block of the new size.
func (p *Pool) Reallocate(size int, b []byte) []byte {
	if b != nil && size <= cap(b) {
		return b[:size]
	}
	n := p.Allocate(size)
	copy(n, b)
	p.Free(b)
	return n
}

// Free takes a block back.
func (p *Pool) Free(b []byte) {
	if cap(b) == 0 {
		return
	}
	b = b[:cap(b)]
	p.mu.Lock()
	if c := class(len(b)); !p.closed && c <= largest {
		p.free[c] = append(p.free[c], b)
		b = nil
	}
	p.mu.Unlock()
	if b != nil {
		p.mem.Free(b)
	}
}

// Close gives the kept memory back. Blocks still in use go straight to the
// allocator when they are freed.
func (p *Pool) Close() {
	p.mu.Lock()
	kept := p.free
	p.free = [48][][]byte{}
	p.closed = true
	p.mu.Unlock()
	for _, l := range kept {
		for _, b := range l {
			p.mem.Free(b)
		}
	}
}
