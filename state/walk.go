package state

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/state/agg"
	"weir/state/plan"
)

// A walker goes through the groups that a reader gives, one after the other. The
// reader has the state columns of a view, then any of __slot, __epoch and
// __error; its rows must rise by slot and key.
type walker struct {
	ctx   context.Context
	shape *shape
	in    array.RecordReader

	batch  arrow.RecordBatch // as it was read; nil before the first and after the last
	state  arrow.RecordBatch // its state columns
	epochs *array.Uint64     // nil when the reader has none
	failed *array.String     // nil when the reader has none
	keys   keyed
	at     int // the row it stands at
	last   []byte
	buf    []byte
	values *agg.Rows // of the batch, once value was asked for
}

// next goes to the next group. It is false at the end.
func (w *walker) next() (bool, error) {
	w.at++
	for w.batch == nil || w.at >= w.keys.rows {
		w.close()
		if err := w.ctx.Err(); err != nil {
			return false, err
		}
		if !w.in.Next() {
			return false, w.in.Err()
		}
		if err := w.load(w.in.RecordBatch()); err != nil {
			return false, err
		}
	}
	key := w.key()
	switch c := bytes.Compare(w.last, key); {
	case c == 0:
		return false, fmt.Errorf("two rows have the key %s", w.keyText())
	case c > 0:
		return false, fmt.Errorf("the row with the key %s is out of order", w.keyText())
	}
	if why, bad := w.failure(); bad && why == "" {
		return false, fmt.Errorf("%s is '' where the key is %s: give the reason, or NULL for a group that is not in error", ErrorColumn, w.keyText())
	}
	w.last = append(w.last[:0], key...)
	return true, nil
}

// load takes a batch in, which it retains.
func (w *walker) load(b arrow.RecordBatch) error {
	n := len(w.shape.columns)
	if int(b.NumCols()) < n {
		return fmt.Errorf("rows have %d columns, the state %d", b.NumCols(), n)
	}
	b.Retain()
	w.batch, w.at, w.epochs, w.failed, w.values = b, 0, nil, nil, nil
	w.state = array.NewRecordBatch(arrow.NewSchema(b.Schema().Fields()[:n], nil), b.Columns()[:n], b.NumRows())
	for i := n; i < int(b.NumCols()); i++ {
		switch b.ColumnName(i) {
		case EpochColumn:
			w.epochs, _ = b.Column(i).(*array.Uint64)
		case ErrorColumn:
			w.failed, _ = b.Column(i).(*array.String)
		}
	}
	return w.shape.encode(w.state, &w.keys)
}

func (w *walker) close() {
	if w.batch != nil {
		w.state.Release()
		w.batch.Release()
		w.batch = nil
	}
}

// key is the slot and key of the group, valid until the next batch.
func (w *walker) key() []byte { return w.keys.key(w.at) }

// epoch is that of the group's last change, 0 where the rows do not say.
func (w *walker) epoch() uint64 {
	if w.epochs == nil || w.epochs.IsNull(w.at) {
		return 0
	}
	return w.epochs.Value(w.at)
}

// failure is why the group is in error.
func (w *walker) failure() (string, bool) {
	if w.failed == nil || w.failed.IsNull(w.at) {
		return "", false
	}
	return w.failed.Value(w.at), true
}

// value is the stored form of the group's accumulators, valid until the next call.
func (w *walker) value() []byte {
	l := w.shape.layout
	if w.values == nil {
		w.values = &agg.Rows{Words: make([]uint64, w.keys.rows*l.Words()), Stride: l.Words(), Side: new(agg.Arena)}
		each := make([]uint32, w.keys.rows)
		for i := range each {
			each[i] = uint32(i)
		}
		for _, m := range w.keys.merges {
			m(w.values, each, func(int, string) {}) // one value alone overflows nothing
		}
	}
	w.buf = l.Append(w.buf[:0], w.values, uint32(w.at))
	return w.buf
}

// keyText shows the key to people.
func (w *walker) keyText() string {
	var parts []string
	for i := range w.shape.order {
		c := w.state.Column(i)
		text := "NULL"
		if c.IsValid(w.at) {
			text = c.ValueStr(w.at)
		}
		parts = append(parts, w.shape.columns[i].Name+" = "+text)
	}
	if parts == nil {
		return "of a view without GROUP BY"
	}
	return strings.Join(parts, ", ")
}

// A Difference is a group that two readers do not show alike: its batch and row
// in each, or a nil batch where it is not. Batches are valid during the call.
type Difference struct {
	A, B       arrow.RecordBatch
	ARow, BRow int
}

// Compare walks through the groups of a view in two readers, as Scan gives them
// with any of the extra columns, and calls f with those that are in one only, or
// whose accumulators or errors differ, in the order of slot and key. It returns
// how many are the same. Epochs are not compared.
func Compare(ctx context.Context, p *plan.View, a, b array.RecordReader, f func(Difference) error) (same int64, err error) {
	sh, err := newShape(0, p)
	if err != nil {
		return 0, err
	}
	x, y := &walker{ctx: ctx, shape: sh, in: a}, &walker{ctx: ctx, shape: sh, in: b}
	defer x.close()
	defer y.close()
	hasX, err := x.next()
	if err != nil {
		return 0, err
	}
	hasY, err := y.next()
	for err == nil && (hasX || hasY) {
		c := 0
		switch {
		case !hasY:
			c = -1
		case !hasX:
			c = 1
		default:
			c = bytes.Compare(x.key(), y.key())
		}
		switch {
		case c < 0:
			err = f(Difference{A: x.batch, ARow: x.at})
		case c > 0:
			err = f(Difference{B: y.batch, BRow: y.at})
		case x.sameAs(y):
			same++
		default:
			err = f(Difference{A: x.batch, ARow: x.at, B: y.batch, BRow: y.at})
		}
		if err == nil && c <= 0 {
			hasX, err = x.next()
		}
		if err == nil && c >= 0 {
			hasY, err = y.next()
		}
	}
	return same, err
}

// sameAs compares groups of one key. A group in error has no accumulators to speak of.
func (w *walker) sameAs(o *walker) bool {
	a, bad := w.failure()
	b, alsoBad := o.failure()
	if bad || alsoBad {
		return bad == alsoBad && a == b
	}
	return bytes.Equal(w.value(), o.value())
}
