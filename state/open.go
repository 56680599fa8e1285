package state

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/internal/atomicfile"
)

// Named points at which Options.Hook is called.
const (
	PointCreate    = "create.begin"     // before the first file of a new directory
	PointCreated   = "create.built"     // it is whole, under a temporary name
	PointRenamed   = "create.renamed"   // it has its name, not yet synced
	PointCommit    = "commit.begin"     // before the batch is built
	PointCut       = "commit.cut"       // the open epoch is closed, the next one takes folds
	PointBuilt     = "commit.built"     // before the batch goes to Pebble
	PointCommitted = "commit.committed" // it is durable, no reader sees it
	PointPublished = "commit.published" // readers see it
	PointCatalog   = "catalog.change"   // before the commit of a create
	PointJoin      = "join.change"      // before the commit of a join
	PointDrop      = "drop.change"      // before the commit of a drop
	PointMark      = "mark.change"      // before the commit of a mark
)

// ErrInUse says that another process has the directory open.
var ErrInUse = errors.New("another process has it open")

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	o.Memory = cmp.Or(o.Memory, 256<<20)
	o.Cache = cmp.Or(o.Cache, 64<<20)
	o.Interval = cmp.Or(o.Interval, 250*time.Millisecond)
	o.QuarantineBytes = cmp.Or(o.QuarantineBytes, 64<<20)
	o.ChangeBytes = cmp.Or(o.ChangeBytes, 64<<20)
	said := o.Logger != nil
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Hook == nil {
		o.Hook = func(string) {}
	}
	if o.Fatal == nil {
		o.Fatal = func(msg string) {
			if !said {
				fmt.Fprintf(os.Stderr, "the state store failed: %s; free space or replace the disk, and start again to go on from the last commit\n", msg)
			}
			os.Exit(70)
		}
	}
	return o
}

// Open opens the store in dir and creates it when there is none. The directory
// is locked until Close: for another process it fails with ErrInUse.
//
//	dir/lock    held while open
//	dir/db      Pebble
//	dir/db.new  a database that is being created; removed by the next Open
func Open(dir string, o Options) (*Store, error) {
	o = o.withDefaults()
	lock, err := lockDir(dir, o.FS)
	if err != nil {
		return nil, err
	}
	s := newStore(o, lock)
	err = s.guard(func() error { return s.open(dir) })
	switch {
	case err == nil:
		return s, nil
	case s.err() != nil: // Pebble's locks may be held for ever
		return nil, errors.Join(err, lock.Close())
	}
	return nil, errors.Join(err, s.release())
}

func lockDir(dir string, fsys vfs.FS) (io.Closer, error) {
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("state directory %s: %w", dir, err)
	}
	lock, err := fsys.Lock(fsys.PathJoin(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("state directory %s: %w (%w): stop that process, or give another --data", dir, ErrInUse, err)
	}
	return lock, nil
}

// exists says whether dir holds a whole database.
func exists(dir string, fsys vfs.FS) (bool, error) {
	_, err := fsys.Stat(fsys.PathJoin(dir, "db"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (s *Store) open(dir string) error {
	found, err := exists(dir, s.o.FS)
	if err != nil {
		return fmt.Errorf("state directory %s: %w", dir, err)
	}
	if !found {
		if err := s.create(dir, func(*pebble.DB) error { return nil }); err != nil {
			return fmt.Errorf("create state in %s: %w", dir, err)
		}
	}
	po, done := s.pebbleOptions()
	po.ErrorIfNotExists = true
	s.db, err = pebble.Open(s.o.FS.PathJoin(dir, "db"), po)
	done()
	if err != nil {
		return fmt.Errorf("open state in %s: %w", dir, err)
	}
	if err := s.recover(); err != nil {
		return fmt.Errorf("open state in %s: %w", dir, err)
	}
	return nil
}

// create builds a database under a temporary name, lets fill write into it, and
// gives it its name, so that a crash leaves a whole one or none. Pebble writes
// its first log before it knows the format version, in an old format that does
// not notice a flipped bit; so it is opened twice.
func (s *Store) create(dir string, fill func(*pebble.DB) error) error {
	fsys := s.o.FS
	s.o.Hook(PointCreate)
	tmp := fsys.PathJoin(dir, "db.new")
	if err := fsys.RemoveAll(tmp); err != nil {
		return err
	}
	for _, step := range []func(*pebble.DB) error{
		func(*pebble.DB) error { return nil },
		func(db *pebble.DB) error {
			b := db.NewBatch()
			defer b.Close()
			empty, err := json.Marshal(&Catalog{NextID: 1, NextCursor: 1})
			err = errors.Join(err,
				b.Set(sysKey(kindFormat), binary.AppendUvarint(nil, formatVersion), nil),
				b.Set(sysKey(kindEpoch), binary.AppendUvarint(nil, 0), nil),
				b.Set(sysKey(kindCatalog), empty, nil))
			if err != nil {
				return err
			}
			if err := b.Commit(pebble.Sync); err != nil {
				return err
			}
			return fill(db)
		},
	} {
		po, done := s.pebbleOptions()
		db, err := pebble.Open(tmp, po)
		done()
		if err != nil {
			return err
		}
		if err := errors.Join(step(db), db.Close()); err != nil {
			return err
		}
	}
	s.o.Hook(PointCreated)
	if err := s.err(); err != nil { // who waited has gone, and may have removed files
		return err
	}
	if err := fsys.Rename(tmp, fsys.PathJoin(dir, "db")); err != nil {
		return err
	}
	s.o.Hook(PointRenamed)
	if err := errors.Join(atomicfile.SyncDir(fsys, dir), atomicfile.SyncDir(fsys, fsys.PathDir(dir))); err != nil {
		return fmt.Errorf("%w: %w", atomicfile.ErrUnsynced, err)
	}
	return nil
}

// pebbleOptions are for a machine of two cores. The function frees what only
// opening needs.
func (s *Store) pebbleOptions() (*pebble.Options, func()) {
	cache := pebble.NewCache(s.o.Cache)
	o := &pebble.Options{
		FS:                          disk{s.o.FS, s},
		Cache:                       cache,
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      pebbleLogger{s},
		EventListener:               &pebble.EventListener{BackgroundError: pebbleLogger{s}.backgroundError},
		MemTableSize:                64 << 20,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       24,
		LBaseMaxBytes:               128 << 20,
		MaxOpenFiles:                1000,
		BytesPerSync:                1 << 20,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 },
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].BlockSize = 16 << 10
	}
	return o, cache.Unref
}
