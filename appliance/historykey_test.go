//go:build duckdb_arrow

package appliance

import (
	"strings"
	"testing"

	"weir/duckext"
	"weir/state/plan"
	"weir/state/sqltype"
)

// A key with too few or too many values is refused, in words that count.
func TestHistoryKeyCounts(t *testing.T) {
	p := &plan.View{Name: "v"}
	for _, name := range []string{"a", "b"} {
		p.Keys = append(p.Keys, plan.Key{Name: name, Type: sqltype.Type{ID: sqltype.BigInt}})
	}
	for n, want := range []string{"0 values are given, not 2", "1 value is given, not 2"} {
		if _, err := historyKey(p, make([]duckext.KeyValue, n)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d values: %v", n, err)
		}
	}
}
