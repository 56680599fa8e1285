package agg

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/codec"
	"weir/state/sqltype"
)

// A case is a rule over a type with values in JSON, as array.FromJSON reads them.
type lawCase struct {
	rule   Rule
	typ    string
	values []string
	// free values may differ by a tie: the older of two equals stays
	ties bool
}

func laws() []lawCase {
	ints := []string{"null", "1", "-1", "7", "0", "100"}
	decimals := []string{"null", `"1.25"`, `"-3.50"`, `"0.00"`, `"12345678.90"`}
	texts := []string{"null", `"a"`, `""`, `"ab"`, `"b"`, `"longer than the others"`}
	structs := []string{"null", `{"a":1.5,"b":"x"}`, `{"a":1.5,"b":null}`, `{"a":null,"b":"y"}`, `{"a":-2,"b":"z"}`}
	cases := []lawCase{
		{Add, "BIGINT", ints, false},
		{Add, "DECIMAL(38,2)", decimals, false},
		{Add, "DOUBLE", []string{"null", "1", "0.5", "-4", "1024"}, false},
		{Add, "FLOAT", []string{"null", "1", "0.5", "-4"}, false},
		{Add, "HUGEINT", wides, false},
		{And, "BOOLEAN", []string{"null", "1", "0"}, false},
		{Or, "BOOLEAN", []string{"null", "1", "0"}, false},
	}
	for _, r := range []Rule{Min, Max} {
		cases = append(cases, lawCase{r, "BIGINT", ints, false}, lawCase{r, "TINYINT", ints, false}, lawCase{r, "DATE", ints, false},
			lawCase{r, "UBIGINT", []string{"null", "0", "18446744073709551615"}, false}, lawCase{r, "DECIMAL(12,2)", decimals, false},
			lawCase{r, "HUGEINT", wides, false}, lawCase{r, "UUID", wides, false}, lawCase{r, "DOUBLE", []string{"null", "1", "0.0", "-0.0", "-1e300"}, true},
			lawCase{r, "VARCHAR", texts, false}, lawCase{r, "INTEGER[]", []string{"null", "[]", "[1]", "[1,null]", "[2]"}, false},
			lawCase{r, "STRUCT(a DOUBLE, b VARCHAR)", structs, false}, lawCase{r, "BOOLEAN", []string{"null", "0", "1"}, false})
	}
	return cases
}

// wides are 16 bytes in base64: 0, 1, -1 and 2^64 of a HUGEINT.
var wides = []string{
	"null", `"AAAAAAAAAAAAAAAAAAAAAA=="`, `"AQAAAAAAAAAAAAAAAAAAAA=="`, `"/////////////////////w=="`, `"AAAAAAAAAAABAAAAAAAAAA=="`,
}

func column(t testing.TB, typ sqltype.Type, values ...string) arrow.Array {
	t.Helper()
	a, _, err := array.FromJSON(memory.DefaultAllocator, typ.Inside(), strings.NewReader("["+strings.Join(values, ",")+"]"))
	if err != nil {
		t.Fatal(typ, err)
	}
	return a
}

func newRows(l *Layout, n int) *Rows {
	return &Rows{Words: make([]uint64, n*(l.Words()+1)), Stride: l.Words() + 1, Base: 1, Side: new(Arena)}
}

// merged merges values one after the other into an empty row.
func merged(t testing.TB, a Acc, values ...string) []byte {
	t.Helper()
	l, err := NewLayout([]Acc{a})
	if err != nil {
		t.Fatal(err)
	}
	rs := newRows(l, 1)
	m, err := l.Bind(0, column(t, a.Type, values...))
	if err != nil {
		t.Fatal(err)
	}
	m(rs, make([]uint32, len(values)), func(_ int, msg string) { t.Error(msg) })
	return l.Append(nil, rs, 0)
}

// show reads a stored row back as JSON, that is a value to merge again.
func show(t testing.TB, a Acc, stored []byte) string {
	t.Helper()
	l, _ := NewLayout([]Acc{a})
	b := array.NewBuilder(memory.DefaultAllocator, a.Type.Inside())
	if err := l.Show(stored, []array.Builder{b}); err != nil {
		t.Fatal(err)
	}
	text, err := b.NewArray().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(text[1 : len(text)-1]))
}

// NULL is the identity; order and grouping do not show; merging the results of
// parts gives the result of the whole; what is stored reads back the same.
func TestLaws(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range laws() {
		a := Acc{"__x", c.rule, sqltype.MustParse(c.typ)}
		t.Run(fmt.Sprint(c.rule, " ", c.typ), func(t *testing.T) {
			for range 60 {
				vs := make([]string, 1+r.IntN(7))
				for i := range vs {
					vs[i] = c.values[r.IntN(len(c.values))]
				}
				whole := show(t, a, merged(t, a, vs...))
				if got := show(t, a, merged(t, a, append(slices.Clone(vs), "null")...)); got != whole {
					t.Fatalf("%v and NULL is %s, not %s", vs, got, whole)
				}
				cut := r.IntN(len(vs) + 1)
				left, right := show(t, a, merged(t, a, vs[:cut]...)), show(t, a, merged(t, a, vs[cut:]...))
				if got := show(t, a, merged(t, a, left, right)); got != whole {
					t.Fatalf("%v cut at %d is %s and %s, together %s, not %s", vs, cut, left, right, got, whole)
				}
				mixed := slices.Clone(vs)
				r.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
				if got := show(t, a, merged(t, a, mixed...)); got != whole && !(c.ties && strings.Trim(got+whole, "-0") == "") {
					t.Fatalf("%v is %s, %v is %s", vs, whole, mixed, got)
				}
				roundTrip(t, a, merged(t, a, vs...))
			}
		})
	}
}

// roundTrip loads a stored row and stores it again, also after a copy to a table
// with another arena.
func roundTrip(t *testing.T, a Acc, stored []byte) {
	t.Helper()
	l, _ := NewLayout([]Acc{a})
	rs, other := newRows(l, 2), newRows(l, 1)
	if err := l.Load(stored, rs, 1); err != nil {
		t.Fatal(err)
	}
	l.Copy(other, 0, rs, 1)
	for _, got := range [][]byte{l.Append(nil, rs, 1), l.Append(nil, other, 0)} {
		if !bytes.Equal(got, stored) {
			t.Fatalf("%x came back as %x", stored, got)
		}
	}
	for n := range stored {
		if err := l.Load(stored[:n], newRows(l, 1), 0); !errors.Is(err, codec.ErrCorrupt) {
			t.Fatalf("%x cut to %d bytes: %v", stored, n, err)
		}
	}
}

// A sum at the edge is exact, one beyond it fails its own group and leaves it
// what it was.
func TestOverflow(t *testing.T) {
	for _, c := range []struct{ typ, edge, step, back string }{
		{"BIGINT", "9223372036854775806", "1", "-1"},
		{"BIGINT", "-9223372036854775807", "-1", "1"},
		{"HUGEINT", `"/v//////////////////fw=="`, wides[2], wides[3]},
		{"DECIMAL(38,0)", `"99999999999999999999999999999999999998"`, `"1"`, `"-1"`},
		{"DECIMAL(38,2)", `"-999999999999999999999999999999999999.98"`, `"-0.01"`, `"0.01"`},
	} {
		a := Acc{"__sum", Add, sqltype.MustParse(c.typ)}
		l, err := NewLayout([]Acc{a})
		if err != nil {
			t.Fatal(err)
		}
		rs := newRows(l, 2)
		m, err := l.Bind(0, column(t, a.Type, c.edge, c.step, c.step, c.back, c.step))
		if err != nil {
			t.Fatal(err)
		}
		var failed []int
		m(rs, []uint32{0, 0, 0, 0, 1}, func(i int, msg string) {
			failed = append(failed, i)
			if msg != "__sum: the sum is beyond the range of "+c.typ {
				t.Error(msg)
			}
		})
		if !slices.Equal(failed, []int{2}) {
			t.Errorf("%s %s: rows %v failed", c.typ, c.edge, failed)
		}
		if got := show(t, a, l.Append(nil, rs, 0)); got != strings.Trim(show(t, a, merged(t, a, c.edge)), " ") {
			t.Errorf("%s: %s after the failure, not %s", c.typ, got, c.edge)
		}
		if got := show(t, a, l.Append(nil, rs, 1)); got != show(t, a, merged(t, a, c.step)) {
			t.Errorf("%s: another group became %s", c.typ, got)
		}
	}
}

func doubles(vs ...float64) arrow.Array {
	b := array.NewFloat64Builder(memory.DefaultAllocator)
	b.AppendValues(vs, nil)
	return b.NewArray()
}

func mergeDoubles(t testing.TB, rule Rule, vs ...float64) float64 {
	t.Helper()
	l, err := NewLayout([]Acc{{"__x", rule, sqltype.MustParse("DOUBLE")}})
	if err != nil {
		t.Fatal(err)
	}
	rs := newRows(l, 1)
	m, err := l.Bind(0, doubles(vs...))
	if err != nil {
		t.Fatal(err)
	}
	m(rs, make([]uint32, len(vs)), nil)
	b := array.NewFloat64Builder(memory.DefaultAllocator)
	if err := l.Show(l.Append(nil, rs, 0), []array.Builder{b}); err != nil {
		t.Fatal(err)
	}
	return b.NewFloat64Array().Value(0)
}

func TestDoubles(t *testing.T) {
	inf, nan, zero := math.Inf(1), math.NaN(), math.Copysign(0, -1)
	for _, c := range []struct {
		rule Rule
		in   []float64
		want float64
	}{
		{Add, []float64{1e16, 1, -1e16}, 1}, // the compensation at work
		{Add, []float64{1, 1e100, 1, -1e100}, 2},
		{Add, []float64{inf, 1}, inf},
		{Add, []float64{inf, -inf}, nan},
		{Add, []float64{nan, 1}, nan},
		{Add, []float64{1e308, 1e308}, inf},
		{Add, []float64{zero}, zero},
		{Add, []float64{1, inf, 5, 1e308}, inf},
		{Min, []float64{nan, 1}, 1},
		{Min, []float64{1, nan}, 1},
		{Max, []float64{1, nan}, nan},
		{Max, []float64{nan, inf}, nan},
		{Min, []float64{nan, nan}, nan},
		{Min, []float64{zero, 0}, zero},
		{Max, []float64{0, zero}, 0},
		{Max, []float64{zero, 0}, zero},
	} {
		if got := mergeDoubles(t, c.rule, c.in...); math.Float64bits(got) != math.Float64bits(c.want) && !(got != got && c.want != c.want) {
			t.Errorf("%s of %v is %v, not %v", c.rule, c.in, got, c.want)
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	vs := make([]float64, 10_000)
	exact, total := 0.0, 0.0
	for i := range vs {
		vs[i] = math.Ldexp(float64(r.IntN(1<<20)-1<<19), r.IntN(10)) // exact in any order
		exact += vs[i]
		total += math.Abs(vs[i])
	}
	if got := mergeDoubles(t, Add, vs...); math.Abs(got-exact) > 1e-15*total {
		t.Errorf("%v, not %v", got, exact)
	}
}

func TestRefusedLayouts(t *testing.T) {
	for _, a := range []Acc{
		{"a", Add, sqltype.MustParse("VARCHAR")},
		{"a", And, sqltype.MustParse("BIGINT")},
		{"a", "mul", sqltype.MustParse("BIGINT")},
		{"a", Min, sqltype.Type{}},
	} {
		if _, err := NewLayout([]Acc{a}); err == nil {
			t.Errorf("%+v was taken", a)
		}
	}
	l, err := NewLayout([]Acc{{"a", Add, sqltype.MustParse("BIGINT")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Bind(0, doubles(1)); err == nil {
		t.Error("a BIGINT sum took doubles")
	}
}

// More than 64 accumulators have a second word of bits.
func TestManyAccumulators(t *testing.T) {
	var accs []Acc
	for i := range 70 {
		accs = append(accs, Acc{fmt.Sprint("__", i), []Rule{Add, Max}[i%2], sqltype.MustParse([]string{"BIGINT", "VARCHAR"}[i%2])})
	}
	l, err := NewLayout(accs)
	if err != nil {
		t.Fatal(err)
	}
	rs := newRows(l, 1)
	bs := make([]array.Builder, len(accs))
	for i, a := range accs {
		bs[i] = array.NewBuilder(memory.DefaultAllocator, a.Type.Inside())
		if i%3 == 0 {
			continue // NULL
		}
		m, err := l.Bind(i, column(t, a.Type, []string{fmt.Sprint(i), fmt.Sprintf("%q", fmt.Sprint(i))}[i%2]))
		if err != nil {
			t.Fatal(err)
		}
		m(rs, []uint32{0}, nil)
	}
	if err := l.Show(l.Append(nil, rs, 0), bs); err != nil {
		t.Fatal(err)
	}
	for i, b := range bs {
		a := b.NewArray()
		if want := fmt.Sprint(i); a.IsNull(0) != (i%3 == 0) || a.IsValid(0) && a.ValueStr(0) != want {
			t.Errorf("accumulator %d: %s", i, a.ValueStr(0))
		}
	}
}
