//go:build duckdb_arrow

package appliance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/appliance/devbroker"
	"weir/state"
	"weir/state/plan"
	"weir/state/sqltype"
)

// TestVerifyEqual says which values VERIFY VIEW takes for the same.
func TestVerifyEqual(t *testing.T) {
	c := &comparison{openEngine(t)}
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
