package iceberg

import (
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"
)

// The Avro schemas of format version 2, without what is optional but statistics.
// Readers find fields by field-id.
const (
	entrySchema = `{"type":"record","name":"manifest_entry","fields":[
{"name":"status","type":"int","field-id":0},
{"name":"snapshot_id","type":["null","long"],"default":null,"field-id":1},
{"name":"sequence_number","type":["null","long"],"default":null,"field-id":3},
{"name":"file_sequence_number","type":["null","long"],"default":null,"field-id":4},
{"name":"data_file","field-id":2,"type":{"type":"record","name":"r2","fields":[
 {"name":"content","type":"int","field-id":134},
 {"name":"file_path","type":"string","field-id":100},
 {"name":"file_format","type":"string","field-id":101},
 {"name":"partition","type":{"type":"record","name":"r102","fields":[]},"field-id":102},
 {"name":"record_count","type":"long","field-id":103},
 {"name":"file_size_in_bytes","type":"long","field-id":104},
 {"name":"column_sizes","type":["null",{"type":"array","logicalType":"map","items":{"type":"record","name":"k117_v118","fields":[
  {"name":"key","type":"int","field-id":117},{"name":"value","type":"long","field-id":118}]}}],"default":null,"field-id":108},
 {"name":"value_counts","type":["null",{"type":"array","logicalType":"map","items":{"type":"record","name":"k119_v120","fields":[
  {"name":"key","type":"int","field-id":119},{"name":"value","type":"long","field-id":120}]}}],"default":null,"field-id":109},
 {"name":"null_value_counts","type":["null",{"type":"array","logicalType":"map","items":{"type":"record","name":"k121_v122","fields":[
  {"name":"key","type":"int","field-id":121},{"name":"value","type":"long","field-id":122}]}}],"default":null,"field-id":110},
 {"name":"nan_value_counts","type":["null",{"type":"array","logicalType":"map","items":{"type":"record","name":"k138_v139","fields":[
  {"name":"key","type":"int","field-id":138},{"name":"value","type":"long","field-id":139}]}}],"default":null,"field-id":137},
 {"name":"lower_bounds","type":["null",{"type":"array","logicalType":"map","items":{"type":"record","name":"k126_v127","fields":[
  {"name":"key","type":"int","field-id":126},{"name":"value","type":"bytes","field-id":127}]}}],"default":null,"field-id":125},
 {"name":"upper_bounds","type":["null",{"type":"array","logicalType":"map","items":{"type":"record","name":"k129_v130","fields":[
  {"name":"key","type":"int","field-id":129},{"name":"value","type":"bytes","field-id":130}]}}],"default":null,"field-id":128}]}}]}`

	listSchema = `{"type":"record","name":"manifest_file","fields":[
{"name":"manifest_path","type":"string","field-id":500},
{"name":"manifest_length","type":"long","field-id":501},
{"name":"partition_spec_id","type":"int","field-id":502},
{"name":"content","type":"int","field-id":517},
{"name":"sequence_number","type":"long","field-id":515},
{"name":"min_sequence_number","type":"long","field-id":516},
{"name":"added_snapshot_id","type":"long","field-id":503},
{"name":"added_files_count","type":"int","field-id":504},
{"name":"existing_files_count","type":"int","field-id":505},
{"name":"deleted_files_count","type":"int","field-id":506},
{"name":"added_rows_count","type":"long","field-id":512},
{"name":"existing_rows_count","type":"long","field-id":513},
{"name":"deleted_rows_count","type":"long","field-id":514}]}`
)

// What happened to a data file in a snapshot.
const (
	added   = 1
	deleted = 2
)

type entry struct {
	Status       int32    `avro:"status"`
	Snapshot     *int64   `avro:"snapshot_id"`
	Sequence     *int64   `avro:"sequence_number"` // null: that of the snapshot
	FileSequence *int64   `avro:"file_sequence_number"`
	File         dataFile `avro:"data_file"`
}

type dataFile struct {
	Content   int32    `avro:"content"` // 0: rows
	Path      string   `avro:"file_path"`
	Format    string   `avro:"file_format"`
	Partition struct{} `avro:"partition"`
	Records   int64    `avro:"record_count"`
	Bytes     int64    `avro:"file_size_in_bytes"`

	// Statistics by id of column: none, but not missing, which pyiceberg's
	// inspection does not expect.
	Sizes  []sizeOf  `avro:"column_sizes"`
	Values []sizeOf  `avro:"value_counts"`
	Nulls  []sizeOf  `avro:"null_value_counts"`
	NaNs   []sizeOf  `avro:"nan_value_counts"`
	Lower  []boundOf `avro:"lower_bounds"`
	Upper  []boundOf `avro:"upper_bounds"`
}

type sizeOf struct {
	Column int32 `avro:"key"`
	Value  int64 `avro:"value"`
}

type boundOf struct {
	Column int32  `avro:"key"`
	Value  []byte `avro:"value"`
}

// newDataFile is a file of rows.
func newDataFile(path string, records, bytes int64) dataFile {
	return dataFile{
		Path: path, Format: "PARQUET", Records: records, Bytes: bytes,
		Sizes: []sizeOf{}, Values: []sizeOf{}, Nulls: []sizeOf{}, NaNs: []sizeOf{}, Lower: []boundOf{}, Upper: []boundOf{},
	}
}

type manifestFile struct {
	Path         string `avro:"manifest_path"`
	Length       int64  `avro:"manifest_length"`
	Spec         int32  `avro:"partition_spec_id"`
	Content      int32  `avro:"content"`
	Sequence     int64  `avro:"sequence_number"`
	MinSequence  int64  `avro:"min_sequence_number"`
	Snapshot     int64  `avro:"added_snapshot_id"`
	Added        int32  `avro:"added_files_count"`
	Existing     int32  `avro:"existing_files_count"`
	Deleted      int32  `avro:"deleted_files_count"`
	AddedRows    int64  `avro:"added_rows_count"`
	ExistingRows int64  `avro:"existing_rows_count"`
	DeletedRows  int64  `avro:"deleted_rows_count"`
}

// writeManifest writes the entries of a snapshot.
func writeManifest(w io.Writer, s *schema, entries []entry) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return writeAvro(w, entrySchema, map[string][]byte{
		"schema": text, "schema-id": []byte(strconv.Itoa(s.ID)), "partition-spec": []byte("[]"), "partition-spec-id": []byte("0"),
		"format-version": []byte("2"), "content": []byte("data"),
	}, entries)
}

// writeList writes the list of manifests of a snapshot.
func writeList(w io.Writer, s *snapshot, files []manifestFile) error {
	parent := "null"
	if s.Parent != nil {
		parent = strconv.FormatInt(*s.Parent, 10)
	}
	return writeAvro(w, listSchema, map[string][]byte{
		"snapshot-id": []byte(strconv.FormatInt(s.ID, 10)), "parent-snapshot-id": []byte(parent),
		"sequence-number": []byte(strconv.FormatInt(s.Sequence, 10)), "format-version": []byte("2"),
	}, files)
}

func writeAvro[T any](w io.Writer, schema string, meta map[string][]byte, rows []T) error {
	s, err := avro.Parse(schema)
	if err != nil {
		return fmt.Errorf("schema of a manifest: %w", err)
	}
	// pyiceberg takes a file that names no codec for one of gzip.
	out, err := ocf.NewWriter(w, s, ocf.WithSchema(schema), ocf.WithMetadata(meta), ocf.WithCodec(ocf.DeflateCodec(flate.DefaultCompression)))
	if err != nil {
		return fmt.Errorf("begin manifest: %w", err)
	}
	for i := range rows {
		if err := out.Encode(&rows[i]); err != nil {
			return fmt.Errorf("write manifest: %w", err)
		}
	}
	return out.Close()
}
