//go:build duckdb_arrow

package appliance

import (
	"testing"

	"weir/appliance/demo"
	"weir/checkpoint"
	"weir/state/ddl"
)

// Who restores is told how many views there are, of which kind, and of a checkpoint of
// the demo, which has no SQL files, how it is started.
func TestRestoreTellsWhatItMade(t *testing.T) {
	m := &checkpoint.Manifest{Views: []checkpoint.View{{}, {}}, Queries: []checkpoint.Query{{Name: "q"}}}
	m.Views[0].Name, m.Views[1].Name = "a", "b"
	for want, left := range map[string][]string{
		"2 materialized views, 1 plain view": nil,
		"1 materialized view, 1 plain view":  {"a"},
		"1 materialized view":                {"b", "q"},
	} {
		if got := viewsAndQueries(m, left); got != want {
			t.Errorf("without %q: %s, want %s", left, got, want)
		}
	}
	if ofDemo(m) {
		t.Error("a checkpoint without sources is taken for the demo's")
	}
	stmts, err := ddl.Parse(demo.SQL)
	if err != nil {
		t.Fatal(err)
	}
	for _, stmt := range stmts {
		if s, ok := stmt.(*ddl.CreateSource); ok {
			m.Sources = append(m.Sources, checkpoint.Source{Name: s.Name.Text, SQL: demo.SQL[s.Start:s.End]})
		}
	}
	if !ofDemo(m) {
		t.Error("the demo's checkpoint is not known as such")
	}
	m.Sources[0].SQL = "CREATE SOURCE orders (x BIGINT) WITH (connector = 'kafka', topic = 'orders')"
	if ofDemo(m) {
		t.Error("a source that is not the demo's is taken for it")
	}
}
