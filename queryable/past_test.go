package queryable

import (
	"context"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/sqltype"
)

var fakePast = Answer{Epoch: 4, Positions: []Position{{"orders", 0, 5}}, Past: []Past{{ID: 2, Epoch: 4}, {ID: 3, Epoch: 6, Savepoint: `be"fore`}}}

const pastTail = `"epoch":4,"checkpoints":[{"id":2,"epoch":4},{"id":3,"epoch":6,"savepoint":"be\"fore"}]}`

// withKeys makes the first n columns keys and the others results.
func withKeys(n int, columns []Column) []Column {
	for i := range columns {
		columns[i].Role = RoleResult
		if i < n {
			columns[i].Role = RoleKey
		}
	}
	return columns
}

func TestAnswerNamesItsCheckpoints(t *testing.T) {
	f := newFake()
	f.query = func(context.Context, QueryRequest) (*Rows, error) {
		columns := cols("n", "BIGINT")
		rows := table(columns, nil, record(t, columns, "[1]"))
		rows.Answer = fakePast
		return rows, nil
	}
	s := serve(t, f)
	for _, accept := range []string{"application/json", "text/csv"} {
		r := s.do("POST", "/api/v1/sql", `{"sql":"SELECT 1"}`, "Accept", accept)
		if accept == "application/json" {
			r.want(t, 200, `{"columns":[{"name":"n","type":"BIGINT"}],"rows":[`+"\n"+`[1]],`+pastTail)
		}
		if r.header.Get("Weir-Epoch") != "4" || r.header.Get("Weir-Position") != "orders/0:5" || r.header.Get("Weir-Checkpoint") != "2,3" {
			t.Errorf("%s: headers %v", accept, r.header)
		}
	}
	if r := s.get("/api/v1/views"); r.header.Get("Weir-Checkpoint") != "" {
		t.Errorf("the present names a checkpoint: %v", r.header)
	}
}

func TestLookupInThePast(t *testing.T) {
	f := newFake()
	f.schema = Schema{Name: "v", Keys: []Key{{Field: cols("city", "VARCHAR")[0].Field}}}
	var at string
	f.lookup = func(_ context.Context, r LookupRequest) (*Groups, error) {
		at = r.At
		columns := withKeys(1, cols("city", "VARCHAR", "n", "BIGINT"))
		return &Groups{Answer: fakePast, Columns: columns, Batch: record(t, columns, `["Paris",7]`), Wanted: []int{0}}, nil
	}
	s := serve(t, f)
	const one = `"key":{"city":"Paris"},"value":{"n":7}`
	s.get("/api/v1/views/v/lookup?city=Paris&at=be%22fore").want(t, 200, `{`+one+`,`+pastTail)
	if at != `be"fore` {
		t.Errorf("asked at %q", at)
	}
	s.do("POST", "/api/v1/views/v/lookup", `{"keys":[{"city":"Paris"}],"at":"2026-01-31T00:00:00Z"}`).want(t, 200, `{"groups":[`+"\n{"+one+`}],`+pastTail)
	if at != "2026-01-31T00:00:00Z" {
		t.Errorf("asked at %q", at)
	}
	for body, want := range map[string]string{"12": "12", `"12"`: "12", "18446744073709551615": "18446744073709551615", "null": ""} {
		s.do("POST", "/api/v1/views/v/lookup", `{"keys":[{"city":"Paris"}],"at":`+body+`}`).want(t, 200, `{"groups":[`+"\n{"+one+`}],`+pastTail)
		if at != want {
			t.Errorf("asked at %q, not %q", at, want)
		}
	}
	for _, body := range []string{"-1", "1.5", "1e3", "18446744073709551616", "true", "{}", "[1]"} {
		s.do("POST", "/api/v1/views/v/lookup", `{"keys":[{"city":"Paris"}],"at":`+body+`}`).code(t, BadRequest, "at is a checkpoint's number")
	}
	for _, name := range []string{"city", "at", "numbers", "accumulators", "min_epoch", "min_position", "timeout"} {
		s.get("/api/v1/views/v/lookup?city=Paris&"+name+"=1&"+name+"=1").code(t, BadRequest, name+" is given twice")
	}
	s.get("/api/v1/views/v/lookup?city=Paris&at=").code(t, BadRequest, "at is empty")
	s.do("POST", "/api/v1/views/v/lookup", `{"keys":[{"city":"Paris"}],"at":""}`).code(t, BadRequest, "at is empty")

	// A key column of that name is not taken for the time to go back to.
	f.schema.Keys = append(f.schema.Keys, Key{Field: cols("at", "TIMESTAMP")[0].Field, Bucket: true})
	s.get("/api/v1/views/v/lookup?city=Paris&at=2026-01-31T00:00:00").code(t, BadRequest, "use POST")
	f.lookup = func(_ context.Context, r LookupRequest) (*Groups, error) {
		if r.At != "7" || r.Keys.NumCols() != 2 {
			t.Errorf("asked %v at %q", r.Keys, r.At)
		}
		return &Groups{Columns: withKeys(2, cols("city", "VARCHAR", "at", "TIMESTAMP")), Batch: r.Keys.NewSlice(0, 1), Wanted: []int{0}}, nil
	}
	s.do("POST", "/api/v1/views/v/lookup", `{"keys":[{"city":"Paris","at":"2026-01-31T00:00:00"}],"at":"7"}`).
		want(t, 200, `{"groups":[`+"\n"+`{"key":{"city":"Paris","at":"2026-01-31T00:00:00"},"value":{}}],"epoch":0}`)
}

func TestHistory(t *testing.T) {
	f := newFake()
	f.schema = Schema{Name: "v", Keys: []Key{{Field: cols("city", "VARCHAR")[0].Field}, {Field: cols("hour", "TIMESTAMP")[0].Field, Bucket: true}}}
	columns := withKeys(2, cols("city", "VARCHAR", "hour", "TIMESTAMP", "n", "BIGINT"))
	f.past = func(_ context.Context, r HistoryRequest) (*History, error) {
		group := func(row string, why ...string) *Groups {
			return &Groups{Columns: columns, Batch: record(t, columns, row), Wanted: []int{0}, Errors: why}
		}
		return &History{Answer: fakePast, Backfilling: []string{"v ü"}, Moments: []Moment{
			{Past: fakePast.Past[0], Created: committed},
			{Past: fakePast.Past[1], Created: committed, Groups: group(`["Paris","2026-11-29T10:00:00",7]`)},
			{Past: Past{ID: 5, Epoch: 8}, Created: committed, Groups: group(`["Paris","2026-11-29T10:00:00",null]`, "an overflow")},
			{Past: Past{ID: 6, Epoch: 9}, Created: committed, Error: "another definition"},
		}}, nil
	}
	s := serve(t, f)
	r := s.get("/api/v1/views/v/history?city=Paris&hour=2026-11-29T10:00:00")
	const created = `"created":"2026-11-29T18:00:00Z"`
	r.want(t, 200, `{"key":{"city":"Paris","hour":"2026-11-29T10:00:00"},"history":[`+
		"\n"+`{"id":2,"epoch":4,`+created+`,"present":false,"value":null},`+
		"\n"+`{"id":3,"epoch":6,"savepoint":"be\"fore",`+created+`,"present":true,"value":{"n":7}},`+
		"\n"+`{"id":5,"epoch":8,`+created+`,"present":true,"error":"an overflow"},`+
		"\n"+`{"id":6,"epoch":9,`+created+`,"present":null,"error":"another definition"}],`+pastTail)
	if got := r.header.Get("Weir-Backfilling"); got != "v%20%C3%BC" {
		t.Errorf("backfilling %q", got)
	}
	if r.header.Get("Weir-Checkpoint") != "2,3" || r.header.Get("Weir-Epoch") != "4" {
		t.Errorf("headers %v", r.header)
	}
	s.get("/api/v1/views/v/history?city=Paris").code(t, BadRequest, "whole key")
	s.get("/api/v1/views/v/history?city=Paris&hour=2026-11-29T10:00:00&x=1").code(t, BadRequest, "no key column x")
	s.get("/api/v1/views/v/history?city=Paris&hour=2026-11-29T10:00:00&numbers=string&numbers=").code(t, BadRequest, "numbers is given twice")
	s.get("/api/v1/views/w/history").code(t, NotFound, "w")
}

// Keys come from SQL as DuckDB prints them.
func TestKeysAsDuckDBPrintsThem(t *testing.T) {
	for _, c := range []struct{ typ, text, want string }{
		{"TIMESTAMP WITH TIME ZONE", "2025-12-31 22:00:00.5+00", `"2025-12-31T22:00:00.5Z"`},
		{"TIMESTAMP", "2025-12-31 22:00:00", `"2025-12-31T22:00:00"`},
		{"TIMESTAMP_NS", "2025-12-31 22:00:00.123456789", `"2025-12-31T22:00:00.123456789"`},
		{"DATE", "infinity", `"infinity"`},
		{"TIME", "22:00:00.25", `"22:00:00.25"`},
		{"UUID", "00112233-4455-6677-8899-aabbccddeeff", `"00112233-4455-6677-8899-aabbccddeeff"`},
		{"HUGEINT", "-1", `"-1"`},
		{"DOUBLE", "-inf", `"-Infinity"`},
		{"DOUBLE", "nan", `"NaN"`},
		{"DOUBLE", "1e+21", "1e+21"},
		{"BOOLEAN", "true", "true"},
		{"INTERVAL", "-1 days", `"-1 day"`},
		{"DECIMAL(12,2)", "5", `"5.00"`},
		{"INTEGER[]", "[1,null]", "[1,null]"},
		{"BIGINT", "1.5", ""},
		{"DECIMAL(12,2)", "1.005", ""},
		{"DATE", "2026-01-31 00:00:01", ""},
	} {
		typ := sqltype.MustParse(c.typ)
		b := array.NewBuilder(memory.DefaultAllocator, typ.Inside())
		err := AppendValue(b, typ, c.text, false)
		if c.want == "" {
			if err == nil {
				t.Errorf("%s as %s was taken", c.text, c.typ)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s as %s: %v", c.text, c.typ, err)
			continue
		}
		show, err := jsonCell(typ, b.NewArray(), Form{})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(show(nil, 0)); got != c.want {
			t.Errorf("%s as %s: %s, want %s", c.text, c.typ, got, c.want)
		}
	}
}

func TestSavepointRoutes(t *testing.T) {
	s := serve(t, newFake())
	s.do("POST", "/api/v1/checkpoints", `{"savepoint":""}`).code(t, BadRequest, "empty")
	s.do("POST", "/api/v1/checkpoints", `{"name":"x"}`).code(t, BadRequest, "name")
	s.do("DELETE", "/api/v1/checkpoints/before", "").want(t, 204, "")
	s.do("DELETE", "/api/v1/checkpoints/other", "").code(t, NotFound, "other")
	s.do("DELETE", "/api/v1/checkpoints/..%2Fx", "").code(t, NotFound, "")
}
