package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/checkpoint"
	"weir/checkpoint/objectstore"
	"weir/queryable"
	"weir/state"
)

// keepCheckpoints is how many automatic checkpoints stay.
const keepCheckpoints = 3

// keeper takes, lists and opens the checkpoints of a data directory.
type keeper struct {
	fs    vfs.FS
	dir   string
	store *state.Store
	fin   checkpoint.Finalizer
	log   *slog.Logger

	writing sync.Mutex   // one is written, or dropped, at a time
	files   sync.RWMutex // held to open files of a checkpoint: none is removed meanwhile
	mu      sync.Mutex
	newest  uint64 // epoch of the newest checkpoint
}

func newKeeper(fsys vfs.FS, dir string, store *state.Store, fin checkpoint.Finalizer, log *slog.Logger) (*keeper, error) {
	k := &keeper{fs: fsys, dir: dir, store: store, fin: fin, log: log}
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory of checkpoints: %w", err)
	}
	swept, err := checkpoint.Sweep(fsys, dir)
	if errors.Is(err, objectstore.ErrUnavailable) { // no reason not to count
		log.Error("checkpoints cannot be written until the object store answers", "error", err)
	} else if err != nil {
		return nil, fmt.Errorf("clear leftovers of checkpoints: %w", err)
	}
	for _, s := range swept {
		log.Info("removed an unfinished checkpoint", "name", s)
	}
	return k, nil
}

// run takes one every so often, when something was committed since the last.
func (k *keeper) run(ctx context.Context, every time.Duration) error {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		k.mu.Lock()
		same := k.newest == k.store.Epoch()
		k.mu.Unlock()
		if same {
			continue
		}
		if _, err := k.take(ctx, "", 1); err != nil && ctx.Err() == nil {
			k.log.Error("checkpoint failed; the next one is tried as usual", "error", err)
		}
	}
}

// take writes a checkpoint now, a savepoint when it has a name, and removes those
// beyond the newest three. rest is how long it pauses in relation to how long it
// works.
func (k *keeper) take(ctx context.Context, savepoint string, rest float64) (*checkpoint.Manifest, error) {
	k.writing.Lock()
	defer k.writing.Unlock()
	sn, err := k.store.Snapshot()
	if err != nil {
		return nil, err
	}
	defer sn.Close()
	m, err := checkpoint.Write(ctx, k.fs, k.dir, sn, k.fin, checkpoint.Options{Writer: version(), Rest: rest, Savepoint: savepoint})
	if err != nil {
		return nil, fmt.Errorf("write checkpoint: %w", unstored(err))
	}
	k.mu.Lock()
	k.newest = m.Epoch
	k.mu.Unlock()
	k.files.Lock()
	defer k.files.Unlock()
	if _, err := checkpoint.Retain(k.fs, k.dir, keepCheckpoints); err != nil {
		k.log.Warn("remove old checkpoints", "error", err)
	}
	return m, nil
}

// read opens a checkpoint and hands it to f. What f opens of it stays readable when
// the checkpoint is removed after f has returned.
func (k *keeper) read(id uint64, f func(*checkpoint.Checkpoint) error) error {
	k.files.RLock()
	defer k.files.RUnlock()
	dir := checkpoint.Path(k.fs, k.dir, id)
	if _, err := k.fs.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return k.unknown(fmt.Sprintf("there is no checkpoint %d", id))
	}
	c, err := checkpoint.Open(k.fs, dir)
	if err != nil {
		return unstored(err)
	}
	return f(c)
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
