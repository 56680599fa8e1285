package state

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// A cut is a closed epoch on its way to Pebble.
type cut struct {
	epoch   uint64
	at      time.Time // when it was closed
	change  *change
	catalog *Catalog
	pub     *published // what readers will see, but for the Pebble snapshot
	cursors map[CursorID]cursorState
	stats   map[ViewID]ViewStats
	refused []Refused
	quarant map[SourceID]*refusedState

	marks    []mark
	marked   bool // this commit is the newest of them
	recorded map[ViewID]recorded

	groups []cutGroups
	buf    []byte // keys and values of the groups
	ents   []entry
	order  []ranked // of ents, once they are sorted
	spare  []ranked // for sorting
	index  []byte   // keys for the change index, of one view at a time
}

// cutGroups are the dirty groups of one view: entries from to to.
type cutGroups struct {
	view     ViewID
	from, to int
	record   bool // those with entry.record go into the change index
	wipe     bool // it no longer records the view
}

// An entry is a group in cut.buf: its key is buf[at:val], its value buf[val:end].
type entry struct {
	at, val, end int
	record       bool // in the change index
}

// A change is what a DDL commit does besides. apply edits a copy of the
// catalogue and the open epoch, with the lock held, and changes nothing when it
// fails; write adds to the batch.
type change struct {
	point string
	mark  bool // of the change index, and nothing else
	apply func(next *Catalog) error
	write func(b *pebble.Batch) error
}

// Commit makes the open epoch durable and shows it to readers. It returns the
// epoch that readers see, also when there was nothing to commit.
//
// An error means that the store is of no more use: what was folded may or may
// not be durable, and only opening the directory again tells.
func (s *Store) Commit(ctx context.Context) (epoch uint64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return s.commit(nil)
}

func (s *Store) commit(ch *change) (uint64, error) {
	s.committing.Lock()
	defer s.committing.Unlock()
	s.o.Hook(PointCommit)
	c, err := s.cut(ch)
	if err != nil {
		return 0, err
	}
	if c == nil {
		return s.Epoch(), nil
	}
	s.o.Hook(PointCut)
	if ch != nil {
		s.o.Hook(ch.point)
	}
	b := s.db.NewBatch(pebble.WithInitialSizeBytes(c.size()))
	if err := s.build(b, c); err != nil {
		s.fail(err)
		return 0, err
	}
	s.o.Hook(PointBuilt)
	n := int64(b.Len())
	if err := s.guard(func() error { return b.Commit(pebble.Sync) }); err != nil {
		s.fail(err)
		return 0, err
	}
	_ = b.Close() // returns no error that the commit did not
	s.o.Hook(PointCommitted)
	s.written.Add(n)
	s.publish(c)
	s.o.Hook(PointPublished)
	return c.epoch, nil
}

// cut closes the open epoch: it copies what changed and opens the next one, so
// that folds go on while this one is written. It returns nil when nothing did.
func (s *Store) cut(ch *change) (*cut, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.err(); err != nil {
		return nil, err
	}
	cat := s.cat
	if ch != nil && !ch.mark {
		cat = s.cat.clone()
		if err := ch.apply(cat); err != nil {
			return nil, err
		}
	} else if ch == nil && !s.touched {
		return nil, nil
	}
	c := &s.scratch
	*c = cut{
		epoch: s.openEpoch, at: time.Now().Truncate(time.Millisecond), change: ch, buf: c.buf[:0], ents: c.ents[:0], groups: c.groups[:0], order: c.order, spare: c.spare, index: c.index[:0],
		recorded: map[ViewID]recorded{}, cursors: map[CursorID]cursorState{}, stats: map[ViewID]ViewStats{}, refused: s.pending,
		quarant: map[SourceID]*refusedState{},
	}
	if cat != s.cat {
		c.catalog = cat
		s.cat = cat
	}
	for _, id := range slices.Sorted(maps.Keys(s.views)) {
		v := s.views[id]
		if v.moved {
			c.add(v, s.o.ChangeBytes)
			c.stats[id] = v.stats
			v.moved = false
		}
	}
	if ch != nil && ch.mark {
		s.newMark(c.epoch)
		c.marked = true
	}
	c.marks = s.marks
	for id, v := range s.views {
		if v.recorded != v.written {
			c.recorded[id], v.written = v.recorded, v.recorded
		}
	}
	for id, cur := range s.cursors {
		if cur.moved {
			c.cursors[id] = cur.state()
			cur.moved = false
		}
	}
	for i := range s.pending {
		id := s.pending[i].Source
		c.quarant[id] = s.refused[id]
	}
	c.pub = s.pub.next(c, cat, s.views, s.cursors)
	s.pending, s.touched = nil, false
	s.openEpoch++
	return c, nil
}

// add copies the dirty groups of a view. limit is Options.ChangeBytes.
func (c *cut) add(v *view, limit int64) {
	t := v.table
	from := len(c.ents)
	keys, bytes := int64(0), int64(0)
	for i, r := range t.dirty {
		if i%ahead == 0 {
			t.fetch(t.dirty[i:min(i+ahead, len(t.dirty))])
		}
		e := entry{at: len(c.buf), record: r&unrecorded != 0}
		r &^= unrecorded
		c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(v.id))
		c.buf = append(c.buf, t.key(r)...)
		e.val = len(c.buf)
		msg, failed := t.errs[r]
		c.buf = appendHeader(c.buf, c.epoch, failed, msg)
		c.buf = v.layout.Append(c.buf, &t.rows, r)
		e.end = len(c.buf)
		if old := t.size(r); old > 0 {
			v.stats.Bytes -= old
		} else {
			v.stats.Bytes += int64(e.val - e.at)
		}
		t.setStored(r, c.epoch, e.end-e.val)
		v.stats.Bytes += t.size(r)
		if e.record {
			keys++
			bytes += int64(e.val - e.at)
		}
		c.ents = append(c.ents, e)
	}
	t.dirty = t.dirty[:0]
	g := cutGroups{view: v.id, from: from, to: len(c.ents)}
	was := v.recorded.since != never
	g.record = v.record(keys, bytes, limit)
	g.wipe = was && !g.record
	c.groups = append(c.groups, g)
}

// build writes the cut into one batch, in the order of the keys: that is what
// makes Pebble fast.
func (s *Store) build(b *pebble.Batch, c *cut) error {
	if err := b.Set(sysKey(kindEpoch), encodeEpoch(c.epoch, c.at), nil); err != nil {
		return err
	}
	if c.catalog != nil {
		text, err := json.Marshal(c.catalog)
		if err != nil {
			return err
		}
		if err := b.Set(sysKey(kindCatalog), text, nil); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.cursors)) {
		if err := b.Set(sysKey(kindCursor, uint32(id)), c.cursors[id].encode(), nil); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.stats)) {
		if err := b.Set(sysKey(kindStats, uint32(id)), c.stats[id].encode(), nil); err != nil {
			return err
		}
	}
	for i := range c.refused {
		f := &c.refused[i]
		if err := c.quarant[f.Source].add(b, f, c.epoch, s.o.QuarantineBytes); err != nil {
			return err
		}
	}
	for id, q := range c.quarant {
		if err := b.Set(sysKey(kindQuarantine, uint32(id)), q.encode(), nil); err != nil {
			return err
		}
		c.pub.refused[id] = q.count()
	}
	if c.marked {
		if err := b.Set(sysKey(kindMarks), encodeMarks(c.marks), nil); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.recorded)) {
		if err := b.Set(sysKey(kindRecorded, uint32(id)), c.recorded[id].encode(), nil); err != nil {
			return err
		}
	}
	c.sort()
	for _, g := range c.groups {
		if err := c.writeChanged(b, g); err != nil {
			return err
		}
	}
	for _, o := range c.order {
		e := &c.ents[o.entry]
		if err := b.Set(c.buf[e.at:e.val], c.buf[e.val:e.end], nil); err != nil {
			return err
		}
	}
	if c.change != nil && c.change.write != nil {
		return c.change.write(b)
	}
	return nil
}

// writeChanged writes the share of a view in the change index.
func (c *cut) writeChanged(b *pebble.Batch, g cutGroups) error {
	if g.wipe {
		return wipeChanged(b, g.view)
	}
	c.index = c.index[:0]
	for _, o := range c.order[g.from:g.to] {
		if e := &c.ents[o.entry]; g.record && e.record {
			c.index = appendChanged(c.index, c.buf[e.at+4:e.val])
		}
	}
	if len(c.index) == 0 {
		return nil
	}
	return b.Set(changedKey(g.view, c.epoch), c.index, nil)
}

// publish shows a durable epoch to readers.
func (s *Store) publish(c *cut) {
	s.mu.Lock()
	s.durable = c.epoch
	s.mu.Unlock()
	c.pub.snap = s.db.NewSnapshot()
	s.pubMu.Lock()
	old, wake := s.pub, s.changed
	s.pub, s.changed = c.pub, make(chan struct{})
	s.pubMu.Unlock()
	close(wake)
	s.unref(old)
}
