package export

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// blockSize is how much of a made file is verified at once when it is read.
	blockSize = 64 << 10
	madeFile  = ".made"
	tempFile  = ".tmp"
)

// ErrTooLarge is the error of a file that does not fit into its cache.
var ErrTooLarge = errors.New("larger than the cache of exported files")

// ErrDropped is for who waited for a file that was dropped meanwhile.
var ErrDropped = errors.New("the exported file was dropped while it was made")

// A Cache keeps files that are made on demand and read by many, in a directory
// of its own. It is emptied when it is opened: what a crash left there is never
// read, and what is read was made by this process and is verified block by block
// against checksums in its memory. Together the files take up to a limit; those
// that were not used for longest go first. A file that goes stays readable for
// who has it open.
//
// It is safe for concurrent use.
type Cache struct {
	dir   string
	limit int64
	base  context.Context // ends at Close
	stop  context.CancelFunc
	makes chan struct{} // one place: files are made one at a time
	wg    sync.WaitGroup

	seq atomic.Int64 // names of files

	mu    sync.Mutex
	files map[string]*made // guarded by mu
}

// made is one file, whole or being made.
type made struct {
	key    string
	done   chan struct{} // closed when it is whole or failed
	err    error
	file   *os.File
	size   int64
	sums   []uint32 // CRC32C of each block
	etag   string
	cancel context.CancelFunc

	waiting int       // guarded by Cache.mu: who waits for it to be made
	refs    int       // guarded by Cache.mu: open Files, and 1 while it is in the cache
	used    time.Time // guarded by Cache.mu
}

// OpenCache opens a cache in dir, which it makes, and removes the files that an
// earlier process left.
func OpenCache(dir string, limit int64) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory of exported files: %w", err)
	}
	old, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read directory of exported files: %w", err)
	}
	for _, e := range old {
		if ext := filepath.Ext(e.Name()); ext != madeFile && ext != tempFile {
			continue // not ours
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return nil, fmt.Errorf("clear exported files: %w", err)
		}
	}
	c := &Cache{dir: dir, limit: limit, makes: make(chan struct{}, 1), files: map[string]*made{}}
	c.base, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// Close ends the makers, waits for them, and removes all files.
func (c *Cache) Close() error {
	c.stop()
	c.wg.Wait()
	c.Drop(func(string) bool { return true })
	return nil
}

// Get opens the file of a key. When there is none it is made by write, once for
// all who ask at the same time; write goes on when one of them leaves, and its
// context ends when all have. A failure is not kept. The caller closes the File.
func (c *Cache) Get(ctx context.Context, key string, write func(context.Context, io.Writer) error) (*File, error) {
	c.mu.Lock()
	m, ok := c.files[key]
	if !ok {
		var making context.Context
		m = &made{key: key, done: make(chan struct{}), refs: 1}
		making, m.cancel = context.WithCancel(c.base)
		c.files[key] = m
		c.wg.Go(func() { c.make(making, m, write) })
	}
	m.waiting++
	c.mu.Unlock()
	select {
	case <-m.done:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m.waiting--
	if !m.whole() {
		if m.waiting == 0 {
			m.cancel()
			c.forget(m) // the next who asks has it made anew
		}
		return nil, ctx.Err()
	}
	if m.err != nil {
		return nil, m.err
	}
	return c.open(m)
}

// whole says that the file was made, or failed.
func (m *made) whole() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// Peek opens the file of a key if it is there and whole.
func (c *Cache) Peek(key string) (*File, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.files[key]
	if !ok || !m.whole() {
		return nil, false
	}
	f, err := c.open(m) // what failed is not in the map
	return f, err == nil
}

// Drop removes the files whose keys match.
func (c *Cache) Drop(match func(key string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, m := range c.files {
		if match(key) {
			m.cancel()
			c.forget(m)
		}
	}
}

// open gives one more hold on a file. c.mu must be held.
func (c *Cache) open(m *made) (*File, error) {
	if m.refs == 0 {
		return nil, ErrDropped
	}
	m.refs++
	m.used = time.Now()
	return &File{Size: m.size, ETag: m.etag, cache: c, made: m, at: -1}, nil
}

// forget takes a file out of the cache. c.mu must be held.
func (c *Cache) forget(m *made) {
	if c.files[m.key] == m {
		delete(c.files, m.key)
		c.release(m)
	}
}

// release gives a hold back; the last one removes the file, if it was made. c.mu
// must be held.
func (c *Cache) release(m *made) {
	if m.refs--; m.refs == 0 && m.file != nil {
		remove(m.file)
	}
}

// remove closes a file that was only read from, and removes it under the name
// that it got last.
func remove(f *os.File) {
	f.Close()
	os.Remove(finalName(f.Name()))
}

func finalName(temp string) string { return strings.TrimSuffix(temp, tempFile) + madeFile }

// make makes a file and puts it under its name.
func (c *Cache) make(ctx context.Context, m *made, write func(context.Context, io.Writer) error) {
	defer m.cancel()
	s := &summer{sum: sha256.New(), limit: c.limit}
	f, err := c.write(ctx, s, write)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(m.done)
	if err == nil && m.refs == 0 { // dropped while it was made
		remove(f)
		err = ErrDropped
	}
	if err != nil {
		m.err = err
		c.forget(m)
		return
	}
	m.file, m.size, m.sums, m.used = f, s.n, s.close(), time.Now()
	m.etag = `"` + hex.EncodeToString(s.sum.Sum(nil)[:16]) + `"`
	c.shrink(m)
}

// write makes the file of a key, or none at all.
func (c *Cache) write(ctx context.Context, s *summer, write func(context.Context, io.Writer) error) (f *os.File, err error) {
	select {
	case c.makes <- struct{}{}:
		defer func() { <-c.makes }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	name := filepath.Join(c.dir, fmt.Sprintf("%08d%s", c.seq.Add(1), tempFile))
	if f, err = os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err != nil {
		return nil, fmt.Errorf("make exported file: %w", err)
	}
	s.w = f
	defer func() {
		if r := recover(); r != nil { // of a library that writes the format
			err = fmt.Errorf("panic while exporting: %v\n%s", r, debug.Stack())
		}
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(name))
		}
	}()
	if err := write(ctx, s); err != nil {
		return f, err
	}
	if err := ctx.Err(); err != nil {
		return f, err
	}
	return f, os.Rename(name, finalName(name))
}

// shrink removes what was not used for longest until the limit holds, but not
// keep. c.mu must be held.
func (c *Cache) shrink(keep *made) {
	for {
		var total int64
		var oldest *made
		for _, m := range c.files {
			if m.file == nil {
				continue
			}
			total += m.size
			if m != keep && (oldest == nil || m.used.Before(oldest.used)) {
				oldest = m
			}
		}
		if total <= c.limit || oldest == nil {
			return
		}
		c.forget(oldest)
	}
}

// A File is an open file of a Cache. It is safe for concurrent use.
type File struct {
	Size int64
	ETag string // strong and quoted: it is that of the bytes

	cache *Cache
	made  *made
	once  sync.Once

	mu    sync.Mutex
	at    int64 // the block in block, -1 when there is none; guarded by mu
	block []byte
}

// ReadAt reads bytes that are those which were written.
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("read exported file: offset %d", off)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for n < len(p) {
		at := off + int64(n)
		if at >= f.Size {
			return n, io.EOF
		}
		if err := f.load(at / blockSize); err != nil {
			return n, err
		}
		n += copy(p[n:], f.block[at%blockSize:])
	}
	return n, nil
}

// load reads and verifies a block. f.mu must be held.
func (f *File) load(block int64) error {
	if block == f.at {
		return nil
	}
	f.at = -1
	f.block = slices.Grow(f.block[:0], blockSize)[:min(blockSize, f.Size-block*blockSize)]
	if _, err := f.made.file.ReadAt(f.block, block*blockSize); err != nil {
		return fmt.Errorf("read exported file: %w", err)
	}
	if checksum(f.block) != f.made.sums[block] {
		f.cache.mu.Lock()
		defer f.cache.mu.Unlock()
		f.cache.forget(f.made) // the next who asks has it made anew
		return fmt.Errorf("exported file %s was changed on disk; ask for it again", finalName(f.made.file.Name()))
	}
	f.at = block
	return nil
}

// Close gives the file back.
func (f *File) Close() error {
	f.once.Do(func() {
		f.cache.mu.Lock()
		defer f.cache.mu.Unlock()
		f.cache.release(f.made)
	})
	return nil
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// summer counts and sums what is written through it.
type summer struct {
	w     io.Writer
	sum   hash.Hash
	limit int64
	n     int64
	sums  []uint32
	open  uint32 // CRC32C of the block that n stands in
}

func (s *summer) Write(p []byte) (int, error) {
	if s.n+int64(len(p)) > s.limit {
		return 0, fmt.Errorf("%w (%d bytes)", ErrTooLarge, s.limit)
	}
	n, err := s.w.Write(p)
	s.sum.Write(p[:n])
	for b := p[:n]; len(b) > 0; {
		part := b[:min(int64(len(b)), blockSize-s.n%blockSize)]
		s.open = crc32.Update(s.open, crc32.MakeTable(crc32.Castagnoli), part)
		b, s.n = b[len(part):], s.n+int64(len(part))
		if s.n%blockSize == 0 {
			s.sums, s.open = append(s.sums, s.open), 0
		}
	}
	return n, err
}

// close ends the last block.
func (s *summer) close() []uint32 {
	if s.n%blockSize != 0 {
		s.sums = append(s.sums, s.open)
	}
	return s.sums
}
