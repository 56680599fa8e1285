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

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/internal/atomicfile"
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
		return nil, &Error{Kind: ErrMismatch, Path: name, What: "it is no manifest", Err: err}
	}
	if head.Format != formatName {
		return nil, &Error{Kind: ErrMismatch, Path: name, What: fmt.Sprintf("its format is %q, not %q", head.Format, formatName)}
	}
	if head.Version < 1 {
		return nil, &Error{Kind: ErrMismatch, Path: name, What: fmt.Sprintf("it has format version %d, which no Weir has written", head.Version), Do: otherCheckpoint}
	}
	if head.Version > FormatVersion {
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

// readNumber reads checkpoint id of dir, which must say that it is that one:
// others are found by the number that they bear.
func readNumber(fsys vfs.FS, dir string, id uint64) (*Manifest, error) {
	path := Path(fsys, dir, id)
	m, err := readManifest(fsys, path)
	if err == nil && m.Checkpoint != id {
		return nil, &Error{Kind: ErrMismatch, Path: path, What: fmt.Sprintf("it says that it is checkpoint %d", m.Checkpoint), Do: "give the directory the name that it had"}
	}
	return m, err
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
