//go:build duckdb_arrow

package appliance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/queryable/client"
	"weir/state"
)

var (
	killsFlag    = flag.Int("kills", 3, "how often TestKill kills the appliance")
	killSeedFlag = flag.Uint64("kill-seed", 1, "seed of TestKill; 0 takes the clock's")
)

// patience bounds what anything may take, a victim's start too. It only ends a
// test that has failed.
const patience = 3 * time.Minute

// TestKill kills an appliance with SIGKILL again and again, half of the times at
// named points inside the store, while records keep coming, views are created
// and dropped, and now and then it is stopped gently or restored from a
// checkpoint. In the end every group of every view and every quarantined record
// must be as DuckDB has it from the committed records.
func TestKill(t *testing.T) {
	seed := *killSeedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d (-kill-seed)", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	b := newBed(t)
	for _, topic := range []string{"orders", "visits"} {
		b.topic(topic, shopPartitions)
	}
	w := &shopWriter{
		plain: b.plain, txn: b.producer("shop"), r: rand.New(rand.NewPCG(seed, 2)),
		pace: 10*time.Millisecond + time.Duration(*killsFlag)*200*time.Microsecond,
	}
	ctx, stopWriting := context.WithCancel(t.Context())
	wrote := make(chan error, 1)
	go func() { wrote <- w.run(ctx) }()

	k := &killer{t: t, r: r, brokers: b.broker.Addr(), data: b.dir, fired: map[string]int{}}
	for i, step := range schedule(*killsFlag, r) {
		k.step(step)
		if t.Failed() {
			t.Fatalf("seed %d, step %d: %+v", seed, i, step)
		}
	}
	stopWriting()
	if err := <-wrote; err != nil {
		t.Fatal("produce:", err)
	}

	// It catches up by itself and ends well.
	v := k.start(victimSpec{UntilCaughtUp: true})
	if err := v.exit(patience); err != nil {
		t.Fatalf("run until caught up: %v\n%s", err, v.log())
	}
	b.dir = k.data
	b.must(shopSQL)
	for _, sql := range []string{lateSQL, "DROP MATERIALIZED VIEW IF EXISTS doomed"} {
		b.query(sql)
	}
	b.caughtUp()
	log := w.records()
	j := newJudge(t, log)
	var groups, refused int64
	for _, stored := range b.run.store.Catalog().Views {
		name := stored.Plan.Name
		got := j.view(b.run.Appliance, name)
		groups += got.compared
		if !got.clean() {
			t.Errorf("view %s: %s", name, got)
		}
	}
	for _, source := range []string{"orders", "visits"} {
		got := j.quarantine(b.run.Appliance, source, log)
		refused += got.compared
		if !got.clean() {
			t.Errorf("quarantine of %s: %s", source, got)
		}
	}
	if groups < 300 || refused < 1 {
		t.Errorf("only %d groups and %d refused records: the test shows nothing", groups, refused)
	}
	for _, stored := range b.run.store.Catalog().Views {
		b.verified(stored.Plan.Name)
	}
	t.Logf("%d kills at random, at points %v, %d gentle stops, %d restores; %d records and %d aborted, %d groups and %d refused records compared",
		k.random, k.fired, k.stops, k.restores, len(log), w.aborted, groups, refused)
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
}

// What a step does to the appliance.
const (
	killRandom = "kill at random"
	killPoint  = "kill at a point"
	stopGently = "SIGTERM"
	restore    = "restore"
)

type killStep struct {
	what  string
	point string
	hit   int64
}

// schedule is kills steps that kill, half of them at a point, and gentle stops
// and restores between them. Points come in turn, so that each has had its turn
// when there are enough.
func schedule(kills int, r *rand.Rand) []killStep {
	points := []string{
		state.PointBuilt, state.PointCommitted, state.PointCut, state.PointCommit, state.PointPublished,
		state.PointCatalog, state.PointJoin, state.PointDrop,
	}
	var steps []killStep
	if kills > 20 { // while the directory is being made
		for _, p := range []string{state.PointCreate, state.PointCreated, state.PointRenamed} {
			steps = append(steps, killStep{killPoint, p, 1})
		}
	}
	for n := 0; len(steps) < kills; n++ {
		if n%2 == 1 {
			steps = append(steps, killStep{what: killRandom})
			continue
		}
		p := points[n/2%len(points)]
		hit := int64(1 + r.IntN(12))
		if strings.HasSuffix(p, ".change") {
			hit = 1
		}
		steps = append(steps, killStep{killPoint, p, hit})
	}
	var all []killStep
	for i, s := range steps {
		all = append(all, s)
		if strings.HasPrefix(s.point, "create.") {
			continue // the directory is to be made by the next life
		}
		if i%5 == 1 {
			all = append(all, killStep{what: stopGently})
		}
		if i%7 == 2 {
			all = append(all, killStep{what: restore})
		}
	}
	return all
}

// Views that come and go while records do.
const (
	lateSQL   = "CREATE MATERIALIZED VIEW IF NOT EXISTS late AS SELECT city, count(*) AS n, sum(price) AS revenue FROM orders GROUP BY city"
	doomedSQL = "CREATE MATERIALIZED VIEW IF NOT EXISTS doomed AS SELECT page, count(*) AS n FROM visits GROUP BY page"
	flipSQL   = "CREATE MATERIALIZED VIEW IF NOT EXISTS flip AS SELECT price, max(x) AS x, count(*) AS n FROM orders GROUP BY price"
)

// killer runs victims one after the other on one data directory.
type killer struct {
	t             *testing.T
	r             *rand.Rand
	brokers, data string
	n             int
	random        int
	fired         map[string]int
	stops         int
	restores      int
}

// victimProcess is an appliance in a process of its own.
type victimProcess struct {
	cmd    *exec.Cmd
	addr   chan string
	exited chan struct{}
	err    error // of the process, once exited is closed

	mu     sync.Mutex
	output bytes.Buffer
}

func (v *victimProcess) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.output.Write(p)
}

// log is the end of what it wrote.
func (v *victimProcess) log() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.output.String()
	return s[max(0, len(s)-4000):]
}

func (k *killer) start(spec victimSpec) *victimProcess {
	k.t.Helper()
	spec.Data, spec.Brokers, spec.SQL = k.data, k.brokers, shopSQL
	return startVictim(k.t, spec)
}

func startVictim(t *testing.T, spec victimSpec) *victimProcess {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	v := &victimProcess{cmd: exec.CommandContext(t.Context(), exe), addr: make(chan string, 1), exited: make(chan struct{})}
	v.cmd.Env = append(os.Environ(), victimEnv+"="+string(text))
	v.cmd.Stderr = v
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		lines := bufio.NewScanner(io.TeeReader(out, v))
		for lines.Scan() {
			if rest, ok := strings.CutPrefix(lines.Text(), "Weir listens on http://"); ok {
				addr, _, _ := strings.Cut(rest, "/")
				v.addr <- addr
			}
		}
		v.err = v.cmd.Wait()
		close(v.exited)
	}()
	return v
}

// exit waits for the end of the process and gives its error.
func (v *victimProcess) exit(wait time.Duration) error {
	select {
	case <-v.exited:
		return v.err
	case <-time.After(wait):
		return errors.New("it did not end")
	}
}

// listening waits until the appliance serves; ok is false when it ended first.
func (v *victimProcess) listening(t *testing.T) (c *client.Client, ok bool) {
	t.Helper()
	select {
	case addr := <-v.addr:
		c, err := client.New(addr, "")
		if err != nil {
			t.Fatal(err)
		}
		return c, true
	case <-v.exited:
		return nil, false
	case <-time.After(patience):
		t.Fatalf("the appliance does not start:\n%s", v.log())
		return nil, false
	}
}

// killed says whether the process ended by SIGKILL.
func (v *victimProcess) killed() bool {
	if v.cmd.ProcessState == nil {
		return false // it runs yet
	}
	ws, ok := v.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
}

// step runs one life of the appliance.
func (k *killer) step(s killStep) {
	k.t.Helper()
	k.n++
	spec := victimSpec{Point: s.point, Hit: s.hit, Fired: filepath.Join(k.t.TempDir(), "fired")}
	v := k.start(spec)
	if s.what == killRandom && k.r.IntN(4) == 0 {
		k.wait(v, 400) // it may not even serve yet
		k.kill(v)
		k.random++
		return
	}
	c, ok := v.listening(k.t)
	if ok {
		k.change(c, v, s)
	} else if s.what != killPoint {
		k.t.Errorf("the appliance ended by itself: %v\n%s", v.err, v.log())
		return
	}
	switch s.what {
	case killRandom:
		k.wait(v, 500)
		k.kill(v)
		k.random++
	case killPoint:
		if err := v.exit(patience); err == nil || !v.killed() {
			k.t.Errorf("point %s: the process ended with %v\n%s", s.point, err, v.log())
			v.cmd.Process.Kill()
			return
		}
		proof, err := os.ReadFile(spec.Fired)
		if want := fmt.Sprintf("%s@%d", s.point, s.hit); err != nil || string(proof) != want {
			k.t.Errorf("point %s did not fire: %q, %v\n%s", s.point, proof, err, v.log())
		}
		k.fired[s.point]++
	case stopGently:
		k.wait(v, 300)
		began := time.Now()
		if err := v.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			k.t.Fatal(err)
		}
		if err := v.exit(patience); err != nil {
			k.t.Errorf("SIGTERM after %s: %v\n%s", time.Since(began), err, v.log())
		}
		k.stops++
	case restore:
		if _, err := c.Query(k.t.Context(), "CHECKPOINT"); err != nil {
			k.t.Errorf("checkpoint: %v\n%s", err, v.log())
		}
		k.wait(v, 300) // what comes after it is read again
		k.kill(v)
		k.restore()
	}
}

// wait lets some time go by, up to so many milliseconds: when a kill comes is
// left to chance.
func (k *killer) wait(v *victimProcess, ms int) {
	select {
	case <-v.exited:
	case <-time.After(time.Duration(k.r.IntN(ms*1000)) * time.Microsecond):
	}
}

func (k *killer) kill(v *victimProcess) {
	k.t.Helper()
	if err := v.cmd.Process.Kill(); err != nil {
		k.t.Errorf("kill: %v\n%s", err, v.log())
	}
	if err := v.exit(patience); err == nil || !v.killed() {
		k.t.Errorf("killed, and yet: %v\n%s", err, v.log())
	}
}

// change creates and drops views over HTTP. The process may be killed on the
// way; any other failure is one.
func (k *killer) change(c *client.Client, v *victimProcess, s killStep) {
	k.t.Helper()
	stmts := []string{doomedSQL}
	if k.n > 1 {
		stmts = []string{lateSQL, "DROP MATERIALIZED VIEW IF EXISTS doomed"}
	}
	switch {
	case s.point == state.PointJoin, s.point == state.PointCatalog, s.point == state.PointDrop:
		// A view that is new: it is created, reads old records, joins, and goes.
		stmts = append(stmts, "DROP MATERIALIZED VIEW IF EXISTS flip", flipSQL, "DROP MATERIALIZED VIEW IF EXISTS flip", flipSQL)
	case k.r.IntN(3) == 0:
		stmts = append(stmts, flipSQL)
	case k.r.IntN(3) == 0:
		stmts = append(stmts, "DROP MATERIALIZED VIEW IF EXISTS flip")
	}
	for _, sql := range stmts {
		ctx, cancel := context.WithTimeout(k.t.Context(), patience)
		_, err := c.Query(ctx, sql)
		cancel()
		if err == nil {
			continue
		}
		if _, refused := errors.AsType[*client.Error](err); refused || s.what != killPoint {
			k.t.Errorf("%s: %v\n%s", sql, err, v.log())
		}
		return
	}
}

// restore makes a new data directory of the newest checkpoint, and goes on there.
func (k *killer) restore() {
	k.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(k.data, checkpointsDir, "[0-9]*"))
	if err != nil || len(dirs) == 0 {
		k.t.Fatalf("no checkpoint in %s: %v", k.data, err)
	}
	fresh := k.t.TempDir()
	var out, errs bytes.Buffer
	if code := run([]string{"restore", "--from", slices.Max(dirs), "--data", fresh}, streams{nil, &out, &errs}); code != exitOK {
		k.t.Fatalf("restore: exit %d: %s", code, errs.String())
	}
	k.data = fresh
	k.restores++
}
