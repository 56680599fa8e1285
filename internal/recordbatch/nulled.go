package recordbatch

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Nulled is d with the given rows NULL, besides those that are. It shares the values
// of d; its bits of validity are of mem. The caller releases it.
func Nulled(mem memory.Allocator, d arrow.ArrayData, rows []int) arrow.ArrayData {
	bits := memory.NewResizableBuffer(mem)
	defer bits.Release()
	bits.Resize(int(bitutil.BytesForBits(int64(d.Offset() + d.Len()))))
	clear(bits.Bytes())
	if old := d.Buffers()[0]; old != nil && old.Len() > 0 {
		copy(bits.Bytes(), old.Bytes())
	} else {
		memory.Set(bits.Bytes(), 0xff)
	}
	for _, i := range rows {
		bitutil.ClearBit(bits.Bytes(), d.Offset()+i)
	}
	buffers := append([]*memory.Buffer{bits}, d.Buffers()[1:]...)
	return array.NewData(d.DataType(), d.Len(), buffers, d.Children(), array.UnknownNullCount, d.Offset())
}
