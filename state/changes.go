package state

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/cockroachdb/pebble/v2"

	"weir/state/codec"
)

// The change index answers which groups of a view changed since a checkpoint,
// without reading the others. Every commit writes into it, in its own batch, the
// keys that it changed; what is below the newest checkpoint is trimmed.
//
// A key need not be there twice: a resident row knows the commit that changed it
// last, and if that is above the newest mark the key was recorded then. So a
// view that changes the same groups for hours has each of them in the index
// once. For this a checkpoint begins with a [Store.Mark]: above it, everything
// is recorded anew.
//
// A view too many groups of which changed (a quarter, or [Options.ChangeBytes])
// is not recorded until the next mark: reading it whole is cheaper then. The
// same holds for a new view, for one that was restored, and in a directory that
// is older than the index. [Snapshot.Changed] then says [ErrUnknown].

// ErrUnknown says that the index does not know what changed since: read the
// whole view.
var ErrUnknown = errors.New("what changed since is not recorded")

const (
	never        = math.MaxUint64 // of recorded.since: nothing is recorded
	alwaysRecord = 4096           // changed groups that are recorded in any case
	changedShare = 4              // and beyond them one of so many groups
	maxMarks     = 8
	changesForm  = 0x01
)

// A mark is a commit above which the index knows what changed. Its token is
// random: who finds it in a store knows that the store went on from there, and
// is not an older copy or a restored one that happens to count the same epochs.
type mark struct {
	epoch uint64
	token string
}

// recorded is how far back the index of one view goes.
type recorded struct {
	since uint64 // every change above it is recorded
	keys  int64  // recorded above the newest mark
	bytes int64
	older int64 // bytes below it
}

// Mark makes a commit that later changes can be asked from, by the newest token
// of a snapshot that is taken after it.
func (s *Store) Mark(ctx context.Context) (epoch uint64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return s.commit(&change{point: PointMark, mark: true})
}

// newMark is called by the commit that is one, with the lock held, when its
// groups are closed.
func (s *Store) newMark(epoch uint64) {
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails
	s.marks = append(slices.Clone(s.marks), mark{epoch, hex.EncodeToString(random[:])})
	if len(s.marks) > maxMarks {
		// The oldest is that of the newest checkpoint, those behind it are of
		// checkpoints that failed.
		s.marks = slices.Delete(s.marks, 1, 2)
	}
	for _, v := range s.views {
		r := &v.recorded
		if r.since == never {
			*r = recorded{since: epoch}
		} else {
			*r = recorded{since: r.since, older: r.older + r.bytes}
		}
	}
}

func (s *Store) newestMark() uint64 {
	if len(s.marks) == 0 {
		return 0
	}
	return s.marks[len(s.marks)-1].epoch
}

// Trim forgets what changed up to the newest mark that is not above epoch. Call
// it with the epoch of a checkpoint when that is complete. It does not sync: a
// crash may bring the index back as it was, which is no less right.
func (s *Store) Trim(epoch uint64) error {
	s.committing.Lock()
	defer s.committing.Unlock()
	if err := s.err(); err != nil {
		return err
	}
	b := s.db.NewBatch()
	defer func() { _ = b.Close() }()
	if err := s.trim(b, epoch); err != nil {
		return fmt.Errorf("trim the index of changes: %w", err)
	}
	if b.Empty() {
		return nil
	}
	if err := s.guard(func() error { return b.Commit(pebble.NoSync) }); err != nil {
		s.fail(err)
		return err
	}
	return nil
}

func (s *Store) trim(b *pebble.Batch, epoch uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := len(s.marks) - 1
	for i >= 0 && s.marks[i].epoch > epoch {
		i--
	}
	if i < 0 {
		return nil
	}
	newest := i == len(s.marks)-1
	s.marks = slices.Clone(s.marks[i:])
	errs := []error{b.Set(sysKey(kindMarks), encodeMarks(s.marks), nil)}
	for id, v := range s.views {
		if v.recorded.since == never {
			continue
		}
		if newest {
			v.recorded.older = 0
		}
		errs = append(errs,
			b.Set(sysKey(kindRecorded, uint32(id)), v.recorded.encode(), nil),
			b.DeleteRange(changedKey(id, 0), changedKey(id, s.marks[0].epoch+1), nil))
	}
	return errors.Join(errs...)
}

// record notes what a commit adds to the index of a view: so many keys of so
// many bytes. When that is too much it says false, and the index of the view is
// to be wiped.
func (v *view) record(keys, bytes, limit int64) bool {
	r := &v.recorded
	if r.since == never {
		return false
	}
	r.keys += keys
	r.bytes += bytes
	if r.keys <= max(alwaysRecord, v.stats.Groups/changedShare) && r.bytes+r.older <= limit {
		return true
	}
	*r = recorded{since: never}
	return false
}

// changedKey is where the keys that a commit changed lie.
func changedKey(id ViewID, epoch uint64) []byte {
	return binary.BigEndian.AppendUint64(sysKey(kindChanged, uint32(id)), epoch)
}

func wipeChanged(b *pebble.Batch, id ViewID) error {
	return b.DeleteRange(changedKey(id, 0), sysKey(kindChanged, uint32(id)+1), nil)
}

// appendChanged adds a key, slot first, to what a commit changed. Keys are in
// order, and none comes twice.
func appendChanged(dst, key []byte) []byte {
	if len(dst) == 0 {
		dst = append(dst, changesForm)
	}
	return codec.AppendBytes(dst, key)
}

func encodeMarks(marks []mark) []byte {
	b := binary.AppendUvarint(nil, uint64(len(marks)))
	for _, m := range marks {
		b = codec.AppendBytes(binary.AppendUvarint(b, m.epoch), []byte(m.token))
	}
	return b
}

func decodeMarks(b []byte) (marks []mark, err error) {
	r := reader{b: b}
	for range r.count() {
		marks = append(marks, mark{r.uvarint(), string(r.bytes())})
	}
	return marks, r.end()
}

func (c recorded) encode() []byte {
	var b []byte
	for _, v := range []uint64{c.since, uint64(c.keys), uint64(c.bytes), uint64(c.older)} {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

func decodeRecorded(b []byte) (c recorded, err error) {
	r := reader{b: b}
	c.since = r.uvarint()
	c.keys, c.bytes, c.older = int64(r.uvarint()), int64(r.uvarint()), int64(r.uvarint())
	return c, r.end()
}

// Mark is the token of the newest mark of the snapshot, "" when there is none.
func (sn *Snapshot) Mark() string {
	if n := len(sn.p.marks); n > 0 {
		return sn.p.marks[n-1].token
	}
	return ""
}

// Knows says whether the store went on from the snapshot of that epoch whose Mark
// was token: whether what the snapshot does not call changed is as it was.
func (sn *Snapshot) Knows(token string, epoch uint64) bool {
	return slices.ContainsFunc(sn.p.marks, func(m mark) bool {
		return m.token == token && m.epoch <= epoch && epoch <= sn.Epoch()
	})
}

// Changed reads the groups of a view that changed after epoch since, as Scan
// reads all of them: those that are there with their state of now, and those
// that are gone with their key (and slot; all else is NULL) and true in the
// last column, __deleted. token is the newest token of the snapshot of that epoch. n
// is how many rows there are, or a little more.
//
// It fails with [ErrUnknown] when the index does not reach back to that epoch.
// Filters and After are not applied. The keys are read at once: they take up to
// [Options.ChangeBytes].
func (sn *Snapshot) Changed(ctx context.Context, r ScanRequest, token string, since uint64) (rows array.RecordReader, n int64, err error) {
	sh, rec := sn.p.shapes[r.View], sn.p.recorded[r.View]
	if sh == nil {
		return nil, 0, fmt.Errorf("changes: view %d: %w", r.View, ErrNotFound)
	}
	i := slices.IndexFunc(sn.p.marks, func(m mark) bool { return m.token == token })
	if i < 0 || since < sn.p.marks[i].epoch || since > sn.Epoch() {
		return nil, 0, ErrUnknown
	}
	if above := sn.p.marks[i].epoch; rec.since == 0 || rec.since > above {
		return nil, 0, ErrUnknown
	}
	keys, err := readChanged(sn.p.snap, sh, sn.p.marks[i].epoch)
	if err != nil {
		return nil, 0, fmt.Errorf("changes of view %d: %w", r.View, err)
	}
	r.Filters, r.After = nil, nil
	sc, err := sn.scan(ctx, &r, &changedSince{changedKeys: keys, since: since})
	if err != nil {
		return nil, 0, err
	}
	return sc, keys.count, nil
}

// A changedSince is the way of a scan through what changed.
type changedSince struct {
	*changedKeys
	since   uint64
	key     []byte // that the scan stands at
	gone    bool   // there is no such group
	deleted *array.BooleanBuilder
}

// advance moves the iterator to the next key's group, if it is there.
func (c *changedSince) advance(it *pebble.Iterator) bool {
	if c.key = c.next(); c.key == nil {
		return false
	}
	c.gone = !it.SeekPrefixGE(c.key)
	return it.Error() == nil
}

// A changedKeys gives the keys of several commits in order, each once.
type changedKeys struct {
	prefix  []byte   // of the view's groups
	commits [][]byte // what is left of each
	slot    [][]byte // keys of the slot that is given out, in order
	count   int64    // of all commits; a key may come in several
}

// readChanged reads what the commits above a mark recorded.
func readChanged(snap *pebble.Snapshot, sh *shape, above uint64) (*changedKeys, error) {
	c := &changedKeys{prefix: sh.prefix()}
	it, err := snap.NewIter(&pebble.IterOptions{LowerBound: changedKey(sh.id, above+1), UpperBound: sysKey(kindChanged, uint32(sh.id)+1)})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		if len(value) == 0 || value[0] != changesForm {
			return nil, codec.ErrCorrupt
		}
		rest := bytes.Clone(value[1:])
		c.commits = append(c.commits, rest)
		for len(rest) > 0 {
			var key []byte
			if key, rest, err = codec.ReadBytes(rest); err != nil || len(key) == 0 {
				return nil, codec.ErrCorrupt
			}
			c.count++
		}
	}
	return c, it.Error()
}

// next is the next group's key with the view's prefix, nil at the end.
func (c *changedKeys) next() []byte {
	for len(c.slot) == 0 {
		if !c.fill() {
			return nil
		}
	}
	key := c.slot[0]
	c.slot = c.slot[1:]
	return key
}

// fill gathers the keys of the lowest slot that is left.
func (c *changedKeys) fill() bool {
	slot, any := byte(0), false
	peek := func(b []byte) []byte {
		key, _, _ := codec.ReadBytes(b) // was read before
		return key
	}
	for _, b := range c.commits {
		if len(b) > 0 && (!any || peek(b)[0] < slot) {
			slot, any = peek(b)[0], true
		}
	}
	if !any {
		return false
	}
	c.slot = c.slot[:0]
	for i, b := range c.commits {
		for len(b) > 0 && peek(b)[0] == slot {
			key, rest, _ := codec.ReadBytes(b)
			c.slot = append(c.slot, slices.Concat(c.prefix, key))
			b = rest
		}
		c.commits[i] = b
	}
	slices.SortFunc(c.slot, bytes.Compare)
	c.slot = slices.CompactFunc(c.slot, bytes.Equal)
	return true
}
