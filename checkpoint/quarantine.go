package checkpoint

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state"
	"weir/state/sqltype"
)

const quarantineFile = "quarantine.arrow"

// quarantineColumns are the columns of quarantine.arrow.
func quarantineColumns() []Column {
	column := func(name string, id sqltype.ID) Column {
		return Column{Name: name, Type: sqltype.Type{ID: id}, Role: RoleSystem}
	}
	return []Column{
		column("source", sqltype.UInteger),
		column("view", sqltype.UInteger),
		column("seq", sqltype.UBigInt),
		column("epoch", sqltype.UBigInt),
		column("topic", sqltype.Varchar),
		column("partition", sqltype.Integer),
		column("offset", sqltype.BigInt),
		column("timestamp", sqltype.BigInt),
		column("column", sqltype.Varchar),
		column("reason", sqltype.Varchar),
		column("key", sqltype.Blob),
		column("value", sqltype.Blob),
	}
}

func quarantineSchema() *arrow.Schema {
	var fields []arrow.Field
	for _, c := range quarantineColumns() {
		fields = append(fields, c.field())
	}
	meta := arrow.NewMetadata([]string{versionKey}, []string{strconv.Itoa(FormatVersion)})
	return arrow.NewSchema(fields, &meta)
}

// refusedPage is how many refused records are read from the snapshot at once.
const refusedPage = 256

// writeQuarantine writes the refused records that snap still keeps.
func writeQuarantine(ctx context.Context, w io.Writer, snap Snapshot, mem memory.Allocator) (File, error) {
	schema := quarantineSchema()
	out := newArrowWriter(w, schema, mem)
	b := array.NewRecordBuilder(mem, schema)
	defer b.Release()
	flush := func() error {
		rec := b.NewRecordBatch()
		defer rec.Release()
		return out.Write(rec, nil)
	}
	pending, bytes := 0, 0
	for _, src := range snap.Catalog().Sources {
		for after := uint64(0); ; {
			if err := ctx.Err(); err != nil {
				return File{}, err
			}
			page, err := snap.Refused(src.ID, after, refusedPage)
			if err != nil {
				return File{}, fmt.Errorf("quarantine of %s: %w", src.Name, err)
			}
			for _, r := range page {
				appendRefused(b, r)
				after = r.Seq
				bytes += len(r.Key) + len(r.Value) + len(r.Reason)
				if pending++; pending == batchRows || bytes >= batchBytes {
					if err := flush(); err != nil {
						return File{}, err
					}
					pending, bytes = 0, 0
				}
			}
			if len(page) == 0 {
				break
			}
		}
	}
	if pending > 0 {
		if err := flush(); err != nil {
			return File{}, err
		}
	}
	return out.Close()
}

func appendRefused(b *array.RecordBuilder, r state.RefusedRecord) {
	b.Field(0).(*array.Uint32Builder).Append(uint32(r.Source))
	b.Field(1).(*array.Uint32Builder).Append(uint32(r.View))
	b.Field(2).(*array.Uint64Builder).Append(r.Seq)
	b.Field(3).(*array.Uint64Builder).Append(r.Epoch)
	b.Field(4).(*array.StringBuilder).Append(r.Topic)
	b.Field(5).(*array.Int32Builder).Append(r.Partition)
	b.Field(6).(*array.Int64Builder).Append(r.Offset)
	b.Field(7).(*array.Int64Builder).Append(r.Timestamp)
	b.Field(8).(*array.StringBuilder).Append(r.Column)
	b.Field(9).(*array.StringBuilder).Append(r.Reason)
	for i, v := range [][]byte{r.Key, r.Value} {
		if f := b.Field(10 + i).(*array.BinaryBuilder); v == nil {
			f.AppendNull() // the record had none, which is not an empty one
		} else {
			f.Append(v)
		}
	}
}

// refusedRows reads a batch of quarantine.arrow.
func refusedRows(rec arrow.RecordBatch) (out []state.RefusedRecord, err error) {
	if err := sameColumns(rec.Schema(), quarantineColumns()); err != nil {
		return nil, err
	}
	for i, c := range rec.Columns()[:10] {
		if c.NullN() > 0 {
			return nil, fmt.Errorf("column %s has a NULL", rec.ColumnName(i))
		}
	}
	clone := func(i, row int) []byte {
		a := rec.Column(i).(*array.Binary)
		if a.IsNull(row) {
			return nil
		}
		return append([]byte{}, a.Value(row)...)
	}
	text := func(i, row int) string { return string([]byte(rec.Column(i).(*array.String).Value(row))) }
	for i := range int(rec.NumRows()) {
		r := state.RefusedRecord{
			Seq:   rec.Column(2).(*array.Uint64).Value(i),
			Epoch: rec.Column(3).(*array.Uint64).Value(i),
		}
		r.Source = state.SourceID(rec.Column(0).(*array.Uint32).Value(i))
		r.View = state.ViewID(rec.Column(1).(*array.Uint32).Value(i))
		r.Topic, r.Partition = text(4, i), rec.Column(5).(*array.Int32).Value(i)
		r.Offset = rec.Column(6).(*array.Int64).Value(i)
		r.Timestamp = rec.Column(7).(*array.Int64).Value(i)
		r.Column, r.Reason = text(8, i), text(9, i)
		r.Key, r.Value = clone(10, i), clone(11, i)
		out = append(out, r)
	}
	return out, nil
}
