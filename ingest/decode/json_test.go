package decode

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/sqltype"
)

// newJSON is a decoder of columns given as "name TYPE" on checked memory.
func newJSON(t testing.TB, columns ...string) *JSON {
	t.Helper()
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	d, err := NewJSON(fields(columns...), Options{Mem: mem})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Close()
		mem.AssertSize(t, 0)
	})
	return d
}

func fields(columns ...string) (fs []sqltype.Field) {
	for _, c := range columns {
		name, typ, _ := strings.Cut(c, " ")
		fs = append(fs, sqltype.Field{Name: name, Type: sqltype.MustParse(typ)})
	}
	return fs
}

// show is one row as text: its values separated by bars.
func show(b arrow.RecordBatch, row int) string {
	var s []string
	for _, c := range b.Columns() {
		if d, ok := c.(*array.Decimal128); ok && d.IsValid(row) {
			s = append(s, d.Value(row).ToString(d.DataType().(arrow.DecimalType).GetScale()))
			continue
		}
		v := c.ValueStr(row)
		if _, ok := c.(*array.Struct); ok {
			// Arrow's JSON escapes some control characters in its own way.
			dec := json.NewDecoder(strings.NewReader(v))
			dec.UseNumber()
			var fields any
			if dec.Decode(&fields) == nil {
				v = marshal(fields)
			}
		}
		s = append(s, v)
	}
	return strings.Join(s, " | ")
}

// marshal is v as JSON, its keys sorted.
func marshal(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// decodeOne decodes one document into one row, or the text of its refusal.
func decodeOne(t testing.TB, d *JSON, doc string) (string, bool) {
	t.Helper()
	if err := d.Append([]byte(doc)); err != nil {
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Fatalf("%s: %v is no *Error", doc, err)
		}
		if d.Len() != 0 {
			t.Fatalf("%s: refused and kept", doc)
		}
		return err.Error(), false
	}
	b := d.Batch()
	defer b.Release()
	if b.NumRows() != 1 {
		t.Fatalf("%s: %d rows", doc, b.NumRows())
	}
	return show(b, 0), true
}

type value struct {
	typ, in, want string // a value in the document; want starts with "!" for a refusal that contains the rest
}

func TestValues(t *testing.T) {
	for _, v := range []value{
		// B01, B02, B04, B05, B07: exact numbers.
		{"BIGINT", "9007199254740993", "9007199254740993"},
		{"BIGINT", "-9223372036854775808", "-9223372036854775808"},
		{"BIGINT", "9223372036854775807", "9223372036854775807"},
		{"BIGINT", "9223372036854775808", "!out of range"},
		{"BIGINT", "-9223372036854775809", "!out of range"},
		{"BIGINT", "1e3", "1000"},
		{"BIGINT", "1.0", "1"},
		{"BIGINT", "1.2e1", "12"},
		{"BIGINT", "120e-1", "12"},
		{"BIGINT", "0e99999999999999999999", "0"},
		{"BIGINT", "1e99999999999999999999", "!out of range"},
		{"BIGINT", "-0", "0"},
		{"BIGINT", "1.5", "!not a whole number"},
		{"BIGINT", "1e-1", "!not a whole number"},
		{"BIGINT", `"12"`, "12"},
		{"BIGINT", `"12\u0033"`, "123"},
		{"BIGINT", `"0012"`, "!not a number"},
		{"BIGINT", `" 12"`, "!not a number"},
		{"BIGINT", `""`, "!not a number"},
		{"BIGINT", `"NaN"`, "!not a number"},
		{"BIGINT", "true", "!a number is wanted"},
		{"BIGINT", "[1]", "!a number is wanted"},
		{"BIGINT", "null", "(null)"},
		{"TINYINT", "-128", "-128"},
		{"TINYINT", "128", "!out of range"},
		{"TINYINT", "-129", "!out of range"},
		{"SMALLINT", "32767", "32767"},
		{"SMALLINT", "32768", "!out of range"},
		{"INTEGER", "-2147483648", "-2147483648"},
		{"INTEGER", "2147483648", "!out of range"},
		{"UTINYINT", "255", "255"},
		{"UTINYINT", "256", "!out of range"},
		{"UTINYINT", "-1", "!out of range"},
		{"USMALLINT", "65535", "65535"},
		{"UINTEGER", "4294967295", "4294967295"},
		{"UINTEGER", "4294967296", "!out of range"},
		{"UBIGINT", "18446744073709551615", "18446744073709551615"},
		{"UBIGINT", "18446744073709551616", "!out of range"},
		{"UBIGINT", "-0", "0"},
		{"DECIMAL(10,2)", "22", "22.00"},
		{"DECIMAL(10,2)", "12.0", "12.00"},
		{"DECIMAL(10,2)", "12.000", "12.00"},
		{"DECIMAL(10,2)", "1.005", "1.01"},
		{"DECIMAL(10,2)", "-1.005", "-1.01"},
		{"DECIMAL(10,2)", "1.00499999999999999999999", "1.00"},
		{"DECIMAL(10,2)", "5e-3", "0.01"},
		{"DECIMAL(10,2)", "4e-3", "0.00"},
		{"DECIMAL(10,2)", "9e-4", "0.00"},
		{"DECIMAL(10,2)", "99999999.99", "99999999.99"},
		{"DECIMAL(10,2)", "100000000", "!out of range"},
		{"DECIMAL(10,2)", "99999999.995", "!out of range"},
		{"DECIMAL(3,2)", "9.995", "!out of range"},
		{"DECIMAL(10,2)", `"12.5"`, "12.50"},
		{"DECIMAL(10,2)", `"12,5"`, "!not a number"},
		{"DECIMAL(38,18)", "799.929496989092949698", "799.929496989092949698"},
		{"DECIMAL(38,0)", "99999999999999999999999999999999999999", "99999999999999999999999999999999999999"},
		{"DECIMAL(38,0)", "-99999999999999999999999999999999999999", "-99999999999999999999999999999999999999"},
		{"DECIMAL(38,0)", "100000000000000000000000000000000000000", "!out of range"},
		{"DECIMAL(38,38)", "0.5", "0.50000000000000000000000000000000000000"},
		{"DOUBLE", "0.1", "0.1"},
		{"DOUBLE", "1e308", "1e+308"},
		{"DOUBLE", "1e309", "!out of range"},
		{"DOUBLE", "-0", "-0"},
		{"DOUBLE", "2.2250738585072011e-308", "2.225073858507201e-308"},
		{"DOUBLE", "9007199254740993", "9.007199254740992e+15"},
		{"DOUBLE", "123456789012345.6789", "1.2345678901234567e+14"},
		{"DOUBLE", "1e-400", "0"},
		{"DOUBLE", `"NaN"`, "NaN"},
		{"DOUBLE", `"-Infinity"`, "-Inf"},
		{"DOUBLE", `"inf"`, "+Inf"},
		{"DOUBLE", `"0x1p4"`, "!not a number"},
		{"DOUBLE", `"1_0"`, "!not a number"},
		{"FLOAT", "0.1", "0.1"},
		{"FLOAT", "16777217", "1.6777216e+07"},
		{"FLOAT", "1e39", "!out of range"},
		{"BOOLEAN", "true", "1"},
		{"BOOLEAN", "false", "0"},
		{"BOOLEAN", `"True"`, "1"},
		{"BOOLEAN", `"yes"`, "!want true or false"},
		{"BOOLEAN", "1", "!want true or false"},

		// Text: B50, B52, B53.
		{"VARCHAR", `"Zürich"`, "Zürich"},
		{"VARCHAR", `"a\"\\\/\b\f\n\r\t\u00fc\ud83d\ude00"`, "a\"\\/\b\f\n\r\tü😀"},
		{"VARCHAR", `"\u0000"`, "\x00"},
		{"VARCHAR", `""`, ""},
		{"VARCHAR", `"\ud800"`, "!half a surrogate pair"},
		{"VARCHAR", `"\udc00\ud800"`, "!half a surrogate pair"},
		{"VARCHAR", `"\ud800\ud800"`, "!half a surrogate pair"},
		{"VARCHAR", `"abc\u12"`, "!malformed escape"},
		{"VARCHAR", "\"\xab\xbb\"", "!not valid UTF-8"},
		{"VARCHAR", "\"\xed\xa0\x80\"", "!not valid UTF-8"},
		{"VARCHAR", `{"q":"say \"hi\""}`, `{"q":"say \"hi\""}`},
		{"VARCHAR", `[1, 2 ]`, `[1, 2 ]`},
		{"VARCHAR", `1.50`, `1.50`},
		{"VARCHAR", `true`, `true`},
		{"JSON", `{"q":"say \"hi\""}`, `{"q":"say \"hi\""}`},
		{"JSON", `null`, `null`},
		{"JSON", `"x"`, `"x"`},
		{"JSON", `["\ud800"]`, "!half a surrogate pair"},
		{"JSON", `["\ud83d\ude00","\\ud800"]`, `["\ud83d\ude00","\\ud800"]`},
		{"BLOB", `"+/8="`, "+/8="},
		{"BLOB", `"-_8"`, "+/8="},
		{"BLOB", `""`, ""},
		{"BLOB", `"a"`, "!not base64"},
		{"BLOB", `"+/9="`, "!not base64"},
		{"BLOB", `"+/\n8="`, "!not base64"},
		{"BLOB", `"+/8=="`, "!not base64"},
		{"BLOB", `17`, "!a string is wanted"},

		// Time: B20, B25, B26, B35.
		{"TIMESTAMP", `"2022-04-28T21:44:47.943Z"`, "2022-04-28T21:44:47.943"},
		{"TIMESTAMP", `"2026-06-25T09:15:00+02:00"`, "2026-06-25T07:15:00"},
		{"TIMESTAMP", `"2026-06-25 09:15:00+0200"`, "2026-06-25T07:15:00"},
		{"TIMESTAMP", `"2026-06-25t09:15:00+02"`, "2026-06-25T07:15:00"},
		{"TIMESTAMP WITH TIME ZONE", `"2026-06-25 09:15:00-02:30"`, "2026-06-25T11:45:00Z"},
		{"TIMESTAMP WITH TIME ZONE", `"2026-06-25 09:15:00"`, "2026-06-25T09:15:00Z"},
		{"TIMESTAMP", `"2023-11-05 01:40-07:00"`, "2023-11-05T08:40:00"},
		{"TIMESTAMP", `"2023-11-05"`, "2023-11-05T00:00:00"},
		{"TIMESTAMP", `"2023-11-05T10"`, "!want HH:MM"},
		{"TIMESTAMP", `"2023-11-05 10:00:00 "`, "!want nothing, Z"},
		{"TIMESTAMP", `"2023-11-05 10:00:00Zx"`, "!want nothing, Z"},
		{"TIMESTAMP", `"2023-11-05 10:00:00+2"`, "!want nothing, Z"},
		{"TIMESTAMP", `"2023-11-05 10:00:00+19:00"`, "!want nothing, Z"},
		{"TIMESTAMP", `"2023-11-05 10:00:60"`, "!want HH:MM"},
		{"TIMESTAMP", `"2023-11-05 24:00:00"`, "!want HH:MM"},
		{"TIMESTAMP", `"2023-11-05 10:00:00."`, "!want HH:MM"},
		{"TIMESTAMP", `"2023-02-29 10:00:00"`, "!want YYYY-MM-DD"},
		{"TIMESTAMP", `"2023-13-01"`, "!want YYYY-MM-DD"},
		{"TIMESTAMP", `"0000-00-00"`, "!want YYYY-MM-DD"},
		{"TIMESTAMP", `"2023-1-1"`, "!want YYYY-MM-DD"},
		{"TIMESTAMP", `"20230101"`, "!want YYYY-MM-DD"},
		{"TIMESTAMP", `""`, "!want YYYY-MM-DD"},
		{"TIMESTAMP", `"infinity"`, "!infinity is no point in time"},
		{"TIMESTAMP", `1707225270445`, "!a number has no unit: declare the column BIGINT"},
		{"TIMESTAMP", `1.7e12`, "!a number has no unit: declare the column BIGINT"},
		{"TIMESTAMP", `"1969-12-31T23:59:59.999999"`, "1969-12-31T23:59:59.999999"},
		{"TIMESTAMP", `"1969-12-31T23:59:59.9999999"`, "1969-12-31T23:59:59.999999"},
		{"TIMESTAMP", `"1970-01-01T00:00:00+01:00"`, "1969-12-31T23:00:00"},
		{"TIMESTAMP", `"294276-12-31"`, "!out of range"},
		{"TIMESTAMP", `"294247-01-10T04:00:54.775807"`, "!out of range"},
		{"TIMESTAMP_S", `"2020-01-01T00:00:00.999"`, "2020-01-01T00:00:00"},
		{"TIMESTAMP_S", `"1969-12-31T23:59:58.5"`, "1969-12-31T23:59:58"},
		{"TIMESTAMP_MS", `"2020-01-01T00:00:00.1239"`, "2020-01-01T00:00:00.123"},
		{"TIMESTAMP_NS", `"2020-01-01T00:00:00.123456789999"`, "2020-01-01T00:00:00.123456789"},
		{"TIMESTAMP_NS", `"2262-04-11T23:47:16.854775806"`, "2262-04-11T23:47:16.854775806"},
		{"TIMESTAMP_NS", `"2262-04-11T23:47:16.854775807"`, "!out of range"},
		{"TIMESTAMP_NS", `"1677-09-20"`, "!out of range"},
		{"DATE", `"2024-02-29"`, "2024-02-29"},
		{"DATE", `"1600-02-29"`, "1600-02-29"},
		{"DATE", `"1900-02-29"`, "!want YYYY-MM-DD"},
		{"DATE", `"2024-02-29T00:00:00"`, "!more than a date"},
		{"DATE", `19782`, "!a number has no unit"},
		{"TIME", `"23:59:59.1234567"`, "23:59:59.123456"},
		{"TIME", `"12:30"`, "12:30:00.000000"},
		{"TIME", `"12:30Z"`, "!without a zone"},
		{"INTERVAL", `"P1Y2M3DT4H5M6.7S"`, `{"months":14,"days":3,"nanoseconds":14706700000000}`},
		{"INTERVAL", `"P2W"`, `{"months":0,"days":14,"nanoseconds":0}`},
		{"INTERVAL", `"PT-1.5S"`, `{"months":0,"days":0,"nanoseconds":-1500000000}`},
		{"INTERVAL", `"-PT36H"`, `{"months":0,"days":0,"nanoseconds":-129600000000000}`},
		{"INTERVAL", `"1 year 2 months 3 days 04:05:06.789"`, `{"months":14,"days":3,"nanoseconds":14706789000000}`},
		{"INTERVAL", `"-1 day -04:05:06"`, `{"months":0,"days":-1,"nanoseconds":-14706000000000}`},
		{"INTERVAL", `"90 seconds"`, `{"months":0,"days":0,"nanoseconds":90000000000}`},
		{"INTERVAL", `"P"`, "!want ISO 8601"},
		{"INTERVAL", `"PT"`, "!want ISO 8601"},
		{"INTERVAL", `"P1S"`, "!want ISO 8601"},
		{"INTERVAL", `"P1D1Y"`, "!want ISO 8601"},
		{"INTERVAL", `"1.5 days"`, "!want ISO 8601"},
		{"INTERVAL", `"1 fortnight"`, "!want ISO 8601"},
		{"INTERVAL", `"2562048 hours"`, "!out of range"},
		{"INTERVAL", `"P999999999Y"`, "!out of range"},

		// Nested values.
		{"INTEGER[]", `[1, null ,3]`, "[1,null,3]"},
		{"INTEGER[]", `[ ]`, "[]"},
		{"INTEGER[]", `[1,"x"]`, `!column c[1]: "x" does not fit INTEGER`},
		{"INTEGER[]", `1`, "!an array is wanted"},
		{"INTEGER[2]", `[1,2]`, "[1,2]"},
		{"INTEGER[2]", `[1]`, "!an array of 1 elements, want 2"},
		{"VARCHAR[][]", `[["a"],[],null]`, `[["a"],[],null]`},
		{"STRUCT(a INTEGER, b VARCHAR)", `{"b":"x","z":[1,{}],"a":1}`, `{"a":1,"b":"x"}`},
		{"STRUCT(a INTEGER, b VARCHAR)", `{}`, `{"a":null,"b":null}`},
		{"STRUCT(a INTEGER, b VARCHAR)", `{"A":1,"\u0062":"y"}`, `{"a":1,"b":"y"}`},
		{"STRUCT(a INTEGER)", `{"a":1,"A":2}`, `{"a":1}`},
		{"STRUCT(a INTEGER)", `{"A":2,"a":1}`, `{"a":1}`},
		{"STRUCT(a INTEGER)", `{"a":1,"a":1}`, `!column c.a: the key stands twice`},
		{"STRUCT(a STRUCT(b INTEGER[]))", `{"a":{"b":[1,true]}}`, `!column c.a.b[1]: true does not fit INTEGER`},
		{"STRUCT(a INTEGER)", `[]`, "!an object is wanted"},
		{"MAP(VARCHAR, INTEGER)", `{"x":1,"y":null}`, `[{"key":"x","value":1},{"key":"y","value":null}]`},
		{"MAP(VARCHAR, INTEGER)", `{}`, `[]`},
		{"MAP(INTEGER, VARCHAR)", `{"1":"a" , "2" : "b"}`, `[{"key":1,"value":"a"},{"key":2,"value":"b"}]`},
		{"MAP(VARCHAR, INTEGER)", `{"x":1,"\u0078":2}`, "!a key stands twice"},
	} {
		d := newJSON(t, "c "+v.typ)
		got, ok := decodeOne(t, d, `{"a":0,"c":`+v.in+`,"d":"x"}`)
		why, refusal := strings.CutPrefix(v.want, "!")
		if ok == refusal || !refusal && got != v.want || refusal && !strings.Contains(got, why) {
			t.Errorf("%s from %s: got %s, want %s", v.typ, v.in, got, v.want)
		}
	}
}

func TestWideValues(t *testing.T) {
	for _, v := range []struct{ typ, in, want string }{
		{"HUGEINT", "1", "01000000000000000000000000000000"},
		{"HUGEINT", "-1", "ffffffffffffffffffffffffffffffff"},
		{"HUGEINT", "-170141183460469231731687303715884105728", "00000000000000000000000000000080"},
		{"HUGEINT", "170141183460469231731687303715884105727", "ffffffffffffffffffffffffffffff7f"},
		{"HUGEINT", "327267367867168100000", "a08ea46b2341bfbd1100000000000000"},
		{"UHUGEINT", "340282366920938463463374607431768211455", "ffffffffffffffffffffffffffffffff"},
		{"UUID", `"12345678-9abc-DEF0-1234-56789abcdef0"`, "123456789abcdef0123456789abcdef0"},
		{"UUID", `"123456789abcdef0123456789abcdef0"`, "123456789abcdef0123456789abcdef0"},
	} {
		d := newJSON(t, "c "+v.typ)
		if err := d.Append([]byte(`{"c":` + v.in + `}`)); err != nil {
			t.Errorf("%s: %v", v.in, err)
			continue
		}
		b := d.Batch()
		if got := hexOf(b.Column(0).(*array.FixedSizeBinary).Value(0)); got != v.want {
			t.Errorf("%s from %s: got %s, want %s", v.typ, v.in, got, v.want)
		}
		b.Release()
	}
	for _, v := range []struct{ typ, in string }{
		{"HUGEINT", "170141183460469231731687303715884105728"},
		{"HUGEINT", "-170141183460469231731687303715884105729"},
		{"UHUGEINT", "340282366920938463463374607431768211456"},
		{"UHUGEINT", "-1"},
		{"UUID", `"12345678-9abc-def0-1234-56789abcdef"`},
		{"UUID", `"12345678-9abc-def0-1234-56789abcdef00"`},
		{"UUID", `"12345678x9abc-def0-1234-56789abcdef0"`},
		{"UUID", `"123456789abcdef0123456789abcdef01"`},
		{"UUID", `""`},
	} {
		if got, ok := decodeOne(t, newJSON(t, "c "+v.typ), `{"c":`+v.in+`}`); ok {
			t.Errorf("%s from %s: got %s", v.typ, v.in, got)
		}
	}
}

func hexOf(b []byte) string {
	const digit = "0123456789abcdef"
	var s strings.Builder
	for _, c := range b {
		s.WriteByte(digit[c>>4])
		s.WriteByte(digit[c&15])
	}
	return s.String()
}
