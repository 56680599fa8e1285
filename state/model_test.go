package state

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/agg"
	"weir/state/plan"
	"weir/state/sqltype"
)

// The model: a log of three partitions whose record at an offset is a function
// of partition and offset, so what a view holds at any positions can be
// recomputed from nothing.

type record struct {
	id     int64
	city   string
	minute int64 // bucket, microseconds
	amount int64
	name   string
}

func recordAt(part int32, offset int64) record {
	x := uint64(part)<<40 + uint64(offset) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	r := record{
		id: int64(x % 37), city: []string{"", "Paris", "Oslo\x00", "Rome"}[x>>8%4], minute: int64(x>>16%5) * 60e6,
		amount: int64(x>>20%2000) - 1000, name: fmt.Sprintf("n%03d", x>>32%500),
	}
	if x>>50%9 == 0 {
		r.city = "NULL"
	}
	return r
}

func key(name, typ string) plan.Key { return plan.Key{Name: name, Type: sqltype.MustParse(typ)} }

func acc(name string, rule agg.Rule, typ string) plan.Accumulator {
	return plan.Accumulator{Acc: agg.Acc{Name: name, Rule: rule, Type: sqltype.MustParse(typ)}}
}

// byCity has a key column before its time key, so that stored and plan order
// differ; byID is the small and frequent case; total has no key.
func planOf(name string) plan.View {
	v := plan.View{Name: name, Source: "orders", Accs: []plan.Accumulator{
		acc("__count", agg.Add, "BIGINT"), acc("__sum", agg.Add, "HUGEINT"), acc("__min", agg.Min, "VARCHAR"),
	}}
	switch strings.TrimRight(name, "0123456789") {
	case "by_city":
		v.Keys = []plan.Key{key("city", "VARCHAR"), key("minute", "TIMESTAMP")}
	case "by_id":
		v.Keys = []plan.Key{key("id", "BIGINT")}
	default:
		v.Global = true
	}
	return v
}

// A group as the model holds it.
type group struct {
	count, sum int64
	min        string
}

// keyText is the key of a record in a view, readable.
func keyText(p plan.View, r record) string {
	switch len(p.Keys) {
	case 0:
		return "()"
	case 1:
		return fmt.Sprint(r.id)
	}
	return fmt.Sprintf("%q %d", r.city, r.minute)
}

// expect recomputes a view from the first up to the given positions.
func expect(p plan.View, first, at []Position) map[string]group {
	want := map[string]group{}
	if p.Global {
		want["()"] = group{}
	}
	from := map[int32]int64{}
	for _, f := range first {
		from[f.Partition] = f.Next
	}
	for _, a := range at {
		for o := from[a.Partition]; o < a.Next; o++ {
			addTo(want, p, recordAt(a.Partition, o))
		}
	}
	return want
}

func addTo(m map[string]group, p plan.View, r record) {
	k := keyText(p, r)
	g, ok := m[k]
	if !ok || g.count == 0 || r.name < g.min {
		g.min = r.name
	}
	g.count++
	g.sum += r.amount
	m[k] = g
}

// partial is what records add to a view, as DuckDB would give it: one row a group.
func partial(p plan.View, rs []record) arrow.RecordBatch {
	groups, sample := map[string]group{}, map[string]record{}
	for _, r := range rs {
		addTo(groups, p, r)
		sample[keyText(p, r)] = r
	}
	if p.Global && len(groups) == 0 {
		groups["()"] = group{}
	}
	var fields []arrow.Field
	for _, c := range p.StateColumns() {
		fields = append(fields, c.Type.InsideField(c.Name))
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for _, k := range slices.Sorted(maps.Keys(groups)) {
		g, r := groups[k], sample[k]
		for i, c := range p.Keys {
			switch c.Name {
			case "id":
				b.Field(i).(*array.Int64Builder).Append(r.id)
			case "minute":
				b.Field(i).(*array.TimestampBuilder).Append(arrow.Timestamp(r.minute))
			case "city":
				if r.city == "NULL" {
					b.Field(i).AppendNull()
				} else {
					b.Field(i).(*array.StringBuilder).Append(r.city)
				}
			}
		}
		n := len(p.Keys)
		b.Field(n).(*array.Int64Builder).Append(g.count)
		if g.count == 0 {
			b.Field(n + 1).AppendNull()
			b.Field(n + 2).AppendNull()
			continue
		}
		b.Field(n + 1).(*array.FixedSizeBinaryBuilder).Append(hugeint(g.sum))
		b.Field(n + 2).(*array.StringBuilder).Append(g.min)
	}
	return b.NewRecordBatch()
}

func hugeint(v int64) []byte {
	b := make([]byte, 16)
	for i := range b {
		b[i] = byte(v >> min(8*i, 63))
	}
	return b
}

func fromHugeint(b []byte) (v int64) {
	for i := range 8 {
		v |= int64(b[i]) << (8 * i)
	}
	return v
}

// readGroups scans a view whole.
func readGroups(ctx context.Context, sn *Snapshot, v *View) (map[string]group, error) {
	rows, err := sn.Scan(ctx, ScanRequest{View: v.ID, BatchRows: 50})
	if err != nil {
		return nil, err
	}
	defer rows.Release()
	got := map[string]group{}
	for rows.Next() {
		if err := collect(got, v.Plan, rows.RecordBatch()); err != nil {
			return nil, err
		}
	}
	return got, rows.Err()
}

func collect(got map[string]group, p plan.View, b arrow.RecordBatch) error {
	for i := range int(b.NumRows()) {
		var r record
		for c := range p.Keys {
			switch a := b.Column(c).(type) {
			case *array.Int64:
				r.id = a.Value(i)
			case *array.Timestamp:
				r.minute = int64(a.Value(i))
			case *array.String:
				if r.city = a.Value(i); a.IsNull(i) {
					r.city = "NULL"
				}
			}
		}
		n := len(p.Keys)
		g := group{count: b.Column(n).(*array.Int64).Value(i)}
		if b.Column(n + 1).IsValid(i) {
			g.sum = fromHugeint(b.Column(n + 1).(*array.FixedSizeBinary).Value(i))
			g.min = b.Column(n + 2).(*array.String).Value(i)
		}
		k := keyText(p, r)
		if _, twice := got[k]; twice {
			return fmt.Errorf("group %s came twice", k)
		}
		got[k] = g
	}
	return nil
}

// verify compares every view of a snapshot with what the log says at its
// positions. It is the promise of the package.
func verify(ctx context.Context, sn *Snapshot) error {
	cat := sn.Catalog()
	for i := range cat.Views {
		v := &cat.Views[i]
		got, err := readGroups(ctx, sn, v)
		if err != nil {
			return err
		}
		at := sn.Positions(v.Cursor)
		want := expect(v.Plan, v.First, at)
		if !maps.Equal(got, want) {
			return fmt.Errorf("epoch %d: view %s at %v:\n got %v\nwant %v", sn.Epoch(), v.Plan.Name, at, got, want)
		}
		st := sn.Stats(v.ID)
		if st.Groups != int64(len(want)) || st.Errors != 0 || (st.Bytes <= 0) != (len(want) == 0) {
			return fmt.Errorf("epoch %d: view %s has %d groups, but its counts say %+v", sn.Epoch(), v.Plan.Name, len(want), st)
		}
		if err := verifyChanges(ctx, sn, v); err != nil {
			return fmt.Errorf("epoch %d: view %s: %w", sn.Epoch(), v.Plan.Name, err)
		}
	}
	return nil
}

func verifyStore(t testing.TB, s *Store) {
	t.Helper()
	sn, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer sn.Close()
	if err := verify(t.Context(), sn); err != nil {
		t.Fatal(err)
	}
}

// foldNext reads n records of a partition from where the cursor stands.
func foldNext(ctx context.Context, s *Store, c CursorID, part int32, n int64) error {
	pos := Position{Topic: "orders", TopicID: [16]byte{1}, Partition: part}
	for _, p := range s.Positions(c) {
		if p.Partition == part {
			pos = p
		}
	}
	var rs []record
	for o := pos.Next; o < pos.Next+n; o++ {
		rs = append(rs, recordAt(part, o))
	}
	pos.Next += n
	f := Fold{Cursor: c, Records: n, Positions: []Position{pos}}
	cat := s.Catalog()
	for _, v := range cat.Following(c) {
		f.Partials = append(f.Partials, Partial{v.ID, partial(v.Plan, rs)})
	}
	return s.Fold(ctx, f)
}
