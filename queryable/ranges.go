package queryable

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// validators are the ETags of If-Match and If-Range: those of a file that the
// client has a part of.
func validators(c *fiber.Ctx) (tags []string) {
	for _, h := range []string{fiber.HeaderIfMatch, fiber.HeaderIfRange} {
		for tag := range strings.SplitSeq(strings.Clone(c.Get(h)), ",") {
			if tag = strings.TrimSpace(tag); strings.HasPrefix(tag, `"`) {
				tags = append(tags, tag)
			}
		}
	}
	return tags
}

// selected applies the conditions and the range of a request (RFC 9110, sections
// 13 and 14) to a file, sets the status and the headers that follow from them,
// and gives the part that is to be sent. Of more than one range, and of what is
// no range of bytes, it sends the whole file, as a server may.
func selected(c *fiber.Ctx, f *File) (from, n int64, err error) {
	if h := c.Get(fiber.HeaderIfMatch); h != "" && !matches(h, f.ETag, false) {
		return 0, 0, Errorf(Changed, "the file is another one now: %s, not %s. Read it again from its beginning", f.ETag, clip(strings.Clone(h)))
	}
	if h := c.Get(fiber.HeaderIfNoneMatch); h != "" && matches(h, f.ETag, true) {
		c.Status(fiber.StatusNotModified)
		return 0, 0, nil
	}
	spec := c.Get(fiber.HeaderRange)
	if h := c.Get(fiber.HeaderIfRange); c.Method() == fiber.MethodHead || h != "" && strings.TrimSpace(h) != f.ETag {
		spec = ""
	}
	from, to, kind := parseRange(spec, f.Size)
	switch kind {
	case noRange:
		return 0, f.Size, nil
	case outside:
		c.Set(fiber.HeaderContentRange, fmt.Sprintf("bytes */%d", f.Size))
		return 0, 0, Errorf(BadRange, "the file has %d bytes, and none of %s", f.Size, clip(strings.Clone(spec)))
	}
	c.Status(fiber.StatusPartialContent)
	c.Set(fiber.HeaderContentRange, fmt.Sprintf("bytes %d-%d/%d", from, to-1, f.Size))
	return from, to - from, nil
}

// matches says whether a list of ETags has one, or is *. Weak ones are equal only
// where that is asked for.
func matches(list, tag string, weak bool) bool {
	for t := range strings.SplitSeq(list, ",") {
		t = strings.TrimSpace(t)
		if weak {
			t = strings.TrimPrefix(t, "W/")
		}
		if t == tag || t == "*" {
			return true
		}
	}
	return false
}

// What a Range header asks for.
const (
	noRange = iota // nothing that is understood
	within
	outside
)

// parseRange reads "bytes=from-to", "bytes=from-" and "bytes=-last" for a file of
// a size. to is behind the last byte.
func parseRange(spec string, size int64) (from, to int64, kind int) {
	unit, r, ok := strings.Cut(spec, "=")
	if !ok || !strings.EqualFold(strings.TrimSpace(unit), "bytes") {
		return 0, 0, noRange
	}
	first, last, ok := strings.Cut(strings.TrimSpace(r), "-")
	if !ok {
		return 0, 0, noRange
	}
	number := func(s string) (int64, bool) {
		n, err := strconv.ParseInt(s, 10, 64)
		return n, err == nil && s[0] >= '0' && s[0] <= '9'
	}
	if first == "" {
		n, ok := number(last)
		switch {
		case !ok:
			return 0, 0, noRange
		case n == 0 || size == 0:
			return 0, 0, outside
		}
		return max(0, size-n), size, within
	}
	from, ok = number(first)
	to = size
	if last != "" && ok {
		to, ok = number(last)
		if ok && to < from {
			return 0, 0, noRange
		}
		to = min(to, size-1) + 1
	}
	switch {
	case !ok:
		return 0, 0, noRange
	case from >= size:
		return 0, 0, outside
	}
	return from, to, within
}
