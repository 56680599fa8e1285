package checkpoint

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/state"
	"weir/state/sqltype"
)

var emitDir = flag.String("emit", "", "write a checkpoint and expected.json to this directory, for pytest/test_open.py")

// expected is what the Python tests compare with: by view and column, the type
// and the values, spelled by canon.
type expected struct {
	Checkpoint string                  `json:"checkpoint"`
	Views      map[string]expectedView `json:"views"`
}

type expectedView struct {
	File    string           `json:"file"`
	Columns []string         `json:"columns"`
	Types   []string         `json:"types"`
	Values  map[string][]any `json:"values"`
}

// TestEmit writes a checkpoint to the disk, with what its columns must hold as
// told from the state and not from the file. Without -emit it goes to a
// temporary directory and only its shape is checked.
func TestEmit(t *testing.T) {
	root := *emitDir
	if root == "" {
		root = t.TempDir()
	}
	r, f := rng(t), newFake()
	f.add(r, revenue(), batchRows+500, 3000, false)
	f.add(r, everything(), 300, 50, false)
	f.add(r, revenueNamed("empty"), 0, 1, false)
	change := f.addChanging(t, r, revenueNamed("changing"), 300)
	if _, err := Write(t.Context(), vfs.Default, filepath.Join(root, "checkpoints"), f, &finals{}, Options{Now: clock, Writer: "weir test"}); err != nil {
		t.Fatal(err)
	}
	change()
	m, err := Write(t.Context(), vfs.Default, filepath.Join(root, "checkpoints"), f, &finals{}, Options{Now: clock, Writer: "weir test"})
	if err != nil {
		t.Fatal(err)
	}
	out := expected{Checkpoint: Path(vfs.Default, "checkpoints", m.Checkpoint), Views: map[string]expectedView{}}
	for i := range m.Views {
		out.Views[m.Views[i].Name] = expect(t, f, &m.Views[i])
	}
	text, err := json.MarshalIndent(out, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "expected.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	if n := len(m.Views[3].Parts); n != 2 {
		t.Errorf("the view that changes has %d parts", n)
	}
	if n := len(out.Views["revenue_by_city"].Values["busy"]); n != batchRows+500 {
		t.Errorf("%d values of busy", n)
	}
}

func expect(t *testing.T, f *fake, v *View) expectedView {
	e := expectedView{File: v.Files()[0].Name, Values: map[string][]any{}}
	for _, c := range v.Columns {
		e.Columns, e.Types = append(e.Columns, c.Name), append(e.Types, c.Type.String())
		e.Values[c.Name] = []any{}
	}
	fields := v.Plan.StateColumns()
	if len(f.rows[state.ViewID(v.ID)]) == 0 {
		return e
	}
	rec, err := concatenate(memory.DefaultAllocator, f.rows[state.ViewID(v.ID)])
	if err != nil {
		t.Fatal(err)
	}
	errs := rec.Column(len(fields) + 2).(*array.String)
	for i := range int(rec.NumRows()) {
		kind := any(nil)
		if errs.IsValid(i) {
			kind = errorMerge
		}
		state := func(name string) any {
			c := slices.IndexFunc(fields, func(f sqltype.Field) bool { return f.Name == name })
			if kind == errorMerge && c >= len(v.Plan.Keys) {
				return nil
			}
			return canon(fields[c].Type, rec.Column(c), i)
		}
		var count *int64
		if v.Plan.Visible != "" {
			if c := rec.Column(2).(*array.Int64); c.IsValid(i) {
				count = new(c.Value(i))
			}
			if kind == nil && count != nil && *count%7 == 0 {
				kind = errorResult
			}
		}
		for _, c := range v.Columns {
			var x any
			switch {
			case c.Key != nil:
				x = state(fields[*c.Key].Name)
			case c.Accumulator != "":
				x = state(c.Accumulator)
			case c.Name == "n":
				x = state("__count")
			case c.Name == "twice" && kind == nil:
				x = state("__sum_big")
			case c.Name == "busy" && kind == nil && count != nil:
				x = *count&1 == 0
			case c.Name == slotColumn:
				x = canon(c.Type, rec.Column(len(fields)), i)
			case c.Name == epochColumn:
				x = canon(c.Type, rec.Column(len(fields)+1), i)
			case c.Name == visibleColumn:
				x = kind != nil || v.Plan.Visible == "" || count != nil && *count > 0
			case c.Name == errorColumn && kind == errorMerge:
				x = errs.Value(i)
			case c.Name == errorColumn && kind == errorResult:
				x = "ln(0)"
			case c.Name == errorAtColumn:
				x = kind
			}
			e.Values[c.Name] = append(e.Values[c.Name], x)
		}
	}
	return e
}

// canon spells a value of the inside form for JSON: NULL is null, integers,
// decimals (unscaled) and times (in the unit of the file) are decimal text,
// floats the bits of a double or "nan", bytes hexadecimal, lists arrays, structs
// arrays of their fields, maps arrays of pairs.
func canon(t sqltype.Type, a arrow.Array, i int) any {
	if a.IsNull(i) {
		return nil
	}
	list := func(t sqltype.Type, v arrow.Array, from, to int64) any {
		out := []any{}
		for j := from; j < to; j++ {
			out = append(out, canon(t, v, int(j)))
		}
		return out
	}
	text := func(v any) any { return fmt.Sprint(v) }
	float := func(v float64) any {
		if math.IsNaN(v) {
			return "nan"
		}
		return fmt.Sprintf("%016x", math.Float64bits(v))
	}
	switch a := a.(type) {
	case *array.Int8:
		if t.ID == sqltype.Boolean {
			return a.Value(i) != 0
		}
		return text(a.Value(i))
	case *array.Float32:
		return float(float64(a.Value(i)))
	case *array.Float64:
		return float(a.Value(i))
	case *array.FixedSizeBinary:
		if t.ID == sqltype.UUID {
			return fmt.Sprintf("%x", a.Value(i))
		}
		b := slices.Clone(a.Value(i))
		slices.Reverse(b)
		n := new(big.Int).SetBytes(b)
		if t.ID == sqltype.HugeInt && b[0] >= 0x80 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), 128))
		}
		return n.String()
	case *array.Binary:
		return fmt.Sprintf("%x", a.Value(i))
	case *array.String:
		return a.Value(i)
	case *array.Decimal128:
		return a.Value(i).BigInt().String()
	case *array.Timestamp:
		v := int64(a.Value(i))
		if v == math.MaxInt64 || v == -math.MaxInt64 {
			return text(v)
		}
		switch t.ID {
		case sqltype.TimestampS:
			v *= 1_000_000
		case sqltype.TimestampMS:
			v *= 1_000
		}
		return text(v)
	case *array.Date32:
		return text(int32(a.Value(i)))
	case *array.Time64:
		return text(int64(a.Value(i)))
	case *array.MonthDayNanoInterval:
		v := a.Value(i)
		return []any{text(v.Months), text(v.Days), text(v.Nanoseconds / 1000)}
	case *array.Map:
		from, to := a.ValueOffsets(i)
		return list(sqltype.Type{ID: sqltype.Struct, Fields: t.Fields}, a.ListValues(), from, to)
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		return list(*t.Elem, a.ListValues(), from, to)
	case *array.Struct:
		out := []any{}
		for f := range a.NumField() {
			out = append(out, canon(t.Fields[f].Type, a.Field(f), i))
		}
		return out
	}
	return a.ValueStr(i)
}
