//go:build duckdb_arrow

package appliance

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// render is a value as text in which values differ if and only if they are
// different to DuckDB. With canonical, so are those that DuckDB calls equal:
// 0.0 and -0.0, one month and 30 days.
func render(a arrow.Array, i int, canonical bool) string {
	if e, ok := a.(array.ExtensionArray); ok {
		a = e.Storage()
	}
	if a.IsNull(i) {
		return "NULL"
	}
	float := func(x float64, bits int) string {
		if canonical && x == 0 {
			x = 0
		}
		return strconv.FormatFloat(x, 'g', -1, bits)
	}
	switch a := a.(type) {
	case *array.Float64:
		return float(a.Value(i), 64)
	case *array.Float32:
		return float(float64(a.Value(i)), 32)
	case *array.MonthDayNanoInterval:
		v := a.Value(i)
		months, days, nanos := int64(v.Months), int64(v.Days), v.Nanoseconds
		if canonical {
			const day = 24 * 3600 * 1_000_000_000
			days, nanos = days+nanos/day, nanos%day
			months, days = months+days/30, days%30
		}
		return fmt.Sprintf("%dm%dd%dns", months, days, nanos)
	case *array.String:
		return strconv.Quote(a.Value(i))
	case *array.Binary:
		return fmt.Sprintf("x%x", a.Value(i))
	case *array.FixedSizeBinary:
		return fmt.Sprintf("x%x", a.Value(i))
	case *array.Struct:
		var parts []string
		for f := range a.NumField() {
			parts = append(parts, a.DataType().(*arrow.StructType).Field(f).Name+": "+render(a.Field(f), i, canonical))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		var parts []string
		for j := from; j < to; j++ {
			parts = append(parts, render(a.ListValues(), int(j), canonical))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return a.ValueStr(i)
}

// renderAll is a batch as text, a line a row.
func renderAll(rec arrow.RecordBatch) string {
	var b strings.Builder
	for i := range int(rec.NumRows()) {
		for c := range int(rec.NumCols()) {
			fmt.Fprintf(&b, "%s(%s) ", render(rec.Column(c), i, true), rec.Column(c).DataType())
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// nearly compares a float with the oracle's: equal, within one unit in the last
// place, or within what the order of additions explains.
func nearly(got, want float64, ulp bool, slack float64) bool {
	switch {
	case got == want, math.IsNaN(got) && math.IsNaN(want):
		return true
	case math.IsNaN(got), math.IsNaN(want), math.IsInf(got, 0), math.IsInf(want, 0):
		return false
	case ulp:
		return got == math.Nextafter(want, got)
	}
	return math.Abs(got-want) <= slack
}

// emptyOf is a batch without rows.
func emptyOf(s *arrow.Schema) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	defer b.Release()
	return b.NewRecordBatch()
}
