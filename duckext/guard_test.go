//go:build duckdb_arrow

package duckext

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"weir/state/plan"
	"weir/state/sqltype"
)

const (
	guardVerb     = "duckext-test-guard-worker"
	evilGuardVerb = "duckext-test-evil-guard-"
)

// deepSQL crashes DuckDB 1.5.6 where n is some 100,000: json_structure recurses.
const deepSQL = "SELECT length(json_structure(repeat('[', n) || repeat(']', n))::VARCHAR) AS k, count(*) AS c FROM __input GROUP BY 1 ORDER BY 1"

const deep = 100_000

func newGuard(t *testing.T, verb string, wait time.Duration) *Guard {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	g := NewGuard(GuardOptions{Command: []string{exe, verb}, Timeout: wait})
	t.Cleanup(func() { g.Close() })
	return g
}

func (g *Guard) must(t *testing.T, sql, in, out string) *GuardProgram {
	t.Helper()
	p, err := g.Prepare(sql, plan.Relation{Name: "__input", Columns: fields(in)}, fields(out))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func bigints(vals ...int64) arrow.RecordBatch {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	b.AppendValues(vals, nil)
	return array.NewRecordBatch(insideSchema(fields("n BIGINT")), []arrow.Array{b.NewArray()}, int64(len(vals)))
}

// counts are the rows of deepSQL's result.
func counts(rec arrow.RecordBatch) [][2]int64 {
	var out [][2]int64
	for i := range int(rec.NumRows()) {
		out = append(out, [2]int64{rec.Column(0).(*array.Int64).Value(i), rec.Column(1).(*array.Int64).Value(i)})
	}
	return out
}

func TestGuardSurvivesACrash(t *testing.T) {
	g := newGuard(t, guardVerb, 0)
	p := g.must(t, deepSQL, "n BIGINT", "k BIGINT;c BIGINT")
	q := g.must(t, "SELECT sum(n)::BIGINT AS k, count(*) AS c FROM __input", "n BIGINT", "k BIGINT;c BIGINT")
	all := bigints(1, 2, 2, deep, 1)
	for range 2 {
		if _, err := p.Run(t.Context(), all); err == nil || !isCrash(err) || !strings.HasPrefix(err.Error(), "DuckDB crashed on this record: SIGSEGV") {
			t.Fatalf("the batch that crashes: %v", err)
		}
		got, err := p.Run(t.Context(), all.NewSlice(1, 3))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([][2]int64{{10, 2}}, counts(got)); d != "" {
			t.Error(d)
		}
		if got, err = q.Run(t.Context(), all.NewSlice(2, 5)); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([][2]int64{{2 + deep + 1, 3}}, counts(got)); d != "" {
			t.Error(d)
		}
	}
	if _, err := p.Run(t.Context(), all.NewSlice(3, 4)); !isCrash(err) {
		t.Errorf("the record alone: %v", err)
	}
	if out, err := p.Run(t.Context(), all.NewSlice(0, 0)); err != nil || out.NumRows() != 0 || out.NumCols() != 2 {
		t.Errorf("no rows: %v, %v", out, err)
	}
	if g.p == nil {
		t.Fatal("no process")
	}
	gone := g.p.gone
	p.Close()
	q.Close()
	if <-gone; g.p != nil { // a process is ended with its last program
		t.Error("the process is kept")
	}
}

func isCrash(err error) bool {
	_, ok := errors.AsType[*CrashError](err)
	return ok
}

func TestGuardErrorsKeepTheirKind(t *testing.T) {
	g := newGuard(t, guardVerb, 0)
	p := g.must(t, "SELECT CAST(s AS BIGINT) AS k FROM __input", "s VARCHAR", "k BIGINT")
	b := array.NewStringBuilder(memory.DefaultAllocator)
	b.AppendValues([]string{"1", "x"}, nil)
	rec := array.NewRecordBatch(insideSchema(fields("s VARCHAR")), []arrow.Array{b.NewArray()}, 2)
	_, err := p.Run(t.Context(), rec)
	if e, ok := errors.AsType[*EvalError](err); !ok || e.Kind != "Conversion" || !strings.Contains(e.Message, "'x'") {
		t.Errorf("a cast: %v", err)
	}
	p = g.must(t, "SELECT nothing FROM __input", "s VARCHAR", "k BIGINT")
	if _, err := p.Run(t.Context(), rec); err == nil || isCrash(err) || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("a statement that does not bind: %v", err)
	}
	g.Close()
	if _, err := p.Run(t.Context(), rec); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := g.Prepare("SELECT 1", plan.Relation{}, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("prepare after Close: %v", err)
	}
}

// Slices of every type come back as they went.
func TestGuardCarriesEveryType(t *testing.T) {
	e := openEngine(t)
	g := newGuard(t, guardVerb, 0)
	for typ, vals := range samples {
		typ := sqltype.MustParse(typ)
		col := []sqltype.Field{{Name: "v", Type: typ}}
		var sql strings.Builder
		for i, v := range append([]string{"NULL"}, vals...) {
			if i > 0 {
				sql.WriteString(" UNION ALL ")
			}
			sql.WriteString("SELECT CAST(" + v + " AS " + typeSQL(typ) + ") AS v")
		}
		in := evaluate(t, e, sql.String(), col)
		p, err := g.Prepare("SELECT v FROM __input", plan.Relation{Name: "__input", Columns: col}, col)
		if err != nil {
			t.Fatal(err)
		}
		for _, cut := range []arrow.RecordBatch{in, in.NewSlice(1, in.NumRows()), in.NewSlice(0, 1)} {
			out, err := p.Run(t.Context(), cut)
			if err != nil {
				t.Errorf("%s: %v", typ, err)
			} else if fmt.Sprint(cut) != fmt.Sprint(out) {
				t.Errorf("%s: %v came back as %v", typ, cut, out)
			}
		}
	}
}

func TestGuardStopsWhatDoesNotEnd(t *testing.T) {
	const endless = "SELECT count(*) AS k FROM __input, range(1000000000000) AS r(i) WHERE i % 3 = n"
	g := newGuard(t, guardVerb, 0)
	quick := g.must(t, "SELECT n AS k FROM __input", "n BIGINT", "k BIGINT")
	p := g.must(t, endless, "n BIGINT", "k BIGINT")
	if _, err := quick.Run(t.Context(), bigints(1)); err != nil { // the process starts in its own time
		t.Fatal(err)
	}
	if err := p.prepare(t.Context(), g.p); err != nil {
		t.Fatal(err)
	}
	g.o.Timeout = time.Second
	if _, err := p.Run(t.Context(), bigints(1, 2)); !isCrash(err) || !strings.Contains(err.Error(), "not done") {
		t.Errorf("a batch that takes too long: %v", err)
	}
	g = newGuard(t, guardVerb, 0)
	p = g.must(t, endless, "n BIGINT", "k BIGINT")
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	time.AfterFunc(100*time.Millisecond, func() { cancel(why) })
	if _, err := p.Run(ctx, bigints(1)); !errors.Is(err, why) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := p.Run(ctx, bigints(1)); !errors.Is(err, why) {
		t.Errorf("again: %v", err)
	}
}

// A process that is killed by somebody costs nothing between batches.
func TestGuardReplacesAProcess(t *testing.T) {
	g := newGuard(t, guardVerb, 0)
	p := g.must(t, deepSQL, "n BIGINT", "k BIGINT;c BIGINT")
	for range 3 {
		if out, err := p.Run(t.Context(), bigints(1)); err != nil || out.NumRows() != 1 {
			t.Fatal(out, err)
		}
		if err := syscall.Kill(g.p.cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-g.p.gone
	}
}

// evilGuard is a process that does not keep to the protocol.
func evilGuard(how string) int {
	control := os.NewFile(controlFD, "control")
	_, _, _ = readFrame(control, maxGuardFrame)
	if how == "start" {
		_ = writeFrame(control, 'x', nil)
		return exitFailed
	}
	_ = writeFrame(control, guardReady, nil)
	_, _, _ = readFrame(control, maxGuardFrame)
	_ = writeFrame(control, guardReady, nil)
	_, _, _ = readFrame(control, maxGuardFrame)
	switch how {
	case "huge":
		_, _ = control.Write(append(binary.LittleEndian.AppendUint32(nil, math.MaxUint32), guardData))
	case "empty":
		_ = writeFrame(control, guardData, nil)
	case "lies":
		_ = writeFrame(control, guardData, []byte("\xff\xff\xff\xff\x00\x00\x00\x00 lies"))
	case "junk":
		_ = writeFrame(control, guardFailed, []byte("{{"))
	case "broken":
		_ = writeJSON(control, guardFailed, guardFailedMsg{Engine: true, Kind: "INTERNAL", Message: "assertion", Fatal: true})
	}
	_, _, _ = readFrame(control, maxGuardFrame)
	return exitOK
}

func TestGuardTrustsNoAnswer(t *testing.T) {
	for _, how := range []string{"huge", "empty", "lies", "junk", "broken"} {
		p := newGuard(t, evilGuardVerb+how, 0).must(t, deepSQL, "n BIGINT", "k BIGINT;c BIGINT")
		if _, err := p.Run(t.Context(), bigints(1, 2)); !isCrash(err) {
			t.Errorf("%s: %v", how, err)
		}
	}
	p := newGuard(t, evilGuardVerb+"start", 0).must(t, deepSQL, "n BIGINT", "k BIGINT;c BIGINT")
	if _, err := p.Run(t.Context(), bigints(1)); err == nil || isCrash(err) {
		t.Errorf("a process that does not start blames a record: %v", err)
	}
	g := NewGuard(GuardOptions{Command: []string{"/nowhere/weir"}})
	if _, err := g.must(t, deepSQL, "n BIGINT", "k BIGINT;c BIGINT").Run(t.Context(), bigints(1)); err == nil || isCrash(err) {
		t.Errorf("no such program: %v", err)
	}
}

// BenchmarkGuard compares a usual batch under guard with one in this process.
func BenchmarkGuard(b *testing.B) {
	const sql = "SELECT k, count(*) AS c, sum(n)::BIGINT AS s FROM __input GROUP BY k"
	const rows = 65_536
	in, out := fields("k VARCHAR;n BIGINT"), fields("k VARCHAR;c BIGINT;s BIGINT")
	keys, nums := array.NewStringBuilder(memory.DefaultAllocator), array.NewInt64Builder(memory.DefaultAllocator)
	for i := range rows {
		keys.Append(fmt.Sprintf("a key of group %d", i%1000))
		nums.Append(int64(i))
	}
	batch := array.NewRecordBatch(insideSchema(in), []arrow.Array{keys.NewArray(), nums.NewArray()}, rows)
	run := func(p interface {
		Run(context.Context, arrow.RecordBatch) (arrow.RecordBatch, error)
	},
	) func(*testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				if got, err := p.Run(b.Context(), batch); err != nil || got.NumRows() != 1000 {
					b.Fatal(got, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
		}
	}
	e := openEngine(b)
	p, err := e.Prepare(b.Context(), sql, plan.Relation{Name: "__input", Columns: in}, out)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	b.Run("here", run(p))
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	g := NewGuard(GuardOptions{Command: []string{exe, guardVerb}})
	defer g.Close()
	q, err := g.Prepare(sql, plan.Relation{Name: "__input", Columns: in}, out)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("apart", run(q))
}
