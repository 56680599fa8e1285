package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"time"
)

// serveConstant answers every request with the same bytes, in a process of its own,
// which prints its address. It is what a look-up is measured against: the machine is
// as busy for it.
func serveConstant() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/\n", l.Addr())
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("{}\n"))
	}))
}

// beginFloor starts it.
func beginFloor(ctx context.Context, c *config) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	floor := *c
	floor.weir = self
	return begin(ctx, &floor, "-constant")
}

// endFloor ends it, as the signal does, which is no error.
func (p *process) endFloor() {
	if p != nil {
		_ = p.end()
	}
}

// single is one client that asks with pauses, of which the times of answers tell.
func single(group, name string, ask func(context.Context, *bed, *rand.Rand) error) phase {
	return phase{name: name, clients: 1, pause: 3 * time.Millisecond, ask: ask, report: func(_ *bed, _ float64, took []time.Duration) {
		report(group+"_"+name+"_p50", millis(quantile(took, .5)), "ms")
		report(group+"_"+name+"_p99", millis(quantile(took, .99)), "ms")
	}}
}

func constant(ctx context.Context, b *bed, _ *rand.Rand) error {
	return b.floor.get(ctx, "/", nil)
}
