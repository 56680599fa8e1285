package appliance

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/queryable"
	"weir/state"
	"weir/state/codec"
	"weir/state/plan"
)

// findPast finds groups by key in what has no index but that of slots: it reads the
// slots of the keys. keys holds one wanted key a row, its columns named as the
// view's; only the time key may be missing. The answer is by row: the groups'
// state columns and __error, at most limit groups a key. The caller releases them.
func findPast(ctx context.Context, from scans, id state.ViewID, p *plan.View, keys arrow.RecordBatch, limit int) (found [][]arrow.RecordBatch, err error) {
	w, err := newWanted(p, keys)
	if err != nil {
		return nil, err
	}
	found = make([][]arrow.RecordBatch, keys.NumRows())
	defer func() {
		if err != nil {
			releaseAll(found)
			found = nil
		}
	}()
	n := make([]int, len(found))
	for _, slot := range w.slots {
		err := w.readSlot(ctx, from, id, slot, func(rec arrow.RecordBatch, row int, want int) {
			if n[want] < limit {
				n[want]++
				found[want] = append(found[want], rec.NewSlice(int64(row), int64(row)+1))
			}
		})
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

func releaseAll(found [][]arrow.RecordBatch) {
	for _, recs := range found {
		for _, r := range recs {
			r.Release()
		}
	}
}

// A wanted knows the keys that are looked for.
type wanted struct {
	plan  *plan.View
	given []int // key columns of the view that the keys name
	slots []int // to read, in order
	rows  map[string][]int
}

func newWanted(p *plan.View, keys arrow.RecordBatch) (*wanted, error) {
	w := &wanted{plan: p, rows: map[string][]int{}}
	cols := make([]arrow.Array, len(p.Keys))
	for i, k := range p.Keys {
		if at := keys.Schema().FieldIndices(k.Name); len(at) == 1 {
			cols[i] = keys.Column(at[0])
			w.given = append(w.given, i)
			continue
		}
		if i != timeKey(p) {
			return nil, queryable.Errorf(queryable.BadRequest, "key column %s of %s is missing", k.Name, p.Name)
		}
		// The slot does not depend on it.
		cols[i] = array.MakeArrayOfNull(memory.DefaultAllocator, k.Type.Inside(), int(keys.NumRows()))
		defer cols[i].Release()
	}
	keyer, err := state.NewKeyer(p)
	if err != nil {
		return nil, err
	}
	stored, err := keyer.Bind(cols)
	if err != nil {
		return nil, err
	}
	key, err := w.bind(cols)
	if err != nil {
		return nil, err
	}
	for row := range int(keys.NumRows()) {
		w.slots = append(w.slots, int(stored(nil, row)[0]))
		text := string(key(nil, row))
		w.rows[text] = append(w.rows[text], row)
	}
	slices.Sort(w.slots)
	w.slots = slices.Compact(w.slots)
	return w, nil
}

// bind makes what encodes the given columns of a row.
func (w *wanted) bind(keys []arrow.Array) (codec.Appender, error) {
	var parts []codec.Appender
	for _, i := range w.given {
		e, err := codec.NewKeyEncoder(w.plan.Keys[i].Type).Bind(keys[i])
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", w.plan.Keys[i].Name, err)
		}
		parts = append(parts, e)
	}
	return func(dst []byte, row int) []byte {
		for _, p := range parts {
			dst = p(dst, row)
		}
		return dst
	}, nil
}

// readSlot calls f with the rows of a slot that are wanted, and for whom. The batch
// is valid during the call.
func (w *wanted) readSlot(ctx context.Context, from scans, id state.ViewID, slot int, f func(rec arrow.RecordBatch, row, want int)) error {
	all := make([]int, len(w.plan.Keys)+len(w.plan.Accs))
	for i := range all {
		all[i] = i
	}
	in, err := from.Scan(ctx, state.ScanRequest{View: id, Columns: all, Extra: state.Extra{Error: true}, FromSlot: slot, ToSlot: slot + 1, Mem: memory.DefaultAllocator})
	if err != nil {
		return err
	}
	defer in.Release()
	var buf []byte
	for in.Next() {
		rec := in.RecordBatch()
		key, err := w.bind(rec.Columns()[:len(w.plan.Keys)])
		if err != nil {
			return err
		}
		for row := range int(rec.NumRows()) {
			buf = key(buf[:0], row)
			for _, want := range w.rows[string(buf)] {
				f(rec, row, want)
			}
		}
	}
	return in.Err()
}

// lookupPast finds groups by key in a checkpoint.
func (b backend) lookupPast(ctx context.Context, r queryable.LookupRequest) (*queryable.Groups, error) {
	p, err := b.openPast(r.View, r.At)
	if err != nil {
		return nil, err
	}
	defer p.close()
	found, err := findPast(ctx, p.table, state.ViewID(p.view.ID), &p.view.Plan, r.Keys, r.Limit+1)
	if err != nil {
		return nil, err
	}
	defer releaseAll(found)
	w := p.witness()
	g := &queryable.Groups{Answer: w.answer(queryable.Answer{}), Backfilling: w.young}
	var rows []arrow.RecordBatch
	for i, recs := range found {
		for _, rec := range recs {
			if len(rows) == r.Limit {
				g.More = true
				break
			}
			rows = append(rows, rec)
			g.Wanted = append(g.Wanted, i)
		}
	}
	show, err := b.finals.shower(ctx, &p.view.Plan)
	if err != nil {
		return nil, err
	}
	defer show.close()
	return g, present(ctx, &p.view.Plan, show.results, r.Accumulators, rows, g)
}
