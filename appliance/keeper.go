package appliance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/checkpoint"
	"weir/checkpoint/objectstore"
	"weir/duckext"
	"weir/internal/atomicfile"
	"weir/queryable"
	"weir/state"
)

// keepCheckpoints is the default of --checkpoint-keep.
const keepCheckpoints = checkpoint.Keep

// smallView is the number of groups below which a checkpoint has a view as one
// file: docs/format.md says so.
const smallView = 10_000

// afterFailure is how long after a checkpoint that failed volume asks for no other.
const afterFailure = time.Minute

// keeping says when checkpoints are taken and which stay.
type keeping struct {
	every   time.Duration
	records int64 // also after so many records; 0: never
	bytes   int64 // also after commits wrote so many bytes, see [state.Store.Written]; 0: never
	checkpoint.Retention
}

func (f *serveFlags) keeping() keeping {
	return keeping{
		every: f.Checkpoint, records: f.CheckpointRecords, bytes: int64(f.CheckpointBytes),
		Retention: checkpoint.Retention{Count: cmp.Or(f.CheckpointKeep, keepCheckpoints), Age: f.CheckpointKeepFor, Bytes: int64(f.CheckpointKeepBytes)},
	}
}

// keeper takes, lists and opens the checkpoints of a data directory.
type keeper struct {
	fs    vfs.FS
	dir   string
	store *state.Store
	fin   checkpoint.Finalizer
	o     keeping
	log   *slog.Logger
	shows string // what weir open shows, and there is no other; else ""

	writing sync.Mutex   // one is written, or dropped, at a time
	files   sync.RWMutex // held to open files of a checkpoint: none is removed meanwhile
	pins    pins
	lock    placeLock      // of dir
	whole   chan uint64    // a checkpoint that run is to make whole
	later   []func() error // removes what compact replaced while it was read; guarded by writing
	fresh   chan uint64    // the newest that was taken, for who exports views
	mu      sync.Mutex
	newest  uint64 // epoch of the newest checkpoint that was taken since the start
	shown   uint64 // epoch of the newest checkpoint of this state, 0 for none
	counted int64  // records that it holds, or that the state held at start
	written int64  // bytes that commits had written when it was taken
}

// newKeeper locks dir until close, for the appliance that by is.
func newKeeper(fsys vfs.FS, dir string, by locker, store *state.Store, fin checkpoint.Finalizer, o keeping, log *slog.Logger) (_ *keeper, err error) {
	k := &keeper{fs: fsys, dir: dir, store: store, fin: fin, o: o, log: log, whole: make(chan uint64, 1), fresh: make(chan uint64, 1)}
	sn, err := store.Snapshot()
	if err != nil {
		return nil, err
	}
	k.counted = recordsOf(sn)
	sn.Close()
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory of checkpoints: %w", err)
	}
	if k.lock, err = lockCheckpoints(fsys, dir, by, log); errors.Is(err, errInUse) {
		return nil, fmt.Errorf("%w: %s", err, ownPlace)
	} else if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.close())
		}
	}()
	swept, err := checkpoint.Sweep(fsys, dir)
	if errors.Is(err, objectstore.ErrUnavailable) { // no reason not to count
		log.Error("checkpoints cannot be written until the object store answers", "error", err)
	} else if err != nil {
		return nil, fmt.Errorf("clear leftovers of checkpoints: %w", err)
	}
	for _, s := range swept {
		log.Info("removed an unfinished checkpoint", "name", s)
	}
	if err == nil {
		k.shown = k.found()
	}
	return k, nil
}

// found is the epoch of the newest checkpoint that was taken before the start. What
// transform or merge made is none: its groups are not those that were counted.
func (k *keeper) found() uint64 {
	for _, m := range slices.Backward(k.list()) {
		if len(m.Edits) == 0 {
			return m.Epoch
		}
	}
	return 0
}

// close unlocks the directory: nothing is written any more.
func (k *keeper) close() error { return k.lock.Close() }

// recordsOf is how many records all cursors counted.
func recordsOf(sn *state.Snapshot) (n int64) {
	seen := map[state.CursorID]bool{}
	add := func(c state.CursorID) {
		if !seen[c] {
			seen[c] = true
			n += sn.Records(c)
		}
	}
	for _, s := range sn.Catalog().Sources {
		add(s.Cursor)
	}
	for _, v := range sn.Catalog().Views {
		add(v.Cursor)
	}
	return n
}

// run takes one every so often, or after so many records or bytes, when something
// was committed since the last. Between them it makes whole what has many deltas, and
// removes what has become too old.
func (k *keeper) run(ctx context.Context) error {
	poll := k.o.every
	if k.o.records > 0 || k.o.bytes > 0 {
		poll = min(poll, time.Second)
	}
	t := time.NewTicker(poll)
	defer t.Stop()
	var old <-chan time.Time // never, where age is no reason
	if k.o.Age > 0 {
		t := time.NewTicker(max(time.Second, min(k.o.every, k.o.Age)))
		defer t.Stop()
		old = t.C
	}
	failed := false
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case id := <-k.whole:
			if err := k.compact(ctx, id); err != nil && ctx.Err() == nil {
				k.log.Error("a checkpoint was not made whole; a later one will be", "error", err)
			}
			continue
		case <-old:
			if err := k.retain(); err != nil && ctx.Err() == nil {
				k.log.Warn("remove old checkpoints", "error", err)
			}
			continue
		case <-t.C:
		}
		o := k.o
		if failed && time.Since(last) < afterFailure {
			o.records, o.bytes = 0, 0 // they would ask for one every second
		}
		due, err := k.due(time.Since(last), o)
		if err != nil {
			return err
		}
		if !due {
			continue
		}
		last = time.Now()
		_, err = k.take(ctx, "", 1)
		if failed = err != nil; failed && ctx.Err() == nil {
			k.log.Error("checkpoint failed; the next one is tried as usual", "error", err)
		}
	}
}

// due says whether it is time for a checkpoint by these terms, the last one having
// begun so long ago, when anything was committed since.
func (k *keeper) due(ago time.Duration, o keeping) (bool, error) {
	k.mu.Lock()
	newest, counted, written := k.newest, k.counted, k.written
	k.mu.Unlock()
	sn, err := k.store.Snapshot()
	if err != nil {
		return false, err
	}
	defer sn.Close()
	if newest == sn.Epoch() {
		return false, nil
	}
	// The ticker may be a little early.
	return ago > o.every-o.every/16 ||
		o.records > 0 && recordsOf(sn)-counted >= o.records ||
		o.bytes > 0 && k.store.Written()-written >= o.bytes, nil
}

// take writes a checkpoint now, a savepoint when it has a name, and removes those
// that are not to be kept. One with many deltas run makes whole soon. rest is how
// long it pauses in relation to how long it works.
func (k *keeper) take(ctx context.Context, savepoint string, rest float64) (*checkpoint.Manifest, error) {
	k.writing.Lock()
	defer k.writing.Unlock()
	if err := k.lock.Check(); err != nil {
		return nil, unstored(err)
	}
	if _, err := k.store.Mark(ctx); err != nil { // the next one will ask what changed since
		return nil, err
	}
	written := k.store.Written() // what is committed from here on may count twice
	sn, err := k.store.Snapshot()
	if err != nil {
		return nil, err
	}
	defer sn.Close()
	m, err := checkpoint.Write(ctx, k.fs, k.dir, sn, k.fin, checkpoint.Options{Writer: version(), Engine: duckext.Version(), Rest: rest, Savepoint: savepoint, Small: smallView})
	if err != nil {
		return nil, fmt.Errorf("write checkpoint: %w", unstored(err))
	}
	k.mu.Lock()
	k.newest, k.shown, k.counted, k.written = m.Epoch, m.Epoch, recordsOf(sn), written
	k.mu.Unlock()
	select { // nobody else sends
	case <-k.fresh:
	default:
	}
	k.fresh <- m.Checkpoint
	if m.CompactDue() {
		select {
		case k.whole <- m.Checkpoint:
		default: // one before it is to be, and the next one will
		}
	}
	if err := k.store.Trim(m.Epoch); err != nil {
		return nil, err
	}
	if err := k.prune(); err != nil {
		k.log.Warn("remove old checkpoints", "error", err)
	}
	return m, nil
}

// retain removes the checkpoints that are not to be kept: also while nothing is
// counted, and none is taken, they become too old.
func (k *keeper) retain() error {
	k.writing.Lock()
	defer k.writing.Unlock()
	if err := k.lock.Check(); err != nil {
		return unstored(err)
	}
	return k.prune()
}

// prune is retain. The caller holds writing.
func (k *keeper) prune() error {
	k.files.Lock()
	defer k.files.Unlock()
	if k.busy() { // the next time will
		return nil
	}
	k.tidy()
	_, err := k.o.Retain(k.fs, k.dir, time.Now())
	return err
}

// compact makes a checkpoint whole, in the background.
func (k *keeper) compact(ctx context.Context, id uint64) error {
	k.writing.Lock()
	defer k.writing.Unlock()
	if k.busy() { // the next one will be made whole
		return nil
	}
	if err := k.lock.Check(); err != nil {
		return unstored(err)
	}
	_, err := checkpoint.Compact(ctx, k.fs, k.dir, id, checkpoint.Options{Rest: 1, Replaced: func(remove func() error) {
		k.files.Lock()
		defer k.files.Unlock()
		k.later = append(k.later, remove)
		k.tidy()
	}})
	if errors.Is(err, checkpoint.ErrMissing) {
		return nil // retention, or DROP SAVEPOINT, was faster
	}
	return unstored(err)
}

// tidy removes what compact replaced, unless somebody reads. The caller holds writing
// and files.
func (k *keeper) tidy() {
	if k.busy() { // somebody has begun meanwhile: after the next checkpoint
		return
	}
	for _, remove := range k.later {
		if err := remove(); err != nil {
			k.log.Warn("remove files that were made one; the next start does", "error", err)
		}
	}
	k.later = nil
}

// busy says whether somebody reads files that would not stay readable if they were
// removed now.
func (k *keeper) busy() bool {
	_, objects := k.fs.(atomicfile.Direct)
	return objects && len(k.pins.held()) > 0
}

// read opens a checkpoint and hands it to f, perhaps twice. What f opens of it stays
// readable when the checkpoint is removed after f has returned, if f pins it.
func (k *keeper) read(id uint64, f func(*checkpoint.Checkpoint) error) error {
	k.files.RLock()
	defer k.files.RUnlock()
	dir := checkpoint.Path(k.fs, k.dir, id)
	for again := true; ; again = false {
		if _, err := k.fs.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return k.unknown(fmt.Sprintf("there is no checkpoint %d", id))
		}
		c, err := checkpoint.Open(k.fs, dir)
		if err != nil {
			return unstored(err)
		}
		// Files may have been made one since the manifest was read.
		if err = f(c); !errors.Is(err, checkpoint.ErrMissing) || !again {
			return err
		}
	}
}

// open opens a checkpoint without its files, which may be gone when they are opened.
func (k *keeper) open(id uint64) (c *checkpoint.Checkpoint, err error) {
	return c, k.read(id, func(o *checkpoint.Checkpoint) error { c = o; return nil })
}

func entry(m *checkpoint.Manifest) queryable.Checkpoint {
	c := queryable.Checkpoint{ID: m.Checkpoint, Savepoint: m.Savepoint, Epoch: m.Epoch, Created: m.Created, Bytes: m.Bytes(), Views: []string{}}
	for _, v := range m.Views {
		c.Views = append(c.Views, v.Name)
	}
	return c
}

// list gives the checkpoints that can be read, oldest first. One that is damaged
// is no reason not to see the others: it is named in the log.
func (k *keeper) list() []*checkpoint.Manifest {
	ms, err := checkpoint.List(k.fs, k.dir)
	if err != nil {
		k.log.Error("a checkpoint cannot be read", "error", err)
	}
	return ms
}

// Checkpoints lists them, newest first.
func (b backend) Checkpoints(context.Context) ([]queryable.Checkpoint, error) {
	ms := b.keeper.list()
	out := make([]queryable.Checkpoint, 0, len(ms))
	for i := len(ms) - 1; i >= 0; i-- {
		out = append(out, entry(ms[i]))
	}
	return out, nil
}

// Manifest is the text of a checkpoint's manifest.
func (b backend) Manifest(_ context.Context, id string) (text json.RawMessage, err error) {
	n, err := b.keeper.find(id)
	if err != nil {
		return nil, err
	}
	err = b.keeper.read(n, func(*checkpoint.Checkpoint) error {
		k := b.keeper
		f, err := k.fs.Open(k.fs.PathJoin(checkpoint.Path(k.fs, k.dir, n), checkpoint.ManifestName))
		if err != nil {
			return err
		}
		defer f.Close()
		text, err = io.ReadAll(f)
		return err
	})
	return text, err
}
