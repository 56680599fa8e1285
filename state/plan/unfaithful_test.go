package plan

import (
	"context"
	"errors"
	"strings"
	"testing"

	"weir/state/ddl"
	"weir/state/sqltype"
)

// A liar is DuckDB with a printer or a DESCRIBE that can't be trusted.
type liar struct {
	*duck
	print    func(string) string
	describe func(sql string, fs []sqltype.Field)
}

func (l liar) Deserialize(ctx context.Context, tree []byte) (string, error) {
	s, err := l.duck.Deserialize(ctx, tree)
	if l.print != nil {
		s = l.print(s)
	}
	return s, err
}

func (l liar) Describe(ctx context.Context, rels []Relation, sql string) ([]sqltype.Field, error) {
	fs, err := l.duck.Describe(ctx, rels, sql)
	if l.describe != nil {
		l.describe(sql, fs)
	}
	return fs, err
}

// TestUnfaithfulPlansAreRefused plans with an engine that says something else
// than DuckDB: no plan may come of it.
func TestUnfaithfulPlansAreRefused(t *testing.T) {
	widen := func(relation string) func(string, []sqltype.Field) {
		return func(sql string, fs []sqltype.Field) {
			if strings.Contains(sql, "FROM "+relation) && strings.Contains(sql, " AS ") {
				fs[len(fs)-1].Type = sqltype.Type{ID: sqltype.Varchar}
			}
		}
	}
	for name, c := range map[string]struct {
		liar liar
		want string
	}{
		"another function":  {liar{print: func(s string) string { return strings.ReplaceAll(s, "sum(", "min(") }}, "which means something else"},
		"another constant":  {liar{print: func(s string) string { return strings.ReplaceAll(s, "'1000'", "'1001'") }}, "which means something else"},
		"not an expression": {liar{print: func(s string) string { return s + ", 1" }}, "is not one expression"},
		"not SQL":           {liar{print: func(s string) string { return s + " )" }}, "does not read what it printed"},
		"partial's type":    {liar{describe: widen(InputRelation)}, "the partial statement gives"},
		"final's type":      {liar{describe: widen(StateRelation)}, "the final statement gives"},
	} {
		stmt, err := ddl.ParseOne("CREATE MATERIALIZED VIEW v AS SELECT city, sum(qty) * 1e3 AS s FROM orders GROUP BY city")
		if err != nil {
			t.Fatal(err)
		}
		c.liar.duck = engine(t)
		v, err := New(t.Context(), c.liar, shopCatalog(t), stmt.(*ddl.CreateMaterializedView))
		if _, ok := errors.AsType[*ddl.Error](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: planned %v, %v; want a refusal with %q", name, v, err, c.want)
		}
	}
}

// TestAnotherTypeIsCast wants a cast where DuckDB gives the final statement
// another type than the SELECT, and the plan of it.
func TestAnotherTypeIsCast(t *testing.T) {
	stmt, err := ddl.ParseOne("CREATE MATERIALIZED VIEW v AS SELECT city, sum(qty) AS s FROM orders GROUP BY city")
	if err != nil {
		t.Fatal(err)
	}
	l := liar{duck: engine(t), describe: func(sql string, fs []sqltype.Field) {
		if strings.Contains(sql, "FROM "+StateRelation) && !strings.Contains(sql, "CAST(") {
			fs[1].Type = sqltype.Type{ID: sqltype.BigInt}
		}
	}}
	v, err := New(t.Context(), l, shopCatalog(t), stmt.(*ddl.CreateMaterializedView))
	if err != nil {
		t.Fatal(err)
	}
	if r := v.Results[1]; r.Expr != "CAST(__state.__sum_qty AS HUGEINT)" || r.Acc != -1 || !strings.Contains(v.Final, r.Expr) {
		t.Errorf("result %+v of final %s", r, v.Final)
	}
}
