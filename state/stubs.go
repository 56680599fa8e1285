package state

import (
	"context"
	"errors"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/state/plan"
)

var errStub = errors.New("state: not written yet")

var ErrStale = errors.New("state: the views of the cursor changed: evaluate the batch again")

type Store struct{}

func Open(dir string, o Options) (*Store, error)                      { return nil, errStub }
func (s *Store) Run(ctx context.Context) error                        { return errStub }
func (s *Store) Close() error                                         { return errStub }
func (s *Store) Catalog() *Catalog                                    { return nil }
func (s *Store) CreateSource(src Source) (SourceID, error)            { return 0, errStub }
func (s *Store) CreateQuery(q Query) error                            { return errStub }
func (s *Store) Drop(name string) error                               { return errStub }
func (s *Store) Positions(c CursorID) []Position                      { return nil }
func (s *Store) Join(v ViewID) error                                  { return errStub }
func (s *Store) Fold(ctx context.Context, f Fold) error               { return errStub }
func (s *Store) Commit(ctx context.Context) (epoch uint64, err error) { return 0, errStub }
func (s *Store) Epoch() uint64                                        { return 0 }
func (s *Store) WaitEpoch(ctx context.Context, epoch uint64) error    { return errStub }
func (s *Store) Changed() <-chan struct{}                             { return nil }
func (s *Store) Snapshot() (*Snapshot, error)                         { return nil, errStub }
func (s *Store) CreateView(sql string, p plan.View, own bool, initial arrow.RecordBatch) (ViewID, error) {
	return 0, errStub
}

// Start records where a cursor begins in partitions that it does not know yet,
// and the same as View.First of the views that follow it. One commit.
func (s *Store) Start(c CursorID, at []Position) error { return errStub }

type Snapshot struct{}

func (sn *Snapshot) Close()                                    {}
func (sn *Snapshot) Epoch() uint64                             { return 0 }
func (sn *Snapshot) Catalog() *Catalog                         { return nil }
func (sn *Snapshot) Positions(c CursorID) []Position           { return nil }
func (sn *Snapshot) Records(c CursorID) int64                  { return 0 }
func (sn *Snapshot) Stats(v ViewID) ViewStats                  { return ViewStats{} }
func (sn *Snapshot) RefusedCount(source SourceID) RefusedCount { return RefusedCount{} }
func (sn *Snapshot) Scan(ctx context.Context, r ScanRequest) (array.RecordReader, error) {
	return nil, errStub
}
func (sn *Snapshot) Refused(source SourceID, after uint64, limit int) ([]RefusedRecord, error) {
	return nil, errStub
}

// A Dump is all of a store's content, as a checkpoint holds it.
type Dump struct {
	Epoch     uint64
	Sources   []Source
	Views     []View
	Queries   []Query
	Positions map[CursorID][]Position
	// Rows reads a view: its state columns in order, then any of __slot (ignored),
	// __epoch uint64 and __error utf8.
	Rows    func(ViewID) (array.RecordReader, error)
	Refused []RefusedRecord
}

func Load(dir string, o Options, d Dump) error { return errStub }
