package codec

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/sqltype"
)

// Values in DuckDB's order; those of one line are equal. The order was read off
// SELECT ... ORDER BY x ASC NULLS LAST.
func TestKeyOrder(t *testing.T) {
	f := func(v float64) any { return math.Float64bits(v) }
	iv := func(months, days int32, hours int64) any {
		return arrow.MonthDayNanoInterval{Months: months, Days: days, Nanoseconds: hours * 3600e9}
	}
	s := func(v string) any { return []byte(v) }
	i := func(v int64) any { return uint64(v) }
	for _, c := range []struct {
		typ   string
		lines [][]any
	}{
		{"DOUBLE", [][]any{{f(math.Inf(-1))}, {f(-1)}, {f(0), f(math.Copysign(0, -1))}, {f(5e-324)}, {f(math.Inf(1))}, {f(math.NaN()), uint64(0xfff8000000000123)}, {nil}}},
		{"BIGINT", [][]any{{i(math.MinInt64)}, {i(-1)}, {i(0)}, {i(math.MaxInt64)}, {nil}}},
		{"HUGEINT", [][]any{{wide{1 << 63, 0}}, {wide{math.MaxUint64, math.MaxUint64}}, {wide{0, 0}}, {wide{0, math.MaxUint64}}, {wide{1, 0}}, {nil}}},
		{"UHUGEINT", [][]any{{wide{0, 0}}, {wide{1<<63 - 1, 0}}, {wide{1 << 63, 0}}, {wide{math.MaxUint64, math.MaxUint64}}}},
		{"VARCHAR", [][]any{{s("")}, {s("\x00")}, {s("\x00\x00")}, {s("\x00\x01")}, {s("\x01")}, {s("a")}, {s("a\x00")}, {s("a\x00b")}, {s("ab")}, {s("é")}, {nil}}},
		{"INTERVAL", [][]any{{iv(0, -30, 0), iv(-1, 0, 0)}, {iv(0, 0, -1)}, {iv(0, 0, 0)}, {iv(0, 1, 0), iv(0, 0, 24)}, {iv(1, -1, 0)}, {iv(1, 0, 0), iv(0, 30, 0), iv(0, 29, 24)}, {nil}}},
		{"INTEGER[]", [][]any{{[]any{}}, {[]any{i(1)}}, {[]any{i(1), i(-5)}}, {[]any{i(1), nil}}, {[]any{i(2)}}, {[]any{nil}}, {nil}}},
		{"DOUBLE[]", [][]any{{[]any{f(0)}, []any{f(math.Copysign(0, -1))}}, {[]any{f(math.NaN())}}}},
		{"STRUCT(a VARCHAR, b VARCHAR)", [][]any{{[]any{s(""), nil}}, {[]any{s("a"), s("bc")}}, {[]any{s("ab"), s("c")}}, {[]any{nil, s("")}}, {nil}}},
		{"MAP(VARCHAR, DOUBLE)", [][]any{{[]any{}}, {[]any{[]any{s("a"), f(1)}}}, {[]any{[]any{s("a"), nil}}}}},
	} {
		typ := sqltype.MustParse(c.typ)
		var last []byte
		for n, line := range c.lines {
			var first []byte
			for m, v := range line {
				k := mustKey(t, typ, v)
				if m == 0 {
					first = k
				} else if !bytes.Equal(first, k) {
					t.Errorf("%s line %d: value %d encodes as %x, its equal as %x", c.typ, n, m, k, first)
				}
			}
			if n > 0 && bytes.Compare(last, first) >= 0 {
				t.Errorf("%s line %d: %x does not sort above %x", c.typ, n, first, last)
			}
			last = first
		}
	}
}

func mustKey(t *testing.T, typ sqltype.Type, v any) []byte {
	t.Helper()
	k, err := AppendKey(nil, typ, build(t, typ, v), 0)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Any two values of any type compare as the model says, and none is a prefix of
// another.
func TestKeyProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, typ := range types() {
		values := make([]any, 120)
		for i := range values {
			values[i] = random(r, typ, true)
		}
		a := build(t, typ, values...)
		app, err := NewKeyEncoder(typ).Bind(a)
		if err != nil {
			t.Fatalf("%s: %v", typ, err)
		}
		keys := make([][]byte, len(values))
		for i := range values {
			keys[i] = app(nil, i)
		}
		for i := range values {
			for j := range values {
				if got, want := bytes.Compare(keys[i], keys[j]), compare(typ, values[i], values[j]); got != want {
					t.Fatalf("%s: %v and %v compare as %d, not %d (%x, %x)", typ, values[i], values[j], got, want, keys[i], keys[j])
				}
				if len(keys[i]) < len(keys[j]) && bytes.HasPrefix(keys[j], keys[i]) {
					t.Fatalf("%s: %x is a prefix of %x", typ, keys[i], keys[j])
				}
			}
		}
		roundTripKeys(t, typ, keys)
	}
}

// roundTripKeys decodes keys that follow one another, and encodes them again.
func roundTripKeys(t *testing.T, typ sqltype.Type, keys [][]byte) {
	t.Helper()
	b := array.NewBuilder(memory.DefaultAllocator, typ.Inside())
	defer b.Release()
	dec := NewKeyDecoder(typ)
	src := bytes.Join(keys, nil)
	for _, k := range keys {
		skipped, err := dec(nil, src)
		if err != nil {
			t.Fatalf("%s: skip %x: %v", typ, k, err)
		}
		if src, err = dec(b, src); err != nil || len(src) != len(skipped) {
			t.Fatalf("%s: decode %x: %v, %d bytes left, %d when skipped", typ, k, err, len(src), len(skipped))
		}
	}
	app, err := NewKeyEncoder(typ).Bind(b.NewArray())
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range keys {
		if again := app(nil, i); !bytes.Equal(again, k) {
			t.Fatalf("%s: %x came back as %x", typ, k, again)
		}
	}
}

// The value form gives back every bit, which the key form need not.
func TestValueRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, typ := range types() {
		values := make([]any, 100)
		for i := range values {
			values[i] = random(r, typ, true)
		}
		a := build(t, typ, values...)
		app, err := BindValue(typ, a)
		if err != nil {
			t.Fatalf("%s: %v", typ, err)
		}
		var all []byte
		for i := range values {
			all = app(all, i)
		}
		b := array.NewBuilder(memory.DefaultAllocator, typ.Inside())
		dec := NewValueDecoder(typ)
		for src := all; len(src) > 0; {
			skipped, err := dec(nil, src)
			if err != nil {
				t.Fatalf("%s: skip: %v", typ, err)
			}
			if src, err = dec(b, src); err != nil || len(src) != len(skipped) {
				t.Fatalf("%s: %v", typ, err)
			}
		}
		got := b.NewArray()
		if got.Len() != len(values) {
			t.Fatalf("%s: %d values of %d", typ, got.Len(), len(values))
		}
		if err := sameBuffers(a, got); err != "" {
			t.Errorf("%s: %s", typ, err)
		}
	}
}

// sameBuffers compares bit by bit, where NaN is equal to itself and -0.0 is not
// to 0.0.
func sameBuffers(a, b arrow.Array) string {
	for i := range a.Len() {
		if a.IsNull(i) != b.IsNull(i) {
			return "NULL in another place"
		}
	}
	switch a := a.(type) {
	case *array.Float64:
		for i := range a.Len() {
			if b := b.(*array.Float64); a.IsValid(i) && math.Float64bits(a.Value(i)) != math.Float64bits(b.Value(i)) {
				return "other bits of a double"
			}
		}
	case *array.Float32:
		for i := range a.Len() {
			if b := b.(*array.Float32); a.IsValid(i) && math.Float32bits(a.Value(i)) != math.Float32bits(b.Value(i)) {
				return "other bits of a float"
			}
		}
	case *array.Struct:
		for i := range a.NumField() {
			if err := sameBuffers(a.Field(i), b.(*array.Struct).Field(i)); err != "" {
				return err
			}
		}
	case array.ListLike:
		return sameBuffers(a.ListValues(), b.(array.ListLike).ListValues())
	default:
		if !array.Equal(a, b) {
			return "other values"
		}
	}
	return ""
}

// Rows are found by their index also in a slice of a column.
func TestSlices(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, typ := range types() {
		var values []any
		for range 20 {
			values = append(values, random(r, typ, true))
		}
		part := array.NewSlice(build(t, typ, values...), 7, 19)
		app, err := NewKeyEncoder(typ).Bind(part)
		if err != nil {
			t.Fatal(err)
		}
		for i := range part.Len() {
			if got, want := app(nil, i), mustKey(t, typ, values[7+i]); !bytes.Equal(got, want) {
				t.Fatalf("%s row %d: %x, not %x", typ, i, got, want)
			}
		}
	}
}

func TestWrongColumns(t *testing.T) {
	for _, typ := range types() {
		for _, other := range types() {
			if arrow.TypeEqual(typ.Inside(), other.Inside()) {
				continue
			}
			a := build(t, other)
			if _, err := NewKeyEncoder(typ).Bind(a); err == nil && !lenient(typ, other) {
				t.Errorf("key of %s took a column of %s", typ, other)
			}
			if _, err := BindValue(typ, a); err == nil && !lenient(typ, other) {
				t.Errorf("value of %s took a column of %s", typ, other)
			}
		}
	}
}

// lenient pairs differ in Arrow, but not in what a value means.
func lenient(a, b sqltype.Type) bool {
	if a.ID != b.ID {
		return false
	}
	if a.Elem != nil {
		return a.Size == b.Size && lenient(*a.Elem, *b.Elem)
	}
	return a.ID == sqltype.Decimal && a.Scale == b.Scale
}

func TestBooleanBitmap(t *testing.T) {
	typ := sqltype.MustParse("BOOLEAN")
	b := array.NewBooleanBuilder(memory.DefaultAllocator)
	b.AppendValues([]bool{true, false}, nil)
	a := b.NewArray()
	for i, want := range []uint64{1, 0} {
		if got, err := AppendKey(nil, typ, a, i); err != nil || !bytes.Equal(got, mustKey(t, typ, want)) {
			t.Errorf("%d: %x, %v", want, got, err)
		}
	}
	if _, err := NewKeyDecoder(typ)(b, mustKey(t, typ, uint64(1))); err != nil || !b.NewBooleanArray().Value(0) {
		t.Error("a bool builder was not filled", err)
	}
}

func TestWideVarint(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		hi, lo := randomInt(r), randomInt(r)
		b := AppendWide(nil, hi, lo)
		h, l, rest, err := ReadWide(b)
		if err != nil || h != hi || l != lo || len(rest) != 0 {
			t.Fatalf("%x %x came back as %x %x (%x): %v", hi, lo, h, l, b, err)
		}
	}
	for _, bad := range [][]byte{nil, {0x80}, bytes.Repeat([]byte{0xff}, 19), append(bytes.Repeat([]byte{0x80}, 18), 4)} {
		if _, _, _, err := ReadWide(bad); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%x: %v", bad, err)
		}
	}
}

// Every cut of an encoding is refused, and so are its bytes behind another tag.
func TestDamage(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, typ := range types() {
		v := random(r, typ, false)
		value, err := BindValue(typ, build(t, typ, v))
		if err != nil {
			t.Fatal(err)
		}
		for form, c := range map[string]struct {
			enc []byte
			dec Decoder
		}{"key": {mustKey(t, typ, v), NewKeyDecoder(typ)}, "value": {value(nil, 0), NewValueDecoder(typ)}} {
			for n := range len(c.enc) {
				if _, err := c.dec(nil, c.enc[:n]); !errors.Is(err, ErrCorrupt) {
					t.Errorf("%s %s: %x cut to %d bytes: %v", form, typ, c.enc, n, err)
				}
			}
			bad := append([]byte{7}, c.enc[1:]...)
			if _, err := c.dec(nil, bad); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s %s: tag 7: %v", form, typ, err)
			}
		}
	}
}

// Whatever the bytes are, decoding ends with a value or ErrCorrupt, reads no
// further than they go, and what it read encodes again.
func FuzzDecode(f *testing.F) {
	ts := types()
	r := rand.New(rand.NewPCG(11, 12))
	for i, typ := range ts {
		b := array.NewBuilder(memory.DefaultAllocator, typ.Inside())
		put(b, typ, random(r, typ, true))
		a := b.NewArray()
		key, _ := AppendKey(nil, typ, a, 0)
		value, _ := BindValue(typ, a)
		f.Add(uint8(i), key)
		f.Add(uint8(i), value(nil, 0))
	}
	f.Fuzz(func(t *testing.T, n uint8, src []byte) {
		typ := ts[int(n)%len(ts)]
		for form, dec := range map[string]Decoder{"key": NewKeyDecoder(typ), "value": NewValueDecoder(typ)} {
			b := array.NewBuilder(memory.DefaultAllocator, typ.Inside())
			rest, err := dec(b, src)
			skipped, skipErr := dec(nil, src)
			if (err == nil) != (skipErr == nil) || len(rest) != len(skipped) {
				t.Fatalf("%s %s: %v when read, %v when skipped", form, typ, err, skipErr)
			}
			if err != nil {
				if !errors.Is(err, ErrCorrupt) {
					t.Fatal(err)
				}
				continue
			}
			if _, err := AppendKey(nil, typ, b.NewArray(), 0); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func BenchmarkKey(b *testing.B) {
	typ := sqltype.MustParse("BIGINT")
	bld := array.NewInt64Builder(memory.DefaultAllocator)
	for i := range 8192 {
		bld.Append(int64(i))
	}
	app, err := NewKeyEncoder(typ).Bind(bld.NewArray())
	if err != nil {
		b.Fatal(err)
	}
	var buf []byte
	for b.Loop() {
		buf = buf[:0]
		for i := range 8192 {
			buf = app(buf, i)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/8192, "ns/key")
}
