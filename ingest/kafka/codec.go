package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// inflater decompresses batches, reusing its memory from one to the next.
type inflater struct {
	limit int // bytes that one batch may become
	out   []byte
	in    bytes.Reader
	gzip  *gzip.Reader
	lz4   *lz4.Reader
	zstd  *zstd.Decoder
}

var errInflated = errors.New("a compressed batch is over the size limit when decompressed")

// xerial begins Java's framing of snappy: 8 bytes of magic and two versions,
// then blocks, each after its length. Other clients send one bare block.
const xerial = "\x82SNAPPY\x00"

// inflate gives the bytes of a batch, valid until the next call.
func (f *inflater) inflate(codec uint16, b []byte) (out []byte, err error) {
	f.in.Reset(b)
	switch codec {
	case 0:
		return b, nil
	case 1:
		if f.gzip == nil {
			f.gzip = new(gzip.Reader)
		}
		if err := f.gzip.Reset(&f.in); err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		if err := f.readAll(f.gzip); err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
	case 2:
		if err := f.snappy(b); err != nil {
			return nil, fmt.Errorf("snappy: %w", err)
		}
	case 3:
		if f.lz4 == nil {
			f.lz4 = lz4.NewReader(nil)
		}
		f.lz4.Reset(&f.in)
		if err := f.readAll(f.lz4); err != nil {
			return nil, fmt.Errorf("lz4: %w", err)
		}
	case 4:
		if f.zstd == nil {
			// Its limit is one of the window too, which is 8 MiB for no more than a
			// few bytes at some encoders.
			f.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(max(f.limit, 8<<20))))
			if err != nil {
				return nil, err
			}
		}
		f.out, err = f.zstd.DecodeAll(b, f.out[:0])
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) || len(f.out) > f.limit {
			err = errInflated
		}
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
	default:
		return nil, fmt.Errorf("unknown compression %d", codec)
	}
	return f.out, nil
}

func (f *inflater) readAll(r io.Reader) error {
	f.out = f.out[:0]
	for {
		if len(f.out) == cap(f.out) {
			f.out = slices.Grow(f.out, max(64<<10, cap(f.out)))
		}
		n, err := r.Read(f.out[len(f.out):cap(f.out)])
		f.out = f.out[:len(f.out)+n]
		switch {
		case len(f.out) > f.limit:
			return errInflated
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

func (f *inflater) snappy(b []byte) error {
	f.out = f.out[:0]
	if len(b) < 16 || string(b[:8]) != xerial {
		return f.block(b)
	}
	for b = b[16:]; len(b) > 0; {
		if len(b) < 4 {
			return io.ErrUnexpectedEOF
		}
		n := int(binary.BigEndian.Uint32(b))
		if b = b[4:]; n > len(b) {
			return io.ErrUnexpectedEOF
		}
		if err := f.block(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// block appends one decompressed snappy block to out.
func (f *inflater) block(b []byte) error {
	n, err := s2.DecodedLen(b)
	if err != nil {
		return err
	}
	end := len(f.out)
	// A byte of snappy can stand for at most 64/3 bytes, so a length that the
	// block can't hold is not worth its memory.
	if n > 22*len(b)+64 || end+n > f.limit {
		return errInflated
	}
	f.out = slices.Grow(f.out, n)[:end+n]
	_, err = s2.Decode(f.out[end:], b)
	return err
}
