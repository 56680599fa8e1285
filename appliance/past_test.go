//go:build duckdb_arrow

package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"weir/appliance/devbroker"
	"weir/checkpoint"
	"weir/checkpoint/objectstore"
	"weir/checkpoint/objectstore/fakes3"
	"weir/duckext"
	"weir/queryable"
	"weir/state"
)

const pastViews = `
CREATE SOURCE o (k VARCHAR, n INTEGER, f DOUBLE, ts TIMESTAMP, amount DECIMAL(12,2), x BIGINT, ok BOOLEAN)
WITH (connector = 'kafka', topic = 'o', format = 'json');
CREATE MATERIALIZED VIEW v AS
SELECT k, n, f, time_bucket(INTERVAL '1 hour', ts) AS hour, count(*) AS records, count(x) AS xs, sum(x) AS total, sum(amount) AS amount,
       avg(x) AS mean, min(x) AS least, max(ts) AS last, bool_or(ok) AS ok, min(k) AS change, max(n) AS "max n"
FROM o GROUP BY k, n, f, hour;
CREATE MATERIALIZED VIEW h AS SELECT k, count(*) AS records, sum(amount) AS amount FROM o GROUP BY k HAVING count(*) % 3 <> 0;
CREATE MATERIALIZED VIEW g AS SELECT count(*) AS records, max(x) AS x FROM o;
`

// pastSelects are the views over records, with their keys.
var pastSelects = map[string]struct{ keys, sql string }{
	"v": {"k, n, f, hour", `SELECT k, n, f, time_bucket(INTERVAL '1 hour', ts) AS hour, count(*) AS records, count(x) AS xs, sum(x) AS total, sum(amount) AS amount,
		avg(x) AS mean, min(x) AS least, max(ts) AS last, bool_or(ok) AS ok, min(k) AS change_, max(n) AS "max n" FROM r WHERE off < %d GROUP BY k, n, f, hour`},
	"h": {"k", "SELECT k, count(*) AS records, sum(amount) AS amount FROM r WHERE off < %d GROUP BY k HAVING count(*) %% 3 <> 0"},
	"g": {"", "SELECT count(*) AS records, max(x) AS x FROM r WHERE off < %d"},
}

// pastRecord is a record, as JSON and as a row of SQL.
func pastRecord(r *rand.Rand, off int) (doc, row string) {
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	values := []string{
		pick(`"Paris"`, `"Oslo"`, `"it's"`, `""`, "null"), pick("1", "2", "null"), pick("0.0", "-0.0", "1.5", "null"),
		pick(`"2026-01-31T10:05:00"`, `"2026-01-31T10:55:00"`, `"2026-01-31T11:00:00"`, "null"),
		pick(`"0.01"`, `"-3.50"`, `"9999999999.99"`, "null"), pick("9223372036854775807", "-9223372036854775808", "7", "null"), pick("true", "false", "null"),
	}
	var members, cells []string
	for i, name := range []string{"k", "n", "f", "ts", "amount", "x", "ok"} {
		members = append(members, fmt.Sprintf("%q:%s", name, values[i]))
		cell := values[i]
		if strings.HasPrefix(cell, `"`) {
			cell = "'" + strings.ReplaceAll(strings.Trim(cell, `"`), "'", "''") + "'"
		}
		cells = append(cells, cell)
	}
	return "{" + strings.Join(members, ",") + "}", fmt.Sprintf("(%d, %s)", off, strings.Join(cells, ", "))
}

// oracle is DuckDB over all records.
type oracle struct {
	t *testing.T
	s *duckext.Session
}

func newOracle(t *testing.T, rows []string) oracle {
	t.Helper()
	s, err := openEngine(t).Session()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for _, sql := range []string{
		"CREATE TABLE r (off BIGINT, k VARCHAR, n INTEGER, f DOUBLE, ts TIMESTAMP, amount DECIMAL(12,2), x BIGINT, ok BOOLEAN)",
		"INSERT INTO r VALUES " + strings.Join(rows, ", "),
		"UPDATE r SET f = 0.0 WHERE f = 0.0", // as keys are shown
	} {
		if err := s.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	return oracle{t, s}
}

// texts are the rows of a query, every value as DuckDB prints it, sorted.
func (o oracle) texts(sql string) []string {
	o.t.Helper()
	rec, err := o.s.Query(o.t.Context(), "SELECT CAST(COLUMNS(*) AS VARCHAR) FROM ("+sql+")")
	if err != nil {
		o.t.Fatalf("%s: %v", sql, err)
	}
	var lines []string
	for i := range int(rec.NumRows()) {
		var cells []string
		for j, f := range rec.Schema().Fields() {
			cell := "null"
			if c := rec.Column(j).(*array.String); c.IsValid(i) {
				b, _ := json.Marshal(c.Value(i))
				cell = string(b)
			}
			cells = append(cells, f.Name+"="+cell)
		}
		lines = append(lines, strings.Join(cells, " "))
	}
	slices.Sort(lines)
	return lines
}

// texts are the rows of a query to the appliance, likewise.
func (b *bed) texts(sql string) []string {
	b.t.Helper()
	res := b.query("SELECT CAST(COLUMNS(*) AS VARCHAR) FROM (" + sql + ")")
	var lines []string
	for _, row := range res.Rows {
		var cells []string
		for j, c := range res.Columns {
			var v any
			if err := json.Unmarshal(row[j], &v); err != nil {
				b.t.Fatal(err)
			}
			cell, _ := json.Marshal(v)
			cells = append(cells, c.Name+"="+string(cell))
		}
		lines = append(lines, strings.Join(cells, " "))
	}
	slices.Sort(lines)
	return lines
}

// diffSQL is what state_diff should show of a view over records up to two offsets.
func (o oracle) diffSQL(view string, from, to int) string {
	s := pastSelects[view]
	a, b := fmt.Sprintf(s.sql, from), fmt.Sprintf(s.sql, to)
	rec, err := o.s.Query(o.t.Context(), a+" LIMIT 0")
	if err != nil {
		o.t.Fatal(err)
	}
	types, err := o.s.Query(o.t.Context(), "SELECT column_type FROM (DESCRIBE "+a+")")
	if err != nil {
		o.t.Fatal(err)
	}
	keys := strings.FieldsFunc(s.keys, func(r rune) bool { return r == ',' || r == ' ' })
	on, out, differ := []string{"true"}, []string{}, []string{"false"}
	for _, k := range keys {
		on = append(on, fmt.Sprintf("a.%s IS NOT DISTINCT FROM b.%[1]s", k))
		out = append(out, fmt.Sprintf("CASE WHEN a.here THEN a.%s ELSE b.%[1]s END AS %[1]s", k))
	}
	for i, f := range rec.Schema().Fields() {
		if slices.Contains(keys, f.Name) {
			continue
		}
		name := strings.TrimSuffix(f.Name, "_")
		q := quoteName(f.Name)
		differ = append(differ, fmt.Sprintf("a.%s IS DISTINCT FROM b.%[1]s", q))
		out = append(out, fmt.Sprintf("a.%s AS %s, b.%[1]s AS %[3]s", q, quoteName(name+"_before"), quoteName(name+"_after")))
		switch t := types.Column(0).(*array.String).Value(i); {
		case t == "BIGINT" || t == "INTEGER":
			out = append(out, fmt.Sprintf("b.%s::HUGEINT - a.%[1]s::HUGEINT AS %s", q, quoteName(name+"_delta")))
		case t == "HUGEINT" || t == "DOUBLE" || strings.HasPrefix(t, "DECIMAL"):
			out = append(out, fmt.Sprintf("b.%s - a.%[1]s AS %s", q, quoteName(name+"_delta")))
		}
	}
	return fmt.Sprintf(`SELECT CASE WHEN a.here IS NULL THEN 'added' WHEN b.here IS NULL THEN 'removed' ELSE 'changed' END AS change, %s, CAST(NULL AS VARCHAR) AS error
		FROM (SELECT true AS here, * FROM (%s)) a FULL JOIN (SELECT true AS here, * FROM (%s)) b ON %s
		WHERE a.here IS NULL OR b.here IS NULL OR %s`, strings.Join(out, ", "), a, b, strings.Join(on, " AND "), strings.Join(differ, " OR "))
}

// TestPastIsWhatDuckDBComputes compares states, differences and histories with
// DuckDB over the records up to each checkpoint.
func TestPastIsWhatDuckDBComputes(t *testing.T) {
	b := newBed(t)
	b.topic("o", 1)
	b.must(pastViews)
	r := rand.New(rand.NewPCG(7, 7))
	var rows []string
	ends := []int{0} // by version: how many records it is of
	for _, n := range []int{40, 3, 25} {
		var recs []*devbroker.Record
		for range n {
			doc, row := pastRecord(r, len(rows))
			recs = append(recs, &devbroker.Record{Topic: "o", Value: []byte(doc)})
			rows = append(rows, row)
		}
		b.send(recs...)
		b.caughtUp()
		b.query(fmt.Sprintf("CREATE SAVEPOINT 's%d'", len(ends)))
		ends = append(ends, len(rows))
	}
	o := newOracle(t, rows)
	check := func(what string, got, want []string) {
		t.Helper()
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-DuckDB +Weir):\n%s", what, d)
		}
	}
	some := 0
	for view, s := range pastSelects {
		for i := 1; i < len(ends); i++ {
			at := strings.ReplaceAll(fmt.Sprintf(s.sql, ends[i]), "change_", "change")
			check(fmt.Sprint(view, " at ", i), b.texts(fmt.Sprintf("SELECT * FROM state_at('%s', name := 's%d')", view, i)), o.texts(at))
			for j := 1; j < len(ends); j++ {
				to := fmt.Sprintf("'s%d'", j)
				if j == len(ends)-1 && i%2 == 0 {
					to = "'live'"
				}
				diff := b.texts(fmt.Sprintf("SELECT * FROM state_diff('%s', %d, %s)", view, i, to))
				some += len(diff)
				check(fmt.Sprint(view, " from ", i, " to ", j), diff, o.texts(o.diffSQL(view, ends[i], ends[j])))
			}
		}
	}
	if some < 100 {
		t.Errorf("only %d differences were compared", some)
	}
	for _, key := range []string{"'Paris', 1, 0.0, TIMESTAMP '2026-01-31 10:00:00'", "NULL, 2, -0.0e0, NULL", "'it''s', NULL, 1.5, DATE '2026-01-31' + TIME '11:00'", "'nobody', 1, 0, NULL"} {
		parts := strings.Split(key, ", ")
		var want []string
		for i := 1; i < len(ends); i++ {
			want = append(want, fmt.Sprintf(`SELECT %d AS version, h.n IS NOT NULL AS present, h.records, h.total, h.amount, h.mean, h.last FROM (SELECT 1) LEFT JOIN (
				SELECT 1 AS n, * FROM (%s) WHERE k IS NOT DISTINCT FROM (%s) AND n IS NOT DISTINCT FROM (%s) AND f IS NOT DISTINCT FROM (%s) AND hour IS NOT DISTINCT FROM (%s)) h ON true`,
				i, strings.Replace(fmt.Sprintf(pastSelects["v"].sql, ends[i]), "change_", "change", 1), parts[0], parts[1], parts[2], parts[3]))
		}
		check("history of "+key, b.texts("SELECT version, present, records, total, amount, mean, last FROM state_history('v', "+key+")"), o.texts(strings.Join(want, " UNION ALL ")))
	}
}

// A post is an answer to SQL, with what it says of itself.
type post struct {
	Epoch       uint64
	Checkpoints []struct {
		ID, Epoch uint64
		Savepoint string
	}
	header http.Header
}

func (b *bed) post(sql string) (p post) {
	b.t.Helper()
	body, _ := json.Marshal(map[string]string{"sql": sql})
	res, err := http.Post("http://"+b.run.addr+"/api/v1/sql", "application/json", bytes.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&p); err != nil || res.StatusCode != http.StatusOK {
		b.t.Fatalf("%s: %s: %v", sql, res.Status, err)
	}
	p.header = res.Header
	return p
}

// What is read from checkpoints alone is not said to be of the present.
func TestAnswersNameTheirTime(t *testing.T) {
	b := newBed(t)
	b.topic("o", 1)
	b.must(pastViews)
	put := func() {
		b.send(&devbroker.Record{Topic: "o", Value: []byte(`{"k":"Paris","x":1}`)})
		b.caughtUp()
	}
	put()
	b.query("CREATE SAVEPOINT 'one'")
	put()
	b.query("CHECKPOINT")
	put()
	now := b.post("SELECT * FROM g")
	var epochs [3]uint64
	for i := 1; i <= 2; i++ {
		p := b.post(fmt.Sprintf("SELECT * FROM g AT (VERSION => %d)", i))
		epochs[i] = p.Epoch
		if p.header.Get("Weir-Epoch") != fmt.Sprint(p.Epoch) || p.header.Get("Weir-Checkpoint") != fmt.Sprint(i) || p.header.Get("Weir-Position") != fmt.Sprintf("o/0:%d", i) {
			t.Errorf("checkpoint %d: %v", i, p.header)
		}
		if len(p.Checkpoints) != 1 || p.Checkpoints[0].ID != uint64(i) || p.Checkpoints[0].Epoch != p.Epoch || (p.Checkpoints[0].Savepoint == "one") != (i == 1) {
			t.Errorf("checkpoint %d: %+v", i, p)
		}
	}
	if !(epochs[1] < epochs[2] && epochs[2] < now.Epoch) || now.Checkpoints != nil || now.header.Get("Weir-Checkpoint") != "" {
		t.Errorf("epochs %v, now %+v", epochs, now)
	}
	for sql, want := range map[string]struct {
		epoch         uint64
		past, whereAt string
	}{
		"SELECT * FROM g, state_at('h', name := 'one')":                        {now.Epoch, "1", "o/0:3"},
		"SELECT * FROM g AT (VERSION => 2), state_at('h', name := 'one')":      {epochs[1], "1,2", "o/0:1"},
		"SELECT * FROM state_diff('g', 1, 2)":                                  {epochs[1], "1,2", "o/0:1"},
		"SELECT * FROM state_diff('g', 1, 'live')":                             {now.Epoch, "1", "o/0:3"},
		"SELECT * FROM state_diff('g', 2, 2) AS a, state_diff('h', 2, 2) AS b": {epochs[2], "2", "o/0:2"},
		"SELECT * FROM state_history('h', 'Paris')":                            {epochs[1], "1,2", "o/0:1"},
		"SELECT (SELECT max(x) FROM o) FROM state_at('g', version := 2)":       {now.Epoch, "2", "o/0:3"},
		"SELECT 1":                          {now.Epoch, "", "o/0:3"},
		"SELECT * FROM h WHERE k = 'Paris'": {now.Epoch, "", "o/0:3"},
	} {
		p := b.post(sql)
		if p.Epoch != want.epoch || p.header.Get("Weir-Epoch") != fmt.Sprint(want.epoch) || p.header.Get("Weir-Checkpoint") != want.past || p.header.Get("Weir-Position") != want.whereAt {
			t.Errorf("%s: epoch %d, %v; want %+v", sql, p.Epoch, p.header, want)
		}
	}
	code, body, err := b.run.get("/api/v1/views/h/lookup?k=Paris&at=one")
	if want := fmt.Sprintf(`{"key":{"k":"Paris"},"value":{"records":1,"amount":null},"epoch":%d,"checkpoints":[{"id":1,"epoch":%[1]d,"savepoint":"one"}]}`, epochs[1]); err != nil || code != 200 || strings.TrimSpace(body) != want {
		t.Errorf("look-up: %d %s %v, want %s", code, body, err, want)
	}
}

// TestReadersKeepTheirCheckpoint drops a savepoint, and has retention remove
// checkpoints, under queries that read them.
func TestReadersKeepTheirCheckpoint(t *testing.T) {
	b := newBed(t)
	b.topic("o", 1)
	b.must(pastViews)
	b.send(&devbroker.Record{Topic: "o", Value: []byte(`{"k":"Paris","x":1}`)})
	b.caughtUp()
	b.query("CREATE SAVEPOINT 'one'")
	b.send(&devbroker.Record{Topic: "o", Value: []byte(`{"k":"Rome","x":1}`)})
	b.caughtUp()
	b.query("CHECKPOINT")
	rome := "Rome"
	l, err := b.run.Lease(t.Context(), []duckext.Ref{
		{Name: "v", At: &duckext.At{Savepoint: "one"}, As: "a"},
		{Name: "v", Diff: &duckext.Diff{From: duckext.At{Savepoint: "one"}, To: duckext.At{Version: 2}}, As: "b"},
		{Name: "h", History: &duckext.History{Key: []duckext.KeyValue{{Text: &rome}}}, As: "c"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	b.query("DROP SAVEPOINT 'one'")
	for range keepCheckpoints {
		b.query("CHECKPOINT")
	}
	if got := b.rows("SHOW CHECKPOINTS"); strings.Count(got, "\n") != keepCheckpoints || strings.HasPrefix(got, "1 ") || strings.HasPrefix(got, "2 ") {
		t.Fatalf("what is kept:\n%s", got)
	}
	for _, def := range l.Views() {
		columns := make([]int, len(def.Columns))
		for i := range columns {
			columns[i] = i
		}
		rows := int64(0)
		for _, slots := range [][2]int{{0, 100}, {100, state.Slots}} {
			rd, err := l.Scan(t.Context(), def.Table, duckext.ScanSpec{Columns: columns, FromSlot: slots[0], ToSlot: slots[1]})
			if err != nil {
				t.Fatalf("%s: %v", def.Name, err)
			}
			for rd.Next() {
				rows += rd.RecordBatch().NumRows()
			}
			if err := rd.Err(); err != nil {
				t.Errorf("%s: %v", def.Name, err)
			}
			rd.Release()
		}
		if want := map[string]int64{"a": 1, "b": 1, "c": 2}[def.Name]; rows != want {
			t.Errorf("%s has %d rows, not %d", def.Name, rows, want)
		}
	}
}

// A view that was not whole when a checkpoint was taken is not said to be.
func TestPastThatWasNotWhole(t *testing.T) {
	v := checkpoint.View{Name: "v", Source: 3, Cursor: 9}
	m := &checkpoint.Manifest{Checkpoint: 5, Sources: []checkpoint.Source{{ID: 3, Cursor: 4}}, Views: []checkpoint.View{v}}
	w := pastView{manifest: m, view: &m.Views[0]}.witness()
	if got := w.backfilling(&state.Catalog{}); !slices.Equal(got, []string{"v"}) {
		t.Errorf("its own cursor: %v", got)
	}
	m.Views[0].Cursor = 4
	if got := (pastView{manifest: m, view: &m.Views[0]}).witness().backfilling(&state.Catalog{}); got != nil {
		t.Errorf("the source's cursor: %v", got)
	}
}

// Times are compared with when checkpoints were taken.
func TestPastByTime(t *testing.T) {
	b := newBed(t)
	b.topic("o", 1)
	b.must(pastViews)
	for range 2 {
		b.send(&devbroker.Record{Topic: "o", Value: []byte(`{"k":"Paris","x":1}`)})
		b.caughtUp()
		b.query("CHECKPOINT")
	}
	ms := b.run.keeper.list()
	for i, m := range ms {
		if i > 0 && !m.Created.After(ms[0].Created) {
			t.Fatalf("the clock stands still: %v", m.Created)
		}
		at := m.Created.Format("2006-01-02 15:04:05.999999")
		for _, sql := range []string{
			fmt.Sprintf("SELECT records FROM g AT (TIMESTAMP => '%s')", at),
			fmt.Sprintf("SELECT records FROM state_at('g', timestamp := TIMESTAMP '%s' - INTERVAL 1 HOUR + INTERVAL 1 HOUR)", at),
		} {
			if got := b.rows(sql); got != fmt.Sprintln(i+1) {
				t.Errorf("%s: %s", sql, got)
			}
		}
		code, body, err := b.run.get("/api/v1/views/g/lookup?at=" + m.Created.Format(time.RFC3339Nano))
		if err != nil || code != 200 || !strings.Contains(body, fmt.Sprintf(`"records":%d`, i+1)) {
			t.Errorf("look-up: %d %s %v", code, body, err)
		}
	}
	if err := (backend{b.run.Appliance}).DropSavepoint(t.Context(), ms[1].Created.Format(time.RFC3339Nano)); err == nil || queryable.AsError(err).Code != queryable.NotFound {
		t.Errorf("dropped by a time: %v", err)
	}
	code, body, err := b.run.get("/api/v1/views/g/lookup?at=" + url.QueryEscape(ms[1].Created.Format("2006-01-02 15:04:05")))
	if err != nil || code != 400 || !strings.Contains(body, "give RFC 3339, such as 2026-01-31T12:00:00Z") {
		t.Errorf("look-up at a time as SQL writes it: %d %s %v", code, body, err)
	}
	before := ms[0].Created.Add(-time.Microsecond).Format("2006-01-02 15:04:05.999999")
	_, err = b.run.client.Query(t.Context(), fmt.Sprintf("SELECT * FROM g AT (TIMESTAMP => '%s')", before))
	if err == nil || !strings.Contains(err.Error(), "the oldest, checkpoint 1, is of "+ms[0].Created.Format(time.RFC3339)) {
		t.Errorf("before the oldest: %v", err)
	}
}

// Objects do not stay readable when they are removed, so they are not while a query
// reads them.
func TestObjectsStayWhileTheyAreRead(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", fakes3.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", fakes3.SecretKey)
	place := fakes3.Start(t).Location("team/weir")
	b := newBed(t)
	b.config = func(c *config) {
		c.Checkpoints, c.objects = place, objectstore.Options{Retry: time.Second, Backoff: time.Millisecond}
	}
	b.topic("o", 1)
	b.must(pastViews)
	b.send(&devbroker.Record{Topic: "o", Value: []byte(`{"k":"Paris","x":1}`)})
	b.caughtUp()
	b.query("CREATE SAVEPOINT 'one'")
	l, err := b.run.Lease(t.Context(), []duckext.Ref{{Name: "v", At: &duckext.At{Savepoint: "one"}, As: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.run.keeper.drop(gone, 1); err == nil || queryable.AsError(err).Code != queryable.Timeout {
		t.Errorf("dropped while it is read: %v", err)
	}
	for range keepCheckpoints + 2 {
		b.query("CHECKPOINT")
	}
	if n := len(b.run.keeper.list()); n != keepCheckpoints+3 {
		t.Errorf("%d checkpoints are kept while one is read", n)
	}
	rd, err := l.Scan(t.Context(), l.Views()[0].Table, duckext.ScanSpec{Columns: []int{0}, ToSlot: state.Slots})
	if err != nil {
		t.Fatal(err)
	}
	rows := int64(0)
	for rd.Next() {
		rows += rd.RecordBatch().NumRows()
	}
	if err := rd.Err(); err != nil || rows != 1 {
		t.Errorf("%d rows, %v", rows, err)
	}
	rd.Release()
	l.Release()
	b.query("DROP SAVEPOINT 'one'")
	b.query("CHECKPOINT")
	if n := len(b.run.keeper.list()); n != keepCheckpoints {
		t.Errorf("%d checkpoints are kept", n)
	}
}

// What the next checkpoint would have been based on is dropped: it misses nothing,
// and neither does the one after it, which is a base and a delta.
func TestDroppedSavepointIsNoBase(t *testing.T) {
	b := newBed(t)
	b.topic("o", 1)
	b.must("CREATE SOURCE o (id BIGINT) WITH (connector = 'kafka', topic = 'o', format = 'json');" +
		"CREATE MATERIALIZED VIEW v AS SELECT id, count(*) AS n FROM o GROUP BY id;")
	const groups = 2 * smallView
	put := func(from, step int) {
		t.Helper()
		var recs []*devbroker.Record
		for i := from; i < groups; i += step {
			recs = append(recs, &devbroker.Record{Topic: "o", Value: fmt.Appendf(nil, `{"id":%d}`, i)})
		}
		b.send(recs...)
		b.caughtUp()
	}
	put(0, 1)
	b.query("CHECKPOINT")
	put(0, 100)
	b.query("CREATE SAVEPOINT 'b'")
	put(0, 150)
	b.query("DROP SAVEPOINT 'b'")
	put(1, 500)
	b.query("CHECKPOINT")
	want := "307 | \"374\"\n" // of ids divisible by 100 or 150, and 40 others; 200, 134 and 40 records
	for i, version := range []int{3, 4} {
		if i > 0 {
			put(2, 500)
			b.query("CHECKPOINT")
			want = "347 | \"414\"\n"
		}
		if got := b.rows(fmt.Sprintf("SELECT count(*), sum(n_delta) FROM state_diff('v', 1, %d)", version)); got != want {
			t.Errorf("from 1 to %d: %s, want %s", version, got, want)
		}
		if got := b.rows(fmt.Sprintf("SELECT * FROM state_diff('v', %d, 'live')", version)); got != "" {
			t.Errorf("checkpoint %d is not the present: %s", version, got)
		}
	}
	ms := b.run.keeper.list()
	if last := ms[len(ms)-1]; last.Views[0].Whole() {
		t.Error("the last one has no delta: this tests less than it should")
	}
	if got := b.rows("SELECT n FROM state_history('v', 2)"); got != "1\n1\n2\n" {
		t.Errorf("history over base and delta: %s", got)
	}
}
