package duckext

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/sqltype"
)

// streamed is two pieces with every layout that columns have.
func streamed(t testing.TB) ([]sqltype.Field, []byte, arrow.RecordBatch) {
	t.Helper()
	var cols []sqltype.Field
	for _, s := range []string{
		"BIGINT", "VARCHAR", "BOOLEAN", "HUGEINT", "UUID", "DECIMAL(12,2)", "INTERVAL", "TIMESTAMPTZ", "JSON", "BLOB", "INTEGER[]",
		"VARCHAR[3]", "STRUCT(a UUID, b VARCHAR[])", "MAP(VARCHAR, HUGEINT)",
	} {
		cols = append(cols, sqltype.Field{Name: s, Type: sqltype.MustParse(s)})
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, insideSchema(cols))
	for i := range 20 {
		for j := range cols {
			switch {
			case i%3 == 0:
				b.Field(j).AppendNull()
			case i%3 == 1 && j == 10: // INTEGER[]
				l := b.Field(j).(*array.ListBuilder)
				l.Append(true)
				l.ValueBuilder().(*array.Int32Builder).AppendValues([]int32{1, 2, 3}, nil)
			case i%3 == 1 && j == 1:
				b.Field(j).(*array.StringBuilder).Append("some text in a row")
			default:
				b.Field(j).AppendEmptyValue()
			}
		}
	}
	rec := b.NewRecordBatch()
	var out []byte
	for range 2 {
		var err error
		if out, err = appendBatch(out, cols, rec); err != nil {
			t.Fatal(err)
		}
	}
	return cols, out, rec
}

// touch reads every value, so that an offset out of its buffer would be seen.
func touch(rec arrow.RecordBatch) {
	for _, c := range rec.Columns() {
		for i := range c.Len() {
			if c.IsValid(i) {
				_ = c.ValueStr(i)
			}
		}
	}
}

func TestDecodeBatches(t *testing.T) {
	cols, b, rec := streamed(t)
	recs, err := decodeBatches(cols, b)
	if err != nil || len(recs) != 2 || !array.RecordEqual(recs[0], rec) {
		t.Fatalf("%v, %v", recs, err)
	}
	for n := range len(b) {
		if recs, err := decodeBatches(cols, b[:n]); err == nil && len(recs) == 2 && n < len(b)-7 {
			t.Errorf("cut at %d: accepted", n)
		}
	}
}

// Whatever bytes are changed: an error, or values that can be read.
func TestDecodeBrokenBatches(t *testing.T) {
	cols, good, _ := streamed(t)
	r := rand.New(rand.NewPCG(7, 7))
	refused := 0
	for range 5000 {
		b := bytes.Clone(good)
		for range 1 + r.IntN(4) {
			switch at := r.IntN(len(b) - 8); r.IntN(3) {
			case 0:
				b[at] ^= 1 << r.IntN(8)
			case 1:
				binary.LittleEndian.PutUint32(b[at&^3:], r.Uint32())
			default:
				binary.LittleEndian.PutUint64(b[at&^7:], math.MaxUint64>>r.IntN(64))
			}
		}
		recs, err := decodeBatches(cols, b)
		if err != nil {
			refused++
		}
		for _, rec := range recs {
			touch(rec)
		}
	}
	if refused < 500 {
		t.Errorf("only %d of 5,000 were refused", refused)
	}
}

func TestFramesAreBounded(t *testing.T) {
	head := binary.LittleEndian.AppendUint32(nil, math.MaxUint32)
	if _, _, err := readFrame(bytes.NewReader(append(head, 'Q')), maxFromChild); err == nil {
		t.Error("a frame of 4 GiB: accepted")
	}
	var b bytes.Buffer
	if err := writeFrame(&b, 'Q', []byte("abc")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readFrame(bytes.NewReader(b.Bytes()[:7]), 10); err != io.ErrUnexpectedEOF {
		t.Error(err)
	}
	if kind, body, err := readFrame(&b, 3); err != nil || kind != 'Q' || string(body) != "abc" {
		t.Error(kind, body, err)
	}
}

// A process may ask for anything; it gets the tables of its lease or an error.
func TestLeaseQuestionsAreChecked(t *testing.T) {
	cols := []sqltype.Field{{Name: "k", Type: sqltype.MustParse("BIGINT")}}
	l := &lending{lease: emptyLease{}, ctx: t.Context(), tables: map[string]ViewDef{"t": {Table: "t", Columns: cols}}, scans: map[uint64]*lentScan{}}
	filter := func(t sqltype.Type, n int) []byte {
		b := array.NewStringBuilder(memory.DefaultAllocator)
		for range n {
			b.Append("x")
		}
		out, _ := encodeArray(t, b.NewArray())
		return out
	}
	text := sqltype.MustParse("VARCHAR")
	for _, m := range []scanMsg{
		{Table: "other", To: Slots},
		{Table: "t", From: -1, To: 1},
		{Table: "t", To: Slots + 1},
		{Table: "t", From: 5, To: 5},
		{Table: "t", To: 1, Columns: []int{1}},
		{Table: "t", To: 1, Columns: []int{-1}},
		{Table: "t", To: 1, Columns: []int{0, 0}},
		{Table: "t", To: 1, Filters: []filterMsg{{Column: 1}}},
		{Table: "t", To: 1, Filters: []filterMsg{{In: []byte("junk")}}},
		{Table: "t", To: 1, Filters: []filterMsg{{In: filter(text, 1)}}},
		{Table: "t", To: 1, Filters: []filterMsg{{Min: filter(text, 2)}}},
	} {
		body, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.handle(frameScan, body); err == nil {
			t.Errorf("%+v: accepted", m)
		}
	}
	for kind, body := range map[byte]string{frameScan: "{", frameMore: "12345678", frameClose: "1", 'Z': ""} {
		if _, err := l.handle(kind, []byte(body)); err == nil {
			t.Errorf("%c %q: accepted", kind, body)
		}
	}
	if len(l.scans) != 0 {
		t.Error("a scan was left open")
	}
}

type emptyLease struct{}

func (emptyLease) Epoch() uint64    { return 1 }
func (emptyLease) Views() []ViewDef { return nil }
func (emptyLease) Release()         {}
func (emptyLease) Scan(context.Context, string, ScanSpec) (array.RecordReader, error) {
	panic("asked for what is not in the lease")
}
