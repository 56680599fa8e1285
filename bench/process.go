package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a Weir that runs.
type process struct {
	cmd    *exec.Cmd
	url    string
	client *http.Client
	waited chan error
}

// begin starts Weir and returns once it has printed its address.
func begin(ctx context.Context, c *config, args ...string) (*process, error) {
	p := &process{
		cmd:    exec.CommandContext(ctx, c.weir, args...),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}},
		waited: make(chan error, 1),
	}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() { p.waited <- p.cmd.Wait() }()
	_, at, _ := strings.Cut(line, "http://")
	at, _, ok := strings.Cut(at, "/")
	if !ok {
		return nil, fmt.Errorf("weir did not start: %w", errors.Join(err, p.end()))
	}
	p.url = "http://" + at
	return p, nil
}

// end stops Weir as an operator does.
func (p *process) end() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	p.client.CloseIdleConnections()
	return <-p.waited
}

// get asks one route and decodes the answer into v, unless that is nil.
func (p *process) get(ctx context.Context, path string, v any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		return err
	}
	return p.do(req, v)
}

// sql runs a statement.
func (p *process) sql(ctx context.Context, stmt string, v any) error {
	body, err := json.Marshal(map[string]string{"sql": stmt})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/api/v1/sql", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	return p.do(req, v)
}

func (p *process) do(req *http.Request, v any) error {
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", req.URL.Path, resp.Status, bytes.TrimSpace(b))
	}
	if v == nil {
		return nil
	}
	return json.Unmarshal(b, v)
}

// usage is the processor time that Weir and its query processes have used, those
// that have ended included. It is the scheduler's account, since ticks miss
// processes that run for less than one at a time.
func (p *process) usage() (own, children time.Duration) {
	pid := strconv.Itoa(p.cmd.Process.Pid)
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range all {
		f := stat(name)
		switch {
		case f == nil:
		case f[0] == pid:
			own += ran(pid)
			children += ticks(f[15]) + ticks(f[16])
		case f[3] == pid:
			children += ran(f[0])
		}
	}
	return own, children
}

// ran is how long the threads of a process have run.
func ran(pid string) (d time.Duration) {
	all, _ := filepath.Glob("/proc/" + pid + "/task/*/schedstat")
	for _, name := range all {
		b, _ := os.ReadFile(name)
		n, _, _ := strings.Cut(string(b), " ")
		ns, _ := strconv.ParseInt(n, 10, 64)
		d += time.Duration(ns)
	}
	return d
}

// stat gives the fields of a /proc/PID/stat; the second, a name with spaces, is
// left empty. It is nil when the process is gone.
func stat(name string) []string {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	pid, rest, ok := strings.Cut(string(b), " ")
	i := strings.LastIndex(rest, ") ")
	if !ok || i < 0 {
		return nil
	}
	f := append([]string{pid, ""}, strings.Fields(rest[i+2:])...)
	if len(f) < 17 {
		return nil
	}
	return f
}

func ticks(s string) time.Duration {
	n, _ := strconv.ParseInt(s, 10, 64)
	return time.Duration(n) * (time.Second / 100) // USER_HZ
}
