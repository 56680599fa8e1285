//go:build duckdb_arrow

package duckext

import (
	"strings"
	"testing"
)

// In a syntax tree the constant 0.3 is the number 3 of scale 1.
func TestVersionIsNoFraction(t *testing.T) {
	c, _ := shop(10)
	p := openPool(t, c, PoolOptions{Size: 1})
	for sql, says := range map[string]string{
		"SELECT * FROM v AT (VERSION => 0.3)":              "checkpoint's number",
		"SELECT * FROM v AT (VERSION => CAST(0.3 AS INT))": "checkpoint's number",
		"SELECT * FROM state_at('v', version := 0.3)":      "as constants",
	} {
		_, err := p.Query(t.Context(), Request{SQL: sql})
		if code(err) != CodeRefused || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", sql, err)
		}
	}
}
