//go:build duckdb_arrow

package appliance

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"weir/appliance/devbroker"
	"weir/checkpoint"
	"weir/checkpoint/objectstore/fakes3"
	"weir/duckext"
)

// weir runs a command line.
func weir(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = Main(args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

// weirs runs one that must succeed and gives what it printed.
func weirs(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := weir(args...)
	if code != 0 {
		t.Fatalf("weir %q: exit status %d: %s%s", args, code, out, errs)
	}
	return out
}

// refusedWith runs one that must fail and say some words.
func refusedWith(t *testing.T, words string, args ...string) {
	t.Helper()
	code, out, errs := weir(args...)
	if code != exitError || !strings.Contains(errs, words) {
		t.Errorf("weir %q: exit status %d, not %d with %q: %s%s", args, code, exitError, words, out, errs)
	}
}

func saleSQL(topic string) string {
	return `
CREATE SOURCE orders (city VARCHAR, amount DECIMAL(12,2), big HUGEINT) WITH (connector = 'kafka', topic = '` + topic + `');
CREATE MATERIALIZED VIEW by_city AS SELECT city, count(*) AS orders, sum(amount) AS revenue, avg(amount) AS mean, max(big) AS top FROM orders GROUP BY city HAVING count(*) > 1;
CREATE MATERIALIZED VIEW total AS SELECT count(*) AS orders, sum(amount) AS revenue, sum(big) AS big FROM orders;
CREATE VIEW best AS SELECT city, revenue FROM by_city ORDER BY revenue DESC, city LIMIT 3;`
}

// A sale is a record of the shop.
type sale struct {
	city   string // "" is NULL
	amount string
	big    string
}

func sales(r *rand.Rand, n int) []sale {
	out := make([]sale, n)
	for i := range out {
		out[i] = sale{fmt.Sprintf("city %d", r.IntN(40)), fmt.Sprintf("%d.%02d", r.IntN(1000), r.IntN(100)), fmt.Sprint(r.Int64())}
		if r.IntN(20) == 0 {
			out[i].city = ""
		}
	}
	return out
}

func (s sale) values(null string, quote string) string {
	city := null
	if s.city != "" {
		city = quote + s.city + quote
	}
	return city + ", " + s.amount + ", " + s.big
}

func produce(b *bed, topic string, partition int32, list []sale) {
	var recs []*devbroker.Record
	for _, s := range list {
		city := "null"
		if s.city != "" {
			city = `"` + s.city + `"`
		}
		recs = append(recs, &devbroker.Record{Topic: topic, Partition: partition, Value: []byte(`{"city":` + city + `,"amount":` + s.amount + `,"big":` + s.big + `}`)})
	}
	b.send(recs...)
}

// batch is what DuckDB makes of records in one go, a CSV line a row, sorted.
func batch(t *testing.T, list []sale, sql string) []string {
	t.Helper()
	eng, err := duckext.Open(duckext.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	s, err := eng.Session()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var values []string
	for _, l := range list {
		values = append(values, "("+l.values("NULL", "'")+")")
	}
	if err := s.Exec("CREATE TABLE orders (city VARCHAR, amount DECIMAL(12,2), big HUGEINT)"); err != nil {
		t.Fatal(err)
	}
	if err := s.Exec("INSERT INTO orders VALUES " + strings.Join(values, ", ")); err != nil {
		t.Fatal(err)
	}
	rec, err := s.Query(t.Context(), "SELECT to_json(t)::VARCHAR FROM ("+sql+") t")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Release()
	var out []string
	for i := range int(rec.NumRows()) {
		out = append(out, rec.Column(0).ValueStr(i))
	}
	slices.Sort(out)
	return out
}

// asked is the answer to a query over a checkpoint, as DuckDB spells its rows.
func asked(t *testing.T, at, sql string) []string {
	t.Helper()
	out := weirs(t, "checkpoint", "query", "--format", "ndjson", at, "SELECT to_json(t)::VARCHAR AS j FROM ("+sql+") t")
	var rows []string
	for line := range strings.Lines(out) {
		var r struct{ J string }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r.J)
	}
	slices.Sort(rows)
	return rows
}

func sameRows(t *testing.T, what string, got, want []string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s:\n%s", what, d)
	}
}

const (
	byCity = "SELECT city, count(*) AS orders, sum(amount) AS revenue, avg(amount) AS mean, max(big) AS top FROM orders GROUP BY city HAVING count(*) > 1"
	total  = "SELECT count(*) AS orders, sum(amount) AS revenue, sum(big) AS big FROM orders"
)

// takenOf runs an appliance over a topic until it has counted all, takes a
// checkpoint, and stops it.
func takenOf(b *bed, sql string) string {
	b.t.Helper()
	b.must(sql)
	b.caughtUp()
	b.query("CHECKPOINT")
	b.stop()
	return filepath.Join(b.dir, checkpointsDir)
}

// Everything that works without an appliance, one after the other over one
// checkpoint and those made of it; the oracle is DuckDB over the records.
func TestOfflineTools(t *testing.T) {
	t.Parallel()
	r := newRand(57)
	b := newBed(t)
	b.topic("orders", 2)
	first := sales(r, 400)
	produce(b, "orders", 0, first[:250])
	produce(b, "orders", 1, first[250:])
	dir := takenOf(b, saleSQL("orders"))

	sameRows(t, "query", asked(t, b.dir, "FROM by_city"), batch(t, first, byCity))
	sameRows(t, "query of the global view", asked(t, dir, "FROM total"), batch(t, first, total))
	sameRows(t, "query of a plain view", asked(t, dir+"@1", "FROM best"), batch(t, first, "SELECT city, revenue FROM ("+byCity+") ORDER BY revenue DESC, city LIMIT 3"))
	refusedWith(t, `there is no view or source named "by_town"`, "checkpoint", "query", dir, "FROM by_town")
	refusedWith(t, "is a source", "checkpoint", "query", dir, "FROM orders")
	refusedWith(t, "read_csv", "checkpoint", "query", dir, "FROM read_csv('/etc/passwd')")
	refusedWith(t, "holds no checkpoint", "checkpoint", "query", t.TempDir(), "SELECT 1")
	refusedWith(t, "does not exist", "checkpoint", "show", filepath.Join(dir, "00000009"))
	refusedWith(t, `there is no savepoint "nine"`, "checkpoint", "show", dir+"@nine")
	for _, args := range [][]string{{"show", dir + "@99"}, {"query", dir + "@99", "FROM total"}, {"query", dir, "FROM total AT (VERSION => 99)"}} {
		refusedWith(t, "there is no checkpoint 99; there are: 1", append([]string{"checkpoint"}, args...)...)
	}

	// The export is SELECT * in CSV, and all columns of the file in Arrow.
	rows, err := csv.NewReader(strings.NewReader(weirs(t, "checkpoint", "export", dir, "--view", "by_city"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if want := batch(t, first, byCity); len(rows) != len(want)+1 || strings.Join(rows[0], " ") != "city orders revenue mean top" {
		t.Errorf("export has %d rows under %q, not %d", len(rows)-1, rows[0], len(want))
	}
	file := filepath.Join(t.TempDir(), "all.arrow")
	weirs(t, "checkpoint", "export", dir, "--view", "by_city", "--format", "arrow", "--all-columns", "-o", file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rd, err := ipc.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	groups := int64(0)
	for rd.Next() {
		groups += rd.RecordBatch().NumRows()
	}
	if n := len(batch(t, first, "SELECT DISTINCT city FROM orders")); groups != int64(n) || len(rd.Schema().FieldIndices("__slot")) != 1 {
		t.Errorf("%d groups of %d, columns %s", groups, n, rd.Schema())
	}

	// A transform is the same as the records without those that it takes away.
	kept := slices.DeleteFunc(slices.Clone(first), func(s sale) bool { return s.city == "city 3" })
	out := weirs(t, "checkpoint", "transform", dir, "--name", "no city 3", "--sql", "DELETE FROM by_city WHERE city = 'city 3'")
	if !strings.Contains(out, "1 row: DELETE") || !strings.Contains(out, "removed 1, changed 0") || strings.Contains(out, "view total") {
		t.Errorf("transform says: %s", out)
	}
	sameRows(t, "DELETE", asked(t, dir+"@no city 3", "FROM by_city"), batch(t, kept, byCity))
	sameRows(t, "a view that was not touched", asked(t, dir+"@no city 3", "FROM total"), batch(t, first, total))

	// Keys that change find their place, and a SELECT may merge groups.
	weirs(t, "checkpoint", "transform", dir+"@1", "--name", "renamed", "--sql", "UPDATE by_city SET city = 'town ' || city WHERE city > 'city 2'")
	renamed := slices.Clone(first)
	for i := range renamed {
		if renamed[i].city > "city 2" {
			renamed[i].city = "town " + renamed[i].city
		}
	}
	sameRows(t, "UPDATE of keys", asked(t, dir+"@renamed", "FROM by_city"), batch(t, renamed, byCity))
	weirs(t, "checkpoint", "transform", dir+"@1", "--name", "fewer", "--select",
		`by_city=SELECT left(city, 6) AS city, sum(orders)::BIGINT AS orders, sum(revenue)::DECIMAL(38,2) AS revenue, max(top) AS top, sum(__count_amount)::BIGINT AS __count_amount FROM by_city GROUP BY 1`)
	fewer := slices.Clone(first)
	for i := range fewer {
		fewer[i].city = fewer[i].city[:min(6, len(fewer[i].city))]
	}
	sameRows(t, "a SELECT that groups", asked(t, dir+"@fewer", "FROM by_city"), batch(t, fewer, byCity))
}

// The SQL of a transform is refused when it would make a state that lies.
func TestTransformRefusesByName(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 1)
	produce(b, "orders", 0, []sale{{"Paris", "1.50", "1"}, {"Paris", "2.50", "2"}, {"Rome", "1.00", "3"}, {"Rome", "1.00", "3"}})
	dir := takenOf(b, saleSQL("orders"))
	sql := func(words, stmt string) {
		t.Helper()
		refusedWith(t, words, "checkpoint", "transform", dir, "--name", "x", "--sql", stmt)
	}
	sel := func(words, arg string) {
		t.Helper()
		refusedWith(t, words, "checkpoint", "transform", dir, "--name", "x", "--select", arg)
	}
	sql("orders is NULL where city = Paris: a count is never NULL", "UPDATE by_city SET orders = NULL WHERE city = 'Paris'")
	sql("a count is never negative", "UPDATE by_city SET orders = -1")
	sql("two rows have the key city = Paris", "UPDATE by_city SET city = 'Paris'")
	sql("a view without GROUP BY has one row, and this would have 0", "DELETE FROM total")
	sql("nothing would change", "UPDATE by_city SET revenue = revenue WHERE city = 'Paris'")
	sql("it touches no row", "DELETE FROM by_city WHERE city = 'Prais'")
	sql("mean", "UPDATE by_city SET mean = 3")
	sql("no UPDATE, DELETE or INSERT", "DROP TABLE by_city")
	sql("file system operations are disabled", "COPY by_city TO '/tmp/x'")
	sql("by_town", "DELETE FROM by_town")
	sql("Could not convert string 'many'", "UPDATE by_city SET orders = 'many'")
	sql("it is the number of a commit", "UPDATE by_city SET __epoch = 1000000, orders = 7")
	sel("column mean is none of the state", "by_city=SELECT *, 1.0 AS mean FROM by_city")
	sel("column orders is INTEGER and the state keeps BIGINT: cast it", "by_city=SELECT * REPLACE (1 AS orders) FROM by_city")
	sel("is missing", "by_city=SELECT city FROM by_city")
	sel("there is no materialized view by_town", "by_town=SELECT 1 AS x")
	refusedWith(t, "view total is given twice", "checkpoint", "transform", dir, "--name", "x", "--select", "total=SELECT * FROM total", "--select", "TOTAL=SELECT * FROM total")
	refusedWith(t, "view total is given twice", "checkpoint", "transform", dir, "--name", "x", "--select", "total=SELECT orders, revenue, big FROM total",
		"--select", "by_city=SELECT c.* FROM by_city AS c, total AS t WHERE t.__error IS NULL", "--select", "total=SELECT * FROM total")
	// The name is looked at first: these statements would be refused, too.
	for name, words := range map[string]string{"a\tb": "name of a savepoint", "live": "the present", "1": "a number", "2026-01-31 12:00:00": "a point in time", "a/b": "no slash"} {
		refusedWith(t, words, "checkpoint", "transform", dir, "--name", name, "--sql", "nonsense")
		refusedWith(t, words, "checkpoint", "merge", dir, dir, "--into", dir, "--name", name)
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 2 { // the checkpoint and the lock
		t.Errorf("a refused transform left something: %v %v", list, err)
	}

	// An appliance that runs there numbers its own checkpoints.
	b.must(saleSQL("orders"))
	sql("is in use: an appliance runs on it", "DELETE FROM by_city WHERE city = 'Paris'")
	into := t.TempDir()
	weirs(t, "checkpoint", "transform", dir, "--name", "x", "--into", into, "--sql", "DELETE FROM by_city WHERE city = 'Paris'")
	refusedWith(t, "already exists", "checkpoint", "transform", dir, "--name", "x", "--into", into, "--sql", "nonsense")
}

// What a transform made beside checkpoints is none of the moments that they hold.
func TestTransformIsNotTheNewest(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 1)
	produce(b, "orders", 0, []sale{{"Paris", "1.50", "1"}, {"Paris", "2.50", "2"}, {"Rome", "1.00", "3"}})
	sql := saleSQL("orders")
	dir := takenOf(b, sql)
	into := t.TempDir()
	for _, to := range []string{dir, into} {
		weirs(t, "checkpoint", "transform", dir, "--name", "less", "--into", to, "--sql", "UPDATE total SET orders = 1")
	}
	is := func(at, from, want string) {
		t.Helper()
		sameRows(t, at+" "+from, asked(t, at, "SELECT orders FROM total"+from), []string{`{"orders":` + want + `}`})
	}
	is(dir, "", "3")
	is(b.dir, "", "3")
	is(dir, " AT (TIMESTAMP => now() + INTERVAL 1 DAY)", "3")
	is(dir+"@less", "", "1")
	is(dir+"@2", "", "1")
	is(into+"@less", "", "1")
	refusedWith(t, `made by transform or merge, and is meant by its number or name only; there are: 1 (savepoint "less")`, "checkpoint", "query", into, "FROM total")
	refusedWith(t, "made by transform or merge", "checkpoint", "query", into+"@less", "FROM total AT (TIMESTAMP => now() + INTERVAL 1 DAY)")

	b.must(sql)
	for from, want := range map[string]string{"AT (TIMESTAMP => now() + INTERVAL 1 DAY)": "3\n", "AT (VERSION => 2)": "1\n"} {
		if got := b.rows("SELECT orders FROM total " + from); got != want {
			t.Errorf("%s: %q, not %q", from, got, want)
		}
	}
	b.stop()
	b.lose()
	b.restoring("99", "")
	b.refused(`there is no checkpoint 99; there are: 2 (savepoint "less"), 1`, sql)
	b.restoring("", into)
	b.refused("start with --restore 1 to go on from it", sql)
	b.restoring("newest", into)
	b.refused("made by transform or merge", sql)
	b.restoring("newest", "")
	b.must(sql)
	b.caughtUp()
	if got := b.rows("SELECT orders FROM total"); got != "3\n" {
		t.Errorf("restored: %q", got)
	}
}

// An appliance goes on from a transform: what it counts comes on top, and VERIFY
// VIEW knows that the groups are not what the topic makes.
func TestTransformIsResumed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 1)
	list := sales(newRand(14), 300)
	produce(b, "orders", 0, list)
	sql := saleSQL("orders")
	dir := takenOf(b, sql)
	weirs(t, "checkpoint", "transform", dir, "--name", "fewer", "--sql", "DELETE FROM by_city WHERE city IS NULL OR city < 'city 2'")
	kept := slices.DeleteFunc(slices.Clone(list), func(s sale) bool { return s.city < "city 2" })
	b.dir = filepath.Join(t.TempDir(), "new")
	weirs(t, "restore", "--from", dir+"@fewer", "--data", b.dir)
	more := sales(newRand(15), 300)
	produce(b, "orders", 0, more)
	b.must(sql)
	b.caughtUp()
	b.verified("total")
	if _, err := b.run.client.Query(t.Context(), "VERIFY VIEW by_city"); err == nil || !strings.Contains(err.Error(), "its groups were edited") {
		t.Errorf("VERIFY VIEW of an edited view: %v", err)
	}
	b.query("CHECKPOINT")
	again := sales(newRand(16), 100)
	produce(b, "orders", 0, again)
	b.caughtUp()
	b.verified("by_city")
	b.query("CREATE SAVEPOINT 'end'")
	b.stop()
	sameRows(t, "by_city", asked(t, b.dir+"@end", "FROM by_city"), batch(t, slices.Concat(kept, more, again), byCity))
	sameRows(t, "total", asked(t, b.dir+"@end", "FROM total"), batch(t, slices.Concat(list, more, again), total))
}

// A group whose sum overflowed stays in error, and is repaired only by saying so.
func TestTransformOfAGroupInError(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 1)
	huge := "170141183460469231731687303715884105727"
	produce(b, "orders", 0, []sale{{"Paris", "1.00", huge}, {"Paris", "1.00", "1"}, {"Rome", "1.00", "2"}})
	dir := takenOf(b, `CREATE SOURCE orders (city VARCHAR, amount DECIMAL(12,2), big HUGEINT) WITH (connector = 'kafka', topic = 'orders');
CREATE MATERIALIZED VIEW sums AS SELECT city, sum(big) AS big FROM orders GROUP BY city;`)
	refusedWith(t, "the group city = Paris is in error", "checkpoint", "query", dir, "FROM sums")
	refusedWith(t, "the group city = Paris is in error", "checkpoint", "export", dir, "--view", "sums")
	refusedWith(t, "view sums has 1 groups in error: the SELECT must give __error, too", "checkpoint", "transform", dir, "--name", "x", "--select", "sums=SELECT city, big FROM sums")
	weirs(t, "checkpoint", "transform", dir, "--name", "kept", "--sql", "UPDATE sums SET big = 7 WHERE city = 'Rome'")
	refusedWith(t, "the group city = Paris is in error", "checkpoint", "query", dir+"@kept", "FROM sums")
	weirs(t, "checkpoint", "transform", dir+"@kept", "--name", "repaired", "--sql", "UPDATE sums SET big = 8, __error = NULL WHERE __error IS NOT NULL")
	sameRows(t, "repaired", asked(t, dir+"@repaired", "FROM sums"), []string{`{"city":"Paris","big":8}`, `{"city":"Rome","big":7}`})
}

// Two appliances that have read a topic each, merged, are DuckDB over the union.
func TestMergeIsTheUnionOfRecords(t *testing.T) {
	t.Parallel()
	r := newRand(68)
	var all []sale
	var dirs []string
	var keep []*bed
	for range 2 {
		b := newBed(t)
		b.topic("orders", 2)
		list := sales(r, 300)
		all = append(all, list...)
		produce(b, "orders", 0, list[:100])
		produce(b, "orders", 1, list[100:])
		dirs, keep = append(dirs, takenOf(b, saleSQL("orders"))), append(keep, b)
	}
	into := t.TempDir()
	out := weirs(t, "checkpoint", "merge", dirs[0], dirs[1], "--into", into, "--name", "both")
	if !strings.Contains(out, "no appliance can go on from it: source orders stands in the topics orders") {
		t.Error(out)
	}
	sameRows(t, "by_city", asked(t, into+"@1", "FROM by_city"), batch(t, all, byCity))
	sameRows(t, "total", asked(t, into+"@both", "FROM total"), batch(t, all, total))
	refusedWith(t, "records would be counted twice", "checkpoint", "merge", dirs[0], dirs[0], "--into", into, "--name", "twice")
	refusedWith(t, "can be queried, not resumed", "restore", "--from", into+"@both", "--data", filepath.Join(t.TempDir(), "new"))
	code, diff, errs := weir("checkpoint", "diff", dirs[0], into+"@both", "--summary")
	if code != exitDiffers || !strings.Contains(diff, "view total: 0 added, 0 removed, 1 changed, 0 the same") {
		t.Errorf("diff: exit status %d: %s%s", code, diff, errs)
	}
	if code, diff, errs := weir("checkpoint", "diff", dirs[0], dirs[0]+"@1"); code != 0 {
		t.Errorf("diff with itself: exit status %d: %s%s", code, diff, errs)
	}
	_ = keep
}

// What ls, show, verify and diff print.
func TestCheckpointVerbsPrint(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 1)
	produce(b, "orders", 0, []sale{{"Paris", "1.50", "1"}, {"Paris", "2.50", "2"}, {"Rome", "1.00", "3"}})
	dir := takenOf(b, saleSQL("orders"))
	weirs(t, "checkpoint", "transform", dir, "--name", "fixed", "--sql", "UPDATE by_city SET revenue = 5 WHERE city = 'Paris'", "--sql", "DELETE FROM by_city WHERE city = 'Rome'")
	var l listed
	lines := strings.Split(strings.TrimSpace(weirs(t, "checkpoint", "ls", "--json", b.dir)), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &l); err != nil || len(lines) != 2 {
		t.Fatal(lines, err)
	}
	if l.Checkpoint != 2 || l.Savepoint != "fixed" || !l.Edited || l.Groups != 2 || !slices.Equal(l.Views, []string{"by_city", "total"}) {
		t.Errorf("ls: %+v", l)
	}
	code, out, errs := weir("checkpoint", "diff", dir+"@1", dir+"@fixed")
	want := "~ city = Paris: revenue 4.00 -> 5.00\n- city = Rome: orders 1 revenue 1.00 __count_amount 1 top 3\nview by_city: 0 added, 1 removed, 1 changed, 0 the same\nview total: 0 added, 0 removed, 0 changed, 1 the same\n"
	sorted := strings.SplitAfter(out, "\n")
	if len(sorted) > 1 && sorted[0] > sorted[1] { // the order of slots
		sorted[0], sorted[1] = sorted[1], sorted[0]
	}
	wanted := strings.SplitAfter(want, "\n")
	slices.Sort(sorted)
	slices.Sort(wanted)
	if code != exitDiffers || !slices.Equal(sorted, wanted) {
		t.Errorf("diff: exit status %d:\n%s%s", code, out, errs)
	}
	text := weirs(t, "checkpoint", "show", dir+"@fixed")
	for _, s := range []string{"savepoint fixed", "by transform of checkpoint 1", "UPDATE by_city SET revenue = 5", "position", "column revenue", "merges by add"} {
		if !strings.Contains(text, s) {
			t.Errorf("show does not say %q:\n%s", s, text)
		}
	}
	var m checkpoint.Manifest
	if err := json.Unmarshal([]byte(weirs(t, "checkpoint", "show", "--json", dir+"@2")), &m); err != nil || m.Checkpoint != 2 {
		t.Error(m.Checkpoint, err)
	}
	if out := weirs(t, "checkpoint", "verify", b.dir); strings.Count(out, ": whole, 2 views") != 2 {
		t.Error(out)
	}
	// One flipped bit is found and named.
	v, _ := m.View("by_city")
	path := filepath.Join(checkpointPath(dir, 2), filepath.FromSlash(v.File.Name))
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)/2] ^= 4
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, path+": damaged", "checkpoint", "verify", dir)
	refusedWith(t, "damaged", "checkpoint", "export", dir+"@2", "--view", "by_city")
	refusedWith(t, "damaged", "restore", "--from", dir+"@2", "--data", filepath.Join(t.TempDir(), "new"))

	// When the newest cannot be read, an older one does not stand in for it.
	flip(t, filepath.Join(checkpointPath(dir, 2), checkpoint.ManifestName))
	refusedWith(t, "the newest checkpoint cannot be read", "checkpoint", "query", dir, "FROM total")
	weirs(t, "checkpoint", "query", dir+"@1", "FROM total")
	if code, out, errs := weir("checkpoint", "ls", "--json", dir); code != exitError || strings.Count(out, "\n") != 1 || !strings.Contains(errs, "00000002") {
		t.Errorf("ls: %d %s%s", code, out, errs)
	}
}

func checkpointPath(dir string, id int) string { return filepath.Join(dir, fmt.Sprintf("%08d", id)) }

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// A bundle is one file that opens without Kafka, read only, and resumes elsewhere.
func TestBundle(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 1)
	list := sales(newRand(9), 100)
	produce(b, "orders", 0, list)
	b.send(&devbroker.Record{Topic: "orders", Value: []byte("no JSON")})
	sql := saleSQL("orders")
	dir := takenOf(b, sql)
	file := filepath.Join(t.TempDir(), "hand over.weir")
	weirs(t, "bundle", "--from", dir, "-o", file)
	refusedWith(t, "already exists", "bundle", "--from", dir, "-o", file)
	if code, _, errs := weir("bundle", "--from", dir, "-o", file+".zip"); code != exitUsage {
		t.Errorf("a bundle of another name: %d %s", code, errs)
	}
	sameRows(t, "query of the bundle", asked(t, file, "FROM by_city"), batch(t, list, byCity))
	refusedWith(t, "a bundle is not written to", "checkpoint", "transform", file, "--name", "x", "--sql", "DELETE FROM by_city")

	// Without a broker.
	b.away()
	run, _ := opened(t, file)
	ask := func(sql string) string {
		res, err := run.client.Query(t.Context(), sql)
		if err != nil {
			return refusalText(err)
		}
		return rowsText(res)
	}
	if got := ask("SELECT orders FROM total"); got != "100\n" {
		t.Error(got)
	}
	if got := ask("SELECT count(*) FROM best"); got != "3\n" {
		t.Error(got)
	}
	for _, sql := range []string{"DROP VIEW best", "CHECKPOINT", "CREATE SAVEPOINT 'x'", "VERIFY VIEW total", "CREATE VIEW v AS SELECT 1 AS one", "FROM orders"} {
		if got := ask(sql); !strings.Contains(got, "this is read only: weir open shows checkpoint 1 of") {
			t.Errorf("%s: %s", sql, got)
		}
	}
	if code, body, err := run.get("/readyz"); err != nil || code != 200 || !strings.Contains(body, "RUNNING") {
		t.Errorf("%d %s %v", code, body, err)
	}
	if _, body, err := run.get("/api/v1/status"); err != nil || !strings.Contains(body, `"read_only":"checkpoint 1 of `) {
		t.Errorf("%s %v", body, err)
	}
	if _, body, err := run.get("/api/v1/sources"); err != nil || !strings.Contains(body, "this is read only") {
		t.Errorf("%s %v", body, err)
	}
	if recs, err := run.refused(t.Context(), "orders"); err != nil || len(recs) != 1 || string(recs[0].Value) != "no JSON" {
		t.Errorf("quarantine: %v %v", recs, err)
	}

	// One flipped bit anywhere is an error that names the file.
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := newRand(10)
	for range 60 {
		bad := slices.Clone(whole)
		at := r.IntN(len(bad))
		bad[at] ^= 1 << r.IntN(8)
		name := filepath.Join(t.TempDir(), "bad.weir")
		if err := os.WriteFile(name, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		code, out, errs := weir("checkpoint", "query", "--format", "csv", name, "SELECT sum(orders), sum(revenue), sum(hash(city::VARCHAR, mean, top)::HUGEINT) FROM by_city")
		if code != 0 && !strings.Contains(errs, "bad.weir") {
			t.Errorf("bit flipped in byte %d: %s", at, errs)
		}
		if code == 0 && out != weirs(t, "checkpoint", "query", "--format", "csv", file, "SELECT sum(orders), sum(revenue), sum(hash(city::VARCHAR, mean, top)::HUGEINT) FROM by_city") {
			t.Errorf("bit flipped in byte %d: another answer: %s", at, out)
		}
	}
	for _, n := range []int{0, 1, 100, len(whole) / 2, len(whole) - 1} {
		name := filepath.Join(t.TempDir(), "cut.weir")
		if err := os.WriteFile(name, whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		refusedWith(t, "cut.weir", "checkpoint", "show", name)
	}
}

// What was restored from a bundle goes on where the other stood.
func TestBundleIsResumed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 1)
	produce(b, "orders", 0, sales(newRand(11), 100))
	sql := saleSQL("orders")
	dir := takenOf(b, sql)
	file := filepath.Join(t.TempDir(), "x.weir")
	weirs(t, "bundle", "--from", dir+"@1", "-o", file)
	produce(b, "orders", 0, sales(newRand(12), 100))
	b.dir = filepath.Join(t.TempDir(), "new")
	weirs(t, "restore", "--from", file, "--data", b.dir)
	b.must(sql)
	b.caughtUp()
	b.verified("by_city")
	if got := b.rows("SELECT orders FROM total"); got != "200\n" {
		t.Error(got)
	}
}

// A checkpoint of a base and deltas is queried, bundled, transformed and compacted
// like one that is whole.
func TestOfflineToolsOverDeltas(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("orders", 1)
	list := sales(newRand(13), 2000)
	for i := range list {
		list[i].city = fmt.Sprint("town ", i)
	}
	produce(b, "orders", 0, list)
	b.must(saleSQL("orders"))
	b.caughtUp()
	dir := filepath.Join(b.dir, checkpointsDir)
	take := func() { // as the appliance does, but of small views, too
		t.Helper()
		if _, err := b.run.store.Mark(t.Context()); err != nil {
			t.Fatal(err)
		}
		sn, err := b.run.store.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		defer sn.Close()
		if _, err := checkpoint.Write(t.Context(), vfs.Default, dir, sn, finalizer{b.run.engine, b.run.guard}, checkpoint.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	take()
	more := list[:10]
	produce(b, "orders", 0, more)
	b.caughtUp()
	take()
	b.stop()
	if v, _ := manifestOf(t, dir, 2).View("by_city"); v.Whole() {
		t.Fatal("the second checkpoint has no delta to test with")
	}
	all := append(slices.Clone(list), more...)
	sameRows(t, "query", asked(t, dir+"@2", "FROM by_city"), batch(t, all, byCity))
	file := filepath.Join(t.TempDir(), "x.weir")
	weirs(t, "bundle", "--from", dir+"@2", "-o", file)
	sameRows(t, "bundle", asked(t, file, "FROM by_city"), batch(t, all, byCity))
	weirs(t, "checkpoint", "transform", file, "--into", dir, "--name", "x", "--sql", "DELETE FROM by_city WHERE city = 'town 3'")
	sameRows(t, "transform", asked(t, dir+"@x", "FROM by_city"), batch(t, slices.DeleteFunc(slices.Clone(all), func(s sale) bool { return s.city == "town 3" }), byCity))
	code, out, errs := weir("checkpoint", "diff", "--summary", dir+"@1", dir+"@2")
	if code != exitDiffers || !strings.Contains(out, "view by_city: 0 added, 0 removed, 10 changed, 1990 the same") {
		t.Errorf("diff: %d %s%s", code, out, errs)
	}
	weirs(t, "checkpoint", "compact", dir+"@2")
	if v, _ := manifestOf(t, dir, 2).View("by_city"); !v.Whole() {
		t.Error("compact left deltas")
	}
	sameRows(t, "compacted", asked(t, dir+"@2", "FROM by_city"), batch(t, all, byCity))
	refusedWith(t, "a bundle is not written to", "checkpoint", "compact", file)
}

// The same verbs over checkpoints that are in object storage.
func TestOfflineToolsOverObjectStorage(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", fakes3.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", fakes3.SecretKey)
	place := fakes3.Start(t).Location("team/weir")
	b := newBed(t)
	b.config = func(c *config) { c.Checkpoints = place }
	b.topic("orders", 1)
	list := sales(newRand(17), 200)
	produce(b, "orders", 0, list)
	sql := saleSQL("orders")
	takenOf(b, sql)
	sameRows(t, "query", asked(t, place, "FROM by_city"), batch(t, list, byCity))
	weirs(t, "checkpoint", "transform", place+"@1", "--name", "x", "--sql", "DELETE FROM by_city WHERE city = 'city 3'")
	sameRows(t, "transform", asked(t, place+"@x", "FROM by_city"), batch(t, slices.DeleteFunc(slices.Clone(list), func(s sale) bool { return s.city == "city 3" }), byCity))
	if out := weirs(t, "checkpoint", "ls", "--json", place); strings.Count(out, "\n") != 2 {
		t.Errorf("ls: %s", out)
	}
	if out := weirs(t, "checkpoint", "verify", place); strings.Count(out, ": whole, 2 views") != 2 {
		t.Errorf("verify: %s", out)
	}
	if code, out, errs := weir("checkpoint", "diff", "--summary", place+"@1", place+"@x"); code != exitDiffers || !strings.Contains(out, "view by_city: 0 added, 1 removed") {
		t.Errorf("diff: %d %s%s", code, out, errs)
	}
	file := filepath.Join(t.TempDir(), "x.weir")
	weirs(t, "bundle", "--from", place+"@1", "-o", file)
	sameRows(t, "bundle", asked(t, file, "FROM total"), batch(t, list, total))
	refusedWith(t, `there is no savepoint "y"`, "checkpoint", "show", place+"@y")

	// A machine that has nothing but the place.
	b.dir = t.TempDir()
	b.refused("holds checkpoints: start with --restore newest", sql)
	b.config = func(c *config) { c.Checkpoints, c.Restore = place, "1" }
	b.must(sql)
	b.caughtUp()
	b.verified("by_city")
	b.stop()
	data := filepath.Join(t.TempDir(), "new")
	weirs(t, "restore", "--from", place+"@1", "--data", data)
}

// opened is what weir open shows of a bundle, until the test ends, and how it was
// configured.
func opened(t *testing.T, file string) (*running, config) {
	t.Helper()
	data := t.TempDir()
	what, taken, err := (&openCmd{From: file}).unpack(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(data, "")
	cfg.shown, cfg.taken = what, taken
	run, err := launch(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run.stop(); err != nil {
			t.Error("stop:", err)
		}
	})
	return run, cfg
}
