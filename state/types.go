package state

import (
	"log/slog"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Ids are given once and never again, whatever is dropped. 0 is no id.
type (
	ViewID   uint32
	CursorID uint32
	SourceID uint32
)

// Slots is the number of hash ranges of a view's keys, the same for ever.
const Slots = 256

// A Position says where a cursor stands in one partition.
type Position struct {
	Topic       string   `json:"topic"`
	TopicID     [16]byte `json:"topic_id"` // the topic's identity; zero when the broker has none
	Partition   int32    `json:"partition"`
	Next        int64    `json:"next"` // the offset to be read next
	LeaderEpoch int32    `json:"leader_epoch"`
}

// Options are the settings of a store. The zero value is usable.
type Options struct {
	// FS is where the data lives, vfs.Default when nil.
	FS vfs.FS
	// Memory bounds the resident groups, in bytes: 256 MiB when 0. Groups that
	// are not yet durable stay resident whatever the bound.
	Memory int64
	// Cache is the size of Pebble's block cache, 64 MiB when 0.
	Cache int64
	// Interval is the time between commits, 250 ms when 0. While a source is
	// behind it grows to four times that.
	Interval time.Duration
	// QuarantineBytes bounds what is kept of refused records, per source, 64
	// MiB when 0. Beyond it the oldest go; their counts stay.
	QuarantineBytes int64
	// ChangeBytes bounds what is kept, per view, of the keys that changed since
	// the newest checkpoint, 64 MiB when 0. Beyond it the view counts as changed
	// as a whole.
	ChangeBytes int64
	Logger      *slog.Logger
	// Hook, for tests, is called at named points; see the Point constants.
	Hook func(point string)
	// Fatal is called when the disk failed a commit: what is in memory can no
	// longer be trusted to become durable, so it should end the process, and
	// does when nil (exit code 70; standard error says why where there is no
	// Logger that does). If it returns, the store answers every later
	// call with an error.
	Fatal func(msg string)
}

// A Fold is what one batch of records of one cursor adds. All of it enters the
// open epoch, or nothing does.
type Fold struct {
	Cursor CursorID
	// Records is how many records the batch held, for the counters.
	Records int64
	// Positions are where the cursor stands after the batch, for the partitions
	// it touched. Going backwards in the same topic is refused without Reset.
	Positions []Position
	Reset     bool
	// Partials has exactly one entry for every view that follows the cursor, also
	// when the batch adds nothing to it (Rows may then be nil): so a batch that
	// was evaluated before a view was created, joined or dropped cannot be
	// counted without it. Else Fold fails with ErrStale.
	Partials []Partial
	Refused  []Refused
	// Behind says that the source has more records at hand than one batch takes.
	Behind bool
}

// A Partial is what a batch adds to one view: keys, then accumulators, in the
// plan's order and the inside form. A group may have several rows. The batch is
// not retained after Fold returns.
type Partial struct {
	View ViewID
	Rows arrow.RecordBatch
}

// Refused is a record that was quarantined.
type Refused struct {
	Source    SourceID
	View      ViewID // 0: for all views of the source
	Topic     string
	Partition int32
	Offset    int64
	Timestamp int64
	Column    string
	Reason    string
	Key       []byte // nil when the record had none
	Value     []byte
}

// A RefusedRecord is a quarantined record as it was stored.
type RefusedRecord struct {
	Refused
	Seq   uint64 // rises by one per refused record of a source, from 1
	Epoch uint64
}

// RefusedCount says how many records of a source were ever refused (Total, and
// by the view they were refused for), and how many are still kept.
type RefusedCount struct {
	Total  int64
	ByView map[ViewID]int64
	Kept   int64
	Bytes  int64
}

// ViewStats counts the groups of a view in a snapshot. Bytes is the sum of
// stored keys and values before compression.
type ViewStats struct {
	Groups, Bytes, Errors int64
}

// A ScanRequest names what to read of a view.
type ScanRequest struct {
	View ViewID
	// Columns are indices in Plan.StateColumns(); nil is all.
	Columns []int
	// Extra columns follow, in this order: __slot uint16, __epoch uint64, __error
	// utf8, __key binary.
	Extra Extra
	// Slots from FromSlot up to but not including ToSlot. ToSlot 0 is 256.
	FromSlot, ToSlot int
	// Filters narrow the scan. A row may come that they do not allow, but none
	// is missed that they all allow.
	Filters []Filter
	// After leaves out groups up to and with this one: bytes of a __key column of
	// an earlier scan of the view, of this snapshot or another.
	After     []byte
	BatchRows int // at most so many rows a batch; 8192 when 0
	Mem       memory.Allocator
}

// Extra selects the columns of a scan that are not of the view's state.
type Extra struct{ Slot, Epoch, Error, Key bool }

// Names of the extra columns.
const (
	SlotColumn  = "__slot"
	EpochColumn = "__epoch"
	ErrorColumn = "__error"
	KeyColumn   = "__key" // slot and stored key, for ScanRequest.After
	// DeletedColumn comes last in what Snapshot.Changed gives.
	DeletedColumn = "__deleted"
)

// A Filter allows values of one key column, in the inside form.
type Filter struct {
	Column   int         // index in Plan.Keys
	In       arrow.Array // allowed values; a NULL allows NULL
	Min, Max arrow.Array // of length 1, inclusive; nil is open
}
