package appliance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sys/unix"

	"weir/checkpoint"
	"weir/export"
	"weir/queryable"
	"weir/state"
	"weir/state/sqltype"
)

const (
	// exportsDir, in the data directory, holds the files that are made for HTTP.
	exportsDir = "exports"
	// exportsLimit bounds them, as does a quarter of what is free on the disk: state
	// and checkpoints need it more.
	exportsLimit = 4 << 30
)

// exporter gives views as files. Those that it makes stand in a cache; a view's
// own file in a checkpoint is read where it is.
type exporter struct {
	b     backend
	cache *export.Cache
	live  liveFiles
}

var _ queryable.Exporter = (*exporter)(nil)

func newExporter(b backend, dir string) (*exporter, error) {
	limit := int64(exportsLimit)
	var st unix.Statfs_t
	if err := unix.Statfs(b.cfg.Data, &st); err == nil {
		limit = min(limit, int64(st.Bavail)*int64(st.Bsize)/4)
	}
	c, err := export.OpenCache(dir, limit)
	if err != nil {
		return nil, err
	}
	return &exporter{b: b, cache: c}, nil
}

// CheckpointFile gives a view of a checkpoint. The file of a whole view is read
// where it stands; the others are made once.
func (e *exporter) CheckpointFile(ctx context.Context, id, view, format string) (*queryable.File, error) {
	n, err := e.b.keeper.find(id)
	if err != nil {
		return nil, err
	}
	var out *queryable.File
	var v *checkpoint.View
	err = e.b.keeper.read(n, func(c *checkpoint.Checkpoint) error {
		m := c.Manifest
		var ok bool
		if v, ok = m.View(view); !ok {
			return queryable.Errorf(queryable.NotFound, "checkpoint %d has no view %s", n, view)
		}
		out = &queryable.File{Answer: queryable.Answer{Epoch: m.Epoch, Past: []queryable.Past{{ID: n, Epoch: m.Epoch, Savepoint: m.Savepoint}}}}
		if wasBackfilling(m, v) {
			out.Backfilling = []string{v.Name}
		}
		for _, p := range v.Positions {
			out.Positions = append(out.Positions, queryable.Position{Topic: p.Topic, Partition: p.Partition, Next: p.Next})
		}
		if format != "arrow" {
			return nil
		}
		f, err := c.ViewFile(v.Name)
		if f != nil {
			out.ReaderAt, out.Size, out.ETag, out.Close = f, f.Size, `"`+f.SHA256[:32]+`"`, f.Close
		}
		return err
	})
	if err != nil || out.ReaderAt != nil {
		return out, err
	}
	return e.made(ctx, out, checkpointKey(n, v, format), func(ctx context.Context, w io.Writer) error {
		return e.writeCheckpoint(ctx, w, n, v.Name, format)
	})
}

// checkpointKey names a file by what it is made of.
func checkpointKey(n uint64, v *checkpoint.View, format string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q", v.Name)
	for _, f := range v.Files() {
		fmt.Fprintf(h, " %s", f.SHA256)
	}
	return fmt.Sprintf("checkpoint/%d/%s.%s", n, hex.EncodeToString(h.Sum(nil)), format)
}

// made fills out with the file of a key.
func (e *exporter) made(ctx context.Context, out *queryable.File, key string, write func(context.Context, io.Writer) error) (*queryable.File, error) {
	f, err := e.cache.Get(ctx, key, write)
	if errors.Is(err, export.ErrTooLarge) {
		return nil, queryable.Errorf(queryable.TooLarge, "%w: read scan.arrow, or the .arrow file of a checkpoint", err)
	}
	if errors.Is(err, export.ErrDropped) {
		return nil, queryable.Errorf(queryable.Unavailable, "%w; ask again", err)
	}
	if err != nil {
		return nil, err
	}
	out.ReaderAt, out.Size, out.ETag, out.Close = f, f.Size, f.ETag, f.Close
	return out, nil
}

func (e *exporter) writeCheckpoint(ctx context.Context, w io.Writer, n uint64, view, format string) error {
	var t *checkpoint.Table
	var m *checkpoint.Manifest
	err := e.b.keeper.read(n, func(c *checkpoint.Checkpoint) (err error) {
		m = c.Manifest
		t, err = c.Table(view)
		return err
	})
	if err != nil {
		return err
	}
	defer t.Close()
	rows, err := t.Rows(ctx, nil, memory.DefaultAllocator)
	if err != nil {
		return err
	}
	defer rows.Release()
	if format == "arrow" {
		return writeArrow(ctx, w, rows)
	}
	return writeParquet(ctx, w, rows, t.View, m)
}

// writeParquet writes the rows of a view in a checkpoint.
func writeParquet(ctx context.Context, w io.Writer, rows array.RecordReader, v *checkpoint.View, m *checkpoint.Manifest) error {
	columns, err := export.Columns(rows.Schema())
	if err != nil {
		return err
	}
	_, err = export.Parquet(ctx, w, columns, rows, ofCheckpoint(v, m))
	return err
}

// writeResults writes rows of the inside form that are computed from a
// checkpoint. It takes the reader over.
func writeResults(ctx context.Context, w io.Writer, columns []sqltype.Field, rows array.RecordReader, v *checkpoint.View, m *checkpoint.Manifest) error {
	defer rows.Release()
	in := &fileRows{RecordReader: rows, columns: columns}
	defer in.drop()
	_, err := export.Parquet(ctx, w, columns, in, ofCheckpoint(v, m))
	return err
}

func ofCheckpoint(v *checkpoint.View, m *checkpoint.Manifest) export.Options {
	return export.Options{Metadata: map[string]string{
		"weir.checkpoint": strconv.FormatUint(m.Checkpoint, 10), "weir.epoch": strconv.FormatUint(m.Epoch, 10),
		"weir.whole": strconv.FormatBool(!wasBackfilling(m, v)),
	}}
}

// writeArrow makes one Arrow file of a view that is a base and deltas. It has no
// index of slots.
func writeArrow(ctx context.Context, w io.Writer, rows array.RecordReader) error {
	aw, err := ipc.NewFileWriter(struct{ io.Writer }{w}, ipc.WithSchema(rows.Schema()), ipc.WithZstd())
	if err != nil {
		return fmt.Errorf("begin Arrow file: %w", err)
	}
	for rows.Next() {
		if err := errors.Join(ctx.Err(), aw.Write(rows.RecordBatch())); err != nil {
			return fmt.Errorf("write Arrow file: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return aw.Close()
}

// writeLive writes a view as a scan shows it, and says what it was read from and
// which views were not whole.
func (e *exporter) writeLive(ctx context.Context, w io.Writer, view string) (from queryable.Answer, backfilling []string, err error) {
	rows, err := e.b.Scan(ctx, queryable.ScanRequest{View: view, ToSlot: state.Slots})
	if err != nil {
		return queryable.Answer{}, nil, err
	}
	defer rows.Records.Release()
	columns, roles := make([]sqltype.Field, len(rows.Columns)), make([]string, len(rows.Columns))
	for i, c := range rows.Columns {
		columns[i], roles[i] = c.Field, c.Role
	}
	in := &fileRows{RecordReader: rows.Records, columns: columns, roles: roles, unfit: rows.Unfit}
	defer in.drop()
	_, err = export.Parquet(ctx, w, columns, in, export.Options{Metadata: map[string]string{
		"weir.view": view, "weir.epoch": strconv.FormatUint(rows.Epoch, 10), "weir.whole": strconv.FormatBool(len(rows.Backfilling) == 0),
	}})
	return rows.Answer, rows.Backfilling, err
}

// fileRows gives batches of the inside form in the form of files.
type fileRows struct {
	array.RecordReader
	columns []sqltype.Field
	roles   []string                             // nil when they are not told
	unfit   func(arrow.RecordBatch, error) error // as in queryable.Rows
	rec     arrow.RecordBatch
	err     error
}

func (r *fileRows) Schema() *arrow.Schema {
	fields := make([]arrow.Field, len(r.columns))
	for i, c := range r.columns {
		fields[i] = c.Type.FileField(c.Name)
		if r.roles != nil && r.roles[i] != "" {
			meta := fields[i].Metadata.ToMap()
			meta["weir.role"] = r.roles[i]
			fields[i].Metadata = arrow.MetadataFrom(meta)
		}
	}
	return arrow.NewSchema(fields, nil)
}

func (r *fileRows) RecordBatch() arrow.RecordBatch { return r.rec }

func (r *fileRows) Release() {
	r.drop()
	r.RecordReader.Release()
}

func (r *fileRows) Err() error {
	if r.err != nil {
		return queryable.Errorf(queryable.BadRequest, "%w", r.err) // a value that files cannot hold
	}
	return r.RecordReader.Err()
}

func (r *fileRows) drop() {
	if r.rec != nil {
		r.rec.Release()
		r.rec = nil
	}
}

func (r *fileRows) Next() bool {
	r.drop()
	if r.err != nil || !r.RecordReader.Next() {
		return false
	}
	r.rec, r.err = checkpoint.FileBatch(r.columns, r.RecordReader.RecordBatch())
	if r.err != nil && r.unfit != nil {
		r.err = r.unfit(r.RecordReader.RecordBatch(), r.err)
	}
	return r.err == nil
}

// sweep drops the files of checkpoints that are gone.
func (e *exporter) sweep() {
	gone := map[string]bool{}
	e.cache.Drop(func(key string) bool {
		rest, ok := strings.CutPrefix(key, "checkpoint/")
		if !ok {
			return false
		}
		id, _, _ := strings.Cut(rest, "/")
		if _, known := gone[id]; !known {
			n, _ := strconv.ParseUint(id, 10, 64)
			k := e.b.keeper
			_, err := k.fs.Stat(checkpoint.Path(k.fs, k.dir, n))
			gone[id] = errors.Is(err, fs.ErrNotExist)
		}
		return gone[id]
	})
}
