package state

import (
	"cmp"
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2"

	"weir/internal/recordbatch"
	"weir/state/codec"
	"weir/state/sqltype"
)

// Scan reads groups of a view, slot by slot, in the order of the stored key,
// as columns of the inside form. The reader holds the snapshot open; release
// it. Next checks the context once per batch.
func (sn *Snapshot) Scan(ctx context.Context, r ScanRequest) (array.RecordReader, error) {
	return sn.scan(ctx, &r, nil)
}

func (sn *Snapshot) scan(ctx context.Context, r *ScanRequest, changed *changedSince) (array.RecordReader, error) {
	sh := sn.p.shapes[r.View]
	if sh == nil {
		return nil, fmt.Errorf("scan: view %d: %w", r.View, ErrNotFound)
	}
	sc := &scan{ctx: ctx, shape: sh, size: cmp.Or(r.BatchRows, 8192), changed: changed}
	if err := sc.project(r); err != nil {
		return nil, fmt.Errorf("scan of view %d: %w", r.View, err)
	}
	var err error
	if sc.path, err = sh.plan(r); err != nil {
		return nil, fmt.Errorf("scan of view %d: %w", r.View, err)
	}
	if r.After != nil {
		sc.path.skip(append(sh.prefix(), r.After...))
	}
	if sc.path.exact {
		sc.size = min(sc.size, max(1, len(sc.path.points)))
	}
	lower, upper := sh.span(0, Slots)
	if sc.it, err = sn.p.snap.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper}); err != nil {
		return nil, fmt.Errorf("scan of view %d: %w", r.View, err)
	}
	sc.sn = sn.share()
	sc.b = array.NewRecordBuilder(cmp.Or[memory.Allocator](r.Mem, memory.DefaultAllocator), sc.schema)
	sc.wire()
	return recordbatch.NewReader(sc.schema, sc.next, sc.close), nil
}

// A scan makes the batches of the reader.
type scan struct {
	ctx     context.Context
	sn      *Snapshot
	shape   *shape
	path    path
	changed *changedSince // instead of path, if not nil
	it      *pebble.Iterator
	schema  *arrow.Schema
	size    int

	b       *array.RecordBuilder
	keys    []array.Builder // in stored order up to the last wanted, nil when not wanted
	accs    []array.Builder // up to the last wanted, nil when not wanted
	columns []int
	extra   Extra
	slot    *array.Uint16Builder
	epoch   *array.Uint64Builder
	failed  *array.StringBuilder
	stored  *array.BinaryBuilder

	started bool
}

// project chooses the columns.
func (sc *scan) project(r *ScanRequest) error {
	sc.columns, sc.extra = r.Columns, r.Extra
	if r.Columns == nil {
		for i := range sc.shape.columns {
			sc.columns = append(sc.columns, i)
		}
	}
	var fields []arrow.Field
	seen := map[int]bool{}
	for _, c := range sc.columns {
		if c < 0 || c >= len(sc.shape.columns) || seen[c] {
			return fmt.Errorf("column %d is not one of the view's %d, or asked for twice", c, len(sc.shape.columns))
		}
		seen[c] = true
		fields = append(fields, sc.shape.columns[c].Type.InsideField(sc.shape.columns[c].Name))
	}
	fields = append(fields, extraFields(r.Extra)...)
	if sc.changed != nil {
		fields = append(fields, arrow.Field{Name: DeletedColumn, Type: arrow.FixedWidthTypes.Boolean})
	}
	sc.schema = arrow.NewSchema(fields, nil)
	return nil
}

func extraFields(e Extra) (fields []arrow.Field) {
	if e.Slot {
		fields = append(fields, arrow.Field{Name: SlotColumn, Type: arrow.PrimitiveTypes.Uint16})
	}
	if e.Epoch {
		fields = append(fields, arrow.Field{Name: EpochColumn, Type: arrow.PrimitiveTypes.Uint64})
	}
	if e.Error {
		fields = append(fields, sqltype.Type{ID: sqltype.Varchar}.InsideField(ErrorColumn))
	}
	if e.Key {
		fields = append(fields, sqltype.Type{ID: sqltype.Blob}.InsideField(KeyColumn))
	}
	return fields
}

// wire puts the builders where the decoders look for them.
func (sc *scan) wire() {
	nkeys := len(sc.shape.order)
	at := map[int]array.Builder{}
	for i, c := range sc.columns {
		at[c] = sc.b.Field(i)
	}
	for j, c := range sc.shape.order {
		if b := at[c]; b != nil {
			sc.keys = append(sc.keys, make([]array.Builder, j+1-len(sc.keys))...)
			sc.keys[j] = b
		}
	}
	for a := range len(sc.shape.columns) - nkeys {
		if b := at[nkeys+a]; b != nil {
			sc.accs = append(sc.accs, make([]array.Builder, a+1-len(sc.accs))...)
			sc.accs[a] = b
		}
	}
	next := len(sc.columns)
	if sc.extra.Slot {
		sc.slot = sc.b.Field(next).(*array.Uint16Builder)
		next++
	}
	if sc.extra.Epoch {
		sc.epoch = sc.b.Field(next).(*array.Uint64Builder)
		next++
	}
	if sc.extra.Error {
		sc.failed = sc.b.Field(next).(*array.StringBuilder)
		next++
	}
	if sc.extra.Key {
		sc.stored = sc.b.Field(next).(*array.BinaryBuilder)
		next++
	}
	if sc.changed != nil {
		sc.changed.deleted = sc.b.Field(next).(*array.BooleanBuilder)
	}
}

// advance moves the iterator to the next row of the path.
func (sc *scan) advance() bool {
	if sc.changed != nil {
		return sc.changed.advance(sc.it)
	}
	p := &sc.path
	if p.exact {
		for len(p.points) > 0 {
			key := p.points[0]
			p.points = p.points[1:]
			if sc.it.SeekPrefixGE(key) || sc.it.Error() != nil {
				return sc.it.Error() == nil
			}
		}
		return false
	}
	if sc.started && sc.it.Next() {
		return true
	}
	for len(p.spans) > 0 && sc.it.Error() == nil {
		sc.it.SetBounds(p.spans[0][0], p.spans[0][1])
		p.spans = p.spans[1:]
		sc.started = true
		if sc.it.First() {
			return true
		}
	}
	return false
}

// next reads a batch, nil at the end.
func (sc *scan) next() (arrow.RecordBatch, error) {
	if err := sc.ctx.Err(); err != nil {
		return nil, err
	}
	rows := 0
	if sc.path.exact {
		sc.b.Reserve(min(sc.size, len(sc.path.points)))
	} else {
		sc.b.Reserve(sc.size)
	}
	for rows < sc.size && sc.advance() {
		taken, err := sc.row()
		if err != nil {
			return nil, fmt.Errorf("scan of view %d: group %x: %w", sc.shape.id, sc.it.Key(), err)
		}
		if taken {
			rows++
		}
	}
	if err := sc.it.Error(); err != nil {
		return nil, fmt.Errorf("scan of view %d: %w", sc.shape.id, err)
	}
	if rows == 0 {
		return nil, nil
	}
	cols := make([]arrow.Array, len(sc.schema.Fields()))
	for i, b := range sc.b.Fields() {
		cols[i] = b.NewArray()
		defer cols[i].Release()
	}
	return array.NewRecordBatch(sc.schema, cols, int64(rows)), nil
}

// row decodes the row under the iterator, if the filters allow it.
func (sc *scan) row() (bool, error) {
	var key []byte
	switch c := sc.changed; {
	case c == nil:
		key = sc.it.Key()
	case c.gone:
		key = c.key
	default:
		key = c.key
		value, err := sc.it.ValueAndErr()
		if err != nil {
			return false, err
		}
		if epoch, _, _, _, err := readHeader(value); err != nil || epoch <= c.since {
			return false, err
		}
	}
	if len(key) < 5 {
		return false, codec.ErrCorrupt
	}
	stored := key[4:]
	slot, key := key[4], key[5:]
	if !sc.path.exact && len(sc.path.tests) > 0 {
		if ok, err := sc.path.allows(sc.shape, key); !ok {
			return false, err
		}
	}
	if sc.stored != nil {
		sc.stored.Append(stored)
	}
	var err error
	for j, b := range sc.keys {
		if key, err = sc.shape.decoders[j](b, key); err != nil {
			return false, err
		}
	}
	if sc.slot != nil {
		sc.slot.Append(uint16(slot))
	}
	if sc.changed != nil {
		sc.changed.deleted.Append(sc.changed.gone)
		if sc.changed.gone {
			sc.nulls()
			return true, nil
		}
	}
	if len(sc.accs) == 0 && sc.epoch == nil && sc.failed == nil {
		return true, nil
	}
	value, err := sc.it.ValueAndErr()
	if err != nil {
		return false, err
	}
	epoch, failed, msg, rest, err := readHeader(value)
	if err != nil {
		return false, err
	}
	if sc.epoch != nil {
		sc.epoch.Append(epoch)
	}
	if sc.failed != nil {
		if failed {
			sc.failed.BinaryBuilder.Append(msg)
		} else {
			sc.failed.AppendNull()
		}
	}
	if len(sc.accs) == 0 {
		return true, nil
	}
	return true, sc.shape.layout.Show(rest, sc.accs)
}

// nulls stands for the value of a group that is gone.
func (sc *scan) nulls() {
	if sc.epoch != nil {
		sc.epoch.AppendNull()
	}
	if sc.failed != nil {
		sc.failed.AppendNull()
	}
	for _, b := range sc.accs {
		if b != nil {
			b.AppendNull()
		}
	}
}

func (sc *scan) close() {
	sc.b.Release()
	_ = sc.it.Close() // its errors were seen by next
	sc.sn.Close()
}
