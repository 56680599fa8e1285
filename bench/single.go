package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// single is one client that asks for path with pauses, of which the times of answers
// tell. It is a process of its own: in this one it would wait for the broker and the
// generator to let Go's scheduler have the processor. KEY in the path becomes a number
// below keys.
func single(group, name, path string, keys int64, server func(*bed) *process) phase {
	return phase{name: name, asker: &asker{path, keys, server}, report: func(_ *bed, _ float64, took []time.Duration) {
		report(group+"_"+name+"_p50", millis(quantile(took, .5)), "ms")
		report(group+"_"+name+"_p99", millis(quantile(took, .99)), "ms")
	}}
}

func appliance(b *bed) *process { return b.process }
func floor(b *bed) *process     { return b.floor }

type asker struct {
	path   string
	keys   int64
	server func(*bed) *process
}

// run gives took the time of each answer until ctx ends.
func (a *asker) run(ctx context.Context, b *bed, took func(time.Duration)) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "-ask", a.server(b).url+a.path, "-keys", strconv.FormatInt(a.keys, 10))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		ns, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			return errors.Join(err, cmd.Cancel(), cmd.Wait())
		}
		took(time.Duration(ns))
	}
	if err := cmd.Wait(); ctx.Err() == nil {
		return fmt.Errorf("the client ended: %w", err)
	}
	return nil
}

// ask is the client: it prints how many nanoseconds each answer took.
func ask(url string, keys int64) error {
	rng := rand.New(rand.NewPCG(5, 0))
	for {
		u := strings.ReplaceAll(url, "KEY", strconv.FormatInt(rng.Int64N(keys), 10))
		start := time.Now()
		resp, err := http.Get(u)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		took := time.Since(start)
		resp.Body.Close()
		// A few of the keys may never have come; they are 404.
		if err != nil || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNotFound {
			return errors.Join(fmt.Errorf("%s: %s", u, resp.Status), err)
		}
		fmt.Println(took.Nanoseconds())
		time.Sleep(3 * time.Millisecond)
	}
}
