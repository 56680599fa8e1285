package checkpoint

import (
	"fmt"
	"io"
	"sort"
	"sync"
)

// A ViewFile is the Arrow file of a view, to be read at any place as bytes. What
// it gives was verified, a segment at a time: the head, a batch or the tail. It is
// safe for concurrent use.
type ViewFile struct {
	Size   int64
	SHA256 string // of the whole file, hexadecimal

	file     *arrowFile
	segments []segment // of the whole file, without a gap

	mu   sync.Mutex
	at   int    // the segment in held, -1 when there is none; guarded by mu
	held []byte // guarded by mu
}

// ViewFile opens the file of a view. It is nil, without an error, when the view
// is not one file but a base and deltas: [Table.Rows] reads both. The caller
// closes it.
func (c *Checkpoint) ViewFile(view string) (*ViewFile, error) {
	v, ok := c.Manifest.View(view)
	if !ok {
		return nil, &Error{Kind: ErrMismatch, Path: c.dir, What: fmt.Sprintf("checkpoint %d has no view %s", c.Manifest.Checkpoint, view)}
	}
	if v.File.Name == "" {
		return nil, nil
	}
	a, err := openArrow(c.fs, c.path(v.File), v.File)
	if err != nil {
		return nil, err
	}
	f := &ViewFile{Size: v.File.Bytes, SHA256: v.File.SHA256, file: a, at: -1}
	f.segments = append(f.segments, a.index.Head)
	f.segments = append(f.segments, a.index.Batches...)
	f.segments = append(f.segments, v.File.Tail)
	return f, nil
}

// ReadAt reads verified bytes. Of a damaged segment it gives none.
func (f *ViewFile) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("read %s: offset %d", f.file.path, off)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for n < len(p) {
		at := off + int64(n)
		if at >= f.Size {
			return n, io.EOF
		}
		i := sort.Search(len(f.segments), func(i int) bool { return f.segments[i].end() > at })
		if i == len(f.segments) {
			return n, damaged(f.file.path, "byte %d belongs to no segment", at)
		}
		if i != f.at {
			f.at = -1
			if f.held, err = f.file.read(f.segments[i], fmt.Sprintf("segment %d", i)); err != nil {
				return n, err
			}
			f.at = i
		}
		n += copy(p[n:], f.held[at-f.segments[i].Offset:])
	}
	return n, nil
}

// Close closes the file.
func (f *ViewFile) Close() error { return f.file.Close() }
