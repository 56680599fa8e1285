package appliance

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/checkpoint"
	"weir/duckext"
	"weir/internal/recordbatch"
	"weir/state"
	"weir/state/sqltype"
)

// editRows is how many rows are looked at together: a row group of DuckDB.
const editRows = 122_880

// read gives the rows of a view by slot and key.
func (e *editor) read(ctx context.Context, v *editedView) (array.RecordReader, error) {
	if v.sorted == "" {
		if err := e.sort(ctx, v); err != nil {
			return nil, fmt.Errorf("order the groups of view %s: %w", v.view.Name, err)
		}
	}
	end, err := e.end(ctx, v.sorted)
	if err != nil {
		return nil, err
	}
	fields := v.view.Plan.StateColumns()
	fields = append(fields, v.fields[len(fields):]...)
	schema, table, at := insideSchema(fields), v.sorted, int64(0)
	return recordbatch.NewReader(schema, func() (arrow.RecordBatch, error) {
		if at >= end {
			return nil, nil
		}
		rec, err := e.s.Query(ctx, fmt.Sprintf("SELECT * FROM %s WHERE rowid >= %d AND rowid < %d ORDER BY rowid", table, at, at+editRows))
		if err != nil {
			return nil, err
		}
		at += editRows
		defer rec.Release()
		return array.NewRecordBatch(schema, rec.Columns(), rec.NumRows()), nil
	}, func() {}), nil
}

func insideSchema(fields []sqltype.Field) *arrow.Schema {
	out := make([]arrow.Field, len(fields))
	for i, f := range fields {
		out[i] = f.Type.InsideField(f.Name)
	}
	return arrow.NewSchema(out, nil)
}

// end is the row id behind the last row of a table.
func (e *editor) end(ctx context.Context, table string) (int64, error) {
	rec, err := e.s.Query(ctx, "SELECT coalesce(max(rowid) + 1, 0)::BIGINT FROM "+table)
	if err != nil {
		return 0, err
	}
	defer rec.Release()
	return rec.Column(0).(*array.Int64).Value(0), nil
}

// sort makes a table of the rows in the order of slot and key, which only Weir
// knows: it is computed a piece at a time and joined by row id.
func (e *editor) sort(ctx context.Context, v *editedView) error {
	keyer, err := state.NewKeyer(&v.view.Plan)
	if err != nil {
		return err
	}
	end, err := e.end(ctx, v.table)
	if err != nil {
		return err
	}
	places := e.name("places")
	if err := e.s.Exec("CREATE TABLE " + places + " (id BIGINT, place BLOB)"); err != nil {
		return err
	}
	list := []string{"rowid::BIGINT AS id"}
	for _, f := range v.fields[:len(v.view.Plan.Keys)] {
		list = append(list, quoted(f.Name))
	}
	piece := e.name("piece")
	for from := int64(0); from < end; from += editRows {
		rec, err := e.s.Query(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE rowid >= %d AND rowid < %d", strings.Join(list, ", "), v.table, from, from+editRows))
		if err != nil {
			return err
		}
		placed, err := placesOf(keyer, rec)
		if err != nil {
			return err
		}
		if err := e.s.Attach(piece, placed, 1); err != nil {
			return err
		}
		if err := e.exec(ctx, "INSERT INTO "+places+" SELECT * FROM "+piece); err != nil {
			return err
		}
	}
	sorted := e.name("sorted")
	err = e.exec(ctx, fmt.Sprintf("CREATE TABLE %s AS SELECT t.* FROM %s AS t JOIN %s AS p ON t.rowid = p.id ORDER BY p.place", sorted, v.table, places))
	if err != nil {
		return err
	}
	if err := e.s.Exec("DROP TABLE " + places); err != nil {
		return err
	}
	v.sorted = sorted
	return nil
}

// placesOf gives each row its place: its id, and bytes that sort as groups do.
func placesOf(keyer *state.Keyer, rec arrow.RecordBatch) (*oneRecord, error) {
	key, err := keyer.Bind(rec.Columns()[1:])
	if err != nil {
		return nil, err
	}
	b := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	defer b.Release()
	var buf []byte
	for i := range int(rec.NumRows()) {
		buf = key(buf[:0], i)
		b.Append(buf)
	}
	fields := []sqltype.Field{{Name: "id", Type: sqltype.Type{ID: sqltype.BigInt}}, {Name: "place", Type: sqltype.Type{ID: sqltype.Blob}}}
	return &oneRecord{fields, array.NewRecordBatch(insideSchema(fields), []arrow.Array{rec.Column(0), b.NewArray()}, rec.NumRows())}, nil
}

// stored is a view of a checkpoint as a table: its state, __epoch and __error.
type stored struct {
	t      *checkpoint.Table
	fields []sqltype.Field
}

func (s *stored) Columns() []sqltype.Field { return s.fields }

func (s *stored) Scan(ctx context.Context, spec duckext.ScanSpec) (array.RecordReader, error) {
	in, err := s.t.Scan(ctx, state.ScanRequest{FromSlot: spec.FromSlot, ToSlot: spec.ToSlot, Extra: state.Extra{Epoch: true, Error: true}})
	if err != nil {
		return nil, err
	}
	return picked(in, spec.Columns), nil
}

// picked passes some columns of batches on, in any order. It takes the reader over.
func picked(in array.RecordReader, columns []int) array.RecordReader {
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = in.Schema().Field(c)
	}
	schema := arrow.NewSchema(fields, nil)
	return recordbatch.NewReader(schema, func() (arrow.RecordBatch, error) {
		if !in.Next() {
			return nil, in.Err()
		}
		rec := in.RecordBatch()
		cols := make([]arrow.Array, len(columns))
		for i, c := range columns {
			cols[i] = rec.Column(c)
		}
		return array.NewRecordBatch(schema, cols, rec.NumRows()), nil
	}, in.Release)
}

// oneRecord is a batch as a table.
type oneRecord struct {
	fields []sqltype.Field
	rec    arrow.RecordBatch
}

func (o *oneRecord) Columns() []sqltype.Field { return o.fields }

func (o *oneRecord) Scan(_ context.Context, spec duckext.ScanSpec) (array.RecordReader, error) {
	cols := make([]arrow.Array, len(spec.Columns))
	fields := make([]arrow.Field, len(spec.Columns))
	for i, c := range spec.Columns {
		cols[i], fields[i] = o.rec.Column(c), o.rec.Schema().Field(c)
	}
	rec := array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, o.rec.NumRows())
	defer rec.Release()
	return array.NewRecordReader(rec.Schema(), []arrow.RecordBatch{rec})
}
