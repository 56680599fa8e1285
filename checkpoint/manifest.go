package checkpoint

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/state/plan"
	"weir/state/sqltype"
)

const (
	// FormatVersion is the version that this package writes. It reads all from 1.
	FormatVersion = 2
	// ManifestName is the file whose presence makes a directory a checkpoint.
	ManifestName = "manifest.json"

	formatName    = "weir-checkpoint"
	checksumKey   = ",\n  \"checksum\": \"sha256:"
	checksumEnd   = "\"\n}\n"
	manifestLimit = 256 << 20
)

// A Manifest says everything of a checkpoint but the rows. docs/format.md
// explains every member.
type Manifest struct {
	Format        string    `json:"format"`
	FormatVersion int       `json:"format_version"`
	Checkpoint    uint64    `json:"checkpoint"` // a counter of its own, from 1
	Epoch         uint64    `json:"epoch"`      // of the snapshot
	Created       time.Time `json:"created"`
	Writer        string    `json:"writer"`
	Engine        string    `json:"engine,omitempty"`    // what computed all results that are no accumulators
	Savepoint     string    `json:"savepoint,omitempty"` // its name, if it is one: kept until it is dropped
	// History is the token of the state's newest mark: a later checkpoint may be
	// based on this one when the state still knows it. Empty: never.
	History    string     `json:"history,omitempty"`
	Slots      int        `json:"slots"`
	BasedOn    *BasedOn   `json:"based_on"` // nil when it shares no file
	NextID     uint32     `json:"next_id"`  // of sources and views: ids are never given again
	NextCursor uint32     `json:"next_cursor"`
	Sources    []Source   `json:"sources"`
	Cursors    []Cursor   `json:"cursors"`
	Views      []View     `json:"views"`
	Queries    []Query    `json:"queries"`
	Quarantine Quarantine `json:"quarantine"`
	// Edits are the changes that were made to groups other than by records, the
	// oldest first.
	Edits []Edit `json:"edits,omitempty"`
}

// BasedOn is the checkpoint with which this one shares files.
type BasedOn struct {
	Checkpoint uint64 `json:"checkpoint"`
	Epoch      uint64 `json:"epoch"`
}

// A Source is one CREATE SOURCE.
type Source struct {
	ID      uint32            `json:"id"`
	Name    string            `json:"name"`
	SQL     string            `json:"sql"`
	Columns []sqltype.Field   `json:"columns"`
	Options map[string]string `json:"options"`
	Cursor  uint32            `json:"cursor"`
}

// A Cursor owns positions that views follow.
type Cursor struct {
	ID        uint32     `json:"id"`
	Records   int64      `json:"records"`
	Positions []Position `json:"positions"`
}

// A Position is the next offset to read in one partition. TopicID is the
// topic's identity as a UUID, all zeros when the broker gives none.
type Position struct {
	Topic       string `json:"topic"`
	TopicID     string `json:"topic_id"`
	Partition   int32  `json:"partition"`
	Next        int64  `json:"next"`
	LeaderEpoch int32  `json:"leader_epoch"`
}

// A View is one materialized view and its file or files: File when it is whole,
// else Parts, the base first and then deltas, whose rows take the place of earlier
// ones with the same key.
type View struct {
	ID           uint32     `json:"id"`
	Name         string     `json:"name"`
	SQL          string     `json:"sql"`
	Fingerprint  string     `json:"fingerprint"`
	Source       uint32     `json:"source"`
	Cursor       uint32     `json:"cursor"`
	CreatedEpoch uint64     `json:"created_epoch"`
	Edited       string     `json:"edited,omitempty"` // ID of the last Edit of its groups
	First        []Position `json:"first"`            // where it began to count
	Positions    []Position `json:"positions"`        // those of its cursor
	Groups       int64      `json:"groups"`
	Errors       int64      `json:"errors"` // rows with __error
	Bytes        int64      `json:"state_bytes"`
	Columns      []Column   `json:"columns"`
	Plan         plan.View  `json:"plan"`
	File         File       `json:"file,omitzero"`
	Parts        []File     `json:"parts,omitempty"`
}

// Files are the files of the view in the order in which they are read.
func (v *View) Files() []File {
	if v.Whole() {
		return []File{v.File}
	}
	return v.Parts
}

// Whole says that the view is one file.
func (v *View) Whole() bool { return len(v.Parts) == 0 }

// changedRows is the number of rows in deltas.
func (v *View) changedRows() (n int64) {
	for i := 1; i < len(v.Parts); i++ {
		n += v.Parts[i].Rows
	}
	return n
}

// The kinds of an Edit.
const (
	editTransform = "transform"
	editMerge     = "merge"
)

// An Edit is the record of one change that [Transform] or [Merge] made.
type Edit struct {
	ID   string      `json:"id"`
	Kind string      `json:"kind"` // one of the kinds above
	Time time.Time   `json:"time"`
	SQL  []string    `json:"sql,omitempty"` // the statements, in order
	From []EditedOne `json:"from"`          // the checkpoints that went in
	// Views are the views whose groups were changed.
	Views []EditedView `json:"views"`
}

// An EditedOne names a checkpoint that went into an edit. SHA256 is of its whole
// manifest.json.
type EditedOne struct {
	Checkpoint uint64 `json:"checkpoint"`
	Savepoint  string `json:"savepoint,omitempty"`
	Epoch      uint64 `json:"epoch"`
	SHA256     string `json:"sha256"`
}

// An EditedView counts the groups of a view before and after an edit. Before has
// an entry for each of Edit.From.
type EditedView struct {
	View    string  `json:"view"`
	Before  []int64 `json:"before"`
	After   int64   `json:"after"`
	Added   int64   `json:"added"`
	Removed int64   `json:"removed"`
	Changed int64   `json:"changed"`
}

// A Query is one CREATE VIEW.
type Query struct {
	Name    string          `json:"name"`
	SQL     string          `json:"sql"`
	Select  string          `json:"select"`
	Columns []sqltype.Field `json:"columns"`
}

// Quarantine counts the refused records, and names the file of those that were
// still kept. File is nil when there were none.
type Quarantine struct {
	Sources []QuarantineCount `json:"sources"`
	Columns []Column          `json:"columns"`
	File    *File             `json:"file"`
}

// A QuarantineCount counts the refused records of a source: Total ever, and by
// the view that refused them ("0": no view, they did not decode).
type QuarantineCount struct {
	Source uint32           `json:"source"`
	Total  int64            `json:"total"`
	Kept   int64            `json:"kept"`
	ByView map[uint32]int64 `json:"by_view"`
	// Passed is what views that were dropped had read beyond the source's
	// cursor: its records that did not decode are among those counted here.
	Passed []Span `json:"passed,omitempty"`
}

// A Span is the offsets of a partition from From up to, not including, Next.
type Span struct {
	Position
	From int64 `json:"from"`
}

// View finds a view by name, upper and lower case being the same.
func (m *Manifest) View(name string) (*View, bool) {
	for i := range m.Views {
		if strings.EqualFold(m.Views[i].Name, name) {
			return &m.Views[i], true
		}
	}
	return nil, false
}

// Bytes is the size of all files but the manifest.
func (m *Manifest) Bytes() int64 {
	var n int64
	for _, f := range m.files() {
		n += f.Bytes
	}
	return n
}

func (m *Manifest) files() []File {
	var fs []File
	for i := range m.Views {
		fs = append(fs, m.Views[i].Files()...)
	}
	if m.Quarantine.File != nil {
		fs = append(fs, *m.Quarantine.File)
	}
	return fs
}

// stateColumns finds the state columns (keys, then accumulators) in Columns.
func (v *View) stateColumns() ([]int, error) {
	at := make([]int, 0, len(v.Plan.Keys)+len(v.Plan.Accs))
	find := func(what string, t sqltype.Type, is func(Column) bool) error {
		i := slices.IndexFunc(v.Columns, is)
		if i < 0 || !v.Columns[i].Type.Equal(t) {
			return fmt.Errorf("view %s has no column with %s of type %s", v.Name, what, t)
		}
		at = append(at, i)
		return nil
	}
	for i, k := range v.Plan.Keys {
		if err := find("key "+k.Name, k.Type, func(c Column) bool { return c.Key != nil && *c.Key == i }); err != nil {
			return nil, err
		}
	}
	for _, a := range v.Plan.Accs {
		if err := find("accumulator "+a.Name, a.Type, func(c Column) bool { return c.Accumulator == a.Name }); err != nil {
			return nil, err
		}
	}
	return at, nil
}

// column finds a column by name.
func (v *View) column(name string) int {
	return slices.IndexFunc(v.Columns, func(c Column) bool { return c.Name == name })
}
