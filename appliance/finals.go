package appliance

import (
	"context"
	"fmt"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/checkpoint"
	"weir/state"
	"weir/state/plan"
)

// finals keeps prepared result expressions, so that a look-up need not bind SQL.
type finals struct {
	from finalizer

	mu     sync.Mutex
	free   map[state.ViewID][]*final
	closed bool
}

// kept is how many idle programs of one view are kept, each a DuckDB connection.
const kept = 4

func newFinals(f finalizer) *finals { return &finals{from: f, free: map[state.ViewID][]*final{}} }

// computed are the results of a view that are not stored as they are.
func computed(v *plan.View) []int {
	var out []int
	for i, r := range v.Results {
		if r.Key < 0 && r.Acc < 0 {
			out = append(out, i)
		}
	}
	return out
}

// results computes the result columns of rows of state columns, in the order of
// v.Results, and says which rows pass HAVING and which failed.
func (f *finals) results(ctx context.Context, v *state.View, rows arrow.RecordBatch) (cols []arrow.Array, fs checkpoint.Finals, err error) {
	want := computed(&v.Plan)
	if len(want) > 0 || v.Plan.Visible != "" {
		p, err := f.take(ctx, v, want)
		if err != nil {
			return nil, fs, err
		}
		fs, err = p.Finalize(ctx, rows)
		f.put(v.ID, p)
		if err != nil {
			return nil, fs, fmt.Errorf("view %s: %w", v.Plan.Name, err)
		}
	}
	return resultColumns(&v.Plan, rows, fs), fs, nil
}

// resultColumns are the results of rows, in the order of p.Results.
func resultColumns(p *plan.View, rows arrow.RecordBatch, fs checkpoint.Finals) (cols []arrow.Array) {
	n := 0
	for _, r := range p.Results {
		switch {
		case r.Key >= 0:
			cols = append(cols, rows.Column(r.Key))
		case r.Acc >= 0:
			cols = append(cols, rows.Column(len(p.Keys)+r.Acc))
		default:
			cols = append(cols, fs.Results.Column(n))
			n++
		}
	}
	return cols
}

// A shower computes the results of a view that need not be in the catalogue, as
// checkpoints have them. It is used by one goroutine; close it.
type shower struct {
	plan *plan.View
	prog *final // nil when nothing is computed
}

func (f *finals) shower(ctx context.Context, p *plan.View) (*shower, error) {
	s := &shower{plan: p}
	want := computed(p)
	if len(want) == 0 && p.Visible == "" {
		return s, nil
	}
	var err error
	s.prog, err = f.from.prepare(ctx, p, want)
	return s, err
}

// results is what finals.results is for views of the catalogue.
func (s *shower) results(ctx context.Context, rows arrow.RecordBatch) (cols []arrow.Array, fs checkpoint.Finals, err error) {
	if s.prog != nil {
		if fs, err = s.prog.Finalize(ctx, rows); err != nil {
			return nil, fs, fmt.Errorf("view %s: %w", s.plan.Name, err)
		}
	}
	return resultColumns(s.plan, rows, fs), fs, nil
}

func (s *shower) close() {
	if s.prog != nil {
		s.prog.Close()
	}
}

func (f *finals) take(ctx context.Context, v *state.View, want []int) (*final, error) {
	f.mu.Lock()
	if l := f.free[v.ID]; len(l) > 0 {
		p := l[len(l)-1]
		f.free[v.ID] = l[:len(l)-1]
		f.mu.Unlock()
		return p, nil
	}
	f.mu.Unlock()
	return f.from.prepare(ctx, &v.Plan, want)
}

func (f *finals) put(id state.ViewID, p *final) {
	f.mu.Lock()
	if !f.closed && len(f.free[id]) < kept {
		f.free[id] = append(f.free[id], p)
		p = nil
	}
	f.mu.Unlock()
	if p != nil {
		p.Close()
	}
}

// drop frees the programs of views that are gone.
func (f *finals) drop(gone func(state.ViewID) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, l := range f.free {
		if gone(id) {
			for _, p := range l {
				p.Close()
			}
			delete(f.free, id)
		}
	}
}

func (f *finals) close() {
	f.drop(func(state.ViewID) bool { return true })
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
}

// isTrue reads a boolean of the inside form.
func isTrue(a arrow.Array, i int) bool {
	b, ok := a.(*array.Int8)
	return ok && b.IsValid(i) && b.Value(i) != 0
}
