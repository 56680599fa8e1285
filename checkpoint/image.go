package checkpoint

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/state"
)

// An image is a Snapshot that was never a store: what a checkpoint holds, with
// the groups of some views replaced.
type image struct {
	dump    state.Dump
	catalog state.Catalog
	stats   map[state.ViewID]state.ViewStats
	rows    map[state.ViewID]func(context.Context, state.ScanRequest) (array.RecordReader, error)
	edits   func() []Edit // asked for when all rows were read
}

// newImage opens a checkpoint as an image. done closes its files.
func newImage(ctx context.Context, c *Checkpoint) (im *image, done func(), err error) {
	d, done, err := c.dump(ctx)
	if err != nil {
		return nil, nil, err
	}
	im = &image{
		dump:    d,
		catalog: state.Catalog{Version: 1, Sources: d.Sources, Views: d.Views, Queries: d.Queries, NextID: d.NextID, NextCursor: d.NextCursor},
		stats:   map[state.ViewID]state.ViewStats{},
		rows:    map[state.ViewID]func(context.Context, state.ScanRequest) (array.RecordReader, error){},
		edits:   func() []Edit { return c.Manifest.Edits },
	}
	for i := range c.Manifest.Views {
		v := &c.Manifest.Views[i]
		im.stats[state.ViewID(v.ID)] = state.ViewStats{Groups: v.Groups, Bytes: v.Bytes, Errors: v.Errors}
		im.rows[state.ViewID(v.ID)] = func(_ context.Context, r state.ScanRequest) (array.RecordReader, error) { return d.Rows(r.View) }
	}
	return im, done, nil
}

func (im *image) Epoch() uint64                               { return im.dump.Epoch }
func (im *image) Catalog() *state.Catalog                     { return &im.catalog }
func (im *image) Positions(c state.CursorID) []state.Position { return im.dump.Positions[c] }
func (im *image) Records(c state.CursorID) int64              { return im.dump.Records[c] }
func (im *image) Stats(v state.ViewID) state.ViewStats        { return im.stats[v] }
func (im *image) Edits() []Edit                               { return im.edits() }

func (im *image) Scan(ctx context.Context, r state.ScanRequest) (array.RecordReader, error) {
	open, ok := im.rows[r.View]
	if !ok {
		return nil, fmt.Errorf("there is no view %d", r.View)
	}
	return open(ctx, r)
}

func (im *image) Refused(s state.SourceID, after uint64, limit int) (out []state.RefusedRecord, err error) {
	for _, r := range im.dump.Refused {
		if r.Source == s && r.Seq > after && len(out) < limit {
			out = append(out, r)
		}
	}
	return out, nil
}

func (im *image) RefusedCount(s state.SourceID) state.RefusedCount { return im.dump.RefusedCounts[s] }

// newEdit begins the record of an edit of some checkpoints.
func newEdit(kind string, now func() time.Time, sql []string, from ...*Checkpoint) (Edit, error) {
	if now == nil {
		now = time.Now
	}
	var id [16]byte
	rand.Read(id[:]) // never fails
	e := Edit{ID: hex.EncodeToString(id[:]), Kind: kind, Time: now().UTC().Truncate(time.Microsecond), SQL: sql}
	for _, c := range from {
		sum, err := manifestSum(c.fs, c.fs.PathJoin(c.dir, ManifestName))
		if err != nil {
			return e, err
		}
		e.From = append(e.From, EditedOne{Checkpoint: c.Manifest.Checkpoint, Savepoint: c.Manifest.Savepoint, Epoch: c.Manifest.Epoch, SHA256: sum})
	}
	return e, nil
}

func manifestSum(fsys vfs.FS, path string) (string, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return "", fmt.Errorf("open %s: %w", path, err)
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
