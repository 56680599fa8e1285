package appliance

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/checkpoint"
	"weir/ingest/kafka"
	"weir/state"
	"weir/state/codec"
	"weir/state/ddl"
)

// Policies of --restore that are no checkpoint.
const (
	restoreNever  = "never"
	restoreNewest = "newest"
)

// openState opens the state of the data directory. When there is none, or it is
// damaged, and checkpoints are there, --restore decides: what was counted is
// neither forgotten nor replaced without being asked.
func (a *Appliance) openState(ctx context.Context, o state.Options) (*state.Store, error) {
	dir := filepath.Join(a.cfg.Data, stateDir)
	r := &recovery{cfg: &a.cfg, dir: dir}
	var err error
	if r.from, err = shelfAt(ctx, cmp.Or(a.cfg.RestoreFrom, a.cfg.Checkpoints, filepath.Join(a.cfg.Data, checkpointsDir))); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "db")); errors.Is(err, fs.ErrNotExist) {
		if err := r.empty(ctx); err != nil {
			return nil, err
		}
		return state.Open(dir, o)
	}
	st, err := state.Open(dir, o)
	if err == nil || !damagedState(err) {
		return st, err
	}
	if err := r.damaged(ctx, err); err != nil {
		return nil, err
	}
	return state.Open(dir, o)
}

// damagedState says whether an error of opening means that the files are not what
// was written, rather than that they cannot be read now.
func damagedState(err error) bool {
	// Pebble has no error of its own for a file that was cut.
	return strings.Contains(err.Error(), "object size mismatch") || pebble.IsCorruptionError(err) || errors.Is(err, codec.ErrCorrupt) || errors.Is(err, pebble.ErrDBDoesNotExist) ||
		errors.Is(err, fs.ErrNotExist)
}

// recovery restores the state at start.
type recovery struct {
	cfg  *config
	from shelf  // checkpoints
	dir  string // of the state
}

// advice says with what to start to go on from a checkpoint.
func (r *recovery) advice() string {
	list, err := checkpoint.List(r.from.fs, r.from.dir)
	passed := ""
	if err != nil {
		passed = fmt.Sprintf(" (not all can be read: %s)", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	m := checkpoint.Newest(list)
	switch {
	case m != nil:
		return fmt.Sprintf("start with --restore newest to go on from checkpoint %d of %s%s", m.Checkpoint, m.Created.Format(time.DateTime), passed)
	case len(list) > 0:
		return fmt.Sprintf("start with --restore %d to go on from it (%s)", list[len(list)-1].Checkpoint, onlyEdited)
	}
	return "start with --restore newest to go on from the newest that is whole"
}

// empty decides about a data directory without a state.
func (r *recovery) empty(ctx context.Context) error {
	if r.cfg.Restore == restoreNever {
		return nil
	}
	ids, err := r.from.numbers()
	switch {
	case err != nil:
		return fmt.Errorf("%s holds no state, and whether there are checkpoints to go on from cannot be told: %w; start with --restore never to count anew", r.cfg.Data, err)
	case len(ids) == 0 && (r.cfg.Restore == "" || r.cfg.Restore == restoreNewest && r.cfg.RestoreFrom == ""):
		return nil // a first start
	case r.cfg.Restore == "":
		return fmt.Errorf("%s holds no state, but %s holds checkpoints: %s, with --restore and a number or a savepoint's name for another, or with --restore never to count anew from where the topics begin",
			r.cfg.Data, r.from.dir, r.advice())
	}
	return r.restore(ctx)
}

// damaged decides about a state that cannot be opened. It is kept beside.
func (r *recovery) damaged(ctx context.Context, cause error) error {
	if r.cfg.Restore == "" || r.cfg.Restore == restoreNever {
		do := "there is no checkpoint to go on from: weir reset and a new start count anew from where the topics begin"
		if ids, err := r.from.numbers(); err == nil && len(ids) > 0 {
			do = r.advice() + "; the damaged state is kept beside"
		}
		return fmt.Errorf("the state is damaged: %w; %s", cause, do)
	}
	m, err := r.fitting(ctx)
	if err != nil {
		return fmt.Errorf("the state is damaged (%w), and cannot be restored: %w", cause, err)
	}
	aside := r.dir + ".damaged-" + time.Now().UTC().Format("20060102T150405.000000")
	if err := os.Rename(r.dir, aside); err != nil {
		return fmt.Errorf("put the damaged state aside: %w", err)
	}
	r.cfg.log.Warn("the state is damaged and was put aside", "error", cause, "kept", aside)
	return r.load(ctx, m)
}

func (r *recovery) restore(ctx context.Context) error {
	m, err := r.fitting(ctx)
	if err != nil {
		return err
	}
	return r.load(ctx, m)
}

func (r *recovery) load(ctx context.Context, m *checkpoint.Manifest) error {
	path := r.from.path(m.Checkpoint)
	if _, err := restoreInto(ctx, r.from.fs, path, r.dir, state.Options{}, checkpoint.Choice{}); err != nil {
		return err
	}
	r.cfg.log.Info("restored", "checkpoint", path, "savepoint", m.Savepoint, "epoch", m.Epoch, "taken", m.Created)
	return nil
}

// fitting finds the checkpoint that --restore means and refuses what does not fit.
// newest passes over what is damaged, and says so.
func (r *recovery) fitting(ctx context.Context) (*checkpoint.Manifest, error) {
	which := r.cfg.Restore
	if which == restoreNewest {
		return r.newestWhole(ctx)
	}
	f, err := r.from.find(which)
	if err != nil {
		return nil, err
	}
	if err := f.Verify(ctx); err != nil {
		return nil, err
	}
	return f.Manifest, r.fits(ctx, f.Manifest)
}

func (r *recovery) newestWhole(ctx context.Context) (*checkpoint.Manifest, error) {
	list, unreadable := checkpoint.List(r.from.fs, r.from.dir)
	errs := []error{unreadable}
	if unreadable != nil {
		r.cfg.log.Warn("a checkpoint cannot be read", "error", unreadable)
	}
	taken := checkpoint.Taken(list)
	if len(taken) == 0 && len(list) > 0 {
		errs = append(errs, fmt.Errorf("%s; there are: %s", onlyEdited, checkpoint.Listed(list)))
	}
	for _, m := range slices.Backward(taken) {
		c, err := checkpoint.Open(r.from.fs, r.from.path(m.Checkpoint))
		if err == nil {
			err = c.Verify(ctx)
		}
		if err == nil {
			return m, r.fits(ctx, m)
		}
		r.cfg.log.Warn("a checkpoint is passed over", "error", err)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("no checkpoint in %s is whole: %w", r.from.dir, err)
	}
	return nil, fmt.Errorf("%s holds no checkpoint: give --restore-from DIR, or --restore never to begin anew", r.from.dir)
}

// restoreInto is [checkpoint.RestoreSome] for a process that goes on when the disk
// refuses a write: that is an error, and what was half written is removed.
func restoreInto(ctx context.Context, fsys vfs.FS, from, dir string, o state.Options, choice checkpoint.Choice) (*checkpoint.Manifest, error) {
	var refused atomic.Bool
	o.Fatal = func(string) { refused.Store(true) }
	m, err := checkpoint.RestoreSome(ctx, fsys, from, dir, o, choice)
	if err == nil {
		return m, nil
	}
	fsys = cmp.Or(o.FS, vfs.Default)
	if _, there := fsys.Stat(fsys.PathJoin(dir, "db")); there == nil { // as it was, or as the error says
		return nil, err
	}
	removeHalf(fsys, dir)
	if refused.Load() || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = fmt.Errorf("%w; nothing was restored: free space there or replace the disk, and try again", err)
	}
	return nil, err
}

// removeHalf removes the database that a restore had begun to make in dir, unless
// another process makes it. What cannot be removed the next restore removes.
func removeHalf(fsys vfs.FS, dir string) {
	half := fsys.PathJoin(dir, "db.new")
	if _, err := fsys.Stat(half); err != nil {
		return
	}
	lock, err := fsys.Lock(fsys.PathJoin(dir, "lock"))
	if err != nil {
		return
	}
	_ = errors.Join(fsys.RemoveAll(half), lock.Close())
}

// fits refuses a checkpoint of other SQL, or of records that the topics do not
// hold any more.
func (r *recovery) fits(ctx context.Context, m *checkpoint.Manifest) error {
	if err := m.Resumable(); err != nil {
		return fmt.Errorf("checkpoint %d: %w", m.Checkpoint, err)
	}
	for _, s := range r.cfg.scripts {
		if err := sameSQL(m, s); err != nil {
			return err
		}
	}
	for i := range m.Sources {
		if err := r.reachable(ctx, m, &m.Sources[i]); err != nil {
			return fmt.Errorf("checkpoint %d: source %s: %w", m.Checkpoint, m.Sources[i].Name, err)
		}
	}
	return nil
}

// sameSQL compares the CREATE statements of a file with those of a checkpoint.
func sameSQL(m *checkpoint.Manifest, s script) error {
	stmts, err := ddl.Parse(s.sql)
	if err != nil {
		return inFile(s, err)
	}
	for _, stmt := range stmts {
		var name ddl.Name
		var sql string
		switch c := stmt.(type) {
		case *ddl.CreateSource:
			name = c.Name
			for _, src := range m.Sources {
				if strings.EqualFold(src.Name, name.Text) && !c.IfNotExists && !c.OrReplace {
					sql = src.SQL
				}
			}
		case *ddl.CreateMaterializedView:
			name = c.Name
			if v, ok := m.View(name.Text); ok && !c.IfNotExists {
				sql = v.SQL
				old, err := ddl.ParseOne(sql)
				if was, ok := old.(*ddl.CreateMaterializedView); ok && err == nil {
					if same, _ := ddl.SameView(c, was); same {
						sql = "" // the options may change
					}
				}
			}
		case *ddl.CreateView:
			name = c.Name
			for _, q := range m.Queries {
				if strings.EqualFold(q.Name, name.Text) && !c.IfNotExists && !c.OrReplace {
					sql = q.SQL
				}
			}
		}
		span := ddl.SpanOf(stmt)
		if sql != "" && !ddl.SameStatement(span.Text(), sql) {
			return inFile(s, span.Errorf(name.Offset-span.Start, "restore another checkpoint, or give the new one another name",
				fmt.Sprintf("checkpoint %d has %s with another definition: %s", m.Checkpoint, name.Text, ddl.Difference(span.Text(), sql))))
		}
	}
	return nil
}

// lookTime is how long the brokers have to answer whether positions are there.
const lookTime = 10 * time.Second

// reachable wants a source's topic to be the one that was read and to hold the
// next record of every position. Brokers that cannot be reached keep nobody from
// starting: ingest asks again, and stops the source then.
func (r *recovery) reachable(ctx context.Context, m *checkpoint.Manifest, s *checkpoint.Source) error {
	brokers := cmp.Or(s.Options["brokers"], r.cfg.Brokers)
	at := positionsOf(m, s)
	if brokers == "" || len(at) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	c := kafka.Dial(kafka.Options{Brokers: splitBrokers(brokers), Logger: r.cfg.log})
	defer c.Close()
	unknown := func(err error) error {
		r.cfg.log.Warn("cannot ask whether the topic holds what comes next", "source", s.Name, "error", err)
		return nil
	}
	t, err := c.Topic(ctx, at[0].Topic)
	if gone, ok := errors.AsType[*kafka.UnknownTopicError](err); ok {
		return fmt.Errorf("%w: restore where the topic is, or begin anew with --restore never", gone)
	}
	if err != nil {
		return unknown(err)
	}
	var parts []int32
	for _, p := range at {
		was := strings.ReplaceAll(p.TopicID, "-", "")
		if now := hex.EncodeToString(t.ID[:]); strings.Trim(was, "0") != "" && strings.Trim(now, "0") != "" && was != now {
			return fmt.Errorf("topic %s has id %s, and the checkpoint's had %s: it was created again, and its offsets mean other records; restore the views of other topics alone with weir restore --views, or begin anew, all views, with --restore never", p.Topic, now, was)
		}
		if !slices.Contains(t.Partitions, p.Partition) {
			return fmt.Errorf("topic %s has no partition %d any more, where the checkpoint stands at %d; begin anew with --restore never", p.Topic, p.Partition, p.Next)
		}
		parts = append(parts, p.Partition)
	}
	slices.Sort(parts)
	parts = slices.Compact(parts)
	begins, err := c.Offsets(ctx, t, parts, kafka.Earliest)
	if err != nil {
		return unknown(err)
	}
	ends, err := c.Offsets(ctx, t, parts, kafka.Latest)
	if err != nil {
		return unknown(err)
	}
	for _, p := range at {
		switch begin, end := begins[p.Partition], ends[p.Partition]; {
		case p.Next < begin:
			return fmt.Errorf("topic %s partition %d: the checkpoint stands at offset %d, and the log now begins at %d: the records between are gone; restore a newer checkpoint, or begin anew with --restore never", p.Topic, p.Partition, p.Next, begin)
		case p.Next > end:
			return fmt.Errorf("topic %s partition %d: the checkpoint stands at offset %d, and the log ends at %d: it is not the log that was read, or it lost records; restore an older checkpoint, or begin anew with --restore never", p.Topic, p.Partition, p.Next, end)
		}
	}
	return nil
}

// positionsOf are those of a source and of the views that catch up with it.
func positionsOf(m *checkpoint.Manifest, s *checkpoint.Source) []checkpoint.Position {
	cursors := []uint32{s.Cursor}
	for i := range m.Views {
		if v := &m.Views[i]; v.Source == s.ID && v.Cursor != s.Cursor {
			cursors = append(cursors, v.Cursor)
		}
	}
	var out []checkpoint.Position
	for _, c := range m.Cursors {
		if slices.Contains(cursors, c.ID) {
			out = append(out, c.Positions...)
		}
	}
	return out
}
