package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// arrow-go neither writes nor reads the metadata of a file's footer, so the
// footer is made here. It is a flatbuffer:
//
//	root ─> Footer { version int16, schema, dictionaries [Block],
//	                 recordBatches [Block], custom_metadata [KeyValue] }
//	Block    { offset int64, metaDataLength int32, (pad), bodyLength int64 }
//	KeyValue { key string, value string }
//
// The schema table is not encoded anew: arrow-go writes an empty file, its
// whole footer is appended, and our schema reference points into it. Offsets in
// a flatbuffer are relative, so the tables within it stay right.

// A block is one record batch of a file.
type block struct {
	offset int64
	meta   int32 // bytes of the message, prefix and padding included
	body   int64
}

type keyValue struct{ key, value string }

// Field numbers of Footer.
const (
	footerSchema  = 1
	footerKV      = 4
	footerVersion = 4 // the value of version: V5
)

// appendFooter returns the footer of a file, without the length and the magic
// that follow it.
func appendFooter(schema *arrow.Schema, blocks []block, kvs []keyValue) ([]byte, error) {
	old, err := emptyFooter(schema)
	if err != nil {
		return nil, err
	}
	schemaAt, ok := fieldTarget(old, rootTable(old), footerSchema)
	if !ok {
		return nil, errors.New("footer of an empty file has no schema")
	}

	// Fixed part: root, the vtable of Footer at 4, Footer at 20.
	const table = 20
	var b []byte
	le := binary.LittleEndian
	b = le.AppendUint32(b, table)
	for _, v := range []uint16{14, 24, 20, 4, 8, 12, 16, 0} { // vtable: sizes, then field offsets; two bytes of padding
		b = le.AppendUint16(b, v)
	}
	b = le.AppendUint32(b, table-4) // back to the vtable
	refs := len(b)
	b = append(b, make([]byte, 16)...) // schema, dictionaries, recordBatches, custom_metadata
	b = le.AppendUint32(b, footerVersion)
	point := func(at, target int) { le.PutUint32(b[at:], uint32(target-at)) }

	vector := func(ref, n int) {
		for len(b)%8 != 4 { // Blocks are aligned to 8
			b = append(b, 0)
		}
		point(ref, len(b))
		b = le.AppendUint32(b, uint32(n))
	}
	vector(refs+4, 0)
	vector(refs+8, len(blocks))
	for _, k := range blocks {
		b = le.AppendUint64(b, uint64(k.offset))
		b = le.AppendUint32(b, uint32(k.meta))
		b = le.AppendUint32(b, 0)
		b = le.AppendUint64(b, uint64(k.body))
	}
	vector(refs+12, len(kvs))
	entries := len(b)
	b = append(b, make([]byte, 4*len(kvs))...)
	for i, kv := range kvs {
		// The vtable of a KeyValue (8 bytes), the table, then its strings.
		vt := len(b)
		for _, v := range []uint16{8, 12, 4, 8} {
			b = le.AppendUint16(b, v)
		}
		point(entries+4*i, len(b))
		b = le.AppendUint32(b, uint32(len(b)-vt))
		at := len(b)
		b = append(b, make([]byte, 8)...)
		for j, s := range []string{kv.key, kv.value} {
			point(at+4*j, len(b))
			b = le.AppendUint32(b, uint32(len(s)))
			b = append(b, s...)
			b = append(b, 0)
			for len(b)%4 != 0 {
				b = append(b, 0)
			}
		}
	}
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	point(refs, len(b)+schemaAt)
	return append(b, old...), nil
}

// emptyFooter is the footer of a file with this schema and no batches.
func emptyFooter(schema *arrow.Schema) ([]byte, error) {
	var buf bytes.Buffer
	w, err := ipc.NewFileWriter(&buf, ipc.WithSchema(schema))
	if err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	b := buf.Bytes()
	if len(b) < footerTrailer {
		return nil, errors.New("empty file without a footer")
	}
	n := int(binary.LittleEndian.Uint32(b[len(b)-footerTrailer:]))
	if n > len(b)-footerTrailer {
		return nil, errors.New("empty file with an impossible footer")
	}
	return b[len(b)-footerTrailer-n : len(b)-footerTrailer], nil
}

// footerMetadata reads the custom metadata of a footer. It trusts no offset.
func footerMetadata(b []byte) (kvs []keyValue, err error) {
	defer func() {
		// Every access below is bounds-checked by the slice it goes through.
		if recover() != nil {
			kvs, err = nil, errors.New("footer is not a flatbuffer")
		}
	}()
	at, ok := fieldTarget(b, rootTable(b), footerKV)
	if !ok {
		return nil, errors.New("footer has no metadata")
	}
	le := binary.LittleEndian
	n := int(le.Uint32(b[at:]))
	if n > len(b)/4 {
		return nil, fmt.Errorf("footer of %d bytes with %d metadata entries", len(b), n)
	}
	for i := range n {
		ref := at + 4 + 4*i
		table := ref + int(le.Uint32(b[ref:]))
		var kv keyValue
		for j, dst := range []*string{&kv.key, &kv.value} {
			if s, ok := fieldTarget(b, table, j); ok {
				*dst = string(b[s+4:][:le.Uint32(b[s:])])
			}
		}
		kvs = append(kvs, kv)
	}
	return kvs, nil
}

func rootTable(b []byte) int { return int(binary.LittleEndian.Uint32(b)) }

// fieldTarget follows the reference in field i of the table at.
func fieldTarget(b []byte, table, i int) (int, bool) {
	le := binary.LittleEndian
	vt := table - int(int32(le.Uint32(b[table:])))
	if size := int(le.Uint16(b[vt:])); 4+2*i+2 > size {
		return 0, false
	}
	off := int(le.Uint16(b[vt+4+2*i:]))
	if off == 0 {
		return 0, false
	}
	return table + off + int(le.Uint32(b[table+off:])), true
}
