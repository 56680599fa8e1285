package checkpoint

import (
	"fmt"
	"slices"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/internal/recordbatch"
	"weir/state/sqltype"
)

// A conversion rewrites arrays of one Arrow form into the other, at every depth
// of a nested type. Buffers that are equal in both are shared, not copied.
type conversion struct {
	mem      memory.Allocator
	from, to func(sqltype.Type) arrow.DataType
	// leaf converts a type that is not nested. A nil result says that both forms
	// have the same bytes. misfits are rows, counted from the array's offset,
	// whose value the other form cannot hold; a zero stands in their place.
	leaf func(*conversion, sqltype.Type, arrow.ArrayData) (out arrow.ArrayData, misfits []int)
}

// toFile converts an inside array to the file form. misfits are the rows that
// hold a value which the file form cannot: they are NULL in the result. The
// caller releases the result.
func toFile(mem memory.Allocator, t sqltype.Type, a arrow.Array) (out arrow.Array, misfits []int, err error) {
	c := conversion{mem: mem, from: sqltype.Type.Inside, to: sqltype.Type.File, leaf: leafToFile}
	return c.array(t, a)
}

// toInside is the inverse of toFile. A file that Weir wrote has no misfits.
func toInside(mem memory.Allocator, t sqltype.Type, a arrow.Array) (arrow.Array, error) {
	c := conversion{mem: mem, from: sqltype.Type.File, to: sqltype.Type.Inside, leaf: leafToInside}
	out, misfits, err := c.array(t, a)
	if err == nil && len(misfits) > 0 {
		out.Release()
		return nil, fmt.Errorf("row %d: value is not one of %s", misfits[0], t)
	}
	return out, err
}

// narrower says whether some values of t do not fit its file form.
func narrower(t sqltype.Type) bool {
	_, ok := t.Find(func(t sqltype.Type) bool {
		return t.ID == sqltype.HugeInt || t.ID == sqltype.UHugeInt || t.ID == sqltype.TimestampS || t.ID == sqltype.TimestampMS
	})
	return ok
}

func (c *conversion) array(t sqltype.Type, a arrow.Array) (arrow.Array, []int, error) {
	in := a.Data()
	out, misfits, err := c.data(t, in)
	if err != nil {
		return nil, nil, err
	}
	misfits = slices.DeleteFunc(misfits, func(i int) bool { return i < 0 || i >= in.Len() || a.IsNull(i) })
	slices.Sort(misfits)
	misfits = slices.Compact(misfits)
	if len(misfits) > 0 {
		nulled := recordbatch.Nulled(c.mem, out, misfits)
		out.Release()
		out = nulled
	}
	defer out.Release()
	return array.MakeFromData(out), misfits, nil
}

// data returns d in the other form with the same length and offset, so that
// validity and offset buffers are shared with it.
func (c *conversion) data(t sqltype.Type, d arrow.ArrayData) (arrow.ArrayData, []int, error) {
	got, want := storage(d.DataType()), c.from(t)
	if !sameLayout(got, want) && (t.ID != sqltype.Boolean || got.ID() != arrow.BOOL && got.ID() != arrow.INT8) {
		return nil, nil, fmt.Errorf("array of %s where %s travels as %s", got, t, want)
	}
	var misfits []int
	var children []arrow.ArrayData
	defer func() {
		for _, ch := range children {
			ch.Release()
		}
	}()
	child := func(t sqltype.Type, i int, row func(int) int) error {
		ch, bad, err := c.data(t, d.Children()[i])
		if err != nil {
			return err
		}
		children = append(children, ch)
		for _, j := range bad {
			misfits = append(misfits, row(j))
		}
		return nil
	}
	switch t.ID {
	case sqltype.List:
		if err := child(*t.Elem, 0, listRow(d)); err != nil {
			return nil, nil, err
		}
	case sqltype.Map:
		entries := sqltype.Type{ID: sqltype.Struct, Fields: t.Fields}
		sub := *c
		to := c.to(t).(*arrow.MapType)
		sub.to = func(u sqltype.Type) arrow.DataType {
			if u.ID == sqltype.Struct && len(u.Fields) == 2 && &u.Fields[0] == &t.Fields[0] {
				return to.Elem()
			}
			return c.to(u)
		}
		ch, bad, err := sub.data(entries, d.Children()[0])
		if err != nil {
			return nil, nil, err
		}
		children = append(children, ch)
		for _, j := range bad {
			misfits = append(misfits, listRow(d)(j))
		}
	case sqltype.Array:
		if err := child(*t.Elem, 0, func(j int) int { return j/t.Size - d.Offset() }); err != nil {
			return nil, nil, err
		}
	case sqltype.Struct:
		for i, f := range t.Fields {
			if err := child(f.Type, i, func(j int) int { return j - d.Offset() }); err != nil {
				return nil, nil, err
			}
		}
	default:
		if out, bad := c.leaf(c, t, d); out != nil {
			return out, bad, nil
		}
	}
	return array.NewData(c.to(t), d.Len(), d.Buffers(), children, nulls(d), d.Offset()), misfits, nil
}

// listRow maps an element of a list's child to the list that holds it.
func listRow(d arrow.ArrayData) func(int) int {
	return func(j int) int {
		offsets := arrow.Int32Traits.CastFromBytes(d.Buffers()[1].Bytes())[d.Offset():]
		return sort.Search(d.Len(), func(i int) bool { return int(offsets[i+1]) > j })
	}
}
