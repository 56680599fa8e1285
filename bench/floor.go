package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
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
