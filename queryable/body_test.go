package queryable

import (
	"context"
	"math"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/sqltype"
)

func TestBodyHoldsCharactersOnly(t *testing.T) {
	for text, want := range map[string]int{
		"":                       -1,
		`{"a":"ü😀\n\\\"\u0041"}`: -1,
		`"\ud83d\ude00"`:         -1,
		`"\uD83D\uDE00x"`:        -1,
		`"\\ud800"`:              -1, // a backslash, then letters
		`"\ufffd"`:               -1,
		`"�"`:                    -1,
		"\"\xff\"":               1,
		"\"a\xc3\"":              2,
		`"\ud800"`:               1,
		`"x\ude00\ud83d"`:        2,
		`"\ud83d\u0041"`:         1,
		`"\\\ud83d"`:             3,
		`"\ud83d`:                1,
		`"\u12`:                  -1, // no JSON, but that is the decoder's to say
		`"\`:                     -1,
	} {
		if got := notText([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// TestBodiesAreStrict sends each route what it could read in two ways, or would have
// to pass over.
func TestBodiesAreStrict(t *testing.T) {
	f := newFake()
	f.schema = Schema{Name: "v", Keys: []Key{
		{Field: sqltype.Field{Name: "i", Type: sqltype.MustParse("BIGINT")}},
		{Field: sqltype.Field{Name: "s", Type: sqltype.MustParse("STRUCT(a BIGINT, b STRUCT(c BIGINT))")}},
		{Field: sqltype.Field{Name: "m", Type: sqltype.MustParse("MAP(VARCHAR, BIGINT[])")}},
	}}
	f.query = func(_ context.Context, r QueryRequest) (*Rows, error) {
		t.Errorf("%q was run", r.SQL)
		return nil, Errorf(Internal, "no")
	}
	f.lookup = func(context.Context, LookupRequest) (*Groups, error) {
		t.Error("a key was looked up")
		return nil, Errorf(Internal, "no")
	}
	s := serve(t, f)
	const sql, checkpoints, lookup = "/api/v1/sql", "/api/v1/checkpoints", "/api/v1/views/v/lookup"
	key := func(m string) string { return `{"keys":[{"i":1,"s":{"a":1,"b":{"c":2}},"m":{}},{` + m + `}]}` }
	for _, c := range []struct{ path, body, says string }{
		{sql, `{"sql":"SELECT 1","sql":"SELECT 2"}`, `"sql" is given twice`},
		{sql, `{"sql":"SELECT 1","s\u0071l":"SELECT 1"}`, `"sql" is given twice`},
		{sql, `{"max_rows":1,"sql":"x","max_rows":1}`, `"max_rows" is given twice`},
		{sql, `{"sql":"x","params":{"a":1,"b":2,"a":2}}`, `params: "a" is given twice`},
		{sql, `{"SQL":"x"}`, `a member "SQL", which is not known here: it takes max_rows, params, sql`},
		{sql, `{"sql":"x","Sql":"y"}`, `a member "Sql"`},
		{sql, `{"sql":"x","maxRows":1}`, `a member "maxRows"`},
		{sql, `{"sql":"x","max_rows":1.5}`, "max_rows can't be of type number 1.5"},
		{sql, `{"sql":"x","max_rows":1e3}`, "max_rows can't be of type number 1e3"},
		{sql, `{"sql":"x","max_rows":99999999999999999999}`, "max_rows can't be of type number"},
		{sql, `{"sql":"x"}}`, "goes on after its end"},
		{sql, `{"sql":"x"}]`, "goes on after its end"},
		{sql, `{"sql":"x"} {"sql":"y"}`, "goes on after its end"},
		{sql, `["x"]`, "no object"},
		{sql, `null`, "no object"},
		{sql, ``, "JSON"},
		{sql, `{"sql":"x",}`, "JSON"},
		{lookup, key(`"i":1,"s":{"a":1,"b":{"c":2}},"m":{},"i":100`), `keys, element 2: "i" is given twice`},
		{lookup, key(`"i":1,"s":{"a":1,"a":1,"b":{"c":2}},"m":{}`), `key column s: STRUCT(a BIGINT, b STRUCT(c BIGINT)) is wanted as an object: "a" is given twice`},
		{lookup, key(`"i":1,"s":{"a":1,"b":{"c":2,"c":3}},"m":{}`), `"c" is given twice`},
		{lookup, key(`"i":1,"s":{"A":1,"b":{"c":2}},"m":{}`), `field "a"`},
		{lookup, key(`"i":1,"s":{"a":1,"b":{"c":2}},"m":{"x":[1],"x":[2]}`), `"x" is given twice`},
		{lookup, key(`"I":1,"s":{"a":1,"b":{"c":2}},"m":{}`), "no key column I"},
		{lookup, `{"keys":[null]}`, "keys, element 1: it is no object"},
		{lookup, `{"keys":{}}`, "keys can't be of type object"},
		{lookup, `{"keys":[{"i":1}],"Keys":[{"i":1}]}`, `a member "Keys"`},
		{lookup, `{"keys":[{"i":1}],"accumulators":true,"accumulators":false}`, `"accumulators" is given twice`},
		{lookup, `{"keys":[{"i":1}],"at":1,"at":2}`, `"at" is given twice`},
		{lookup, `{"keys":[{"i":1}],"at":1.0}`, "1.0 is none"},
		{lookup, `{"keys":[{"i":1}],"at":99999999999999999999}`, "99999999999999999999 is none"},
		{checkpoints, `{"savepoint":"a","savepoint":"b"}`, `"savepoint" is given twice`},
		{checkpoints, `{"Savepoint":"a"}`, `a member "Savepoint"`},
		{checkpoints, `{}x`, "goes on after its end"},
	} {
		s.do("POST", c.path, c.body).code(t, BadRequest, c.says)
	}
	for _, q := range []string{
		`s={"a":1,"a":2,"b":{"c":2}}`, `s={"a":1,"b":{"c":2}}}`, `s={"a":1,"b":{"c":2}}x`, `m={"x":[1],"x":[1]}`, `m={"x":[1]}]`, `m={"x":[1]}{}`, `m={"\ud800":[1]}`,
	} {
		name, value, _ := strings.Cut(q, "=")
		rest := map[string]string{"s": "&m=%7B%7D", "m": "&s=" + url.QueryEscape(`{"a":1,"b":{"c":2}}`)}[name]
		s.get(lookup+"?i=1&"+name+"="+url.QueryEscape(value)+rest).code(t, BadRequest, "key column "+name)
	}
	for _, q := range []string{"min_epoch=", "min_position=", "min_epoch=1.5", "min_epoch=1e3", "min_epoch=18446744073709551616", "min_position=t/0:1.5", "min_position=t/0:9223372036854775808", "min_position=t/2147483648:1"} {
		s.get("/api/v1/views?"+q).code(t, BadRequest, strings.Split(q, "=")[0])
	}
}

// TestFloatsAreNamed reads a float from every text that means it, and from no text
// that means another number. The oracle is the text of printf.
func TestFloatsAreNamed(t *testing.T) {
	for _, c := range []struct {
		typ, text string
		want      float64 // NaN is refused
	}{
		{"FLOAT", "16777217", math.NaN()},
		{"FLOAT", "16777216", 16777216},
		{"FLOAT", "16777218.0", 16777218},
		{"FLOAT", "0.1", float64(float32(0.1))},
		{"FLOAT", "0.100", float64(float32(0.1))},
		{"FLOAT", "0.100000001", float64(float32(0.1))},
		{"FLOAT", "0.10000000149011612", float64(float32(0.1))},
		{"FLOAT", "0.100000001490116119384765625", float64(float32(0.1))},
		{"FLOAT", "0.1000000001", math.NaN()},
		{"FLOAT", "0.10000000149011613", math.NaN()},
		{"FLOAT", "1e39", math.NaN()},
		{"FLOAT", "-1e-60", math.NaN()},
		{"DOUBLE", "9007199254740993", math.NaN()},
		{"DOUBLE", "9007199254740992", 9007199254740992},
		{"DOUBLE", "0.1", 0.1},
		{"DOUBLE", "1e23", 1e23},
		{"DOUBLE", "0.10000000000000001", 0.1},
		{"DOUBLE", "0.1000000000000000055511151231257827021181583404541015625", 0.1},
		{"DOUBLE", "0.10000000000000000555", 0.1},
		{"DOUBLE", "0.10000000000000000556", math.NaN()},
		{"DOUBLE", "100000000000000000000000", 1e23},
		{"DOUBLE", "5e-324", 5e-324},
		{"DOUBLE", "3e-324", math.NaN()},
		{"DOUBLE", "1e-400", math.NaN()},
		{"DOUBLE", "0e-999", 0},
		{"DOUBLE", "-0.00", 0},
		{"DOUBLE", "0." + strings.Repeat("1", 2000), math.NaN()},
		{"DOUBLE", "1e400", math.NaN()},
		{"DOUBLE", "0x10", math.NaN()},
		{"FLOAT[]", "[16777217]", math.NaN()},
		{"MAP(FLOAT, BIGINT)", `{"16777217":1}`, math.NaN()},
		{"STRUCT(f FLOAT)", `{"f":16777217}`, math.NaN()},
		{"MAP(DOUBLE, BIGINT)", `{"1.0":1,"1.00":1}`, math.NaN()},
		{"MAP(BIGINT[], BIGINT)", `{"[1]":1,"[ 1 ]":1}`, math.NaN()},
	} {
		typ := sqltype.MustParse(c.typ)
		b := array.NewBuilder(memory.DefaultAllocator, typ.Inside())
		err := AppendValue(b, typ, c.text, false)
		if math.IsNaN(c.want) != (err != nil) {
			t.Errorf("%s of %s: %v", c.typ, c.text, err)
		}
		if err == nil {
			var got float64
			switch a := b.NewArray().(type) {
			case *array.Float32:
				got = float64(a.Value(0))
			case *array.Float64:
				got = a.Value(0)
			}
			if got != c.want {
				t.Errorf("%s of %s is %v, not %v", c.typ, c.text, got, c.want)
			}
		}
		b.Release()
	}
	// Whatever printf writes of a float, in any precision that names it, is read.
	for i := range uint64(2000) {
		v := math.Float64frombits(i * 0x9E3779B97F4A7C15)
		if !finite(v) {
			continue
		}
		for _, precision := range []int{-1, 16, 17, 30} {
			text := strconv.FormatFloat(v, 'e', precision, 64)
			if got, err := parseFloat(text, 64); err != nil || got != v {
				t.Errorf("%s: %v, %v", text, got, err)
			}
		}
		w := math.Float32frombits(uint32(i * 0x9E3779B1))
		if !finite(float64(w)) {
			continue
		}
		for _, precision := range []int{-1, 8, 9, 20} {
			text := strconv.FormatFloat(float64(w), 'e', precision, 32)
			if got, err := parseFloat(text, 32); err != nil || float32(got) != w {
				t.Errorf("FLOAT %s: %v, %v", text, got, err)
			}
		}
	}
}
