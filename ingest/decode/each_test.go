package decode

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/state/sqltype"
)

func TestAppendEachKeepsWhatItCanRead(t *testing.T) {
	cols := []sqltype.Field{
		{Name: "n", Type: sqltype.MustParse("BIGINT")},
		{Name: "s", Type: sqltype.MustParse("STRUCT(a INTEGER, b VARCHAR)")},
		{Name: "l", Type: sqltype.MustParse("BIGINT[]")},
	}
	d, err := NewJSON(cols, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var columns []string
	for _, doc := range []string{
		`{"n":1,"s":{"a":1,"b":"x"},"l":[1]}`, `{"n":"x","s":{"a":2,"b":"y"},"l":[2,3]}`,
		`{"n":3,"s":{"a":"bad","b":"z"},"l":[4,"bad",5]}`, `{"n":4,"n":5,"l":[]}`,
	} {
		bad, err := d.AppendEach([]byte(doc), nil)
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		for _, b := range bad {
			columns = append(columns, b.Column)
			if cols[b.Index].Name[0] != b.Column[0] {
				t.Errorf("column %d is called %s", b.Index, b.Column)
			}
		}
	}
	if _, err := d.AppendEach([]byte(`{`), nil); err == nil {
		t.Error("half a document was appended")
	}
	rec := d.Batch()
	defer rec.Release()
	want := [4]string{"n", "s.a", "l[1]", "n"}
	if len(columns) != 4 || [4]string(columns) != want {
		t.Errorf("refused %v, want %v", columns, want)
	}
	if rec.NumRows() != 4 {
		t.Fatalf("%d rows", rec.NumRows())
	}
	n, l := rec.Column(0).(*array.Int64), rec.Column(2).(*array.List)
	if n.Value(0) != 1 || n.IsValid(1) || n.Value(2) != 3 || n.IsValid(3) {
		t.Errorf("n is %v", n)
	}
	if l.String() != "[[1] [2 3] (null) []]" {
		t.Errorf("l is %v", l)
	}
	if s := rec.Column(1); s.IsNull(1) || s.IsValid(2) || s.IsValid(3) {
		t.Errorf("s is %v", s)
	}
}
