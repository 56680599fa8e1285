//go:build duckdb_arrow

package duckext

import (
	"errors"
	"testing"
)

// The number of changed rows is what SELECT count(*) says of them, whatever a
// RETURNING gives back.
func TestChangeCountsRows(t *testing.T) {
	s, err := openEngine(t).Session()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, sql := range []string{
		"CREATE TABLE city (c VARCHAR, n BIGINT)",
		"INSERT INTO city SELECT 'a city with a long name ' || i, i FROM range(5000) r(i)",
	} {
		if err := s.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		sql  string
		rows int64
	}{
		{"UPDATE city SET n = n + 1", 5000},
		{"UPDATE city SET n = n + 1 WHERE n < 0", 0},
		{"UPDATE city SET n = n + 1 RETURNING c", 5000},
		{"UPDATE city SET n = n + 1 RETURNING -5::BIGINT", 5000},
		{"UPDATE city SET n = n + 1 WHERE c LIKE '% 7' RETURNING 0::BIGINT AS \"Count\"", 1},
		{"UPDATE city SET n = n + 1 WHERE c LIKE '% 7' RETURNING NULL", 1},
		{"UPDATE city SET n = n + 1 WHERE c LIKE '% 7' RETURNING [n]", 1},
		{"UPDATE city SET n = n + 1 WHERE c LIKE '% 7' RETURNING {'n': n, 's': c}", 1},
		{"UPDATE city SET n = n + 1 WHERE n < 0 RETURNING c", 0},
		{"INSERT INTO city VALUES ('x', 1), ('y', 2) RETURNING n::TINYINT", 2},
		{"INSERT INTO city VALUES ('z', 1)", 1},
		{"DELETE FROM city WHERE c IN ('x', 'y', 'z') RETURNING *", 3},
		{"DELETE FROM city", 5000},
	} {
		if rows, err := s.Change(t.Context(), c.sql); err != nil || rows != c.rows {
			t.Errorf("%s: %d rows, %v, want %d", c.sql, rows, err, c.rows)
		}
	}
	if _, err := s.Change(t.Context(), "SELECT 1"); !errors.Is(err, ErrNoChange) {
		t.Errorf("SELECT: %v", err)
	}
}
