package checkpoint

import (
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"weir/state/sqltype"
)

// TestConvertRoundTrip converts random arrays of every type there and back,
// sliced too: equal values, no memory left, and never a misfit among values
// that fit.
func TestConvertRoundTrip(t *testing.T) {
	for _, name := range allTypes {
		t.Run(name, func(t *testing.T) {
			mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
			defer mem.AssertSize(t, 0)
			r, typ := rng(t), sqltype.MustParse(name)
			for range 60 {
				whole := randomArray(mem, r, typ, r.IntN(40), false)
				from := r.IntN(whole.Len() + 1)
				a := array.NewSlice(whole, int64(from), int64(from+r.IntN(whole.Len()-from+1)))
				file, misfits, err := toFile(mem, typ, a)
				if err != nil || misfits != nil {
					t.Fatalf("misfits %v, %v", misfits, err)
				}
				if !arrow.TypeEqual(file.DataType(), typ.File()) {
					t.Fatalf("type %s, want %s", file.DataType(), typ.File())
				}
				back, err := toInside(mem, typ, file)
				if err != nil {
					t.Fatal(err)
				}
				if !arrow.TypeEqual(back.DataType(), typ.Inside()) {
					t.Fatalf("type %s, want %s", back.DataType(), typ.Inside())
				}
				if diff := cmp.Diff(renderAll(a), renderAll(back)); diff != "" {
					t.Fatal(diff)
				}
				for _, x := range []arrow.Array{back, file, a, whole} {
					x.Release()
				}
			}
		})
	}
}

// TestConvertMisfits puts values into arrays that the file cannot hold: exactly
// their rows are reported and NULL, all others are right.
func TestConvertMisfits(t *testing.T) {
	for _, name := range allTypes {
		typ := sqltype.MustParse(name)
		if !narrower(typ) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
			defer mem.AssertSize(t, 0)
			r, met := rng(t), 0
			for range 60 {
				whole := randomArray(mem, r, typ, 30, true)
				a := array.NewSlice(whole, 3, 27)
				file, misfits, err := toFile(mem, typ, a)
				if err != nil {
					t.Fatal(err)
				}
				met += len(misfits)
				back, err := toInside(mem, typ, file)
				if err != nil {
					t.Fatal(err)
				}
				got, want := renderAll(back), renderAll(a)
				for i := range want {
					if slices.Contains(misfits, i) {
						if !file.IsNull(i) || want[i] == "NULL" {
							t.Fatalf("misfit %d: %s became %s", i, want[i], got[i])
						}
					} else if got[i] != want[i] {
						t.Fatalf("row %d: %s became %s without a word", i, want[i], got[i])
					}
				}
				for _, x := range []arrow.Array{back, file, a, whole} {
					x.Release()
				}
			}
			if met == 0 {
				t.Fatal("no value was too wide: nothing was tested")
			}
		})
	}
}

// TestConvertBoundaries meets the limits one by one.
func TestConvertBoundaries(t *testing.T) {
	huge := func(hi, lo uint64) []byte {
		b := make([]byte, 16)
		for i := range 8 {
			b[i], b[8+i] = byte(lo>>(8*i)), byte(hi>>(8*i))
		}
		return b
	}
	for _, c := range []struct {
		typ  string
		hi   uint64
		lo   uint64
		fits bool
		text string
	}{
		{"HUGEINT", tenTo38Hi, tenTo38Lo - 1, true, "99999999999999999999999999999999999999"},
		{"HUGEINT", tenTo38Hi, tenTo38Lo, false, ""},
		{"HUGEINT", ^uint64(tenTo38Hi), ^uint64(tenTo38Lo) + 2, true, "-99999999999999999999999999999999999999"},
		{"HUGEINT", ^uint64(tenTo38Hi), ^uint64(tenTo38Lo) + 1, false, ""},
		{"HUGEINT", 1 << 63, 0, false, ""},
		{"HUGEINT", ^uint64(0), 0, true, "-18446744073709551616"},
		{"UHUGEINT", tenTo38Hi, tenTo38Lo - 1, true, "99999999999999999999999999999999999999"},
		{"UHUGEINT", tenTo38Hi, tenTo38Lo, false, ""},
		{"UHUGEINT", ^uint64(0), ^uint64(0), false, ""},
	} {
		typ := sqltype.MustParse(c.typ)
		b := array.NewFixedSizeBinaryBuilder(memory.DefaultAllocator, typ.Inside().(*arrow.FixedSizeBinaryType))
		b.Append(huge(c.hi, c.lo))
		file, misfits, err := toFile(memory.DefaultAllocator, typ, b.NewArray())
		if err != nil {
			t.Fatal(err)
		}
		if fits := misfits == nil; fits != c.fits {
			t.Errorf("%s %x %x: fits %v", c.typ, c.hi, c.lo, fits)
		} else if fits && render(file, 0) != c.text {
			t.Errorf("%s %x %x: %s", c.typ, c.hi, c.lo, render(file, 0))
		}
	}
}

// TestConvertRefusesOtherTypes: an array of another layout is an error, not
// other values.
func TestConvertRefusesOtherTypes(t *testing.T) {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	b.Append(1)
	a := b.NewArray()
	for _, name := range allTypes {
		if name == "BIGINT" {
			continue
		}
		if _, _, err := toFile(memory.DefaultAllocator, sqltype.MustParse(name), a); err == nil {
			t.Errorf("an array of int64 passed as %s", name)
		}
	}
}

// TestConvertGarbageUnderNull has bytes under NULL elements that no column of
// the file could hold. They are no values, so nothing misfits.
func TestConvertGarbageUnderNull(t *testing.T) {
	for _, name := range []string{"HUGEINT", "UHUGEINT", "TIMESTAMP_S", "TIMESTAMP_MS"} {
		t.Run(name, func(t *testing.T) {
			elem := sqltype.MustParse(name)
			width := elem.Inside().(arrow.FixedWidthDataType).BitWidth() / 8
			bytes := slices.Repeat([]byte{0x7e}, 2*width) // of two elements, the second a NULL
			clear(bytes[:width])
			leaf := array.NewData(elem.Inside(), 2, []*memory.Buffer{memory.NewBufferBytes([]byte{1}), memory.NewBufferBytes(bytes)}, nil, 1, 0)
			offsets := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes([]int32{0, 2}))
			typ := sqltype.MustParse(name + "[]")
			list := array.MakeFromData(array.NewData(typ.Inside(), 1, []*memory.Buffer{nil, offsets}, []arrow.ArrayData{leaf}, 0, 0))
			file, misfits, err := toFile(memory.DefaultAllocator, typ, list)
			if err != nil || misfits != nil || file.IsNull(0) {
				t.Fatalf("misfits %v, %v, the list is %s", misfits, err, file)
			}
			if _, err := toInside(memory.DefaultAllocator, typ, file); err != nil {
				t.Fatal(err)
			}
		})
	}
}
