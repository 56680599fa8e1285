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
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/internal/atomicfile"
	"weir/state"
)

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

// write puts the manifest into dir, in one step.
func (m *Manifest) write(fsys vfs.FS, dir string) error {
	text, err := m.encode()
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	return atomicfile.Write(fsys, fsys.PathJoin(dir, ManifestName), func(f io.Writer) error {
		_, err := f.Write(text)
		return err
	})
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
	for _, q := range m.Quarantine.Sources {
		if !slices.ContainsFunc(m.Sources, func(s Source) bool { return s.ID == q.Source }) {
			return fmt.Errorf("quarantine of source %d, which is not there", q.Source)
		}
		if _, err := spansTo(q.Passed); err != nil {
			return err
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
		if len(v.Parts) == 1 || len(v.Parts) > 0 && v.File != (File{}) {
			return fmt.Errorf("view %s has %d parts and file %q", v.Name, len(v.Parts), v.File.Name)
		}
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
