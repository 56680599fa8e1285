package state

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/cockroachdb/pebble/v2"

	"weir/state/codec"
	"weir/state/plan"
)

// A Dump is all that a store holds, as a checkpoint does.
type Dump struct {
	Epoch   uint64
	Sources []Source
	Views   []View
	Queries []Query
	// NextID and NextCursor are those of the catalogue that was dumped, so that
	// no id is given twice; 0 is one above the greatest there is.
	NextID, NextCursor uint32
	Positions          map[CursorID][]Position
	Records            map[CursorID]int64
	// Rows reads a view in the order of slot and key, as Scan gives it (see
	// Locate for rows that come from elsewhere): the state columns in the plan's
	// order, then any of __slot, __epoch and __error.
	Rows func(ViewID) (array.RecordReader, error)
	// Refused are the records that were kept, and RefusedCounts all that were.
	Refused       []RefusedRecord
	RefusedCounts map[SourceID]RefusedCount
}

// Load builds a store from a dump in a directory that holds none. After a crash
// there is the whole store or none.
func Load(dir string, o Options, d Dump) error {
	o = o.withDefaults()
	lock, err := lockDir(dir, o.FS)
	if err != nil {
		return err
	}
	s := newStore(o, lock)
	found, err := exists(dir, o.FS)
	switch {
	case err != nil:
	case found:
		err = ErrExists
	default:
		err = s.guard(func() error {
			return s.create(dir, func(db *pebble.DB) error { return s.load(db, &d) })
		})
	}
	if err = errors.Join(err, lock.Close()); err != nil {
		return fmt.Errorf("load state into %s: %w", dir, err)
	}
	return nil
}

func (s *Store) load(db *pebble.DB, d *Dump) error {
	b := db.NewBatch()
	defer b.Close()
	cat := &Catalog{
		Version: 1, Sources: d.Sources, Views: d.Views, Queries: d.Queries,
		NextID: max(d.NextID, 1), NextCursor: max(d.NextCursor, 1),
	}
	cursors := map[CursorID]bool{}
	for i := range d.Sources {
		src := &d.Sources[i]
		cat.NextID = max(cat.NextID, uint32(src.ID)+1)
		cursors[src.Cursor] = true
		if err := loadRefused(b, src.ID, d, s.o.QuarantineBytes); err != nil {
			return err
		}
	}
	for i := range d.Views {
		v := &d.Views[i]
		cat.NextID = max(cat.NextID, uint32(v.ID)+1)
		cursors[v.Cursor] = true
		stats, err := loadView(db, v, d)
		if err != nil {
			return fmt.Errorf("view %s: %w", v.Plan.Name, err)
		}
		if err := b.Set(sysKey(kindStats, uint32(v.ID)), stats.encode(), nil); err != nil {
			return err
		}
	}
	for id := range cursors {
		cat.NextCursor = max(cat.NextCursor, uint32(id)+1)
		c := newCursor(cursorState{d.Positions[id], d.Records[id]}).state()
		if err := b.Set(sysKey(kindCursor, uint32(id)), c.encode(), nil); err != nil {
			return err
		}
	}
	text, err := json.Marshal(cat)
	if err != nil {
		return err
	}
	err = errors.Join(b.Set(sysKey(kindCatalog), text, nil),
		b.Set(sysKey(kindEpoch), binary.AppendUvarint(nil, d.Epoch), nil))
	if err != nil {
		return err
	}
	return errors.Join(b.Commit(pebble.Sync), db.Flush())
}

func loadRefused(b *pebble.Batch, id SourceID, d *Dump, bound int64) error {
	q := newRefusedState()
	for i := range d.Refused {
		if r := &d.Refused[i]; r.Source == id {
			if err := q.add(b, &r.Refused, r.Epoch, bound); err != nil {
				return err
			}
		}
	}
	if c, ok := d.RefusedCounts[id]; ok {
		q.Total, q.ByView = c.Total, c.ByView
	}
	return b.Set(sysKey(kindQuarantine, uint32(id)), q.encode(), nil)
}

// A loader writes the rows of one view.
type loader struct {
	db    *pebble.DB
	b     *pebble.Batch
	view  *view
	last  []byte // key of the row before
	epoch uint64 // of the dump
}

const loadBatch = 8 << 20

func loadView(db *pebble.DB, v *View, d *Dump) (ViewStats, error) {
	sh, err := newShape(v.ID, &v.Plan)
	if err != nil {
		return ViewStats{}, err
	}
	rows, err := d.Rows(v.ID)
	if err != nil {
		return ViewStats{}, err
	}
	defer rows.Release()
	l := loader{db: db, b: db.NewBatch(), view: &view{shape: sh}, epoch: d.Epoch}
	defer func() { _ = l.b.Close() }()
	for rows.Next() {
		if err := l.add(rows.RecordBatch()); err != nil {
			return ViewStats{}, err
		}
	}
	if err := rows.Err(); err != nil {
		return ViewStats{}, err
	}
	return l.view.stats, l.b.Commit(pebble.NoSync)
}

func (l *loader) add(batch arrow.RecordBatch) error {
	v := l.view
	state := batch.NewSlice(0, batch.NumRows())
	defer state.Release()
	extra, n := map[string]arrow.Array{}, len(v.columns)
	for i := n; i < int(batch.NumCols()); i++ {
		extra[batch.ColumnName(i)] = batch.Column(i)
	}
	if int(batch.NumCols()) > n {
		state.Release()
		state = array.NewRecordBatch(arrow.NewSchema(batch.Schema().Fields()[:n], nil), batch.Columns()[:n], batch.NumRows())
	}
	var k keyed
	if err := v.encode(state, &k); err != nil {
		return err
	}
	v.table = newTable(v.layout)
	v.table.resolve(&k)
	v.merge(&k, int64(v.table.n), l.epoch, 0)
	if len(v.table.errs) > 0 || int(v.table.n) != k.rows {
		return errors.New("two rows have one key, or a sum is beyond its type")
	}
	slots, _ := extra[SlotColumn].(*array.Uint16)
	epochs, _ := extra[EpochColumn].(*array.Uint64)
	failed, _ := extra[ErrorColumn].(*array.String)
	key, value := v.prefix(), []byte(nil)
	for r := range v.table.n {
		i := int(r)
		key = append(key[:4], v.table.key(r)...)
		if bytes.Compare(l.last, key) >= 0 {
			return fmt.Errorf("row %x is out of order, or there twice", key[4:])
		}
		l.last = append(l.last[:0], key...)
		if slots != nil && slots.Value(i) != uint16(key[4]) {
			return fmt.Errorf("row %x has slot %d, but its key hashes to %d", key[4:], slots.Value(i), key[4])
		}
		epoch, bad, msg := l.epoch, false, ""
		if epochs != nil {
			epoch = epochs.Value(i)
		}
		if epoch > l.epoch {
			return fmt.Errorf("row %x has epoch %d, above that of the dump, %d", key[4:], epoch, l.epoch)
		}
		if failed != nil && failed.IsValid(i) {
			if bad, msg = true, failed.Value(i); msg == "" {
				return fmt.Errorf("row %x is in error and does not say why", key[4:])
			}
			v.stats.Errors++
		}
		value = v.layout.Append(appendHeader(value[:0], epoch, bad, msg), &v.table.rows, r)
		v.stats.Bytes += int64(len(key) + min(len(value), sizeMask))
		if err := l.b.Set(key, value, nil); err != nil {
			return err
		}
	}
	if l.b.Len() < loadBatch {
		return nil
	}
	if err := l.b.Commit(pebble.NoSync); err != nil {
		return err
	}
	l.b.Reset()
	return nil
}

// Locate gives the slot of each row of key columns of a plan, and bytes that
// sort as the rows are stored within a slot.
func Locate(p *plan.View, keys []arrow.Array) (slots []uint16, order [][]byte, err error) {
	sh, err := newShape(0, p)
	if err != nil {
		return nil, nil, err
	}
	if len(keys) != len(sh.order) {
		return nil, nil, fmt.Errorf("%d columns for the %d keys of view %s", len(keys), len(sh.order), p.Name)
	}
	parts := make([]codec.Appender, len(keys))
	for j, i := range sh.order {
		if parts[j], err = sh.encoders[j].Bind(keys[i]); err != nil {
			return nil, nil, fmt.Errorf("key %s: %w", p.Keys[i].Name, err)
		}
	}
	rows := 1
	if len(keys) > 0 {
		rows = keys[0].Len()
	}
	var b []byte
	ends := make([]int, rows)
	slots = make([]uint16, rows)
	for row := range rows {
		rest := len(b)
		for j, f := range parts {
			if b = f(b, row); j == 0 && sh.timed {
				rest = len(b)
			}
		}
		slots[row], ends[row] = uint16(slotOf(b[rest:])), len(b)
	}
	order = make([][]byte, rows)
	for row, start := 0, 0; row < rows; row++ {
		order[row] = b[start:ends[row]:ends[row]]
		start = ends[row]
	}
	return slots, order, nil
}
