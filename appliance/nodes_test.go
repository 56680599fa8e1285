//go:build duckdb_arrow

package appliance

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/appliance/devbroker"
	"weir/checkpoint"
)

var emitNodes = flag.String("emit-nodes", "", "write two nodes' checkpoints and their records to this directory, for checkpoint/pytest/test_reader.py")

// nodesSQL has every merge rule, unselected and nested keys, HAVING, a view of one
// group, sums that overflow and results that fail.
const nodesSQL = `
CREATE SOURCE s (city VARCHAR, shop INTEGER, amount DECIMAL(12,2), score DOUBLE, big HUGEINT, n BIGINT, ok BOOLEAN, placed TIMESTAMP)
  WITH (connector = 'kafka', topic = 's', format = 'json');
CREATE MATERIALIZED VIEW by_city AS SELECT city, count(*) AS orders, sum(amount) AS revenue, avg(amount) AS mean, min(score) AS lo, max(score) AS hi,
  sum(score) AS total, max(placed) AS latest, bool_and(ok) AS all_ok, bool_or(ok) AS one_ok, max(big) AS biggest, min(date_trunc('day', placed)) AS first_day,
  max(city || shop) AS word, max(INTERVAL 1 DAY * shop) AS span
  FROM s GROUP BY city, shop HAVING count(*) > 1;
CREATE MATERIALIZED VIEW sales AS
SELECT city, shop, count(*) AS orders, max(n) AS most_items, sum(amount) AS revenue, avg(amount) AS mean_amount, max(placed) AS last_order
FROM s GROUP BY city, shop HAVING count(*) > 1;
CREATE MATERIALIZED VIEW everything AS SELECT count(*) AS orders, sum(n) AS n, avg(score) AS mean FROM s;
CREATE MATERIALIZED VIEW by_day AS SELECT date_trunc('day', placed) AS day, [city, 'x'] AS list, sum(amount * 2) AS twice, count(ok) AS known FROM s GROUP BY ALL;
CREATE MATERIALIZED VIEW huge AS SELECT shop, sum(big) AS total, max(big) AS most FROM s GROUP BY shop;
CREATE MATERIALIZED VIEW logs AS SELECT shop, ln(sum(n)) AS l FROM s GROUP BY shop;
`

// most is the greatest number of 38 digits.
const most = "99999999999999999999999999999999999999"

// TestNodes has two appliances count half of the records each, and take two
// checkpoints.
func TestNodes(t *testing.T) {
	root := *emitNodes
	if root == "" {
		root = t.TempDir()
	}
	r := rand.New(rand.NewPCG(7, 11))
	var records []json.RawMessage
	for node := range 2 {
		b := newBed(t)
		b.topic("s", 2)
		b.must(nodesSQL)
		var batch []string
		send := func(recs ...string) {
			var sent []*devbroker.Record
			for _, rec := range recs {
				records = append(records, json.RawMessage(rec))
				sent = append(sent, &devbroker.Record{Topic: "s", Partition: int32(r.IntN(2)), Value: []byte(rec)})
			}
			b.send(sent...)
			b.caughtUp()
		}
		// The sum of shop 100 overflows where the nodes' are merged, that of 101 has
		// more digits than its column, that of 102 is 0.
		for shop, big := range []string{most, "60000000000000000000000000000000000000", []string{most, "-" + most}[node]} {
			send(fmt.Sprintf(`{"shop": %d, "big": %s}`, 100+shop, big))
		}
		for range 2000 {
			batch = append(batch, nodeRecord(t, r, 40))
		}
		send(batch...)
		b.query("CHECKPOINT")
		for i := range batch[:15] {
			batch[i] = nodeRecord(t, r, 2)
		}
		send(batch[:15]...)
		b.query("CHECKPOINT")
		dir := filepath.Join(b.dir, checkpointsDir)
		list, err := checkpoint.List(vfs.Default, dir)
		if err != nil || len(list) != 2 {
			t.Fatal(len(list), err)
		}
		answer, err := json.Marshal(b.query("SELECT * FROM sales AT (VERSION => 2)"))
		if err != nil {
			t.Fatal(err)
		}
		b.stop()
		for id := range 2 {
			from, to := checkpoint.Path(vfs.Default, dir, uint64(id+1)), filepath.Join(root, fmt.Sprintf("node%d", node), fmt.Sprintf("%08d", id+1))
			if err := os.CopyFS(to, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(root, fmt.Sprintf("node%d", node), "sales.json"), answer, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(records)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "records.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "views.sql"), []byte(nodesSQL), 0o644); err != nil {
		t.Fatal(err)
	}
}

// nodeRecord is one order: floats are whole, so that their sum is the same in
// any order.
func nodeRecord(t *testing.T, r *rand.Rand, shops int) string {
	maybe := func(v any) any {
		if r.IntN(8) == 0 {
			return nil
		}
		return v
	}
	shop := r.IntN(shops)
	n := json.Number(fmt.Sprint(r.IntN(9)))
	if shop == 39 {
		n = "-1" // ln fails
	}
	b, err := json.Marshal(map[string]any{
		"city": maybe([]string{"Paris", "Zürich", "", "Rome"}[r.IntN(4)]), "shop": shop, "amount": maybe(json.Number(fmt.Sprintf("%d.%02d", r.IntN(1000)-500, r.IntN(100)))),
		"score": maybe(float64(r.IntN(2001) - 1000)), "big": maybe(r.IntN(19) - 9), "n": maybe(n), "ok": maybe(r.IntN(3) > 0),
		"placed": fmt.Sprintf("2026-11-%02dT%02d:00:00", 1+r.IntN(5), r.IntN(24)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
