package state

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// Fold merges a batch into the open epoch: all of it, or, when it returns an
// error, nothing. Batches of different cursors may fold at once.
//
// It checks everything that can be wrong before it changes a group: first the
// columns, outside the lock; then that the views are still the cursor's and
// that the positions go forward; then it makes the groups resident. After that
// only merges are left, which cannot fail: a sum that overflows puts its group
// in error.
func (s *Store) Fold(ctx context.Context, f Fold) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	encoded, err := s.encode(&f)
	defer func() {
		for _, k := range encoded {
			clear(k.merges) // they hold on to the batch
			s.keyed.Put(k)
		}
	}()
	if err != nil {
		return fmt.Errorf("fold of cursor %d: %w", f.Cursor, err)
	}
	full, err := s.fold(&f, encoded)
	if err != nil {
		return fmt.Errorf("fold of cursor %d: %w", f.Cursor, err)
	}
	if full {
		// The batch is in, also when the context has ended. Only a commit makes
		// room for the next one.
		if _, err := s.commit(nil); err != nil {
			return err
		}
		s.mu.Lock()
		s.shrink()
		s.mu.Unlock()
	}
	return nil
}

// encode is the part that needs no lock.
func (s *Store) encode(f *Fold) (encoded []*keyed, err error) {
	for _, p := range f.Partials {
		sh, ok := s.shapeOf(p.View)
		if !ok {
			return encoded, fmt.Errorf("view %d: %w", p.View, ErrStale)
		}
		k := s.keyed.Get().(*keyed)
		encoded = append(encoded, k)
		if err := sh.encode(p.Rows, k); err != nil {
			return encoded, fmt.Errorf("view %d: %w", p.View, err)
		}
	}
	return encoded, nil
}

func (s *Store) shapeOf(id ViewID) (*shape, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.views[id]; v != nil {
		return v.shape, true
	}
	return nil, false
}

func (s *Store) fold(f *Fold, encoded []*keyed) (full bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.err(); err != nil {
		return false, err
	}
	if err := s.check(f); err != nil {
		return false, err
	}
	fresh := make([]loaded, 0, len(f.Partials))
	for i, p := range f.Partials {
		l, err := s.reside(s.views[p.View], encoded[i])
		fresh = append(fresh, l)
		if err != nil {
			for j, l := range fresh {
				s.views[f.Partials[j].View].table.truncate(l.first)
			}
			return false, fmt.Errorf("view %d: %w", p.View, err)
		}
	}
	for i, p := range f.Partials {
		s.views[p.View].merge(encoded[i], fresh[i].added, s.openEpoch, s.newestMark())
		s.touched = s.touched || encoded[i].rows > 0
	}
	cur := s.cursors[f.Cursor]
	for _, p := range f.Positions {
		cur.at[partition{p.Topic, p.Partition}] = p
	}
	cur.records += f.Records
	cur.moved = cur.moved || len(f.Positions) > 0 || f.Records != 0
	s.pending = append(s.pending, s.news(f)...)
	s.behind = s.behind || f.Behind
	s.touched = s.touched || cur.moved || len(f.Refused) > 0
	return s.shrink(), nil
}

// check refuses a fold that does not fit the catalogue or the positions.
func (s *Store) check(f *Fold) error {
	cur := s.cursors[f.Cursor]
	if cur == nil {
		return fmt.Errorf("cursor: %w", ErrStale)
	}
	seen := map[ViewID]bool{}
	for _, p := range f.Partials {
		if v := s.views[p.View]; v == nil || v.cursor != f.Cursor || seen[p.View] {
			return fmt.Errorf("partials of view %d: %w", p.View, ErrStale)
		}
		seen[p.View] = true
	}
	for id, v := range s.views {
		if v.cursor == f.Cursor && !seen[id] {
			return fmt.Errorf("no partials of view %d: %w", id, ErrStale)
		}
	}
	for _, p := range f.Positions {
		old, ok := cur.at[partition{p.Topic, p.Partition}]
		if ok && !f.Reset && old.TopicID == p.TopicID && p.Next < old.Next {
			return fmt.Errorf("position %s/%d would go back from %d to %d and count records twice", p.Topic, p.Partition, old.Next, p.Next)
		}
	}
	for _, r := range f.Refused {
		if s.refused[r.Source] == nil {
			return fmt.Errorf("refused record of source %d: %w", r.Source, ErrStale)
		}
	}
	return nil
}

// loaded says which rows a fold made resident, and how many groups it added.
type loaded struct {
	first uint32
	added int64
}

// reside makes the groups of a batch resident. When all groups of the view are,
// a group that is not there is new, and Pebble need not be asked.
func (s *Store) reside(v *view, k *keyed) (loaded, error) {
	complete := int64(v.table.n) == v.stats.Groups
	l := loaded{first: v.table.resolve(k)}
	l.added = int64(v.table.n - l.first)
	if complete || l.added == 0 {
		return l, nil
	}
	rows := make([]uint32, 0, l.added)
	for r := l.first; r < v.table.n; r++ {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b uint32) int { return bytes.Compare(v.table.key(a), v.table.key(b)) })
	lower, upper := v.span(0, Slots)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return l, err
	}
	defer it.Close()
	key := v.prefix()
	for _, r := range rows {
		key = append(key[:4], v.table.key(r)...)
		if !it.SeekPrefixGE(key) {
			if err := it.Error(); err != nil {
				return l, err
			}
			continue
		}
		l.added--
		value, err := it.ValueAndErr()
		if err == nil {
			err = v.load(r, value)
		}
		if err != nil {
			return l, fmt.Errorf("group %x: %w", key[4:], err)
		}
	}
	return l, nil
}

// load reads a stored group into a row.
func (v *view) load(r uint32, value []byte) error {
	epoch, failed, msg, rest, err := readHeader(value)
	if err != nil {
		return err
	}
	if failed {
		v.table.errs[r] = string(msg)
	}
	v.table.setStored(r, epoch, len(value))
	return v.layout.Load(rest, &v.table.rows, r)
}

// merge adds the partials to their rows. marked is the newest mark: a row that
// changed after it is in the change index.
func (v *view) merge(k *keyed, added int64, open, marked uint64) {
	t := v.table
	v.stats.Groups += added
	v.moved = v.moved || k.rows > 0
	for _, r := range k.at[:k.rows] {
		w := &t.rows.Words[int(r)*t.rows.Stride+1]
		if last := *w >> 24; last != open {
			*w = open<<24 | *w&sizeMask
			if last <= marked {
				r |= unrecorded
			}
			t.dirty = append(t.dirty, r)
		}
	}
	for _, m := range k.merges {
		m(&t.rows, k.at[:k.rows], func(i int, msg string) {
			if _, ok := t.errs[k.at[i]]; !ok {
				t.errs[k.at[i]] = msg
				v.stats.Errors++
			}
		})
	}
}

// shrink evicts groups when they take more than the budget. It says whether
// groups that are not durable take more than that by themselves.
func (s *Store) shrink() (full bool) {
	total := int64(0)
	tables := make([]*view, 0, len(s.views))
	for _, v := range s.views {
		total += v.table.bytes()
		tables = append(tables, v)
	}
	if total <= s.o.Memory {
		return false
	}
	slices.SortFunc(tables, func(a, b *view) int { return int(min(max(b.table.bytes()-a.table.bytes(), -1), 1)) })
	goal := s.o.Memory / 4 * 3
	for _, v := range tables {
		size := v.table.bytes()
		if total <= goal || size < 1<<16 {
			break
		}
		v.table = v.table.evict(max(0, float64(size-(total-goal))/float64(size)), s.durable, s.openEpoch)
		total += v.table.bytes() - size
	}
	return total > s.o.Memory
}
