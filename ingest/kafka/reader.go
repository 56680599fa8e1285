package kafka

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Position is where to go on in a partition.
type Position struct {
	Offset      int64
	LeaderEpoch int32 // of the record before, -1 when not known
}

// ReaderOptions says what to read. Topic is needed; the zero value of
// everything else is a sound default.
type ReaderOptions struct {
	Topic string

	// ID is the topic's identity as the positions were stored with it. Zero
	// takes the topic that is there now, or appears.
	ID TopicID

	// Positions are where to go on. With any of them, a partition that has none
	// is new and is read from its beginning; without, every partition of a topic that
	// exists begins at Start. Partitions, or a topic, that appear later are
	// always read from their beginning.
	Positions map[int32]Position
	Start     At // Earliest when 0

	// ReadUncommitted delivers records of open and aborted transactions too.
	ReadUncommitted bool

	PartitionBytes int           // asked of a partition at a time, 4 MiB; a larger batch comes all the same
	BufferBytes    int           // held at a time, 64 MiB, beside what one answer may be over
	MaxResponse    int           // bytes of one answer, beyond which the Reader stops, 256 MiB
	MaxBatch       int           // bytes of one decompressed batch, beyond which it is corrupt, 256 MiB
	MaxWait        time.Duration // of the broker for records, 500 ms
	Discover       time.Duration // between looks at the topic's metadata, 1.5 s
	DeletedAfter   time.Duration // a known topic that is missing this long is deleted, 5 s
}

func (o *ReaderOptions) setDefaults() {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	defTime := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	if o.Start == 0 {
		o.Start = Earliest
	}
	if o.Start == Latest && !o.ReadUncommitted {
		o.Start = LatestStable // an open transaction is not in the past yet
	}
	def(&o.PartitionBytes, 4<<20)
	def(&o.BufferBytes, 64<<20)
	def(&o.MaxResponse, 256<<20)
	def(&o.MaxBatch, 256<<20)
	defTime(&o.MaxWait, 500*time.Millisecond)
	defTime(&o.Discover, 1500*time.Millisecond)
	defTime(&o.DeletedAfter, 5*time.Second)
}

// Reader reads every partition of one topic. Records of a partition come in
// offset order; those of different partitions as they arrive.
//
// One goroutine follows the topic's metadata and one per broker fetches, a
// request ahead of what Next has given out, as far as BufferBytes goes. They
// share the state under mu and end at Close, or at the first error that stops
// the Reader.
type Reader struct {
	c      *Cluster
	o      ReaderOptions
	cancel context.CancelFunc
	wg     sync.WaitGroup

	start   At            // of partitions without a position; only discover uses it
	refresh chan struct{} // holds a wish to look at the metadata now
	ready   chan struct{} // holds a token when Next has something to look at

	mu struct {
		sync.Mutex
		state    State
		id       TopicID
		adopted  bool      // the topic is known to have existed
		absent   bool      // it was not there at some time since
		missing  time.Time // since when it is not there, zero when it is
		passing  error     // what is being retried, nil when all is well
		final    error     // what stopped the Reader
		parts    []*partition
		fetchers map[int32]*fetcher // by broker
		queue    []*Fetched
		memory   memory
	}
}

// partition is a partition that is being read. mu guards it.
type partition struct {
	id     int32
	leader leader

	next      int64 // to fetch next
	delivered int64 // next, as Next has given it out
	epoch     int32 // of the record before next

	inFlight   bool      // some request asks for it
	hungry     bool      // the answer before had no whole batch of it
	retry      time.Time // not to be asked for earlier
	backoff    backoff
	outOfRange bool // the broker says so; discover finds out

	highWatermark, lastStable, logStart int64
	held                                time.Time // since when an open transaction keeps records back
	heldAt                              int64     // lastStable then
	err                                 error
	errors, stalls                      int64
}

// NewReader begins to read. Close it.
func (c *Cluster) NewReader(o ReaderOptions) *Reader {
	o.setDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	r := &Reader{c: c, o: o, cancel: cancel, refresh: make(chan struct{}, 1), ready: make(chan struct{}, 1)}
	r.start = o.Start
	if len(o.Positions) > 0 {
		r.start = Earliest
	}
	r.mu.state = StateConnecting
	r.mu.id = o.ID
	r.mu.adopted = o.ID != TopicID{} || len(o.Positions) > 0
	r.mu.fetchers = map[int32]*fetcher{}
	r.mu.memory.keep = o.BufferBytes / 2
	r.mu.memory.maxBatch = o.MaxBatch
	r.wg.Go(func() { r.discover(ctx) })
	return r
}

// Next waits for records. After what was read before it, it returns the error
// that stopped the Reader. Only one goroutine may call it at a time.
func (r *Reader) Next(ctx context.Context) (*Fetched, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if f, err := r.Ready(); f != nil || err != nil {
			return f, err
		}
		select {
		case <-r.ready:
		case <-ctx.Done():
		}
	}
}

// Ready is Next that does not wait: nil when nothing has come.
func (r *Reader) Ready() (*Fetched, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.mu.queue) == 0 {
		return nil, r.mu.final
	}
	f := r.mu.queue[0]
	r.mu.queue[0] = nil
	r.mu.queue = r.mu.queue[1:]
	if p := r.find(f.Partition); p != nil {
		p.delivered = f.Next
	}
	return f, nil
}

// Close ends the Reader and waits for its goroutines. What Next has returned
// stays valid until it is released.
func (r *Reader) Close() {
	r.stop(ErrClosed)
	r.wg.Wait()
	r.mu.Lock()
	queue := r.mu.queue
	r.mu.queue = nil
	r.mu.final = ErrClosed
	r.mu.Unlock()
	for _, f := range queue {
		f.Release()
	}
}

// stop ends the goroutines; Next returns err after what is in the queue.
func (r *Reader) stop(err error) {
	r.mu.Lock()
	if r.mu.final == nil {
		r.mu.final = err
		r.mu.state = StateStopped
	}
	r.mu.Unlock()
	r.cancel()
	signal(r.ready)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// find gives a partition, nil when it is not read. mu must be held.
func (r *Reader) find(id int32) *partition {
	i, ok := slices.BinarySearchFunc(r.mu.parts, id, func(p *partition, id int32) int { return int(p.id) - int(id) })
	if !ok {
		return nil
	}
	return r.mu.parts[i]
}
