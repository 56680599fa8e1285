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
	if len(views) > 0 {
		c.Set(headerBackfill, headerNames(views))
	}
}

// headerNames is how names stand in a header.
func headerNames(names []string) string {
	safe := make([]string, len(names))
	for i, n := range names {
		safe[i] = url.PathEscape(n)
	}
	return strings.Join(safe, ",")
}

// appendNames is a member of a JSON answer that lists names, with the comma before
// it; nothing without names.
func appendNames(dst []byte, member string, names []string) []byte {
	if len(names) == 0 {
		return dst
	}
	dst = append(append(append(dst, `,"`...), member...), `":[`...)
	for i, n := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, n)
	}
	return append(dst, ']')
}
