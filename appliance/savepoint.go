package appliance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/checkpoint"
	"weir/queryable"
	"weir/state/ddl"
)

// checkSavepoint says whether a savepoint may have a name.
func checkSavepoint(name string) error {
	if err := checkpoint.CheckName(name); err != nil {
		return queryable.Errorf(queryable.BadRequest, "%w", err)
	}
	return nil
}

// TakeCheckpoint writes one now.
func (b backend) TakeCheckpoint(ctx context.Context, savepoint string) (queryable.Checkpoint, error) {
	if err := b.readOnly(); err != nil {
		return queryable.Checkpoint{}, err
	}
	if savepoint != "" {
		if err := checkSavepoint(savepoint); err != nil {
			return queryable.Checkpoint{}, err
		}
	}
	m, err := b.keeper.take(ctx, savepoint, 0)
	if errors.Is(err, checkpoint.ErrExists) {
		return queryable.Checkpoint{}, queryable.Errorf(queryable.Conflict, "there is a savepoint %q already: give another name, or drop it first", savepoint)
	}
	if err != nil {
		return queryable.Checkpoint{}, err
	}
	return entry(m), nil
}

// DropSavepoint removes one by its name or number.
func (b backend) DropSavepoint(ctx context.Context, id string) error {
	if err := b.readOnly(); err != nil {
		return err
	}
	n, err := b.keeper.find(id)
	if err != nil {
		return err
	}
	return b.keeper.drop(ctx, n)
}

// drop removes a savepoint. Files of it that are open stay readable; where they
// would not, it waits for those who read them.
func (k *keeper) drop(ctx context.Context, id uint64) error {
	k.writing.Lock()
	defer k.writing.Unlock()
	var m *checkpoint.Manifest
	err := k.read(id, func(c *checkpoint.Checkpoint) error { m = c.Manifest; return nil })
	if err != nil {
		return err
	}
	if m.Savepoint == "" {
		return queryable.Errorf(queryable.Conflict, "checkpoint %d is no savepoint: it goes by itself when newer ones are taken", id)
	}
	for {
		k.files.Lock()
		if !k.busy() || !slices.Contains(k.pins.held(), id) {
			break
		}
		k.files.Unlock()
		if err := k.pins.wait(ctx, id); err != nil {
			return queryable.Errorf(queryable.Timeout, "savepoint %q is being read: try again", m.Savepoint)
		}
	}
	err = checkpoint.Remove(k.fs, k.dir, id)
	k.files.Unlock()
	if err != nil {
		return fmt.Errorf("drop savepoint %q: %w", m.Savepoint, unstored(err))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.newest == m.Epoch { // perhaps nothing else holds this epoch
		k.newest = 0
	}
	return nil
}

// find is the number of a checkpoint that is named by its number or its name.
func (k *keeper) find(id string) (uint64, error) {
	if strings.Trim(id, "0123456789") != "" || id == "" {
		return k.named(id)
	}
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return 0, k.unknown("there is no checkpoint " + id)
	}
	return n, nil
}

// at is find, and a time is the newest checkpoint that was taken by then.
func (k *keeper) at(point string) (uint64, error) {
	if t, err := time.Parse(time.RFC3339, point); err == nil {
		return k.before(t)
	}
	n, err := k.find(point)
	if err != nil && checkpoint.LikeTime(point) {
		return 0, queryable.Errorf(queryable.BadRequest, "%q is no time as it is written here: give RFC 3339, such as 2026-01-31T12:00:00Z (in an address, a + is %%2B)", point)
	}
	return n, err
}

// named finds a savepoint.
func (k *keeper) named(name string) (uint64, error) {
	for _, m := range k.list() {
		if m.Savepoint == name && name != "" {
			return m.Checkpoint, nil
		}
	}
	return 0, k.unknown(fmt.Sprintf("there is no savepoint %q", name))
}

// before finds the newest checkpoint that was taken at or before a time.
func (k *keeper) before(t time.Time) (uint64, error) {
	ms := k.list()
	if m := checkpoint.TakenBy(ms, t); m != nil {
		return m.Checkpoint, nil
	}
	msg := "no checkpoint is as old as " + t.UTC().Format(time.RFC3339)
	taken := checkpoint.Taken(ms)
	switch {
	case len(taken) > 0:
		return 0, queryable.Errorf(queryable.NotFound, "%s: the oldest, %s, is of %s", msg, pointName(taken[0]), taken[0].Created.UTC().Format(time.RFC3339))
	case len(ms) > 0:
		msg = onlyEdited
	}
	return 0, k.unknown(msg)
}

// onlyEdited says why there is no newest checkpoint.
const onlyEdited = "what is there was made by transform or merge, and is meant by its number or name only"

// pointName is what a checkpoint is called in messages.
func pointName(m *checkpoint.Manifest) string {
	if m.Savepoint != "" {
		return fmt.Sprintf("savepoint %q (%d)", m.Savepoint, m.Checkpoint)
	}
	return fmt.Sprintf("checkpoint %d", m.Checkpoint)
}

// unknown adds to an error what there is.
func (k *keeper) unknown(msg string) error {
	ms := k.list()
	if k.shows != "" {
		return queryable.Errorf(queryable.NotFound, "%s: weir open shows one state only, that of %s", msg, k.shows)
	}
	if len(ms) == 0 {
		return queryable.Errorf(queryable.NotFound, "%s: none has been taken yet, CHECKPOINT or CREATE SAVEPOINT takes one", msg)
	}
	return queryable.Errorf(queryable.NotFound, "%s; there are: %s", msg, checkpoint.Listed(ms))
}

// createSavepoint runs CREATE SAVEPOINT.
func (b backend) createSavepoint(ctx context.Context, s *ddl.CreateSavepoint) (*queryable.Rows, error) {
	if err := checkSavepoint(s.Name.Text); err != nil {
		return nil, placed(err, s.Name.Offset)
	}
	c, err := b.TakeCheckpoint(ctx, s.Name.Text)
	if err != nil && queryable.AsError(err).Code == queryable.Conflict && s.IfNotExists {
		var n uint64
		if n, err = b.keeper.named(s.Name.Text); err == nil {
			err = b.keeper.read(n, func(old *checkpoint.Checkpoint) error { c = entry(old.Manifest); return nil })
		}
	}
	if err != nil {
		return nil, placed(err, s.Name.Offset)
	}
	return b.table(checkpointColumns(), [][]any{{int64(c.ID), int64(c.Epoch), c.Bytes}})
}

// dropSavepoint runs DROP SAVEPOINT.
func (b backend) dropSavepoint(ctx context.Context, s *ddl.DropSavepoint) (*queryable.Rows, error) {
	n, err := b.keeper.named(s.Name.Text)
	if err == nil {
		err = b.keeper.drop(ctx, n)
	}
	if err != nil && queryable.AsError(err).Code == queryable.NotFound && s.IfExists {
		return b.result(fmt.Sprintf("there is no savepoint '%s'", s.Name.Text))
	}
	if err != nil {
		return nil, placed(err, s.Name.Offset)
	}
	return b.result(fmt.Sprintf("dropped savepoint '%s'", s.Name.Text))
}

// placed says at which byte of a statement an error is, unless it says so itself.
func placed(err error, offset int) error {
	if e, ok := errors.AsType[*queryable.Error](err); ok && e.Position < 0 {
		e.Position = offset
	}
	return err
}
