package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/state"
	"weir/state/plan"
	"weir/state/sqltype"
)

const (
	// FormatVersion is the version that this package writes. It reads all from 1.
	FormatVersion = 1
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
	Format        string     `json:"format"`
	FormatVersion int        `json:"format_version"`
	Checkpoint    uint64     `json:"checkpoint"` // a counter of its own, from 1
	Epoch         uint64     `json:"epoch"`      // of the snapshot
	Created       time.Time  `json:"created"`
	Writer        string     `json:"writer"`
	Slots         int        `json:"slots"`
	BasedOn       *BasedOn   `json:"based_on"` // nil when it shares no file
	NextID        uint32     `json:"next_id"`  // of sources and views: ids are never given again
	NextCursor    uint32     `json:"next_cursor"`
	Sources       []Source   `json:"sources"`
	Cursors       []Cursor   `json:"cursors"`
	Views         []View     `json:"views"`
	Queries       []Query    `json:"queries"`
	Quarantine    Quarantine `json:"quarantine"`
}

// BasedOn is the checkpoint whose files of unchanged views this one shares.
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

// A View is one materialized view and its file.
type View struct {
	ID           uint32     `json:"id"`
	Name         string     `json:"name"`
	SQL          string     `json:"sql"`
	Fingerprint  string     `json:"fingerprint"`
	Source       uint32     `json:"source"`
	Cursor       uint32     `json:"cursor"`
	CreatedEpoch uint64     `json:"created_epoch"`
	First        []Position `json:"first"`     // where it began to count
	Positions    []Position `json:"positions"` // those of its cursor
	Groups       int64      `json:"groups"`
	Errors       int64      `json:"errors"` // rows with __error
	Bytes        int64      `json:"state_bytes"`
	Columns      []Column   `json:"columns"`
	Plan         plan.View  `json:"plan"`
	File         File       `json:"file"`
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
	for _, v := range m.Views {
		fs = append(fs, v.File)
	}
	if m.Quarantine.File != nil {
		fs = append(fs, *m.Quarantine.File)
	}
	return fs
}

// encode is the manifest's text. Its last member is the sha256 of all before it.
func (m *Manifest) encode() ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(m); err != nil {
		return nil, err
	}
	b := bytes.TrimSuffix(buf.Bytes(), []byte("\n}\n"))
	return append(b, checksumOf(b)...), nil
}

func checksumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return checksumKey + hex.EncodeToString(sum[:]) + checksumEnd
}

// readManifest reads and verifies dir's manifest: checksum, version, then that
// it makes sense.
func readManifest(fsys vfs.FS, dir string) (*Manifest, error) {
	name := fsys.PathJoin(dir, ManifestName)
	b, err := readAll(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{Kind: ErrMissing, Path: name, What: "a checkpoint is complete when it has a manifest", Do: "give the directory of a complete checkpoint, such as checkpoints/00000042"}
	}
	if err != nil {
		return nil, err
	}
	at := bytes.LastIndex(b, []byte(checksumKey))
	if at < 0 {
		return nil, damaged(name, "it does not end in a checksum")
	}
	if string(b[at:]) != checksumOf(b[:at]) {
		return nil, damaged(name, "its text is not what its checksum says")
	}
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"format_version"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, damaged(name, "it is not JSON (%v)", err)
	}
	if head.Format != formatName {
		return nil, &Error{Kind: ErrMismatch, Path: name, What: fmt.Sprintf("its format is %q, not %q", head.Format, formatName)}
	}
	if head.Version > FormatVersion || head.Version < 1 {
		return nil, &Error{Kind: ErrNewer, Path: name, What: fmt.Sprintf("it has format version %d, this Weir reads 1 to %d", head.Version, FormatVersion), Do: "use the version of Weir that wrote it, or a newer one"}
	}
	m := new(Manifest)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, &Error{Kind: ErrMismatch, Path: name, What: "it does not follow docs/format.md", Err: err}
	}
	if err := m.check(); err != nil {
		return nil, &Error{Kind: ErrMismatch, Path: name, What: "it contradicts itself", Err: err}
	}
	return m, nil
}

// check refuses what this package never writes and would trip over.
func (m *Manifest) check() error {
	if m.Slots != state.Slots {
		return fmt.Errorf("%d slots where version %d has %d", m.Slots, m.FormatVersion, state.Slots)
	}
	for _, f := range m.files() {
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) || f.Bytes < 0 || f.Rows < 0 || f.Tail.Offset < 0 || f.Tail.Length < 0 || f.Tail.end() != f.Bytes {
			return fmt.Errorf("file %q of %d bytes with its tail at %d+%d", f.Name, f.Bytes, f.Tail.Offset, f.Tail.Length)
		}
	}
	cursors := map[uint32]bool{}
	for _, c := range m.Cursors {
		cursors[c.ID] = true
		for _, p := range c.Positions {
			if _, err := p.state(); err != nil {
				return err
			}
		}
	}
	for i := range m.Views {
		v := &m.Views[i]
		if !cursors[v.Cursor] {
			return fmt.Errorf("view %s follows cursor %d, which is not there", v.Name, v.Cursor)
		}
		if _, err := v.stateColumns(); err != nil {
			return err
		}
		for _, p := range v.First {
			if _, err := p.state(); err != nil {
				return err
			}
		}
	}
	return nil
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

func readAll(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, manifestLimit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(b) > manifestLimit {
		return nil, damaged(name, "it has more than %d bytes", manifestLimit)
	}
	return b, nil
}

func positionsOf(ps []state.Position) []Position {
	out := make([]Position, len(ps))
	for i, p := range ps {
		h := hex.EncodeToString(p.TopicID[:])
		id := strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
		out[i] = Position{Topic: p.Topic, TopicID: id, Partition: p.Partition, Next: p.Next, LeaderEpoch: p.LeaderEpoch}
	}
	slices.SortFunc(out, func(a, b Position) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
	return out
}

func (p Position) state() (state.Position, error) {
	out := state.Position{Topic: p.Topic, Partition: p.Partition, Next: p.Next, LeaderEpoch: p.LeaderEpoch}
	id, err := hex.DecodeString(strings.ReplaceAll(p.TopicID, "-", ""))
	if err != nil || len(id) != len(out.TopicID) {
		return out, fmt.Errorf("topic id %q of %s is no UUID", p.TopicID, p.Topic)
	}
	copy(out.TopicID[:], id)
	return out, nil
}

func positionsTo(ps []Position) ([]state.Position, error) {
	var out []state.Position
	for _, p := range ps {
		q, err := p.state()
		if err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	return out, nil
}

// dirName is the directory of checkpoint id.
func dirName(id uint64) string { return fmt.Sprintf("%08d", id) }

// fileName makes a file's name of a view's name, which may hold anything.
func fileName(view string, id uint32) string {
	var b strings.Builder
	for _, r := range view {
		switch {
		case r == '_' || r == '-' || r == '.' && b.Len() > 0 || r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z' || r >= 0xa0 && strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			for _, c := range []byte(string(r)) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		}
		if b.Len() > 150 {
			fmt.Fprintf(&b, "-%d", id)
			break
		}
	}
	return path.Join("views", b.String()+".arrow")
}
