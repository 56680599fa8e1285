package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/state"
)

// An arrowFile is an open Arrow file of which every byte is verified before it
// is used: the tail by the manifest, the rest by the index in the tail. It is
// safe for concurrent use.
type arrowFile struct {
	file  vfs.File
	path  string
	index index

	mu     sync.Mutex
	refs   int // scans, and 1 until Close
	closed bool
}

// openArrow opens a file and verifies its size and its tail.
func openArrow(fsys vfs.FS, path string, want File) (_ *arrowFile, err error) {
	f, err := openSized(fsys, path, want)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	a := &arrowFile{file: f, path: path, refs: 1}
	tail, err := a.read(want.Tail, "footer")
	if err != nil {
		return nil, err
	}
	if len(tail) < len(endOfStream)+footerTrailer {
		return nil, damaged(path, "its footer of %d bytes is too short", len(tail))
	}
	kvs, err := footerMetadata(tail[len(endOfStream) : len(tail)-footerTrailer])
	if err != nil {
		return nil, damaged(path, "%v", err)
	}
	for _, kv := range kvs {
		if kv.key == indexKey {
			err := json.Unmarshal([]byte(kv.value), &a.index)
			if err == nil {
				err = a.index.check(want)
			}
			if err != nil {
				return nil, damaged(path, "the index in its footer: %v", err)
			}
			return a, nil
		}
	}
	return nil, damaged(path, "its footer has no %s", indexKey)
}

// check wants the index to cover the file from its first byte to the tail.
func (x *index) check(f File) error {
	end, rows := x.Head.end(), int64(0)
	if x.Head.Offset != 0 || end < int64(len(headMagic)) {
		return errors.New("the head does not begin the file")
	}
	for i, b := range x.Batches {
		if b.Offset != end || b.Length <= 0 || b.Rows < 0 {
			return fmt.Errorf("batch %d does not follow what is before it", i)
		}
		end, rows = b.end(), rows+b.Rows
	}
	if end != f.Tail.Offset || rows != x.Rows || rows != f.Rows {
		return errors.New("it is not that of this file")
	}
	for s, at := range x.Slots {
		if at[0] < 0 || at[0] >= int64(len(x.Batches)) || at[1] < 0 || at[1] >= x.Batches[at[0]].Rows {
			return fmt.Errorf("slot %s is outside", s)
		}
	}
	return nil
}

// read reads a segment and verifies it. what names it in the error.
func (a *arrowFile) read(s segment, what string) ([]byte, error) {
	b := make([]byte, s.Length)
	if _, err := a.file.ReadAt(b, s.Offset); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, damaged(a.path, "it ends within its %s", what)
		}
		return nil, fmt.Errorf("read %s: %w", a.path, err)
	}
	if got := crc32c(b); got != s.CRC32C {
		return nil, damaged(a.path, "its %s (bytes %d to %d) has CRC32C %08x, not %08x", what, s.Offset, s.end(), got, s.CRC32C)
	}
	return b, nil
}

// batches are those that hold rows of slots from up to but not including to.
func (a *arrowFile) batches(from, to int) (first, last int) {
	if len(a.index.Slots) == 0 || from <= 0 && to >= state.Slots {
		return 0, len(a.index.Batches)
	}
	begin := func(slot int) (int, int64, bool) { // of the first slot from here on that has rows
		for ; slot < state.Slots; slot++ {
			if at, ok := a.index.Slots[fmt.Sprint(slot)]; ok {
				return int(at[0]), at[1], true
			}
		}
		return len(a.index.Batches), 0, false
	}
	first, _, _ = begin(from)
	last, row, more := begin(to)
	if more && row > 0 {
		last++
	}
	return first, max(first, last)
}

// scan decodes batches first up to but not including last.
func (a *arrowFile) scan(mem memory.Allocator, first, last int) (_ *batchReader, err error) {
	if err := a.retain(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			a.release()
		}
	}()
	head, err := a.read(a.index.Head, "head")
	if err != nil {
		return nil, err
	}
	s := &segments{file: a, batch: first, last: last, rest: head[len(headMagic):]}
	// A file without its magic and footer is a stream of the same messages.
	r, err := ipc.NewReader(s, ipc.WithAllocator(mem))
	if err != nil {
		return nil, damaged(a.path, "its schema: %v", err)
	}
	return &batchReader{Reader: r, segments: s}, nil
}

func (a *arrowFile) retain() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return fmt.Errorf("%s: %w", a.path, fs.ErrClosed)
	}
	a.refs++
	return nil
}

func (a *arrowFile) release() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refs--; a.refs == 0 {
		return a.file.Close()
	}
	return nil
}

// Close lets scans that run come to their end.
func (a *arrowFile) Close() error {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return nil
	}
	a.closed = true
	a.mu.Unlock()
	return a.release()
}

// segments is the verified content of a file as a stream of messages.
type segments struct {
	file        *arrowFile
	batch, last int
	rest        []byte
	ended       bool
	err         error
}

func (s *segments) Read(p []byte) (int, error) {
	for len(s.rest) == 0 && s.err == nil {
		switch {
		case s.batch < s.last:
			s.rest, s.err = s.file.read(s.file.index.Batches[s.batch], fmt.Sprintf("batch %d", s.batch))
			s.batch++
		case !s.ended:
			s.rest, s.ended = endOfStream[:], true
		default:
			s.err = io.EOF
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	if n > 0 {
		return n, nil
	}
	return 0, s.err
}

// A batchReader reads a range of batches.
type batchReader struct {
	*ipc.Reader
	segments *segments
	done     bool
}

// Err is the error of verification rather than what the decoder made of it.
func (r *batchReader) Err() error {
	if err := r.segments.err; err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := r.Reader.Err(); err != nil {
		return damaged(r.segments.file.path, "%v", err)
	}
	return nil
}

// close gives the reader and its hold on the file back.
func (r *batchReader) close() {
	if !r.done {
		r.done = true
		r.Reader.Release()
		r.segments.file.release()
	}
}

// verifyFile compares a whole file with its sha256.
func verifyFile(fsys vfs.FS, path string, want File) error {
	f, err := openSized(fsys, path, want)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want.SHA256 {
		return damaged(path, "its sha256 is %s, not %s", got, want.SHA256)
	}
	return nil
}

// openSized opens a file that must have the size in the manifest.
func openSized(fsys vfs.FS, path string, want File) (vfs.File, error) {
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{Kind: ErrMissing, Path: path, What: "the manifest names this file", Do: otherCheckpoint}
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("stat %s: %w", path, err), f.Close())
	}
	if info.Size() != want.Bytes {
		return nil, errors.Join(damaged(path, "it has %d bytes, not %d", info.Size(), want.Bytes), f.Close())
	}
	return f, nil
}

// sameColumns wants a file's schema to be the one that the manifest promises,
// in everything that decides how bytes are read.
func sameColumns(s *arrow.Schema, cols []Column) error {
	if s.NumFields() != len(cols) {
		return fmt.Errorf("it has %d columns, not %d", s.NumFields(), len(cols))
	}
	for i, c := range cols {
		f := s.Field(i)
		want := c.Type.File()
		if f.Name != c.Name || !arrow.TypeEqual(deepStorage(f.Type), want) {
			return fmt.Errorf("column %d is %s %s, not %s %s", i, f.Name, f.Type, c.Name, want)
		}
	}
	return nil
}
