//go:build duckdb_arrow

package appliance

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/appliance/devbroker"
	"weir/duckext"
	"weir/queryable"
	"weir/state"
	"weir/state/plan"
	"weir/state/sqltype"
)

// inProcess is a comparison without a process of its own.
func inProcess(e *duckext.Engine) *comparison {
	return &comparison{prepare: func(ctx context.Context, sql string, rel plan.Relation, out []sqltype.Field) (runner, error) {
		return e.Prepare(ctx, sql, rel, out)
	}}
}

// TestVerifyEqual says which values VERIFY VIEW takes for the same.
func TestVerifyEqual(t *testing.T) {
	c := inProcess(openEngine(t))
	for _, tc := range []struct {
		typ, e, a, slack string
		want             bool
	}{
		{"BIGINT", "1", "1", "0", true},
		{"BIGINT", "1", "2", "10", false},
		{"BIGINT", "NULL", "NULL", "0", true},
		{"BIGINT", "NULL", "0", "0", false},
		{"DECIMAL(38,2)", "1.00", "1.01", "1", false},
		{"DOUBLE", "1", "1.0000000000000002", "0", true}, // one unit in the last place
		{"DOUBLE", "1", "1.0000000000000007", "0", false},
		{"DOUBLE", "1", "1.5", "0.5", true},
		{"DOUBLE", "1", "1.6", "0.5", false},
		{"DOUBLE", "NULL", "0", "1", false},
		{"DOUBLE", "0", "NULL", "1", false},
		{"DOUBLE", "'NaN'", "'NaN'", "0", true},
		{"DOUBLE", "'NaN'", "1", "1", false},
		{"DOUBLE", "1", "'NaN'", "1", false},
		{"DOUBLE", "'inf'", "'inf'", "0", true},
		{"DOUBLE", "'inf'", "'-inf'", "0", false},
		{"DOUBLE", "'inf'", "1", "0", false},
		{"DOUBLE", "1", "'inf'", "0", false},
		{"DOUBLE", "0.0", "'-0.0'", "0", true},
		{"FLOAT", "'inf'", "1", "0", false},
	} {
		typ := sqltype.MustParse(tc.typ)
		cast := func(s string) string { return "CAST(" + s + " AS " + tc.typ + ")" }
		rec, err := c.run(t.Context(), "SELECT CAST("+equal(typ, cast(tc.e), cast(tc.a), tc.slack)+" AS BIGINT) AS x", []sqltype.Field{{Name: "x", Type: sqltype.MustParse("BIGINT")}})
		if err != nil {
			t.Fatal(err)
		}
		if got := rec.Column(0).(*array.Int64).Value(0) == 1; got != tc.want {
			t.Errorf("%s %s and %s with slack %s: %v", tc.typ, tc.e, tc.a, tc.slack, got)
		}
		rec.Release()
	}
}

// TestVerifySees adds to groups what is not in the topic, and VERIFY VIEW must
// say which.
func TestVerifySees(t *testing.T) {
	b := newBed(t)
	b.topic("t", 1)
	var recs []*devbroker.Record
	for i := range 100 {
		recs = append(recs, &devbroker.Record{Topic: "t", Value: fmt.Appendf(nil, `{"g":"g%d","x":%d,"d":1.5}`, i%10, i)})
	}
	b.send(append(recs, &devbroker.Record{Topic: "t", Value: []byte(`{"g":"inf","x":"inf"}`)})...)
	b.must(`
CREATE SOURCE t (g VARCHAR, x DOUBLE, d DECIMAL(10,2)) WITH (connector = 'kafka', topic = 't', format = 'json');
CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS n, sum(x) AS s, avg(d) AS mean FROM t GROUP BY g;
CREATE MATERIALIZED VIEW unnamed AS SELECT sum(x) AS s FROM t GROUP BY g;
`)
	b.caughtUp()
	b.verified("v")
	b.verified("unnamed")

	b.tamper("SELECT 'g1' AS g, 0::DOUBLE AS x, NULL::DECIMAL(10,2) AS d")     // one record too many
	b.tamper("SELECT 'g2' AS g, 'inf'::DOUBLE AS x, NULL::DECIMAL(10,2) AS d") // infinity is near nothing
	b.tamper("SELECT 'g3' AS g, NULL::DOUBLE AS x, 1.51::DECIMAL(10,2) AS d")  // a mean that is a little off
	b.tamper("SELECT 'new' AS g, NULL::DOUBLE AS x, NULL::DECIMAL(10,2) AS d") // a group too many
	rep, err := backend{b.run.Appliance}.verify(t.Context(), "v")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(rep.examples)
	want := "different: g = g1, different: g = g2, different: g = g3, extra: g = new"
	if got := strings.Join(rep.examples, ", "); got != want || rep.different != 3 || rep.extra != 1 || rep.missing != 0 || rep.compared != 11 {
		t.Errorf("got %+v, want %s", rep, want)
	}
	rep, err = backend{b.run.Appliance}.verify(t.Context(), "unnamed")
	if err != nil {
		t.Fatal(err)
	}
	if rep.different == 0 || rep.extra != 1 {
		t.Errorf("the view without a key's name: %+v", rep)
	}
}

// tamper folds rows into every view that no record stands for.
func (b *bed) tamper(sql string) {
	b.t.Helper()
	check := func(err error) {
		b.t.Helper()
		if err != nil {
			b.t.Fatal(err)
		}
	}
	ctx := b.t.Context()
	s, err := b.run.engine.Session()
	check(err)
	defer s.Close()
	rows, err := s.Query(ctx, sql)
	check(err)
	cat := b.run.store.Catalog()
	f := state.Fold{Cursor: cat.Sources[0].Cursor}
	for i := range cat.Views {
		v := &cat.Views[i]
		p, err := b.run.engine.Prepare(ctx, v.Plan.Partial, plan.Relation{Name: plan.InputRelation, Columns: v.Plan.Inputs}, v.Plan.StateColumns())
		check(err)
		defer p.Close()
		out, err := p.Run(ctx, project(rows, v.Plan.Inputs, 0, rows.NumRows()))
		check(err)
		f.Partials = append(f.Partials, state.Partial{View: v.ID, Rows: out})
	}
	check(b.run.store.Fold(ctx, f))
	_, err = b.run.store.Commit(ctx)
	check(err)
}

const soldSQL = `
CREATE SOURCE t (g VARCHAR, x DOUBLE, d DECIMAL(10,2), n BIGINT, flag BOOLEAN) WITH (connector = 'kafka', topic = 't', format = 'json');
CREATE MATERIALIZED VIEW v AS SELECT g, flag, count(*) AS n, sum(x) AS s, avg(d) AS mean, min(n) AS lo, max(g) AS hi, bool_or(flag) AS o, bool_and(n > 3) AS a FROM t WHERE n IS NULL OR n >= 0 GROUP BY g, flag HAVING count(*) > 1;
CREATE MATERIALIZED VIEW unnamed AS SELECT sum(x) AS s, sum(n) // 3 AS third FROM t GROUP BY g;
CREATE MATERIALIZED VIEW one AS SELECT count(*) AS n, sum(d) AS d FROM t;
CREATE MATERIALIZED VIEW casts AS SELECT CAST(g[2:] AS INTEGER) AS g, count(*) AS n FROM t GROUP BY ALL;
`

// sold are records from to to-1 of soldSQL's topic; every 17th has no number in g.
func sold(from, to int) (recs []*devbroker.Record) {
	for i := from; i < to; i++ {
		g := fmt.Sprintf("g%d", i%10)
		if i%17 == 0 {
			g = "bad"
		}
		recs = append(recs, &devbroker.Record{
			Topic: "t", Partition: int32(i % 2), Timestamp: time.UnixMilli(int64(i)),
			Value: fmt.Appendf(nil, `{"g":%q,"x":%g,"d":%d.25,"n":%d,"flag":%v}`, g, float64(i)*0.1, i, i%100-2, i%3 == 0),
		})
	}
	return recs
}

// TestVerifySince lets Kafka drop what views began with. VERIFY VIEW goes on from
// the oldest checkpoint that the log continues, and still sees what is wrong.
func TestVerifySince(t *testing.T) {
	b := newBed(t)
	b.topic("t", 2)
	b.send(sold(0, 300)...)
	b.must(soldSQL)
	b.caughtUp()
	views := []string{"v", "unnamed", "one", "casts"}
	for _, v := range views {
		if rep := b.verified(v); rep.since != "" || rep.records != 300 {
			t.Errorf("%s with a whole log: %+v", v, rep)
		}
	}
	b.query("CHECKPOINT")
	b.send(sold(300, 400)...)
	b.caughtUp()
	b.query("CHECKPOINT")
	b.send(sold(400, 555)...)
	b.caughtUp()

	cut := func(offset int64) {
		t.Helper()
		for p := range int32(2) {
			if err := b.broker.Cluster().DeleteRecords("t", p, offset); err != nil {
				t.Fatal(err)
			}
		}
	}
	cut(140)
	for _, v := range views {
		if rep := b.verified(v); rep.since != "checkpoint 1" || rep.records != 255 || rep.compared == 0 {
			t.Errorf("%s from checkpoint 1: %+v", v, rep)
		}
	}
	if got := b.rows("VERIFY VIEW one"); !strings.HasSuffix(got, ` | "" | "checkpoint 1" | 0`+"\n") {
		t.Error(got)
	}
	cut(170) // within what checkpoint 1 lacks
	for _, v := range views {
		if rep := b.verified(v); rep.since != "checkpoint 2" || rep.records != 155 {
			t.Errorf("%s from checkpoint 2: %+v", v, rep)
		}
	}
	b.tamper("SELECT 'g3' AS g, NULL::DOUBLE AS x, 0.01::DECIMAL(10,2) AS d, 5::BIGINT AS n, true AS flag")
	for _, v := range views {
		rep, err := backend{b.run.Appliance}.verify(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		if rep.different != 1 || rep.missing+rep.extra != 0 {
			t.Errorf("%s after a record too many: %+v", v, rep)
		}
	}
	cut(201)
	_, err := backend{b.run.Appliance}.verify(t.Context(), "v")
	if want := "view v cannot be verified: topic t partition 0 begins at offset 201 now, and the view began at 0; no checkpoint is kept from which the log goes on"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestVerifyCrash has a result on which DuckDB crashes. It costs the statement.
func TestVerifyCrash(t *testing.T) {
	b := newBed(t)
	b.topic("numbers", 1)
	b.send(&devbroker.Record{Topic: "numbers", Value: fmt.Appendf(nil, `{"n":%d,"x":1}`, poison)})
	b.must(`
CREATE SOURCE numbers (n BIGINT, x BIGINT) WITH (connector = 'kafka', topic = 'numbers');
CREATE MATERIALIZED VIEW deep AS SELECT length(json_structure(repeat('[', max(n)) || repeat(']', max(n)))::VARCHAR) AS size FROM numbers;
CREATE MATERIALIZED VIEW sound AS SELECT sum(x) AS x FROM numbers;
`)
	b.caughtUp()
	_, err := backend{b.run.Appliance}.verify(t.Context(), "deep")
	if want := "view deep cannot be verified: the process that computes it anew ended: "; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	b.verified("sound")
	if left, err := filepath.Glob(filepath.Join(b.dir, "tmp", "verify-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestVerifyWithout has no topic, then another one, then no broker.
func TestVerifyWithout(t *testing.T) {
	b := newBed(t)
	b.must(`
CREATE SOURCE numbers (n BIGINT) WITH (connector = 'kafka', topic = 'numbers');
CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM numbers;
`)
	fails := func(code queryable.Code, want string) {
		t.Helper()
		began := time.Now()
		_, err := backend{b.run.Appliance}.verify(t.Context(), "v")
		e, ok := errors.AsType[*queryable.Error](err)
		if !ok || e.Code != code || !strings.Contains(e.Message, want) {
			t.Errorf("got %v, want %s with %q", err, code, want)
		}
		if took := time.Since(began); took > b.run.cfg.QueryTimeout/2 {
			t.Errorf("%s took %v", want, took)
		}
	}
	fails(queryable.Conflict, `topic "numbers" does not exist`)
	b.topic("numbers", 1)
	b.send(&devbroker.Record{Topic: "numbers", Value: []byte(`{"n":1}`)})
	b.caughtUp()
	b.verified("v")
	if err := b.broker.DeleteTopic("numbers"); err != nil {
		t.Fatal(err)
	}
	b.topic("numbers", 1)
	fails(queryable.Conflict, "was deleted and created again")
	b.away()
	fails(queryable.Unavailable, "reach kafka at "+b.broker.Addr())
}

// TestVerifyEdited restores groups that a transform has changed. No topic holds
// that, so they are verified from a checkpoint that was taken since.
func TestVerifyEdited(t *testing.T) {
	b := newBed(t)
	b.topic("orders", 1)
	produce(b, "orders", 0, []sale{{"Paris", "1.50", "1"}, {"Paris", "2.50", "2"}, {"Rome", "1.00", "3"}})
	dir := takenOf(b, saleSQL("orders"))
	weirs(t, "checkpoint", "transform", dir, "--name", "edited", "--sql", "DELETE FROM by_city WHERE city = 'Paris'")
	b.dir = t.TempDir()
	weirs(t, "restore", "--from", dir+"@edited", "--data", b.dir)
	b.must(saleSQL("orders"))
	b.caughtUp()
	if _, err := (backend{b.run.Appliance}).verify(t.Context(), "by_city"); err == nil || !strings.Contains(err.Error(), "its groups were edited") {
		t.Errorf("edited groups: %v", err)
	}
	if rep := b.verified("total"); rep.since != "" {
		t.Errorf("the other view: %+v", rep)
	}
	b.query("CHECKPOINT")
	produce(b, "orders", 0, []sale{{"Paris", "4.00", "1"}, {"Rome", "1.00", "3"}})
	b.caughtUp()
	if rep := b.verified("by_city"); !strings.HasPrefix(rep.since, "checkpoint ") || rep.records != 2 || rep.compared == 0 {
		t.Errorf("from a checkpoint: %+v", rep)
	}
}
