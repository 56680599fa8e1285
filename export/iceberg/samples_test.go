package iceberg

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/sqltype"
)

// everyType has a column for each type that a table can hold, with two values as
// JSON: of file form, which numbers and texts of Arrow's JSON builder are.
var everyType = []struct{ name, typ, a, b string }{
	{"boolean", "BOOLEAN", `true`, `false`},
	{"tinyint", "TINYINT", `-128`, `127`},
	{"smallint", "SMALLINT", `-32768`, `32767`},
	{"integer", "INTEGER", `-2147483648`, `2147483647`},
	{"bigint", "BIGINT", `-9223372036854775808`, `9223372036854775807`},
	{"utinyint", "UTINYINT", `0`, `255`},
	{"usmallint", "USMALLINT", `0`, `65535`},
	{"uinteger", "UINTEGER", `0`, `4294967295`},
	{"ubigint", "UBIGINT", `0`, `18446744073709551615`},
	{"hugeint", "HUGEINT", `"-99999999999999999999999999999999999999"`, `"1"`},
	{"uhugeint", "UHUGEINT", `"0"`, `"99999999999999999999999999999999999999"`},
	{"float", "FLOAT", `-0.5`, `3.5`},
	{"double", "DOUBLE", `-1e300`, `0.1`},
	{"decimal", "DECIMAL(12,2)", `"-0.01"`, `"9999999999.99"`},
	{"varchar", "VARCHAR", `""`, `"Zürich 🚀"`},
	{"json", "JSON", `"{\"a\":1}"`, `"[]"`},
	{"blob", "BLOB", `"AP9h"`, `""`},
	{"uuid", "UUID", `"gAAAABI0VniavN7wEjRWeA=="`, `"/////////////////////w=="`},
	{"date", "DATE", `"2026-11-29"`, `"1969-12-31"`},
	{"time", "TIME", `"23:59:59.999999"`, `"00:00:00"`},
	{"timestamp_s", "TIMESTAMP_S", `"2026-11-29 18:00:00"`, `"1900-01-01 00:00:00"`},
	{"timestamp_ms", "TIMESTAMP_MS", `"2026-11-29 18:00:00.123"`, `"1900-01-01 00:00:00.001"`},
	{"timestamp", "TIMESTAMP", `"2026-11-29 18:00:00.123456"`, `"1900-01-01 00:00:00.000001"`},
	{"timestamptz", "TIMESTAMP WITH TIME ZONE", `"2026-11-29 18:00:00.123456Z"`, `"1900-01-01 00:00:00.000001Z"`},
	{"interval", "INTERVAL", `{"months":14,"days":-3,"micros":1000001}`, `{"months":0,"days":0,"micros":0}`},
	{"list", "UTINYINT[]", `[1,null,255]`, `[]`},
	{"array", "INTEGER[2]", `[1,null]`, `[3,4]`},
	{"struct", `STRUCT(a UBIGINT, "ü b" VARCHAR[])`, `{"a":18446744073709551615,"ü b":["x",null]}`, `{"a":null,"ü b":null}`},
	{"map", "MAP(VARCHAR, SMALLINT)", `[{"key":"a","value":-1},{"key":"b","value":null}]`, `[]`},
	{"name.with \"dots\" and ü", "VARCHAR", `"x"`, `"y"`},
}

// sampleRows is all of everyType: a row of the first values, one of the second,
// one of NULL.
func sampleRows(t testing.TB) ([]sqltype.Field, array.RecordReader) {
	t.Helper()
	var columns []sqltype.Field
	var a, b []string
	for _, e := range everyType {
		columns = append(columns, sqltype.Field{Name: e.name, Type: sqltype.MustParse(e.typ)})
		a, b = append(a, e.a), append(b, e.b)
	}
	return columns, rowsOf(t, columns, a, b, make([]string, len(columns)))
}

// rowsOf makes a reader of one batch of rows whose cells are JSON; "" is NULL.
func rowsOf(t testing.TB, columns []sqltype.Field, rows ...[]string) array.RecordReader {
	t.Helper()
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = c.Type.FileField(c.Name)
	}
	schema := arrow.NewSchema(fields, nil)
	cols := make([]arrow.Array, len(columns))
	for i, c := range columns {
		var cells []string
		for _, r := range rows {
			if r[i] == "" {
				cells = append(cells, "null")
			} else {
				cells = append(cells, r[i])
			}
		}
		var err error
		if cols[i], _, err = array.FromJSON(memory.DefaultAllocator, fields[i].Type, strings.NewReader("["+strings.Join(cells, ",")+"]")); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
	}
	rec := array.NewRecordBatch(schema, cols, int64(len(rows)))
	rd, err := array.NewRecordReader(schema, []arrow.RecordBatch{rec})
	if err != nil {
		t.Fatal(err)
	}
	return rd
}
