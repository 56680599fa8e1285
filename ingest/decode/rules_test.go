package decode

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"weir/state/sqltype"
)

// TestDocuments has inputs in the spirit of JSONTestSuite: what RFC 8259 allows
// is read, what it does not is refused with a reason.
func TestDocuments(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, doc := range []string{
		`{}`, " \t\r\n{ \n} \r\n", `{"a":1}`, `{ "a" : 1 , "b" : 2 }`, `{"":0}`, `{"x":null,"x":null}`,
		`{"x":-0}`, `{"x":0.0e-0}`, `{"x":1E+2}`, `{"x":123456789012345678901234567890}`, `{"x":1e9999}`,
		`{"x":"\u0000\u001f\"\\\/\b\f\n\r\t"}`, `{"x":"\ud834\udd1e"}`, `{"x":"\ud800"}`, `{"x":"` + "\x7f" + `"}`,
		`{"x":"` + "\u2028\u2029\U0010FFFF" + `"}`, `{"x":[[],{},[{}],{"y":[]}]}`, `{"x":[ ]}`, `{"x":{ }}`,
		`{"x":[1 , 2 ,3]}`, `{"x":{"a" : {"b":[true,false,null]}}}`, `{"x":` + deep(63) + `}`,
	} {
		if got, ok := decodeOne(t, newJSON(t, "a INTEGER"), doc); !ok {
			t.Errorf("%s: %s", doc, got)
		}
	}
	for doc, want := range map[string]string{
		"":                                    ReasonEmpty,
		" ":                                   "want an object",
		"[]":                                  "the value is an array, want an object",
		`"a"`:                                 "the value is a string, want an object",
		"1":                                   "the value is a number, want an object",
		"-":                                   "the value is a number, want an object",
		" true":                               "the value is a boolean, want an object",
		"nil":                                 "invalid JSON at byte 0: unexpected 'n', want an object",
		"null":                                "the value is null, want an object",
		"\xEF\xBB\xBF{}":                      "byte order mark",
		"{":                                   "the text ends",
		`{"a"`:                                "want a colon",
		`{"a":`:                               "want a value",
		`{"a":1`:                              "the text ends",
		`{"a":1,`:                             "want a key",
		`{"a":1,}`:                            "want a key",
		`{,}`:                                 "want a key",
		`{"a" 1}`:                             "want a colon",
		`{"a":1 "b":2}`:                       "want a comma",
		`{a:1}`:                               "want a key",
		`{'a':1}`:                             "want a key",
		`{1:1}`:                               "want a key",
		`{"a":1}}`:                            "more text",
		`{"a":1}{}`:                           "more text",
		`{}x`:                                 "more text",
		"\x00":                                "want an object",
		"{}\x00":                              "more text",
		`{"a":1}//`:                           "more text",
		`{"x":01}`:                            "want a comma",
		`{"x":+1}`:                            "want a value",
		`{"x":.5}`:                            "want a value",
		`{"x":1.}`:                            "malformed number",
		`{"x":1.e1}`:                          "malformed number",
		`{"x":1e}`:                            "malformed number",
		`{"x":1e+}`:                           "malformed number",
		`{"x":-}`:                             "malformed number",
		`{"x":-a}`:                            "malformed number",
		`{"x":0x1}`:                           "want a comma",
		`{"x":NaN}`:                           "want a value",
		`{"x":Infinity}`:                      "want a value",
		`{"x":-Infinity}`:                     "malformed number",
		`{"x":tru}`:                           "malformed literal",
		`{"x":TRUE}`:                          "want a value",
		`{"x":nul`:                            "malformed literal",
		`{"x":"`:                              "ends inside a string",
		`{"x":"a`:                             "ends inside a string",
		`{"x":"abcdefgh`:                      "ends inside a string",
		`{"x":"\"}`:                           "ends inside a string",
		`{"x":"\x"}`:                          "malformed escape",
		`{"x":"\u12"}`:                        "malformed escape",
		`{"x":"\u12g4"}`:                      "malformed escape",
		`{"x":"\ud800\u12"}`:                  "malformed escape",
		`{"x":"\`:                             "malformed escape",
		"{\"x\":\"a\nb\"}":                    "control character",
		"{\"x\":\"a\tb\"}":                    "control character",
		"{\"x\":\"\x00\"}":                    "control character",
		"{\"x\":\"\xff\"}":                    "not valid UTF-8",
		"{\"x\":\"\xc0\x80\"}":                "not valid UTF-8",
		"{\"x\":\"\xf4\x90\x80\x80\"}":        "not valid UTF-8",
		"{\"x\":\"\\n\xe9\"}":                 "not valid UTF-8",
		"{\"\xff\":1}":                        "not valid UTF-8",
		"{\"x\":\u00a01}":                     "want a value",
		"{\"x\":\f1}":                         "want a value",
		`{"x":[1,]}`:                          "want a value",
		`{"x":[,1]}`:                          "want a value",
		`{"x":[1 2]}`:                         "want a comma",
		`{"x":[1}`:                            "want a comma",
		`{"x":{]}`:                            "want a key",
		`{"x":[`:                              "want a value",
		`{"x":[1`:                             "the text ends",
		`{"x":{"y":1]}`:                       "want a comma",
		`{"x":` + deep(64) + `}`:              "deeper than 64",
		`{"x":` + strings.Repeat("[", 100000): "deeper than 64",
	} {
		got, ok := decodeOne(t, newJSON(t, "a INTEGER"), doc)
		if ok || !strings.Contains(got, want) || strings.HasPrefix(want, "the value is") && strings.Contains(got, "invalid") {
			t.Errorf("%q: got %q, want %q", doc, got, want)
		}
	}
}

// TestZeroByteIsNoKey: what stands for "no key" in the shape matches no document.
func TestZeroByteIsNoKey(t *testing.T) {
	d := newJSON(t, "a INTEGER")
	for _, doc := range []string{"\x00", "\x001", "\x00\x00\x00\x00\x00\x00\x00\x001}", "{\"b\":1\x00\"a\":1,\"c\":1}"} {
		for range 2 {
			if got, ok := decodeOne(t, d, doc); ok {
				t.Errorf("%q: got %s", doc, got)
			}
		}
	}
}

// TestRefusedWhereverItIs cuts and spoils a document at every byte: the column
// that follows must not let a document through that is broken further on.
func TestRefusedWhereverItIs(t *testing.T) {
	doc := []byte(`{"a":12,"s":"Zürich and \u00e9","n":{"k":[1,2.5e3,null,true]},"z":"end"}`)
	d := newJSON(t, "a INTEGER", "s VARCHAR")
	if err := d.Append(doc); err != nil {
		t.Fatal(err)
	}
	for n := range doc {
		if err := d.Append(doc[:n]); err == nil {
			t.Errorf("accepted %s", doc[:n])
		}
		spoiled := bytes.Clone(doc)
		spoiled[n] = 0x01
		if err := d.Append(spoiled); err == nil {
			t.Errorf("accepted %q", spoiled)
		}
	}
	if d.Len() != 1 {
		t.Errorf("%d rows", d.Len())
	}
}

// TestKeys is B47 and B49.
func TestKeys(t *testing.T) {
	for _, c := range []struct{ doc, want string }{
		{`{"foo":1,"fOO":2}`, "1"},
		{`{"fOO":2,"foo":1}`, "1"},
		{`{"fOO":2,"FOO":3,"foo":1}`, "1"},
		{`{"fOO":2}`, "2"},
		{`{"fOO":2,"FOO":3}`, "!column foo: several keys match up to case"},
		{`{"fOO":2,"fOO":2}`, "!column foo: several keys match up to case"},
		{`{"foo":1,"foo":1}`, "!column foo: the key stands twice"},
		{`{"foo":1,"foo":1,"FOO":1}`, "!column foo: the key stands twice"},
		{`{"f\u006fo":1,"foo":1}`, "!column foo: the key stands twice"},
		{`{"f\u006fo":1}`, "1"},
		{`{"f\u00f6o":1}`, "(null)"},
		{`{"\ud800":1,"foo":3}`, "3"},
		{`{"bar":1,"bar":2,"BAR":3,"foo":4}`, "4"},
		{`{"foo":null}`, "(null)"},
		{`{}`, "(null)"},
		{`{"ſoo":1,"foO":5}`, "5"},
	} {
		// Twice, so that the shape has seen the keys before.
		d := newJSON(t, "foo INTEGER", "k VARCHAR")
		for range 2 {
			got, ok := decodeOne(t, d, c.doc)
			want, refusal := strings.CutPrefix(c.want, "!")
			if got, _, _ = strings.Cut(got, " | "); ok == refusal || !strings.Contains(got, want) {
				t.Errorf("%s: got %s, want %s", c.doc, got, c.want)
			}
		}
	}
	// The long s is no s in DuckDB's names.
	if got, _ := decodeOne(t, newJSON(t, "s INTEGER"), `{"ſ":1}`); got != "(null)" {
		t.Errorf("got %s", got)
	}
}

// TestUnusedFields is B02: what no column wants can't refuse a record.
func TestUnusedFields(t *testing.T) {
	d := newJSON(t, "k INTEGER", "v INTEGER")
	doc := `{"k":1,"v":2,"big":327267367867168100000,"e":1e999,"s":"\ud800","d":{"a":1,"a":2},"t":"not a time"}`
	if got, _ := decodeOne(t, d, doc); got != "1 | 2" {
		t.Errorf("got %s", got)
	}
}

// TestNullAndMissing is B43.
func TestNullAndMissing(t *testing.T) {
	d := newJSON(t, "a VARCHAR", "j JSON", "o STRUCT(j JSON)")
	for doc, want := range map[string]string{
		`{"a":null,"j":null,"o":{"j":null}}`: `(null) | null | {"j":"null"}`,
		`{"o":{}}`:                           `(null) | (null) | {"j":null}`,
		`{"o":null}`:                         `(null) | (null) | (null)`,
	} {
		if got, _ := decodeOne(t, d, doc); got != want {
			t.Errorf("%s: got %s, want %s", doc, got, want)
		}
	}
}

// TestRefusedRowLeavesNothing mixes good and refused records of every kind of
// column: the batch must be that of the good ones.
func TestRefusedRowLeavesNothing(t *testing.T) {
	columns := []string{"a INTEGER", "s VARCHAR", "l VARCHAR[]", "o STRUCT(x INTEGER, y VARCHAR[])", "m MAP(VARCHAR, INTEGER)", "f INTEGER[2]", "z INTEGER"}
	good := []string{
		`{"a":1,"s":"one","l":["x","yy"],"o":{"x":1,"y":["p"]},"m":{"k":1},"f":[1,2],"z":1}`,
		`{}`,
		`{"a":2,"s":"two","l":[null],"o":{"y":[]},"m":{},"f":[null,3],"z":2}`,
		`{"a":null,"s":"three","l":null,"o":null,"m":null,"f":null,"z":3}`,
	}
	bad := []string{
		`{"a":9,"s":"nine","l":["q"],"o":{"x":9,"y":["q"]},"m":{"q":9},"f":[9,9],"z":"bad"}`,
		`{"a":9,"s":"nine","l":["q"],"o":{"x":9,"y":["q"]},"m":{"q":9},"f":[9,"bad"]}`,
		`{"a":9,"s":"nine","l":["q"],"o":{"x":9,"y":["q"]},"m":{"q":9},"f":[9]}`,
		`{"a":9,"s":"nine","l":["q"],"o":{"x":9,"y":["q"]},"m":{"q":9,"r":"bad"}}`,
		`{"a":9,"s":"nine","l":["q"],"o":{"x":9,"y":["q","\ud800"]}}`,
		`{"a":9,"s":"nine","l":["q"],"o":{"x":"bad","y":["q"]}}`,
		`{"a":9,"l":["q","\ud800"]}`,
		`{"z":"bad"}`,
		`{"a":1`,
	}
	want := newJSON(t, columns...)
	got := newJSON(t, columns...)
	for i := range 40 {
		for _, doc := range bad[i%len(bad):] {
			if err := got.Append([]byte(doc)); err == nil {
				t.Fatalf("accepted %s", doc)
			}
		}
		doc := []byte(good[(i*i+i/3)%len(good)])
		if err := errors.Join(got.Append(doc), want.Append(doc)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(rows(want), rows(got)); diff != "" {
		t.Error(diff)
	}
}

// rows takes the batch of d as text.
func rows(d *JSON) (s []string) {
	b := d.Batch()
	defer b.Release()
	for i := range int(b.NumRows()) {
		s = append(s, show(b, i))
	}
	return s
}

// TestBatches checks that a batch keeps its values while later ones are built
// in the memory of earlier ones.
func TestBatches(t *testing.T) {
	d := newJSON(t, "i INTEGER", "s VARCHAR")
	kept := func(n int) {
		for i := range 100 {
			doc := fmt.Sprintf(`{"i":%d,"s":"%d-%d"}`, n+i, n, i)
			if i%7 == 0 {
				doc = fmt.Sprintf(`{"s":null,"i":%d}`, n+i)
			}
			if err := d.Append([]byte(doc)); err != nil {
				t.Fatal(err)
			}
		}
	}
	kept(1000)
	first := d.Batch()
	before := fmt.Sprint(first)
	for n := range 20 {
		kept(n)
		d.Batch().Release()
	}
	if after := fmt.Sprint(first); after != before {
		t.Errorf("a batch changed:\n%s\n%s", before, after)
	}
	first.Release()
	if empty := d.Batch(); empty.NumRows() != 0 || empty.NumCols() != 2 {
		t.Errorf("%d rows, %d columns", empty.NumRows(), empty.NumCols())
	} else {
		empty.Release()
	}
	none := newJSON(t)
	if err := none.Append([]byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	if b := none.Batch(); b.NumRows() != 1 || b.NumCols() != 0 {
		t.Errorf("%d rows, %d columns", b.NumRows(), b.NumCols())
	}
}

func TestSizes(t *testing.T) {
	d, err := NewJSON(fields("s VARCHAR"), Options{MaxBytes: 20, MaxDepth: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for doc, want := range map[string]string{
		`{"s":"0123456789ab"}`:  "",
		`{"s":"0123456789abc"}`: "a document of 21 bytes, the limit is 20",
		`{"s":[1]}`:             "",
		`{"s":[[1]]}`:           "invalid JSON at byte 6: nested deeper than 2 levels",
	} {
		if err := d.Append([]byte(doc)); fmt.Sprint(err) != or(want, "<nil>") {
			t.Errorf("%s: %v", doc, err)
		}
	}
	if err := d.Append(nil); err == nil || err.Error() != ReasonTombstone {
		t.Errorf("nil: %v", err)
	}
	// A column at the end of what 32-bit offsets reach.
	n := d.Len()
	d.nodes[0].col.used = math.MaxInt32 - 1
	if err := d.Append([]byte(`{"s":"xy"}`)); !errors.Is(err, ErrFull) {
		t.Errorf("got %v", err)
	}
	if d.Len() != n {
		t.Errorf("%d rows", d.Len())
	}
}

func TestColumnsRefused(t *testing.T) {
	for _, columns := range [][]string{
		{"a INTEGER", "A VARCHAR"},
		{"m MAP(DOUBLE, INTEGER)"},
		{"m MAP(INTEGER[], INTEGER)"},
		{"m MAP(VARCHAR, INTEGER)[]", "l MAP(INTERVAL, INTEGER)[]"},
		{"o STRUCT(x INTEGER, X INTEGER)"},
		{"l STRUCT(o STRUCT(x INTEGER, X INTEGER))[]"},
	} {
		if _, err := NewJSON(fields(columns...), Options{}); err == nil {
			t.Errorf("accepted %s", columns)
		}
	}
	if _, err := NewJSON([]sqltype.Field{{Name: "a"}}, Options{}); err == nil {
		t.Error("accepted a column without a type")
	}
}

func TestNoAllocations(t *testing.T) {
	for _, columns := range [][]string{
		fourOfEight,
		{"user VARCHAR", "amount DOUBLE", "session JSON", "status VARCHAR", "city VARCHAR"},
	} {
		d, err := NewJSON(fields(columns...), Options{Mem: memory.NewGoAllocator()})
		if err != nil {
			t.Fatal(err)
		}
		docs := append(events(200), []byte(`{"order_id":"17","amount":"1e3","city":"a\nb","ts":1e3}`))
		add := func() {
			for _, doc := range docs {
				if err := d.Append(doc); err != nil {
					t.Fatal(err)
				}
			}
		}
		add()
		add()
		d.Batch().Release()
		least := math.Inf(1) // of some tries: the runtime allocates now and then, too
		for range 5 {
			least = min(least, testing.AllocsPerRun(1, add))
			d.Batch().Release()
		}
		if least != 0 {
			t.Errorf("%d documents: %v allocations", len(docs), least)
		}
		d.Close()
	}
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
