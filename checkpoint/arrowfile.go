package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/internal/recordbatch"
)

const (
	magic         = "ARROW1"
	headMagic     = magic + "\x00\x00" // padded to 8 bytes
	footerTrailer = 4 + len(magic)     // the footer's length and the magic
	indexKey      = "weir.index"
	versionKey    = "weir.format_version"

	// batchRows is the most rows of a batch, and batchBytes about the most bytes
	// before compression: wide rows make smaller batches.
	batchRows  = 8192
	batchBytes = 32 << 20
)

// endOfStream ends the messages of a file, before the footer.
var endOfStream = [8]byte{0xff, 0xff, 0xff, 0xff}

func crc32c(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// An index stands in the footer's metadata under "weir.index". With the tail's
// checksum in the manifest it covers every byte of the file.
type index struct {
	FormatVersion int       `json:"format_version"`
	Rows          int64     `json:"rows"`
	Head          segment   `json:"head"` // magic and schema
	Batches       []segment `json:"batches"`
	// Slots maps each slot that has rows to [batch, row] of the first of them.
	Slots map[string][2]int64 `json:"slots,omitempty"`
}

// A segment is a range of a file.
type segment struct {
	Offset int64  `json:"offset"`
	Length int64  `json:"length"`
	Rows   int64  `json:"rows,omitempty"`
	CRC32C uint32 `json:"crc32c"`
}

func (s segment) end() int64 { return s.Offset + s.Length }

// A File is what the manifest says of one Arrow file.
type File struct {
	Name   string `json:"name"` // within the checkpoint, with forward slashes
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Tail is everything behind the last batch: end of stream and footer. The
	// footer's index covers what is before it.
	Tail segment `json:"tail"`
}

// An arrowWriter writes one Arrow IPC file: ZSTD, no dictionaries, the footer
// with the index. It holds one encoded batch in memory.
type arrowWriter struct {
	w      io.Writer
	schema *arrow.Schema
	ipc    *ipc.Writer
	sum    hash.Hash
	pos    int64
	buf    bytes.Buffer
	rows   int64 // of the batch that is being written
	blocks []block
	index  index
	slot   int // last slot seen, -1 before the first
}

func newArrowWriter(w io.Writer, schema *arrow.Schema, mem memory.Allocator) *arrowWriter {
	a := &arrowWriter{w: w, schema: schema, sum: sha256.New(), slot: -1}
	a.index = index{FormatVersion: FormatVersion, Batches: []segment{}}
	a.ipc = ipc.NewWriterWithPayloadWriter((*payloads)(a), ipc.WithSchema(schema), ipc.WithAllocator(mem), ipc.WithZstd())
	return a
}

// Write appends rec in batches of the format's size. slots has the slot of each
// row, rising from call to call, or is nil in a file that has none.
func (a *arrowWriter) Write(rec arrow.RecordBatch, slots *array.Uint16) error {
	n := rec.NumRows()
	step := min(n, batchRows)
	if size := recordbatch.Bytes(rec); size > batchBytes {
		step = max(1, min(step, n*batchBytes/size))
	}
	for from := int64(0); from < n; from += step {
		to := min(n, from+step)
		part := rec.NewSlice(from, to)
		a.rows = to - from
		err := a.ipc.Write(part)
		part.Release()
		if err != nil {
			return err
		}
		for i := from; slots != nil && i < to; i++ {
			s := int(slots.Value(int(i)))
			if s < a.slot {
				return fmt.Errorf("rows out of order: slot %d after %d", s, a.slot)
			}
			if s > a.slot {
				if a.index.Slots == nil {
					a.index.Slots = map[string][2]int64{}
				}
				a.index.Slots[strconv.Itoa(s)] = [2]int64{int64(len(a.blocks) - 1), i - from}
				a.slot = s
			}
		}
		a.index.Rows += to - from
	}
	return nil
}

// Close writes the footer and says what the file is; the caller names it.
func (a *arrowWriter) Close() (File, error) {
	if err := a.ipc.Close(); err != nil {
		return File{}, err
	}
	tail := a.pos
	text, err := json.Marshal(a.index)
	if err != nil {
		return File{}, err
	}
	footer, err := appendFooter(a.schema, a.blocks, []keyValue{
		{versionKey, strconv.Itoa(FormatVersion)},
		{indexKey, string(text)},
	})
	if err != nil {
		return File{}, fmt.Errorf("footer: %w", err)
	}
	a.buf.Reset()
	a.buf.Write(endOfStream[:])
	a.buf.Write(footer)
	a.buf.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(footer))))
	a.buf.WriteString(magic)
	seg, err := a.flush()
	if err != nil {
		return File{}, err
	}
	return File{Rows: a.index.Rows, Bytes: a.pos, SHA256: hex.EncodeToString(a.sum.Sum(nil)), Tail: segment{Offset: tail, Length: seg.Length, CRC32C: seg.CRC32C}}, nil
}

// flush writes what is in buf. The checksums are taken first: a vfs.File may
// change the bytes that it is given.
func (a *arrowWriter) flush() (segment, error) {
	b := a.buf.Bytes()
	s := segment{Offset: a.pos, Length: int64(len(b)), CRC32C: crc32c(b)}
	a.sum.Write(b)
	a.pos += s.Length
	_, err := a.w.Write(b)
	return s, err
}

// payloads is the arrowWriter as the sink of arrow-go's encoder.
type payloads arrowWriter

// Start does nothing: a stream writer of arrow-go does not call it.
func (p *payloads) Start() error { return nil }

// WritePayload gets the schema first and then, as there are no dictionaries,
// one record batch a call.
func (p *payloads) WritePayload(m ipc.Payload) error {
	a := (*arrowWriter)(p)
	first := a.pos == 0
	p.buf.Reset()
	if first {
		p.buf.WriteString(headMagic)
	}
	meta, err := m.WritePayload(&p.buf)
	if err != nil {
		return err
	}
	body := int64(p.buf.Len() - meta) // of a batch
	s, err := a.flush()
	if err != nil {
		return err
	}
	if first {
		a.index.Head = s
		return nil
	}
	s.Rows = a.rows
	a.index.Batches = append(a.index.Batches, s)
	a.blocks = append(a.blocks, block{offset: s.Offset, meta: int32(meta), body: body})
	return nil
}

// Close does nothing: the end of the stream belongs to the tail.
func (p *payloads) Close() error { return nil }
