package queryable

import (
	"encoding/csv"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"weir/state/sqltype"
)

// FuzzValue reads what a client may send as a key. What is accepted is written
// in a form that reads back as the same value, and nothing panics.
func FuzzValue(f *testing.F) {
	types := []string{
		"BOOLEAN", "TINYINT", "BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL(12,2)", "DECIMAL(38,38)", "VARCHAR",
		"BLOB", "UUID", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "INTERVAL", "DATE[]",
		"STRUCT(a BIGINT, b VARCHAR)", "MAP(DECIMAL(4,1), INTERVAL)",
	}
	for i := range types {
		for _, s := range []string{
			"null", "true", "-1", "1e3", `"12:00:00.5"`, `"2026-11-29 18:00:00+02:00"`, `"-000044-03-15"`, `"1 year -2 days -00:00:01"`,
			`"infinity"`, `["2026-01-01"]`, `{"a":1,"b":"x"}`, `{"1.5":"1 day"}`, `"00112233-4455-6677-8899-aabbccddeeff"`, `"-.5e-1"`,
		} {
			f.Add(byte(i), s)
		}
	}
	f.Fuzz(func(t *testing.T, which byte, in string) {
		typ := sqltype.MustParse(types[int(which)%len(types)])
		b := array.NewBuilder(memory.DefaultAllocator, typ.Inside())
		if json.Valid([]byte(in)) {
			if appendJSON(b, typ, json.RawMessage(in)) != nil {
				return
			}
		} else if typ.Nested() || appendText(b, typ, in) != nil {
			return
		}
		once := encodeAll(t, typ, b.NewArray())
		if len(once) != 1 {
			t.Fatalf("%s: %q makes %d values", typ, in, len(once))
		}
		again := array.NewBuilder(memory.DefaultAllocator, typ.Inside())
		if err := appendJSON(again, typ, json.RawMessage(once[0])); err != nil {
			t.Fatalf("%s: %q is written %s, which does not read: %v", typ, in, once[0], err)
		}
		if twice := encodeAll(t, typ, again.NewArray()); twice[0] != once[0] {
			t.Fatalf("%s: %q is written %s, and then %s", typ, in, once[0], twice[0])
		}
	})
}

// TestCSVReadsBack gives random texts to another reader of CSV.
func TestCSVReadsBack(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	columns := cols("a", "VARCHAR", "b,\"", "VARCHAR", "c", "VARCHAR[]")
	var rows []string
	want := [][]string{{"a", "b,\"", "c"}}
	for range 500 {
		row := make([]string, 2)
		for i := range row {
			var s strings.Builder
			for range r.IntN(5) {
				s.WriteRune([]rune("a\", \n\té=")[r.IntN(8)])
			}
			row[i] = s.String()
		}
		line, err := json.Marshal([]any{row[0], row[1], row})
		if err != nil {
			t.Fatal(err)
		}
		list, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, string(line))
		want = append(want, []string{row[0], row[1], string(list)})
	}
	answer := table(columns, nil, record(t, columns, rows...))
	src := &textSource{rows: answer, layout: &csvLayout{rows: answer}}
	var out []byte
	var err error
	for err == nil {
		out, err = src.next(out)
	}
	got, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
