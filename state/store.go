package state

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Errors that callers tell apart.
var (
	// ErrStale says that the views of a fold's cursor are not those that its
	// partials are for. Evaluate the batch again with the current catalogue.
	ErrStale = errors.New("the views of the cursor changed since the batch was evaluated")
	// ErrNotFound says that a name or an id is not in the catalogue.
	ErrNotFound = errors.New("not found")
	// ErrExists says that a name is taken.
	ErrExists = errors.New("already exists")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("the state store is closed")
)

// A Store is the state of one appliance. Its methods may be called from many
// goroutines.
//
// Three locks, taken in this order:
//
//	committing  held for the length of a commit: one is in flight at a time
//	mu          the open epoch: resident groups, positions, the next catalogue.
//	            Fold holds it, and a commit while it closes the epoch
//	pubMu       which epoch readers see, and how many hold it
type Store struct {
	o       Options
	lock    io.Closer
	db      *pebble.DB
	version uint64 // of the format, as it was found
	written atomic.Int64

	committing sync.Mutex
	scratch    cut // reused by commits

	mu        sync.Mutex
	cat       *Catalog // of the open epoch; the published one lags behind it
	views     map[ViewID]*view
	cursors   map[CursorID]*cursor
	refused   map[SourceID]*refusedState
	pending   []Refused // refused in the open epoch
	openEpoch uint64    // the epoch that folds enter
	durable   uint64
	touched   bool   // the open epoch holds something
	behind    bool   // what was folded of late was not all that a source has
	marks     []mark // of the change index, oldest first; replaced, never changed

	keyed sync.Pool // of *keyed

	pubMu   sync.Mutex
	pub     *published
	changed chan struct{}

	dead     chan struct{} // closed when the store failed
	failOnce sync.Once
	failure  error
	closed   bool // guarded by committing and mu
}

// A view is the part of a view that folds change.
type view struct {
	*shape
	cursor CursorID
	table  *table
	stats  ViewStats
	moved  bool // stats changed in the open epoch

	recorded recorded // in the change index, with the open epoch's share left out
	written  recorded // as it is stored
}

// A cursor is the open epoch's positions.
type cursor struct {
	at      map[partition]Position
	records int64
	moved   bool
}

type partition struct {
	topic string
	id    int32
}

func newCursor(c cursorState) *cursor {
	n := &cursor{at: map[partition]Position{}, records: c.records}
	for _, p := range c.positions {
		n.at[partition{p.Topic, p.Partition}] = p
	}
	return n
}

func (c *cursor) state() cursorState {
	return cursorState{slices.SortedFunc(maps.Values(c.at), comparePositions), c.records}
}

// Written is how many bytes commits have written since the store was opened: keys
// and values of the groups that changed, before compression, and positions, refused
// records and the change index besides. A group counts in every commit that changes it.
func (s *Store) Written() int64 { return s.written.Load() }

func newStore(o Options, lock io.Closer) *Store {
	return &Store{
		o: o, lock: lock, changed: make(chan struct{}), dead: make(chan struct{}),
		views: map[ViewID]*view{}, cursors: map[CursorID]*cursor{}, refused: map[SourceID]*refusedState{},
		keyed: sync.Pool{New: func() any { return new(keyed) }},
	}
}

// recover reads what the last commit left.
func (s *Store) recover() error {
	first := &published{
		cursors: map[CursorID]cursorState{}, stats: map[ViewID]ViewStats{},
		refused: map[SourceID]RefusedCount{}, shapes: map[ViewID]*shape{}, recorded: map[ViewID]recorded{}, refs: 1,
	}
	for _, span := range [][2]byte{{0, kindRefused}, {kindMarks, kindChanged}} {
		if err := s.recoverKeys(first, span[0], span[1]); err != nil {
			return err
		}
	}
	if s.cat == nil {
		return errors.New("there is no catalogue: not a state directory of this program")
	}
	for i := range s.cat.Views {
		v := &s.cat.Views[i]
		if err := s.addView(v); err != nil {
			return err
		}
		s.views[v.ID].stats = first.stats[v.ID]
		if r, ok := first.recorded[v.ID]; ok {
			s.views[v.ID].recorded, s.views[v.ID].written = r, r
		}
		first.shapes[v.ID] = s.views[v.ID].shape
	}
	for i := range s.cat.Sources {
		s.addCursor(s.cat.Sources[i].Cursor, first.cursors)
		if id := s.cat.Sources[i].ID; s.refused[id] == nil {
			s.refused[id] = newRefusedState()
		}
	}
	for i := range s.cat.Views {
		s.addCursor(s.cat.Views[i].Cursor, first.cursors)
	}
	if s.version < formatVersion {
		if err := s.db.Set(sysKey(kindFormat), binary.AppendUvarint(nil, formatVersion), pebble.Sync); err != nil {
			return err
		}
	}
	first.catalog, first.epoch, first.marks = s.cat, s.durable, s.marks
	first.snap = s.db.NewSnapshot()
	s.pub, s.openEpoch = first, s.durable+1
	return nil
}

func (s *Store) recoverKeys(p *published, from, to byte) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: sysKey(from), UpperBound: sysKey(to)})
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if err := s.recoverKey(p, it.Key(), it.Value()); err != nil {
			return fmt.Errorf("system key %x: %w", it.Key(), err)
		}
	}
	return it.Error()
}

func (s *Store) recoverKey(p *published, key, value []byte) (err error) {
	if len(key) < 5 {
		return errors.New("too short")
	}
	id := uint32(0)
	if len(key) >= 9 {
		id = binary.BigEndian.Uint32(key[5:])
	}
	switch key[4] {
	case kindFormat:
		v, n := binary.Uvarint(value)
		if n <= 0 || v < 1 || v > formatVersion {
			return fmt.Errorf("format version %d; this program reads versions 1 to %d: use the version of Weir that wrote it, or a newer one", v, formatVersion)
		}
		s.version = v
	case kindEpoch:
		s.durable, p.at, err = decodeEpoch(value)
	case kindCatalog:
		s.cat = new(Catalog)
		return json.Unmarshal(value, s.cat)
	case kindCursor:
		p.cursors[CursorID(id)], err = decodeCursor(value)
	case kindStats:
		p.stats[ViewID(id)], err = decodeStats(value)
	case kindQuarantine:
		q, err := decodeRefusedState(value)
		if err != nil {
			return err
		}
		s.refused[SourceID(id)] = &q
		p.refused[SourceID(id)] = q.count()
	case kindMarks:
		s.marks, err = decodeMarks(value)
	case kindRecorded:
		p.recorded[ViewID(id)], err = decodeRecorded(value)
	default:
		return errors.New("unknown kind")
	}
	return err
}

func (s *Store) addView(v *View) error {
	sh, err := newShape(v.ID, &v.Plan)
	if err != nil {
		return err
	}
	s.views[v.ID] = &view{shape: sh, cursor: v.Cursor, table: newTable(sh.layout), recorded: recorded{since: never}, written: recorded{since: never}}
	return nil
}

func (s *Store) addCursor(id CursorID, from map[CursorID]cursorState) {
	if s.cursors[id] == nil {
		s.cursors[id] = newCursor(from[id])
	}
}

// fail poisons the store: what memory holds will not become durable. Fatal comes
// before calls are told, so that none of them ends the process in another way.
func (s *Store) fail(err error) {
	s.failOnce.Do(func() {
		s.failure = err
		s.o.Logger.Error("the state store failed; restart to go on from the last commit", "error", err)
		s.o.Fatal(err.Error())
		close(s.dead)
	})
}

// err is why the store takes no more calls, or nil.
func (s *Store) err() error {
	select {
	case <-s.dead:
		return s.failure
	default:
		return nil
	}
}

// guard runs f, which writes through Pebble, and gives up on it when the disk
// failed: Pebble's goroutines then stop for ever.
func (s *Store) guard(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-s.dead:
		return s.failure
	}
}

// Run commits until the context ends, and then once more. Commits begin an
// interval apart. While a source is behind, the store rests for as long as it
// worked, if that is longer: folding many records into a group before it is written
// is what makes commits cheap, and then readers wait for old records anyway.
func (s *Store) Run(ctx context.Context) error {
	timer := time.NewTimer(s.o.Interval)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.dead:
			return s.failure
		case <-ctx.Done():
			_, err := s.Commit(context.WithoutCancel(ctx))
			return err
		}
		start := time.Now()
		if _, err := s.Commit(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		took := time.Since(start)
		rest := s.o.Interval - took
		if s.wasBehind() {
			rest = max(rest, min(took, 4*s.o.Interval))
		}
		timer.Reset(rest)
	}
}

// wasBehind says whether a fold since the last call was of a source that is behind.
func (s *Store) wasBehind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.behind
	s.behind = false
	return was
}

// Close gives the directory free. What was folded since the last commit is
// lost, and will be read again from the stored positions. Readers must be done.
func (s *Store) Close() error {
	s.committing.Lock()
	defer s.committing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.closed = true
	if s.err() == nil {
		s.fail0(ErrClosed)
		s.unref(s.pub)
	} else {
		return s.lock.Close() // Pebble's locks may be held for ever
	}
	return s.release()
}

// fail0 ends the store without alarm.
func (s *Store) fail0(err error) {
	s.failOnce.Do(func() {
		s.failure = err
		close(s.dead)
	})
}

func (s *Store) release() error {
	var errs []error
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// Positions are where the cursor stands with all that was folded, committed or
// not, sorted by topic and partition.
func (s *Store) Positions(c CursorID) []Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cur := s.cursors[c]; cur != nil {
		return cur.state().positions
	}
	return nil
}
