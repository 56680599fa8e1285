//go:build duckdb_arrow

package duckext

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// In a syntax tree the constant 0.3 is the number 3 of scale 1.
func TestPastIsRefused(t *testing.T) {
	c, _ := shop(10)
	p := openPool(t, c, PoolOptions{Size: 1})
	for sql, says := range map[string]string{
		"SELECT * FROM v AT (VERSION => 0.3)":                       "checkpoint's number",
		"SELECT * FROM v AT (VERSION => CAST(0.3 AS INT))":          "checkpoint's number",
		"SELECT * FROM v AT (TIMESTAMP => 'yesterday')":             "2026-01-31",
		"SELECT * FROM v AT (TIMESTAMP => (SELECT now()))":          "subqueries",
		"SELECT * FROM v AT (TIMESTAMP => $1)":                      "parameters cannot stand there: write the value",
		"SELECT * FROM state_at('v', name := ?)":                    "parameters cannot stand there: write the value",
		"SELECT * FROM state_at($1, name := 'x')":                   "parameters cannot stand there: write the value",
		"SELECT * FROM state_diff('v', ?, 'live')":                  "parameters cannot stand there: write the value",
		"SELECT * FROM state_diff('v', 1, CAST($1 AS VARCHAR))":     "parameters cannot stand there: write the value",
		"SELECT * FROM state_history('v', 1 + $1)":                  "history?column=value",
		"SELECT * FROM v AT (TIMESTAMP => k)":                       "columns",
		"SELECT * FROM v AT (TIMESTAMP => CAST(NULL AS TIMESTAMP))": "NULL",
		"SELECT * FROM v AT (TIMESTAMP => 1 + 1)":                   "Unimplemented type for cast",
		"SELECT * FROM v AT (TIMESTAMP => getenv('HOME'))":          "getenv is not allowed",
		"SELECT * FROM v AT (TIMESTAMP => strptime('x', '%Y'))":     "Could not parse",
		"SELECT * FROM state_at('v', version := 0.3)":               "as constants",
		"SELECT * FROM state_at('v', 7)":                            "as constants",
		"SELECT * FROM state_at('v', name := '')":                   "as constants",
		"SELECT * FROM state_at(k, name := 'x')":                    "as constants",
		"SELECT * FROM state_at('v', name := 'x', version := 1)":    "as constants",
		"SELECT * FROM state_diff('v', 1)":                          "two points",
		"SELECT * FROM state_diff('v', 1, -2)":                      "two points",
		"SELECT * FROM state_diff('v', 1, NULL)":                    "two points",
		"SELECT * FROM state_diff('v', a := 1, b := 2)":             "two points",
		"SELECT * FROM state_history()":                             "the key of a group",
		"SELECT * FROM v, state_history('v', v.k)":                  "columns",
		"SELECT * FROM state_history('v', ?)":                       "parameters cannot stand there: write the value into the statement, text as 'it''s', or ask GET /api/v1/views/{view}/history?column=value",
		"SELECT * FROM state_history('v', (SELECT 1))":              "subqueries",
		"SELECT * FROM state_history('v', unnest([1, 2]))":          "no single value",
		"SELECT * FROM state_history('v', CAST('x' AS INTEGER))":    "Could not convert",
		"SELECT * FROM state_history('v', ['abcd'::BLOB])":          "BLOB in base64",
		"SELECT * FROM state_history('v', {'a': [NULL::BLOB]})":     "BLOB in base64",
	} {
		_, err := p.Query(t.Context(), Request{SQL: sql, Params: json.RawMessage("[1]")})
		want := CodeSyntax
		if strings.Contains(says, "not allowed") {
			want = CodeRefused
		}
		if code(err) != want || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v (%s)", sql, err, code(err))
		}
	}
}

// What a query asks of the past reaches the catalogue as it stands there, and is
// computed anew each time.
func TestPastIsAsked(t *testing.T) {
	c, _ := shop(10)
	p := openPool(t, c, PoolOptions{Size: 1})
	asked := func(sql string) string {
		t.Helper()
		ask(t, p, sql)
		text, err := json.Marshal(c.asked)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for sql, want := range map[string]string{
		"SELECT max(k) FROM v AT (TIMESTAMP => '2026-01-31')":                                               `"at":{"timestamp":"2026-01-31T00:00:00Z"}`,
		"SELECT max(k) FROM v AT (TIMESTAMP => TIMESTAMP '2026-01-31 01:00:00' - INTERVAL 1 HOUR)":          `"at":{"timestamp":"2026-01-31T00:00:00Z"}`,
		"SELECT max(k) FROM v AT (TIMESTAMP => TIMESTAMPTZ '2026-01-31 02:00:00+02')":                       `"at":{"timestamp":"2026-01-31T00:00:00Z"}`,
		"SELECT max(k) FROM state_at('v', timestamp := DATE '2026-01-30' + 1)":                              `"at":{"timestamp":"2026-01-31T00:00:00Z"}`,
		"SELECT max(k) FROM state_at('v', timestamp => '2026-01-31 00:00:00')":                              `"at":{"timestamp":"2026-01-31T00:00:00Z"}`,
		"SELECT max(k) FROM state_at('v', version := 3)":                                                    `"at":{"version":3}`,
		"SELECT max(v.k) FROM State_At('v', name => 'it''s')":                                               `"at":{"savepoint":"it's"}`,
		"SELECT max(k) FROM state_diff('v', 1, 'Live') AS d":                                                `"diff":{"from":{"version":1},"to":{"live":true}}`,
		"SELECT max(state_diff.k) FROM state_diff('v', 'a, (b', 'x') JOIN v USING (k)":                      `"diff":{"from":{"savepoint":"a, (b"},"to":{"savepoint":"x"}}`,
		"SELECT max(k) FROM state_history('v', {'x': 'nan'::DOUBLE, 'y z': ['p'], 'select': [1.5::FLOAT]})": `"history":{"key":[{"text":"{\"x\":\"nan\",\"y z\":[\"p\"],\"select\":[\"1.5\"]}","json":true}]}`,
		"SELECT max(k) FROM state_history('v', MAP {'a': '-inf'::DOUBLE, 'b': NULL})":                       `"history":{"key":[{"text":"{\"a\":\"-inf\",\"b\":null}","json":true}]}`,
		"SELECT max(k) FROM state_history('v', 'Paris, (', 1 + 1, DATE '2026-01-31')":                       `"history":{"key":[{"text":"Paris, ("},{"text":"2"},{"text":"2026-01-31"}]}`,
		"SELECT max(k) FROM state_history('v', \"a b\" := NULL, x := [DATE '2026-01-31', NULL])":            `"history":{"key":[{"name":"a b","text":null},{"name":"x","text":"[\"2026-01-31\",null]","json":true}]}`,
		"SELECT max(k) FROM state_history('v', 0.1e0 + 0.2e0, 'ab'::BLOB, {'a': 1})":                        `"history":{"key":[{"text":"0.30000000000000004"},{"text":"YWI="},{"text":"{\"a\":1}","json":true}]}`,
		"SELECT max(k) FROM state_history('v' /* the view */)":                                              `"history":{"key":[]}`,
	} {
		if got := asked(sql); !strings.Contains(got, want) {
			t.Errorf("%s: asked %s, want %s", sql, got, want)
		}
	}
	// An alias stands before AT.
	for _, sql := range []string{
		"SELECT count(d.k) FROM v AS d AT (VERSION => 3)",
		"SELECT count(d.a) FROM v AS d(a) AT (VERSION => 3)",
		"SELECT count(\"at\".\"(\") FROM v \"at\"(\"(\", b) /* AT ( */ AT (VERSION => 3)",
		"SELECT count(d.k) FROM state_at('v', version := 3) AS d",
		"SELECT count(d.a) FROM state_at('v', version := 3) AS d(a)",
	} {
		if got := answerOf(ask(t, p, sql)); got != "10\n" {
			t.Errorf("%s: %s", sql, got)
		}
	}
	const again = "SELECT max(k) FROM v AT (TIMESTAMP => now() - INTERVAL 1 HOUR)"
	before := time.Now().Add(-time.Hour - time.Microsecond)
	asked(again)
	first := c.asked[0].At.Timestamp
	asked(again)
	second := c.asked[0].At.Timestamp
	if first.Before(before) || !second.After(first) || second.After(time.Now().Add(-time.Hour)) {
		t.Errorf("an hour ago is %v, then %v", first, second)
	}
	// Two that are alike are one reference, the others not.
	asked("SELECT 1 FROM v, state_diff('v', 1, 2) a, state_diff('V', 1, 2) b, state_diff('v', 2, 1) c, v d AT (VERSION => 1), state_at('v', version := 1) e")
	if len(c.asked) != 4 {
		t.Errorf("%d references, not 4: %+v", len(c.asked), c.asked)
	}
}
