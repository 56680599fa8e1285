package appliance

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// pins count who reads which checkpoint. On a disk nobody need ask: a file that is
// open stays readable when it is removed. An object does not, so what lies in an
// object store is removed only when nobody reads it.
type pins struct {
	mu    sync.Mutex
	of    map[uint64]int
	freed chan struct{} // closed when a count falls to 0; nil when nobody waits
}

// pin holds a checkpoint until what it returns is called.
func (p *pins) pin(id uint64) (free func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[uint64]int{}
	}
	p.of[id]++
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.of[id]--; p.of[id] > 0 {
			return
		}
		delete(p.of, id)
		if p.freed != nil {
			close(p.freed)
			p.freed = nil
		}
	})
}

// held are the checkpoints that are being read.
func (p *pins) held() []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.of))
}

// wait returns when nobody reads a checkpoint, or with ctx's error.
func (p *pins) wait(ctx context.Context, id uint64) error {
	for {
		p.mu.Lock()
		if p.of[id] == 0 {
			p.mu.Unlock()
			return nil
		}
		if p.freed == nil {
			p.freed = make(chan struct{})
		}
		freed := p.freed
		p.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
