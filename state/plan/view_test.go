package plan

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/state/ddl"
)

const shop = `CREATE SOURCE orders (city VARCHAR, amount DECIMAL(12,2), qty INTEGER) WITH (connector = 'kafka', topic = 'orders')`

func shopCatalog(t *testing.T) Catalog {
	t.Helper()
	s, err := ddl.ParseOne(shop)
	if err != nil {
		t.Fatal(err)
	}
	return Catalog{Sources: []Source{{Name: "orders", Columns: s.(*ddl.CreateSource).Columns}}}
}

func planned(t *testing.T, sql string) *View {
	t.Helper()
	s, err := ddl.ParseOne("CREATE MATERIALIZED VIEW v AS " + sql)
	if err != nil {
		t.Fatal(err)
	}
	v, err := New(t.Context(), engine(t), shopCatalog(t), s.(*ddl.CreateMaterializedView))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestFingerprintIsOfTheState(t *testing.T) {
	const base = "SELECT city, sum(amount) AS s, count(*) AS n FROM orders WHERE qty > 1 GROUP BY city"
	was := planned(t, base).Fingerprint
	for _, alike := range []string{
		"SELECT CITY, sum(orders.amount) AS s, count(*) AS n FROM orders WHERE (qty > 1) GROUP BY ALL",
		"SELECT city, sum(amount) / 2 AS half, count(*) AS n FROM orders WHERE qty > 1 GROUP BY city HAVING count(*) > 3",
	} {
		if got := planned(t, alike).Fingerprint; got != was {
			t.Errorf("%s: the same state has another fingerprint", alike)
		}
	}
	for _, other := range []string{
		"SELECT city, sum(amount) AS s, count(*) AS n FROM orders WHERE qty > 2 GROUP BY city",
		"SELECT lower(city) AS city, sum(amount) AS s, count(*) AS n FROM orders WHERE qty > 1 GROUP BY 1",
		"SELECT city, sum(amount) FILTER (qty > 5) AS s, count(*) AS n FROM orders WHERE qty > 1 GROUP BY city",
		"SELECT city, qty, sum(amount) AS s, count(*) AS n FROM orders WHERE qty > 1 GROUP BY city, qty",
	} {
		if got := planned(t, other).Fingerprint; got == was {
			t.Errorf("%s: another state has the same fingerprint", other)
		}
	}
}

func TestViewSurvivesJSON(t *testing.T) {
	v := planned(t, "SELECT city, avg(amount) AS a, {'n': count(*)} AS s FROM orders GROUP BY city, qty HAVING count(*) > 1")
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var again View
	if err := json.Unmarshal(b, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*v, again); diff != "" {
		t.Error(diff)
	}
}

func TestPlansAreDeterministic(t *testing.T) {
	const sql = "SELECT city, avg(amount) AS a, max(qty) AS m, count(*) AS n FROM orders WHERE qty > 0 GROUP BY city"
	if diff := cmp.Diff(planned(t, sql), planned(t, sql)); diff != "" {
		t.Error(diff)
	}
}

func TestReferences(t *testing.T) {
	refs, err := References(t.Context(), engine(t), `WITH c AS (SELECT * FROM a AT (VERSION => 42))
		SELECT * FROM c JOIN "B b" USING (x), range(3), (SELECT 1 FROM main.d AT (TIMESTAMP => '2026-01-31')) WHERE EXISTS (FROM e)`)
	if err != nil {
		t.Fatal(err)
	}
	for i := range refs {
		refs[i].Offset = -1
	}
	want := []Reference{
		{Kind: "BASE_TABLE", Name: "a", AtUnit: "VERSION", At: "42", Offset: -1},
		{Kind: "BASE_TABLE", Name: "B b", Offset: -1},
		{Kind: "TABLE_FUNCTION", Name: "range", Offset: -1},
		{Kind: "BASE_TABLE", Name: "d", Schema: "main", AtUnit: "TIMESTAMP", At: "2026-01-31", Offset: -1},
		{Kind: "BASE_TABLE", Name: "e", Offset: -1},
	}
	if diff := cmp.Diff(want, refs); diff != "" {
		t.Error(diff)
	}
}
