package ingest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"weir/appliance/devbroker"
	"weir/state"
	"weir/state/agg"
	"weir/state/plan"
	"weir/state/sqltype"
)

// venom is the value on which the view picky cannot be evaluated.
const venom = 666

// engine sums column n. What happens on venom in a statement of picky is up to
// bad, and what it returns is Run's error.
type engine struct {
	bad func(context.Context) error

	mu     sync.Mutex
	open   int
	values []int64 // that picky's partial statement was given, halves and all
}

func (e *engine) Prepare(_ context.Context, sql string, _ plan.Relation, out []sqltype.Field) (Program, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open++
	return &enginePrepared{e, sql, out}, nil
}

func (e *engine) seen() (values []int64, open int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.values), e.open
}

type enginePrepared struct {
	e   *engine
	sql string
	out []sqltype.Field
}

func (p *enginePrepared) Close() error {
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	p.e.open--
	return nil
}

func (p *enginePrepared) Run(ctx context.Context, in arrow.RecordBatch) (arrow.RecordBatch, error) {
	vals := in.Column(0).(*array.Int64).Int64Values()
	if p.sql == "picky" {
		p.e.mu.Lock()
		p.e.values = append(p.e.values, vals...)
		p.e.mu.Unlock()
	}
	var sum int64
	for _, v := range vals {
		if v == venom && p.sql != "plain" {
			return nil, p.e.bad(ctx)
		}
		sum += v
	}
	return sumBatch(p.out[0], sum), nil
}

func sumBatch(f sqltype.Field, sum int64) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{f.Type.InsideField(f.Name)}, nil))
	defer b.Release()
	b.Field(0).(*array.Int64Builder).Append(sum)
	return b.NewRecordBatch()
}

// site is a broker with a topic of numbers, and directories that outlive the
// pipelines which run on them.
type site struct {
	t        *testing.T
	dir      string
	broker   *devbroker.Broker
	producer *devbroker.Producer
	sent     int64
	sum      int64 // of what was sent
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir()}
	var err error
	if s.broker, err = devbroker.Start(devbroker.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.broker.Close() })
	if s.producer, err = devbroker.NewProducer(devbroker.ProducerOptions{Brokers: []string{s.broker.Addr()}, Manual: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.producer.Close)
	if err := s.broker.CreateTopic(t.Context(), "numbers", 2, nil); err != nil {
		t.Fatal(err)
	}
	st := s.open()
	defer st.Close()
	n := field("n", "BIGINT")
	if _, err := st.CreateSource(state.Source{Name: "numbers", Columns: []sqltype.Field{n}, Options: map[string]string{"topic": "numbers"}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"picky", "plain"} {
		sum := field("__sum_n", "BIGINT")
		v := plan.View{
			Name: name, Source: "numbers", Partial: name, Inputs: []sqltype.Field{n}, Global: true,
			Accs: []plan.Accumulator{{Acc: agg.Acc{Name: sum.Name, Rule: agg.Add, Type: sum.Type}, Aggregate: "sum(n)", Partial: "sum(n)"}},
		}
		if name == "plain" {
			v.Accs[0].Partial = "never blamed"
		}
		if _, err := st.CreateView("CREATE "+name, v, false, sumBatch(sum, 0)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *site) open() *state.Store {
	s.t.Helper()
	st, err := state.Open(filepath.Join(s.dir, "state"), state.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

func (s *site) inflight() string { return filepath.Join(s.dir, "inflight") }

func (s *site) send(values ...int64) {
	s.t.Helper()
	var recs []*devbroker.Record
	for _, v := range values {
		recs = append(recs, &devbroker.Record{Topic: "numbers", Partition: int32(s.sent % 2), Value: fmt.Appendf(nil, `{"n":%d}`, v)})
		s.sent++
		s.sum += v
	}
	if err := s.producer.Send(s.t.Context(), recs...); err != nil {
		s.t.Fatal(err)
	}
}

// life is one process's.
type life struct {
	*site
	store *state.Store
	*Pipeline
	end func()
}

func (s *site) live(usual, careful Evaluator) *life {
	s.t.Helper()
	l := &life{site: s, store: s.open()}
	l.Pipeline = New(Options{Store: l.store, Evaluator: usual, Careful: careful, Inflight: s.inflight(), Brokers: s.broker.Addr(), Mem: memory.DefaultAllocator})
	ctx, cancel := context.WithCancel(s.t.Context())
	ran := make(chan error, 1)
	go func() { ran <- l.Run(ctx) }()
	l.end = sync.OnceFunc(func() {
		cancel()
		if err := <-ran; err != nil {
			s.t.Error("run:", err)
		}
		if err := l.store.Close(); err != nil {
			s.t.Error("close:", err)
		}
	})
	s.t.Cleanup(l.end)
	return l
}

// until looks again and again, for there is nothing to wait for.
func (l *life) until(what string, ok func() bool) {
	l.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(5 * time.Minute) // only ends a test that has failed
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			l.t.Fatal("waited too long: ", what)
		}
	}
}

// caughtUp waits until all that was sent is folded, and commits it.
func (l *life) caughtUp() {
	l.t.Helper()
	src := l.store.Catalog().Sources[0]
	l.until("all records are folded", func() bool {
		var n int64
		for _, at := range l.store.Positions(src.Cursor) {
			n += at.Next
		}
		return n == l.sent
	})
	if _, err := l.store.Commit(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
}

// outcome checks what is stored: everything counted once in plain, everything
// but venom in picky, and that record quarantined for picky alone.
func (l *life) outcome(refused ...string) {
	l.t.Helper()
	sn, err := l.store.Snapshot()
	if err != nil {
		l.t.Fatal(err)
	}
	defer sn.Close()
	sums := map[string]int64{}
	for _, v := range sn.Catalog().Views {
		r, err := sn.Scan(l.t.Context(), state.ScanRequest{View: v.ID})
		if err != nil {
			l.t.Fatal(err)
		}
		for r.Next() {
			sums[v.Plan.Name] += r.RecordBatch().Column(0).(*array.Int64).Value(0)
		}
		r.Release()
	}
	if d := cmp.Diff(map[string]int64{"plain": l.sum, "picky": l.sum - venom*int64(len(refused))}, sums); d != "" {
		l.t.Error(d)
	}
	recs, err := sn.Refused(sn.Catalog().Sources[0].ID, 0, 100)
	if err != nil {
		l.t.Fatal(err)
	}
	var got []string
	for _, r := range recs {
		v, _ := sn.Catalog().ViewByID(r.View)
		got = append(got, fmt.Sprintf("%s %d/%d %s: %s", v.Plan.Name, r.Partition, r.Offset, r.Column, r.Reason))
	}
	slices.Sort(got)
	if d := cmp.Diff(refused, got); d != "" {
		l.t.Error(d)
	}
}

func ones(n int) []int64 { return slices.Repeat([]int64{1}, n) }

// outside makes an EvalError of a crash, as Options.Careful does.
func outside() *engine {
	return &engine{bad: func(context.Context) error { return &EvalError{Message: "crashed", Crash: true} }}
}

func TestBatchThatKilledTheProcess(t *testing.T) {
	s := newSite(t)
	s.send(slices.Concat(ones(301), []int64{venom}, ones(400))...)
	// The first life ends while it evaluates venom: what the file holds then is
	// what the next one finds, and what was folded and not committed is lost.
	died := make(chan []byte, 1)
	usual := &engine{bad: func(ctx context.Context) error {
		b, err := os.ReadFile(s.inflight())
		if err != nil {
			t.Error(err)
		}
		died <- b
		<-ctx.Done()
		return ctx.Err()
	}}
	careful := outside()
	l := s.live(usual, careful)
	left := <-died
	l.end()
	if v, n := careful.seen(); len(v) != 0 || n != 0 {
		t.Errorf("without a note %d values were evaluated with care, %d programs are open", len(v), n)
	}
	f := mustOpenInflight(t, s.inflight(), everyCursor)
	if slices.ContainsFunc(f.slots, func(s *slot) bool { return s.left != nil }) {
		t.Error("a life that was ended gently leaves a note")
	}
	f.close()
	if err := os.WriteFile(s.inflight(), left, 0o600); err != nil {
		t.Fatal(err)
	}

	usual = &engine{bad: func(context.Context) error {
		t.Error("a suspect record was evaluated in this process")
		return errors.New("killed")
	}}
	l = s.live(usual, careful)
	l.caughtUp()
	l.outcome("picky 1/150 sum(n): crashed")
	for range trusted { // each is a batch, or more
		l.send(3)
		l.caughtUp()
	}
	before, _ := careful.seen()
	l.send(slices.Repeat([]int64{2}, 100)...)
	l.caughtUp()
	l.outcome("picky 1/150 sum(n): crashed")
	after, open := careful.seen()
	if !slices.Contains(before, 3) || len(after) != len(before) || open != 0 {
		t.Errorf("%d values evaluated with care, %d after more came; %d programs still open", len(before), len(after), open)
	}
	if v, _ := usual.seen(); len(v) < 100 || v[len(v)-1] != 2 {
		t.Errorf("what came later was not evaluated as usual: %d values", len(v))
	}
	l.end()

	careful = outside()
	l = s.live(usual, careful)
	l.send(ones(10)...)
	l.caughtUp()
	if v, _ := careful.seen(); len(v) != 0 {
		t.Errorf("the next life evaluated %d values with care", len(v))
	}
}

// A process that is killed over a sound batch has the same answers afterwards.
func TestKilledOverASoundBatch(t *testing.T) {
	s := newSite(t)
	s.send(ones(500)...)
	f := mustOpenInflight(t, s.inflight(), everyCursor)
	st := s.open()
	cursor := st.Catalog().Sources[0].Cursor
	st.Close()
	f.take(cursor).note(places(map[int32]int64{0: 100, 1: 120}))
	f.close()
	usual, careful := outside(), outside()
	l := s.live(usual, careful)
	l.caughtUp()
	l.outcome()
	l.until("no program is open", func() bool { _, open := careful.seen(); return open == 0 })
	if v, _ := careful.seen(); len(v) < 220 {
		t.Errorf("%d values evaluated with care", len(v))
	}
}

// An evaluation that fails, other than by refusing a value, leaves the source
// stopped; when it starts again, it does so with care.
func TestFailedBatchIsSuspect(t *testing.T) {
	s := newSite(t)
	s.send(slices.Concat(ones(10), []int64{venom}, ones(10))...)
	careful := outside()
	l := s.live(&engine{bad: func(context.Context) error { return errors.New("assertion failed") }}, careful)
	src := l.store.Catalog().Sources[0]
	l.until("the source stops", func() bool {
		st, _ := l.Status(&src)
		return st.State == Stopped && strings.Contains(st.Err.Error(), "assertion failed")
	})
	if len(killed(t, s.inflight())) != 1 {
		t.Error("no note of the batch that failed")
	}
	if err := l.Change(t.Context(), src.ID, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	l.caughtUp()
	l.outcome("picky 0/5 sum(n): crashed")
	if len(killed(t, s.inflight())) != 1 {
		t.Error("the note is gone before the cursor is trusted")
	}
	for range trusted {
		l.send(1)
		l.caughtUp()
	}
	l.until("the note is gone", func() bool { return len(killed(t, s.inflight())) == 0 })
}

// A batch that needs more memory than there is does not stop its source: it is
// evaluated again with care, at once.
func TestBatchBeyondMemory(t *testing.T) {
	s := newSite(t)
	s.send(slices.Concat(ones(10), []int64{venom}, ones(10))...)
	usual := &engine{bad: func(context.Context) error { return &MemoryError{errors.New("no memory")} }}
	l := s.live(usual, outside())
	l.caughtUp()
	l.outcome("picky 0/5 sum(n): crashed")
	l.send(ones(3)...)
	l.caughtUp()
	l.outcome("picky 0/5 sum(n): crashed")
	if v, _ := usual.seen(); !slices.Contains(v, venom) {
		t.Error("nothing was evaluated as usual")
	}
}

// With care there is no second chance.
func TestBatchBeyondAllMemory(t *testing.T) {
	s := newSite(t)
	s.send(venom)
	strained := &engine{bad: func(context.Context) error { return &MemoryError{errors.New("no memory")} }}
	l := s.live(strained, strained)
	src := l.store.Catalog().Sources[0]
	l.until("the source stops", func() bool {
		st, _ := l.Status(&src)
		return st.State == Stopped && strings.Contains(st.Err.Error(), "no memory")
	})
}

// That a process ends in good order because of what failed does not clear the
// batch of it.
func TestFailedBatchIsSuspectAfterAGentleEnd(t *testing.T) {
	s := newSite(t)
	s.send(slices.Concat(ones(10), []int64{venom}, ones(10))...)
	failing := make(chan struct{})
	l := s.live(&engine{bad: func(ctx context.Context) error {
		close(failing)
		<-ctx.Done()
		return errors.New("assertion failed")
	}}, outside())
	<-failing
	l.end()
	if len(killed(t, s.inflight())) != 1 {
		t.Error("no note of the batch that failed")
	}
	l = s.live(outside(), outside())
	l.caughtUp()
	l.outcome("picky 0/5 sum(n): crashed")
}

func TestNoFileNoCare(t *testing.T) {
	s := newSite(t)
	p := New(Options{Store: s.open(), Evaluator: outside(), Careful: outside(), Inflight: filepath.Join(s.dir, "no", "dir"), Brokers: s.broker.Addr(), Mem: memory.DefaultAllocator})
	defer p.o.Store.Close()
	if err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "batches under way") {
		t.Errorf("a file that cannot be made: %v", err)
	}
}
