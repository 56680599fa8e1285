package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"path"
	"regexp"
	"strings"

	"github.com/gofiber/fiber/v2"

	"weir/queryable"
)

// console serves the files of the console from memory, gzipped once.
type console struct{ files map[string]*asset }

type asset struct {
	plain, gzipped []byte // gzipped is nil when that is no gain
	media, etag    string
	hashed         bool // the name changes with the content
}

// hashedName is how the build names what may be kept for good: app-Dx3k9_aB.js.
var hashedName = regexp.MustCompile(`-[A-Za-z0-9_-]{8,}\.[a-z0-9]+$`)

func newConsole(dir fs.FS) (*console, error) {
	c := &console{files: make(map[string]*asset)}
	err := fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(dir, name)
		if err != nil {
			return err
		}
		c.files["/"+name], err = newAsset(name, data)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the console's files: %w", err)
	}
	if c.files["/index.html"] == nil {
		return nil, fmt.Errorf("the console has no index.html: build it (make console)")
	}
	return c, nil
}

func newAsset(name string, data []byte) (*asset, error) {
	sum := sha256.Sum256(data)
	a := &asset{
		plain: data, media: mediaOf(name), etag: `W/"` + hex.EncodeToString(sum[:12]) + `"`,
		hashed: strings.HasPrefix(name, "assets/") && hashedName.MatchString(name),
	}
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if out.Len() < len(data)*9/10 {
		a.gzipped = out.Bytes()
	}
	return a, nil
}

// mediaOf names the media type of a file. The machine's own table may not be
// there, so the ones that matter are fixed.
func mediaOf(name string) string {
	switch ext := path.Ext(name); ext {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".json", ".map":
		return "application/json"
	case ".woff2":
		return "font/woff2"
	default:
		if t := mime.TypeByExtension(ext); t != "" {
			return t
		}
		return "application/octet-stream"
	}
}

// serve is GET of anything that no other route takes. The console's pages are
// fragments of /, so a path that is no file is nothing.
func (s *console) serve(c *fiber.Ctx) error {
	p := c.Path()
	if p == "/" {
		p = "/index.html"
	}
	a := s.files[p]
	if a == nil {
		return queryable.Errorf(queryable.NotFound, "there is nothing at this path")
	}
	c.Set(fiber.HeaderETag, a.etag)
	c.Set(fiber.HeaderVary, fiber.HeaderAcceptEncoding)
	c.Set(fiber.HeaderCacheControl, "no-cache")
	if a.hashed {
		c.Set(fiber.HeaderCacheControl, "public, max-age=31536000, immutable")
	}
	if c.Get(fiber.HeaderIfNoneMatch) == a.etag {
		return c.SendStatus(fiber.StatusNotModified)
	}
	c.Set(fiber.HeaderContentType, a.media)
	body := a.plain
	if a.gzipped != nil && acceptsGzip(c.Get(fiber.HeaderAcceptEncoding)) {
		c.Set(fiber.HeaderContentEncoding, "gzip")
		body = a.gzipped
	}
	return c.Send(body)
}

func acceptsGzip(header string) bool {
	for one := range strings.SplitSeq(header, ",") {
		coding, q, _ := strings.Cut(one, ";")
		if strings.TrimSpace(coding) == "gzip" {
			q = strings.ReplaceAll(strings.TrimSpace(q), " ", "")
			return strings.Trim(strings.TrimPrefix(q, "q="), "0.") != "" || q == ""
		}
	}
	return false
}
