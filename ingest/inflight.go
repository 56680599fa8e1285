package ingest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"weir/ingest/kafka"
	"weir/state"
)

// The file of batches under way tells the next process what this one was
// evaluating when it died. DuckDB runs in this process, and a record on which
// it crashes would else be read again at every start, for ever.
//
// The file is mapped. What was stored into a mapping outlives a process that is
// killed, so a note costs no system call and no sync; after a power cut the file
// may hold anything, hence the checksums. It is magic, then slots, one for each
// cursor that is read, little endian:
//
//	slot  = crc32c of what follows, cursor, number of partitions, each partition
//	each  = partition uint32, the offset after the batch uint64
//
// All zeros is no note. Only the ends of a batch's ranges are kept: where the
// next process begins to read is what the store says.
const (
	inflightMagic = "weirfly1"
	inflightHead  = 4096
	slotSize      = 8 << 10
	slotCount     = 256
	slotHead      = 12
	slotRoom      = (slotSize - slotHead) / 12 // partitions
	slotTooMany   = ^uint32(0)                 // partitions: the batch had more than there is room for
	inflightSize  = inflightHead + slotCount*slotSize
)

// errCannotMap says that the file system does not map files.
var errCannotMap = errors.New("cannot be mapped")

// inflight is the open file. A nil one notes nothing.
type inflight struct {
	mem []byte

	mu    sync.Mutex
	slots []*slot
}

// slot is the place of one cursor. The lane that took it alone uses it; a nil
// one notes nothing.
type slot struct {
	mem    []byte
	cursor state.CursorID
	taken  bool
	// left is a batch whose evaluation did not come to an end, and which the cursor
	// has not passed yet. While it is there its note stays as it is.
	left *remains
}

// remains are the positions up to which a cursor's records are suspect.
type remains struct {
	upTo map[int32]int64
	// all says that there were too many partitions to note. Each is then suspect up
	// to its stable end as it was first seen; unseen says that some have not been.
	all, unseen bool
	// crashed says that some of the records were bad indeed. Where there is one
	// there may be more: the cursor is not trusted before some batches are sound.
	crashed bool
	sound   int
}

// trusted is how many batches must be sound after one that was not: else each
// of a million bad records could cost a restart.
const trusted = 16

// evaluated notes how a suspect batch turned out.
func (r *remains) evaluated(crashed bool) {
	r.crashed = r.crashed || crashed
	r.sound++
	if crashed {
		r.sound = 0
	}
}

// openInflight maps the file, which it makes when it is not there or is of
// another version. Notes of cursors that are not known any more are dropped.
func openInflight(path string, known func(state.CursorID) bool) (_ *inflight, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open the file of batches under way: %w", err)
		}
	}()
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	magic := make([]byte, len(inflightMagic))
	_, _ = file.ReadAt(magic, 0)
	if st, err := file.Stat(); err != nil {
		return nil, err
	} else if st.Size() != inflightSize || string(magic) != inflightMagic {
		// Written, not sparse: a full disk must show here, not as a fault in the mapping.
		fresh := make([]byte, inflightSize)
		copy(fresh, inflightMagic)
		if err := errors.Join(file.Truncate(0), write(file, fresh)); err != nil {
			return nil, err
		}
	}
	f := &inflight{}
	if f.mem, err = unix.Mmap(int(file.Fd()), 0, inflightSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("%w: %w", errCannotMap, err)
	}
	for i := range slotCount {
		s := &slot{mem: f.mem[inflightHead+i*slotSize:][:slotSize:slotSize]}
		if s.read(); s.left != nil && !known(s.cursor) {
			s.left = nil
		}
		if s.left == nil {
			s.clear()
		}
		f.slots = append(f.slots, s)
	}
	return f, nil
}

func write(f *os.File, b []byte) error {
	_, err := f.WriteAt(b, 0)
	return err
}

// close unmaps the file. No slot may be in use.
func (f *inflight) close() error {
	if f == nil {
		return nil
	}
	return unix.Munmap(f.mem)
}

// take gives the slot of a cursor, with what is left in it, else a free one. It
// is nil when there is none.
func (f *inflight) take(c state.CursorID) *slot {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var free *slot
	for _, s := range f.slots {
		if s.left != nil && s.cursor == c {
			free = s
			break
		}
		if free == nil && !s.taken && s.left == nil {
			free = s
		}
	}
	if free != nil {
		free.taken, free.cursor = true, c
	}
	return free
}

// giveBack ends the use of a slot. A note that is still in it is of a batch
// whose evaluation failed, and concerns who takes the slot next.
func (f *inflight) giveBack(s *slot) {
	if s == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s.taken = false
	s.read()
}

// note says that a batch is about to be evaluated which ends at some positions.
func (s *slot) note(next map[int32]state.Position) {
	if s == nil {
		return
	}
	b, count := s.mem[:slotHead], uint32(len(next))
	binary.LittleEndian.PutUint32(b[4:], uint32(s.cursor))
	if len(next) > slotRoom {
		count, next = slotTooMany, nil
	}
	binary.LittleEndian.PutUint32(b[8:], count)
	for p, at := range next {
		b = binary.LittleEndian.AppendUint32(b, uint32(p))
		b = binary.LittleEndian.AppendUint64(b, uint64(at.Next))
	}
	binary.LittleEndian.PutUint32(b, slotSum(b))
}

// clear says that nothing is being evaluated.
func (s *slot) clear() {
	if s != nil {
		binary.LittleEndian.PutUint32(s.mem, 0)
		binary.LittleEndian.PutUint32(s.mem[8:], 0)
	}
}

// read makes a note in the slot what is left; one that is not whole is none.
func (s *slot) read() {
	s.left = nil
	count := binary.LittleEndian.Uint32(s.mem[8:])
	r := &remains{upTo: map[int32]int64{}}
	switch {
	case count == slotTooMany:
		r.all, r.unseen, count = true, true, 0
	case count == 0 || count > slotRoom:
		return
	}
	b := s.mem[:slotHead+12*int(count)]
	if slotSum(b) != binary.LittleEndian.Uint32(b) {
		return
	}
	s.cursor, s.left = state.CursorID(binary.LittleEndian.Uint32(b[4:])), r
	for b = b[slotHead:]; len(b) > 0; b = b[12:] {
		r.upTo[int32(binary.LittleEndian.Uint32(b))] = int64(binary.LittleEndian.Uint64(b[4:]))
	}
}

func slotSum(b []byte) uint32 { return crc32.Checksum(b[4:], crc32.MakeTable(crc32.Castagnoli)) }

// suspect says whether what the cursor reads now must be evaluated with care.
func (s *slot) suspect() bool { return s != nil && s.left != nil }

// passed clears what is left when the cursor has come past it and is trusted,
// and says so.
func (s *slot) passed(at map[int32]state.Position) bool {
	if !s.suspect() || s.left.unseen || s.left.crashed && s.left.sound < trusted {
		return false
	}
	for p, end := range s.left.upTo {
		if at[p].Next < end {
			return false
		}
	}
	s.left = nil
	s.clear()
	return true
}

// see tells remains of too many partitions which there are and where they end.
func (r *remains) see(parts []kafka.PartitionStatus) {
	if !r.all {
		return
	}
	r.unseen = len(parts) == 0
	for _, p := range parts {
		if _, ok := r.upTo[p.Partition]; ok {
			continue
		}
		if p.LastStable < 0 {
			r.unseen = true
			continue
		}
		r.upTo[p.Partition] = p.LastStable
	}
}
