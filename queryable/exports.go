package queryable

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"
)

const (
	mediaArrowFile = "application/vnd.apache.arrow.file"
	mediaParquet   = "application/vnd.apache.parquet"
)

// Exporter gives whole views as files that can be read at any place. Its errors
// are those of a [Backend].
type Exporter interface {
	// CheckpointFile is a view of a checkpoint: all columns of docs/format.md, in
	// the format "parquet" or "arrow".
	CheckpointFile(ctx context.Context, id, view, format string) (*File, error)
	// ScanParquet is the view as a scan sees it, at one epoch.
	ScanParquet(ctx context.Context, r ExportRequest) (*File, error)
}

// ExportRequest asks for a live view as a file. Files of several epochs may be
// there at once.
type ExportRequest struct {
	View string
	// Epoch is the one that the file must be of; nil is any.
	Epoch *uint64
	// ETags are those of files that the client has a part of. One of them is given
	// if it is there.
	ETags []string
	// MinEpoch is the oldest epoch that will do, if no ETag decides.
	MinEpoch uint64
	// Begins says that the client begins to read, and has no part of a file.
	Begins bool
}

// File is a file at one moment. Whoever receives it calls Close once.
type File struct {
	Answer
	io.ReaderAt
	Size  int64
	ETag  string // strong, quoted
	Close func() error
	// Backfilling is as in Rows.
	Backfilling []string
}

// checkpointFile is GET /api/v1/checkpoints/{id}/{view}.arrow and .parquet. A view's
// name may end so, too: the last ending counts.
func (a *API) checkpointFile(c *fiber.Ctx) error {
	file, err := param(c, "file")
	if err != nil {
		return err
	}
	for format, contentType := range map[string]string{"arrow": mediaArrowFile, "parquet": mediaParquet} {
		view, ok := strings.CutSuffix(file, "."+format)
		if !ok || view == "" {
			continue
		}
		id, err := checkpointID(c)
		if err != nil {
			return err
		}
		return a.download(c, contentType, func(k *call) (*File, error) {
			return a.o.Exports.CheckpointFile(k.ctx, id, view, format)
		})
	}
	return Errorf(NotFound, "a checkpoint has the files {view}.arrow and {view}.parquet, not %s", clip(file))
}

// scanParquet is GET /api/v1/views/{view}/scan.parquet.
func (a *API) scanParquet(c *fiber.Ctx) error {
	r := ExportRequest{ETags: validators(c), Begins: c.Method() == fiber.MethodHead || c.Get(fiber.HeaderRange) == ""}
	var err error
	if r.View, err = param(c, "view"); err != nil {
		return err
	}
	if s := c.Query("epoch"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return Errorf(BadRequest, "epoch is a number")
		}
		r.Epoch = &n
	}
	return a.download(c, mediaParquet, func(k *call) (*File, error) {
		if err := a.await(c, k, r.View); err != nil {
			return nil, err
		}
		k.limit(a.o.StreamTime)
		if s := c.Query("min_position"); s != "" {
			r.MinEpoch, _, _ = a.b.Changed() // what was waited for is in it
		} else if s := c.Query("min_epoch"); s != "" {
			if r.MinEpoch, err = strconv.ParseUint(s, 10, 64); err != nil {
				return nil, Errorf(BadRequest, "min_epoch is a number")
			}
		}
		return a.o.Exports.ScanParquet(k.ctx, r)
	})
}

// download answers with a file, or with the range of it that was asked for.
func (a *API) download(c *fiber.Ctx, contentType string, open func(*call) (*File, error)) error {
	if a.o.Exports == nil {
		return Errorf(NotFound, "no files are exported here")
	}
	k := a.begin(c, a.o.StreamTime, true)
	f, err := func() (*File, error) {
		if err := a.downloads.enter(k, "downloads"); err != nil {
			return nil, err
		}
		return open(k)
	}()
	if err != nil {
		defer k.end()
		return k.fault(err)
	}
	k.defers(func() { f.Close() })
	sayBackfilling(c, f.Backfilling)
	a.answerHeaders(c, f.Answer)
	c.Set(fiber.HeaderETag, f.ETag)
	c.Set(fiber.HeaderAcceptRanges, "bytes")
	from, n, err := selected(c, f)
	if err != nil {
		defer k.end()
		return err
	}
	if c.Response().StatusCode() == fiber.StatusNotModified {
		defer k.end()
		return nil
	}
	c.Set(fiber.HeaderContentType, contentType)
	c.Context().SetBodyStream(&file{io.NewSectionReader(f, from, n), k, a.o.Logger.With("route", c.Route().Path)}, int(n))
	return nil
}

// file is a download; closing it ends its call. Its length is announced, so a
// fault that cuts it is seen by the client.
type file struct {
	r   io.Reader
	k   *call
	log *slog.Logger
}

func (f *file) Read(p []byte) (int, error) {
	if err := f.k.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.log.Error("a download was cut", "err", err)
	}
	return n, err
}

func (f *file) Close() error {
	f.k.end()
	return nil
}
