package queryable

import (
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// headerBackfill names views that were read before they were whole: their names,
// percent-encoded, separated by commas.
const headerBackfill = "Weir-Backfilling"

func sayBackfilling(c *fiber.Ctx, views []string) {
	if len(views) == 0 {
		return
	}
	names := make([]string, len(views))
	for i, n := range views {
		names[i] = url.PathEscape(n)
	}
	c.Set(headerBackfill, strings.Join(names, ","))
}

// appendBackfilling is the member of a JSON answer, with the comma before it.
func appendBackfilling(dst []byte, views []string) []byte {
	if len(views) == 0 {
		return dst
	}
	dst = append(dst, `,"backfilling":[`...)
	for i, n := range views {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, n)
	}
	return append(dst, ']')
}
