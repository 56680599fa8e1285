package checkpoint_test

import (
	"context"
	"fmt"
	"log"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/checkpoint"
	"weir/state"
	"weir/state/agg"
	"weir/state/plan"
	"weir/state/sqltype"
)

// sales is the plan of SELECT city, count(*) AS orders, sum(amount) AS revenue FROM
// orders GROUP BY city. All its results are stored, so it needs no Finalizer.
func sales() plan.View {
	typ := sqltype.MustParse
	return plan.View{
		Name: "sales", Source: "orders", Select: "SELECT city, count(*) AS orders, sum(amount) AS revenue FROM orders GROUP BY city",
		Keys: []plan.Key{{Name: "city", Type: typ("VARCHAR"), Result: 0}},
		Accs: []plan.Accumulator{
			{Acc: agg.Acc{Name: "__count", Rule: agg.Add, Type: typ("BIGINT")}, Aggregate: "count(*)", Partial: "count_star()"},
			{Acc: agg.Acc{Name: "__sum_amount", Rule: agg.Add, Type: typ("BIGINT")}, Aggregate: "sum(amount)", Partial: "sum(amount)"},
		},
		Results: []plan.Result{
			{Name: "city", Type: typ("VARCHAR"), Key: 0, Acc: -1},
			{Name: "orders", Type: typ("BIGINT"), Key: -1, Acc: 0},
			{Name: "revenue", Type: typ("BIGINT"), Key: -1, Acc: 1},
		},
		Fingerprint: "5a1e5",
	}
}

// An order is a record of the examples' topics.
type order struct {
	city   string
	amount int64
}

// shop is a state directory and its checkpoints, in memory.
type shop struct {
	fs    vfs.FS
	store *state.Store
	dir   string // of its checkpoints
	topic [16]byte
	next  int64
}

// newShop starts with an empty state. topic is the id of what it reads.
func newShop(fsys vfs.FS, name string, topic byte) *shop {
	store, err := state.Open(name+"/state", state.Options{FS: fsys})
	check(err)
	_, err = store.CreateSource(state.Source{Name: "orders", SQL: "CREATE SOURCE orders (city VARCHAR, amount BIGINT)"})
	check(err)
	_, err = store.CreateView("CREATE MATERIALIZED VIEW sales AS "+sales().Select, sales(), false, nil)
	check(err)
	s := &shop{fs: fsys, store: store, dir: name + "/checkpoints", topic: [16]byte{topic}}
	check(store.Start(store.Catalog().Sources[0].Cursor, []state.Position{{Topic: "orders", TopicID: s.topic}}))
	return s
}

// sell counts some orders.
func (s *shop) sell(orders ...order) {
	cat := s.store.Catalog()
	b := stateRows(orders...)
	s.next += int64(len(orders))
	check(s.store.Fold(context.Background(), state.Fold{
		Cursor: cat.Sources[0].Cursor, Records: int64(len(orders)),
		Positions: []state.Position{{Topic: "orders", TopicID: s.topic, Next: s.next}},
		Partials:  []state.Partial{{View: cat.Views[0].ID, Rows: b}},
	}))
	_, err := s.store.Commit(context.Background())
	check(err)
}

// stateRows are groups of the view: a row an order.
func stateRows(orders ...order) arrow.RecordBatch {
	p := sales()
	var fields []arrow.Field
	for _, f := range p.StateColumns() {
		fields = append(fields, f.Type.InsideField(f.Name))
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for _, o := range orders {
		b.Field(0).(*array.StringBuilder).Append(o.city)
		b.Field(1).(*array.Int64Builder).Append(1)
		b.Field(2).(*array.Int64Builder).Append(o.amount)
	}
	return b.NewRecordBatch()
}

// checkpoint takes one and opens it.
func (s *shop) checkpoint() *checkpoint.Checkpoint {
	snap, err := s.store.Snapshot()
	check(err)
	defer snap.Close()
	m, err := checkpoint.Write(context.Background(), s.fs, s.dir, snap, nil, checkpoint.Options{Writer: "example"})
	check(err)
	return open(s.fs, s.dir, m)
}

func open(fsys vfs.FS, dir string, m *checkpoint.Manifest) *checkpoint.Checkpoint {
	c, err := checkpoint.Open(fsys, checkpoint.Path(fsys, dir, m.Checkpoint))
	check(err)
	return c
}

// print shows the view as a checkpoint holds it.
func printSales(c *checkpoint.Checkpoint) {
	t, err := c.Table("sales")
	check(err)
	defer t.Close()
	rows, err := t.Rows(context.Background(), []string{"city", "orders", "revenue"}, nil)
	check(err)
	defer rows.Release()
	for rows.Next() {
		rec := rows.RecordBatch()
		for i := range int(rec.NumRows()) {
			fmt.Println(rec.Column(0).ValueStr(i), rec.Column(1).ValueStr(i), rec.Column(2).ValueStr(i))
		}
	}
	check(rows.Err())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// What differs between two checkpoints.
func ExampleDiff() {
	s := newShop(vfs.NewMem(), "berlin", 1)
	s.sell(order{"Paris", 10}, order{"Rome", 5})
	before := s.checkpoint()
	s.sell(order{"Paris", 7}, order{"Oslo", 1})
	after := s.checkpoint()

	n, err := checkpoint.Diff(context.Background(), before, after, "sales", func(rec arrow.RecordBatch) error {
		for i := range int(rec.NumRows()) {
			fmt.Println(rec.Column(0).ValueStr(i), rec.Column(1).ValueStr(i), rec.Column(2).ValueStr(i), rec.Column(3).ValueStr(i))
		}
		return nil
	})
	check(err)
	fmt.Printf("%+v\n", n)
	// Unordered output:
	// changed Paris {"__error":null,"orders":1,"revenue":10} {"__error":null,"orders":2,"revenue":17}
	// added Oslo (null) {"__error":null,"orders":1,"revenue":1}
	// {Same:1 Added:1 Removed:0 Changed:1}
}

// Two appliances that read a topic each, as one.
func ExampleMerge() {
	fsys := vfs.NewMem()
	europe, asia := newShop(fsys, "europe", 1), newShop(fsys, "asia", 2)
	europe.sell(order{"Paris", 10}, order{"Tokyo", 3})
	asia.sell(order{"Tokyo", 20}, order{"Tokyo", 1})

	from := []*checkpoint.Checkpoint{europe.checkpoint(), asia.checkpoint()}
	m, err := checkpoint.Merge(context.Background(), from, fsys, "world", nil, checkpoint.Options{Savepoint: "all"})
	check(err)
	printSales(open(fsys, "world", m))
	fmt.Println(m.Resumable() == nil)
	// Unordered output:
	// Tokyo 3 24
	// Paris 1 10
	// false
}

// A group is corrected, another left out. The savepoint that is written can be
// restored like any other.
func ExampleTransform() {
	fsys := vfs.NewMem()
	s := newShop(fsys, "berlin", 1)
	s.sell(order{"Paris", 10}, order{"Rome", 5}, order{"Test", 1_000_000})
	c := s.checkpoint()

	v, _ := c.Manifest.View("sales")
	rows := stateRows(order{"Rome", 6}, order{"Paris", 10}) // in any order
	m, err := checkpoint.Transform(context.Background(), c, fsys, s.dir,
		map[string]checkpoint.NewState{"sales": checkpoint.Sorted(v, rows)}, nil,
		checkpoint.TransformOptions{Options: checkpoint.Options{Savepoint: "without tests"}})
	check(err)
	printSales(open(fsys, s.dir, m))
	e := m.Edits[0].Views[0]
	fmt.Println(e.Before, e.After, e.Changed, e.Removed)
	// Unordered output:
	// Paris 1 10
	// Rome 1 6
	// [3] 2 1 1
}
