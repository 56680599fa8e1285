package appliance

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/checkpoint"
	"weir/duckext"
	"weir/queryable"
	"weir/state"
	"weir/state/plan"
)

// A witness travels with a query's context and keeps what its lease saw.
type witness struct {
	undecoded atomic.Int64 // among the newest records of sources that were read; they are not shown

	mu      sync.Mutex
	partial []string      // sources of which a part was shown: the answer is not whole
	present bool          // something was read as it is now
	views   []*state.View // materialized, read as they are now
	past    []queryable.Past
	then    []queryable.Position // of the views of past that were read
	were    []pastRef            // these views
	young   []string             // those of them that still read old records
}

// A pastRef is a view of a checkpoint.
type pastRef struct {
	checkpoint uint64
	view       string
}

type witnessKey struct{}

// withWitness gives a query a witness.
func withWitness(ctx context.Context) (context.Context, *witness) {
	w := new(witness)
	return context.WithValue(ctx, witnessKey{}, w), w
}

// witnessOf is the witness of a context, one that nobody asks if it has none.
func witnessOf(ctx context.Context) *witness {
	if w, ok := ctx.Value(witnessKey{}).(*witness); ok {
		return w
	}
	return new(witness)
}

func (w *witness) read(v *state.View) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.present = true
	w.views = append(w.views, v)
}

// readSource notes a source, of which there is only the present.
func (w *witness) readSource() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.present = true
}

// readPart notes that no more than a part of a source was shown.
func (w *witness) readPart(source string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.partial, source) {
		w.partial = append(w.partial, source)
		slices.Sort(w.partial)
	}
}

func (w *witness) parts() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.partial
}

// readPast notes a checkpoint, and a view of it unless it is nil.
func (w *witness) readPast(m *checkpoint.Manifest, v *checkpoint.View) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.ContainsFunc(w.past, func(p queryable.Past) bool { return p.ID == m.Checkpoint }) {
		w.past = append(w.past, queryable.Past{ID: m.Checkpoint, Epoch: m.Epoch, Savepoint: m.Savepoint})
	}
	if v == nil {
		return
	}
	w.were = append(w.were, pastRef{m.Checkpoint, v.Name})
	if wasBackfilling(m, v) {
		w.young = append(w.young, v.Name)
	}
	for _, p := range v.Positions {
		w.then = append(w.then, queryable.Position{Topic: p.Topic, Partition: p.Partition, Next: p.Next})
	}
}

// wasBackfilling says whether a view still read old records with a cursor of its own
// when a checkpoint was taken.
func wasBackfilling(m *checkpoint.Manifest, v *checkpoint.View) bool {
	return slices.ContainsFunc(m.Sources, func(s checkpoint.Source) bool { return s.ID == v.Source && s.Cursor != v.Cursor })
}

// answer says what was read. now is what the present would answer.
func (w *witness) answer(now queryable.Answer) queryable.Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.past) == 0 {
		return now
	}
	a := queryable.Answer{Past: slices.SortedFunc(slices.Values(w.past), func(a, b queryable.Past) int { return cmp.Compare(a.ID, b.ID) })}
	if w.present {
		a.Epoch, a.Positions = now.Epoch, now.Positions
		return a
	}
	a.Epoch = slices.MinFunc(w.past, func(a, b queryable.Past) int { return cmp.Compare(a.Epoch, b.Epoch) }).Epoch
	a.Positions = w.then
	return a
}

// backfilling are the views that were read and were not whole, then or now.
func (w *witness) backfilling(cat *state.Catalog) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := append(backfills(cat, w.views...), w.young...)
	slices.Sort(names)
	return slices.Compact(names)
}

// blame adds to a query's failure the first group of the views it read whose own
// result fails with the same message. DuckDB's message does not name it: it knows
// an expression, not a group. Both may be at fault, the query and the group, so the
// message claims no more than that the group is in error.
func (b backend) blame(ctx context.Context, w *witness, e *duckext.QueryError) error {
	if e.Code != duckext.CodeFailed {
		return e
	}
	w.mu.Lock()
	views, were := w.views, w.were
	w.mu.Unlock()
	found := func(p *plan.View, point, key string) error {
		return queryable.Errorf(queryable.BadRequest, "%s, which is also why the group %s of view %s%s is in error", e.Message, key, p.Name, point)
	}
	for _, v := range views {
		sn, err := b.snapshot()
		if err != nil {
			return e
		}
		show := func(ctx context.Context, rows arrow.RecordBatch) ([]arrow.Array, checkpoint.Finals, error) {
			return b.finals.results(ctx, v, rows)
		}
		key, why, err := failingGroup(ctx, sn, v.ID, &v.Plan, show, e.Message)
		sn.Close()
		if err == nil && why != "" {
			return found(&v.Plan, "", key)
		}
	}
	for _, r := range were {
		p, err := b.openPast(r.view, strconv.FormatUint(r.checkpoint, 10))
		if err != nil {
			continue // it is gone
		}
		key, why, err := b.failingThen(ctx, p, e.Message)
		if err := p.close(); err != nil {
			b.log.Warn("close checkpoint", "error", err)
		}
		if err == nil && why != "" {
			return found(&p.view.Plan, " in "+pointName(p.manifest), key)
		}
	}
	return e
}

func (b backend) failingThen(ctx context.Context, p pastView, message string) (key, why string, err error) {
	show, err := b.finals.shower(ctx, &p.view.Plan)
	if err != nil {
		return "", "", err
	}
	defer show.close()
	return failingGroup(ctx, p.table, state.ViewID(p.view.ID), &p.view.Plan, show.results, message)
}

// failingGroup finds the first group of a view whose results fail as a message
// says.
func failingGroup(ctx context.Context, from scans, id state.ViewID, p *plan.View,
	show func(context.Context, arrow.RecordBatch) ([]arrow.Array, checkpoint.Finals, error), message string,
) (key, why string, err error) {
	if len(computed(p)) == 0 && p.Visible == "" {
		return "", "", nil
	}
	in, err := from.Scan(ctx, state.ScanRequest{View: id, Mem: memory.DefaultAllocator})
	if err != nil {
		return "", "", err
	}
	defer in.Release()
	keys := make([]int, len(p.Keys)) // they come first
	for i := range keys {
		keys[i] = i
	}
	for in.Next() {
		rec := in.RecordBatch()
		plain := array.NewRecordBatch(arrow.NewSchema(rec.Schema().Fields(), nil), rec.Columns(), rec.NumRows())
		_, fs, err := show(ctx, plain)
		if err != nil {
			plain.Release()
			return "", "", err
		}
		for i, text := range fs.Errors {
			if text != "" && strings.Contains(message, text) {
				key, why = keyText(p, rec, keys, i), text
				break
			}
		}
		fs.Release()
		plain.Release()
		if why != "" {
			return key, why, nil
		}
	}
	return "", "", in.Err()
}
