package queryable

import (
	"context"
	"encoding/json"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/state/sqltype"
)

// Backend is the appliance as its readers see it. Every method is safe for
// concurrent use, returns soon after its context ends, and reports a fault the
// client should see as an [*Error]; any other error is shown as "internal"
// and logged. Methods without a context only read memory.
type Backend interface {
	Reader
	Catalogue
	Clock
	Checkpointer
}

// Reader answers with rows.
type Reader interface {
	// Query runs one statement, whatever it is: DDL answers with a small table.
	Query(ctx context.Context, r QueryRequest) (*Rows, error)
	// Lookup finds groups by key. It must not wait for anything but disk.
	Lookup(ctx context.Context, r LookupRequest) (*Groups, error)
	// History finds one group in every checkpoint.
	History(ctx context.Context, r HistoryRequest) (*History, error)
	// Scan streams the groups of a view in (slot, key) order.
	Scan(ctx context.Context, r ScanRequest) (*Rows, error)
}

// Catalogue says what there is.
type Catalogue interface {
	// Schema gives the columns of a view, or not_found. It is called on every
	// look-up, and reads memory only when at is "": the present. See LookupRequest.At.
	Schema(view, at string) (Schema, error)
	Views(ctx context.Context) ([]View, Answer, error)
	View(ctx context.Context, name string) (View, Answer, error)
	Sources(ctx context.Context) ([]Source, Answer, error)
	// Quarantine lists rejected records of a source, oldest first, after the
	// record that the cursor After names ("" is the beginning); next is the
	// cursor of the last one, "" when there are no more.
	Quarantine(ctx context.Context, r QuarantineRequest) (records []Rejected, next string, a Answer, err error)
	Topology() Topology
	Status() Status
	// Ready is the state of the appliance (RESTORING, CATCHING_UP, RUNNING) and
	// whether it serves.
	Ready() (state string, ok bool)
}

// Clock tells of commits.
type Clock interface {
	// Changed gives the newest committed epoch, when it was committed (zero when that is
	// not known), and a channel that closes at the next commit.
	Changed() (epoch uint64, committed time.Time, next <-chan struct{})
	// WaitPosition returns when every position, and all before it, is committed
	// in the view (in all views when view is ""), or with ctx's error.
	WaitPosition(ctx context.Context, view string, at []Position) error
}

// Checkpointer lists, takes, drops and describes checkpoints. An id is a number or
// the name of a savepoint.
type Checkpointer interface {
	Checkpoints(ctx context.Context) ([]Checkpoint, error)
	// TakeCheckpoint writes one now. A name makes it a savepoint.
	TakeCheckpoint(ctx context.Context, savepoint string) (Checkpoint, error)
	// DropSavepoint removes a savepoint for good. What reads it goes on reading it.
	DropSavepoint(ctx context.Context, id string) error
	// Manifest is the text of a checkpoint's manifest.json.
	Manifest(ctx context.Context, id string) (json.RawMessage, error)
}

// Answer says what an answer is computed from. It becomes the headers
// Weir-Epoch, Weir-Position and Weir-Checkpoint.
type Answer struct {
	// Epoch is that of the present when any of it was read, and else the lowest of
	// the checkpoints'.
	Epoch     uint64
	Positions []Position // of the present, or of all views of checkpoints that were read; in any order
	Past      []Past     // the checkpoints that were read, each once, oldest first
}

// Past names a checkpoint that an answer was computed from.
type Past struct {
	ID        uint64 `json:"id"`
	Epoch     uint64 `json:"epoch"`
	Savepoint string `json:"savepoint,omitempty"`
}

// Position is the next offset of one partition.
type Position struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Next      int64  `json:"next"`
}

// QueryRequest is one statement.
type QueryRequest struct {
	ID      string // of this request alone; Backend may show it, cancelling needs only the context
	SQL     string
	Params  []json.RawMessage          // for ?, in order; nil when named or none
	Named   map[string]json.RawMessage // for $name
	MaxRows int64                      // the answer ends there and is marked truncated
	MaxSize int64                      // bytes of Arrow, likewise
}

// Rows is a stream of rows. Whoever receives it calls Records.Release once.
type Rows struct {
	Answer
	Columns []Column
	// Records reads batches in Inside form whose columns are Columns, in order.
	// A batch lives until the next call of Next. An error of Err that is a
	// *Error is shown when nothing was sent yet.
	Records array.RecordReader
	// Truncated says whether the rows were cut at a cap. It is called after Records
	// ended, and may be nil.
	Truncated func() bool
	// Partial are the sources of which the rows show, or were computed from, the
	// newest records only. It is called after Records ended, and may be nil.
	Partial func() []string
	// Undecoded is how many of the newest records of sources could not be decoded
	// and so are not among the rows. It is called after Records ended, and may be
	// nil.
	Undecoded func() int64
	// Unfit says to the caller what FileForm said of a batch, nil for as it is.
	Unfit func(batch arrow.RecordBatch, err error) error
	// Next is the cursor after the last row of a scan, "" at the view's end. It
	// is called after Records ended, and may be nil.
	Next func() string
	// Backfilling are the views among what was read that still read old records,
	// and so are not whole.
	Backfilling []string
}

// Roles of columns.
const (
	RoleKey         = "key"
	RoleResult      = "result"
	RoleAccumulator = "accumulator"
	RoleSystem      = "system"
)

// Column is a column and what it is in its view ("" in answers to SQL).
type Column struct {
	sqltype.Field
	Role string `json:"role,omitempty"`
}

// Schema is what a reader must know of a view before asking for groups.
type Schema struct {
	Name string
	Keys []Key // in the order of GROUP BY, those that SELECT does not name included
}

// Key is a column of a view's key.
type Key struct {
	sqltype.Field
	// Bucket is true for a time bucket: a look-up may leave it out, and finds
	// the group's buckets.
	Bucket bool
}

// LookupRequest asks for groups of one view.
type LookupRequest struct {
	View string
	// Keys holds one wanted key a row, in Inside form, its columns named as the
	// view's. Columns that are left out are buckets. The caller releases it.
	Keys         arrow.RecordBatch
	Accumulators bool // answer with accumulator columns too
	Limit        int  // groups, over all keys
	// At is the checkpoint to look into: its number, a savepoint's name, or an RFC
	// 3339 time, which is the newest checkpoint that was taken by then. "" is the
	// present.
	At string
}

// HistoryRequest asks for one group of a view over time.
type HistoryRequest struct {
	View string
	Keys arrow.RecordBatch // as LookupRequest.Keys: one row, all columns of the key
}

// History is a group in every checkpoint, oldest first.
type History struct {
	Answer
	Moments []Moment
	// Backfilling is as in Rows, of all checkpoints that were read.
	Backfilling []string
}

// Moment is a group in one checkpoint. Groups is nil when it is not there, and
// else holds it alone; whoever receives it calls Groups.Batch.Release once.
type Moment struct {
	Past
	Created time.Time
	Groups  *Groups
	Error   string // why nothing can be said, "" when Groups tells
}

// Groups answers a look-up. Whoever receives it calls Batch.Release once.
type Groups struct {
	Answer
	Columns []Column          // keys (all of them, first), results, accumulators
	Batch   arrow.RecordBatch // Inside form, a group a row, in the order of the wanted keys
	Wanted  []int             // per group: the row of LookupRequest.Keys it answers, ascending
	Errors  []string          // per group: why it has no value, "" when it has; nil when all have
	More    bool              // Limit cut the answer
	// Backfilling is as in Rows.
	Backfilling []string
}

// ScanRequest asks for a stretch of a view.
type ScanRequest struct {
	View             string
	Columns          []string // names; nil is the keys that SELECT names and the results, as SQL sees them
	FromSlot, ToSlot int      // half open: 0, 256 is the whole view
	Limit            int      // groups, 0 is all
	After            string   // a cursor of Rows.Next, "" is the beginning
}

// View describes a materialized view or a stored query.
type View struct {
	Name        string     `json:"name"`
	Kind        string     `json:"kind"` // materialized or view
	SQL         string     `json:"sql"`
	Source      string     `json:"source"`
	Columns     []Column   `json:"columns"`
	Groups      *int64     `json:"groups"` // with those that HAVING hides; nil for a stored query
	Bytes       int64      `json:"bytes"`
	Epoch       uint64     `json:"epoch"`
	Positions   []Position `json:"positions"`
	Lag         *int64     `json:"lag"`   // records that Positions lack of the ends of its topics, nil when not known
	Rate        float64    `json:"rate"`  // records a second
	State       string     `json:"state"` // running, backfilling or stopped
	Error       string     `json:"error,omitempty"`
	Quarantined int64      `json:"quarantined"`
	// Export is where the view is exported to after checkpoints, nil for nowhere.
	Export *ViewExport `json:"export,omitempty"`
}

// ViewExport says where a view is exported to after checkpoints, and how that
// goes. The fields from Epoch on are of the newest export; they are zero when there
// is none yet.
type ViewExport struct {
	Format     string     `json:"format"` // iceberg or parquet
	Target     string     `json:"target"` // the directory
	Every      float64    `json:"every_s,omitempty"`
	Keep       int        `json:"keep"`
	Epoch      uint64     `json:"epoch"`
	Checkpoint uint64     `json:"checkpoint"`
	At         *time.Time `json:"at"` // when it was written
	Rows       int64      `json:"rows"`
	Bytes      int64      `json:"bytes"`
	Whole      bool       `json:"whole"`           // false when the view still read old records
	Error      string     `json:"error,omitempty"` // why the last try failed
}

// Source describes a source.
type Source struct {
	Name        string          `json:"name"`
	SQL         string          `json:"sql"`
	Connector   string          `json:"connector"`
	Topic       string          `json:"topic"`
	Format      string          `json:"format"`
	Columns     []sqltype.Field `json:"columns"`
	State       string          `json:"state"` // running, waiting or stopped
	Error       string          `json:"error,omitempty"`
	Rate        float64         `json:"rate"`
	Lag         *int64          `json:"lag"` // as of a view; nil when not known
	Partitions  []Partition     `json:"partitions"`
	Quarantined int64           `json:"quarantined"`
	Records     int64           `json:"records"`
}

// Partition is how far readers see a source in one partition. End and Lag are nil when
// not known.
type Partition struct {
	Partition int32  `json:"partition"`
	Next      int64  `json:"next"`
	End       *int64 `json:"end"`
	Lag       *int64 `json:"lag"`
}

// QuarantineRequest asks for a page of rejected records.
type QuarantineRequest struct {
	Source string
	After  string
	Limit  int
}

// Rejected is a record that was not counted, and why.
type Rejected struct {
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Timestamp time.Time `json:"timestamp"`
	View      string    `json:"view,omitempty"` // "": refused for every view
	Column    string    `json:"column,omitempty"`
	Reason    string    `json:"reason"`
	Key       []byte    `json:"key"`   // base64 in JSON
	Value     []byte    `json:"value"` // null when the record has none
}

// Checkpoint is one line of the list of checkpoints.
type Checkpoint struct {
	ID        uint64    `json:"id"`
	Savepoint string    `json:"savepoint,omitempty"` // its name, if it is one
	Epoch     uint64    `json:"epoch"`
	Created   time.Time `json:"created"`
	Bytes     int64     `json:"bytes"`
	Views     []string  `json:"views"`
}

// Topology says who owns which slots. Version rises when that may have changed.
type Topology struct {
	Version uint64 `json:"version"`
	Slots   int    `json:"slots"`
	Nodes   []Node `json:"nodes"`
}

// Node owns the slots From to To-1.
type Node struct {
	Address string `json:"address"`
	From    int    `json:"from"`
	To      int    `json:"to"`
}

// Known is a time of an answer: nil, which is null, when t is zero.
func Known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// Status is the appliance at a glance.
type Status struct {
	Epoch uint64 `json:"epoch"`
	State string `json:"state"`
	// Committed is when the newest epoch was committed that brought records, or that
	// came while no source waited; nil when that is not known.
	Committed *time.Time `json:"committed"`
	Uptime    float64    `json:"uptime_s"`
	Memory    int64      `json:"memory"`       // bytes resident
	Rate      float64    `json:"rate"`         // records a second, all sources
	Freshness float64    `json:"freshness_ms"` // from a record's timestamp to its commit, p99
	Version   string     `json:"version"`
	Waiting   []string   `json:"waiting,omitempty"`   // sources that wait for their broker or topic, or have stopped
	ReadOnly  string     `json:"read_only,omitempty"` // what weir open shows, "" for an appliance that counts
}
