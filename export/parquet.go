package export

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"weir/internal/recordbatch"
	"weir/state/sqltype"
)

const (
	// groupRows and groupBytes bound a row group, which is encoded in memory
	// before it is written. The rows are as many as DuckDB puts into one, which
	// is what one of its threads reads; the bytes are before compression.
	groupRows  = 122_880
	groupBytes = 128 << 20

	columnsKey = "weir.columns"
)

// Options of a Parquet file. The zero value will do.
type Options struct {
	// Metadata is what the file says of itself beside its columns, for example
	// weir.epoch. DuckDB shows it as parquet_kv_metadata.
	Metadata map[string]string
	// FieldID, if set, gives the Parquet field id of a column or of a part of
	// one. path is the names from the column down; a list's part is "element",
	// a map's are "key" and "value".
	FieldID func(path []string) int32
	// GroupRows is the most rows of a row group; 0 is 122,880.
	GroupRows int
}

// Parquet writes all rows of a reader to w as one Parquet file, and says how
// many there were. columns are the names and SQL types of the reader's columns,
// whose batches are in file form. Of the types only these are another one for a
// reader in SQL: HUGEINT and UHUGEINT are DECIMAL(38,0), TIMESTAMP_S and _MS are
// TIMESTAMP, INTERVAL is STRUCT(months, days, micros), and T[n] is T[]; the
// metadata weir.columns has the SQL types in JSON.
//
// Memory is bounded by one row group and one batch. The reader stays the
// caller's. After an error what w was given is no file.
func Parquet(ctx context.Context, w io.Writer, columns []sqltype.Field, rows array.RecordReader, o Options) (n int64, err error) {
	schema, err := parquetSchema(columns, rows.Schema(), o)
	if err != nil {
		return 0, err
	}
	limit := int64(o.GroupRows)
	if limit <= 0 {
		limit = groupRows
	}
	props, err := properties(schema, limit)
	if err != nil {
		return 0, fmt.Errorf("begin Parquet file: %w", err)
	}
	fw, err := pqarrow.NewFileWriter(schema, onlyWriter{w}, props, pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		return 0, fmt.Errorf("begin Parquet file: %w", err)
	}
	g := groups{w: fw, limit: limit}
	for rows.Next() {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		rec, err := present(schema, columns, rows.RecordBatch())
		if err != nil {
			return n, err
		}
		err = g.write(rec)
		n += rec.NumRows()
		rec.Release()
		if err != nil {
			return n, fmt.Errorf("write Parquet file: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return n, err
	}
	if err := fw.Close(); err != nil {
		return n, fmt.Errorf("end Parquet file: %w", err)
	}
	return n, nil
}

// properties are those of the file. FLOAT and DOUBLE have no statistics: NaN is
// not among the least and greatest that Parquet writes down, and DuckDB, for
// which NaN is the greatest, then skips row groups that hold one.
func properties(schema *arrow.Schema, groupRows int64) (*parquet.WriterProperties, error) {
	props := []parquet.WriterProperty{
		parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCreatedBy("weir"), parquet.WithVersion(parquet.V2_LATEST),
		parquet.WithMaxRowGroupLength(groupRows), parquet.WithStats(true), parquet.WithAllocator(memory.DefaultAllocator),
	}
	s, err := pqarrow.ToParquet(schema, nil, pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, err
	}
	for i := range s.NumColumns() {
		if c := s.Column(i); c.PhysicalType() == parquet.Types.Float || c.PhysicalType() == parquet.Types.Double {
			props = append(props, parquet.WithStatsPath(c.ColumnPath(), false))
		}
	}
	return parquet.NewWriterProperties(props...), nil
}

// onlyWriter hides a Close from the encoder: files are closed by who opened them.
type onlyWriter struct{ io.Writer }

// groups cuts batches into row groups.
type groups struct {
	w           *pqarrow.FileWriter
	limit       int64
	rows, bytes int64 // of the open group
}

func (g *groups) write(rec arrow.RecordBatch) error {
	size := recordbatch.Bytes(rec)
	for from := int64(0); from < rec.NumRows(); {
		if g.rows >= g.limit || g.bytes >= groupBytes {
			if err := g.w.NewBufferedRowGroupChecked(); err != nil {
				return err
			}
			g.rows, g.bytes = 0, 0
		}
		to := min(rec.NumRows(), from+g.limit-g.rows)
		part := rec.NewSlice(from, to)
		err := g.w.WriteBuffered(part)
		part.Release()
		if err != nil {
			return err
		}
		g.rows, g.bytes = g.rows+to-from, g.bytes+size*(to-from)/rec.NumRows()
		from = to
	}
	return nil
}

// parquetSchema is what pqarrow is told to write. It keeps the metadata of the
// reader's fields and schema.
func parquetSchema(columns []sqltype.Field, in *arrow.Schema, o Options) (*arrow.Schema, error) {
	if in.NumFields() != len(columns) {
		return nil, fmt.Errorf("%d columns came where %d were announced", in.NumFields(), len(columns))
	}
	type column struct {
		Name string       `json:"name"`
		Type sqltype.Type `json:"sql_type"`
		Role string       `json:"role,omitempty"`
	}
	told := make([]column, len(columns))
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = parquetField(c.Name, c.Type)
		meta := in.Field(i).Metadata.ToMap()
		delete(meta, "ARROW:extension:name") // the type says it
		delete(meta, "ARROW:extension:metadata")
		if len(meta) > 0 {
			fields[i].Metadata = arrow.MetadataFrom(meta)
		}
		if o.FieldID != nil {
			fields[i] = numbered(fields[i], o.FieldID, nil)
		}
		told[i] = column{c.Name, c.Type, meta["weir.role"]}
	}
	text, err := json.Marshal(told)
	if err != nil {
		return nil, err
	}
	meta := in.Metadata().ToMap()
	maps.Copy(meta, o.Metadata)
	meta[columnsKey] = string(text)
	keys := slices.Sorted(maps.Keys(meta)) // equal input gives equal bytes
	values := make([]string, len(keys))
	for i, k := range keys {
		values[i] = meta[k]
	}
	m := arrow.NewMetadata(keys, values)
	return arrow.NewSchema(fields, &m), nil
}

// numbered puts field ids on a field and its parts.
func numbered(f arrow.Field, id func([]string) int32, path []string) arrow.Field {
	path = append(slices.Clip(path), f.Name)
	meta := f.Metadata.ToMap()
	if meta == nil {
		meta = map[string]string{}
	}
	meta["PARQUET:field_id"] = fmt.Sprint(id(path))
	f.Metadata = arrow.MetadataFrom(meta)
	switch t := f.Type.(type) {
	case *arrow.StructType:
		fs := make([]arrow.Field, t.NumFields())
		for i, p := range t.Fields() {
			fs[i] = numbered(p, id, path)
		}
		f.Type = arrow.StructOf(fs...)
	case *arrow.MapType:
		f.Type = arrow.MapOfFields(numbered(t.KeyField(), id, path), numbered(t.ItemField(), id, path))
	case *arrow.ListType:
		f.Type = arrow.ListOfField(numbered(t.ElemField(), id, path))
	}
	return f
}

// present is a batch under the schema of the file.
func present(schema *arrow.Schema, columns []sqltype.Field, in arrow.RecordBatch) (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, len(columns))
	defer func() {
		for _, c := range cols {
			if c != nil {
				c.Release()
			}
		}
	}()
	for i, c := range columns {
		a, err := retype(schema.Field(i).Type, in.Column(i))
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
		cols[i] = a
	}
	return array.NewRecordBatch(schema, cols, in.NumRows()), nil
}
