//go:build duckdb_arrow

package appliance

import (
	"encoding/json"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"weir/appliance/devbroker"
)

// TestFaultyParams binds values that a statement does not have, or that cannot be
// bound. That is a bad request, not something forbidden.
func TestFaultyParams(t *testing.T) {
	b := newBed(t)
	b.topic("numbers", 1)
	b.must(numbersOnlySQL)
	for body, want := range map[string]string{
		`{"sql":"SELECT ?"}`:                                                     "parameter $1 has no value",
		`{"sql":"SELECT $name","params":{"other":1}}`:                            "parameter $name has no value",
		`{"sql":"SELECT 1","params":[1]}`:                                        "1 values were given for 0 parameters",
		`{"sql":"SELECT ?","params":[[1]]}`:                                      "parameter $1: a list or an object cannot be bound",
		`{"sql":"SELECT ?","params":[340282366920938463463374607431768211456]}`:  "parameter $1: 340282366920938463463374607431768211456 is beyond 128 bits: give it as a string and cast it",
		`{"sql":"SELECT ?","params":[-170141183460469231731687303715884105729]}`: "is beyond 128 bits",
		`{"sql":"SELECT ?","params":[0.12345678901234567890123456789012345678]}`: "has more than 38 digits: give it as a string and cast it",
		`{"sql":"SELECT $a","params":{"a":1,"$a":2}}`:                            "parameter $a is given twice",
		`{"sql":"SELECT ?","params":[1],"Params":[2]}`:                           "Params",
		`{"sql":"SELECT * FROM v WHERE n = 1","sql":"SELECT 1"}`:                 `"sql" is given twice`,
		`{"sql":"SELECT ?","params":[1e999]}`:                                    "parameter $1: 1e999 is not a number that DuckDB has",
		`{"sql":"SELECT * FROM v WHERE n = ?","params":[1, 2]}`:                  "2 values were given for 1 parameters",
		`{"sql":"SHOW VIEWS","params":[1]}`:                                      "only queries take parameters",
	} {
		a, err := b.run.post([]byte(body), "application/json")
		if err != nil {
			t.Fatal(err)
		}
		var e struct {
			Error struct{ Code, Message string }
		}
		if err := json.Unmarshal([]byte(a.Body), &e); err != nil {
			t.Fatal(err)
		}
		if a.Status != http.StatusBadRequest || e.Error.Code != "bad_request" || !strings.Contains(e.Error.Message, want) {
			t.Errorf("%s: %d %s, want %s", body, a.Status, a.Body, want)
		}
	}
}

// TestCursor pages through a view, one group a page.
func TestCursor(t *testing.T) {
	b := newBed(t)
	b.topic("a", 1)
	b.must(`
CREATE SOURCE a (g VARCHAR, n BIGINT, t TIMESTAMP) WITH (connector = 'kafka', topic = 'a', format = 'json');
CREATE MATERIALIZED VIEW groups AS SELECT n, g, date_trunc('hour', t) AS hour, count(*) AS c FROM a GROUP BY ALL;
CREATE MATERIALIZED VIEW one AS SELECT count(*) AS c FROM a;
`)
	for _, g := range []string{`"x"`, `"y\u0000"`, `null`, `""`} {
		b.send(&devbroker.Record{Topic: "a", Value: []byte(`{"g":` + g + `,"n":-1,"t":"2026-01-01 10:00:00"}`)})
	}
	b.caughtUp()
	seen, after := 0, ""
	for {
		res, err := http.Get("http://" + b.run.addr + "/api/v1/views/groups/scan?limit=1&after=" + after)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Fatalf("page %d after %s: %d", seen, after, res.StatusCode)
		}
		if after = res.Header.Get("Weir-Next"); after == "" {
			break
		}
		seen++
		if code, body, err := b.run.get("/api/v1/views/one/scan?after=" + after); err != nil || code != http.StatusBadRequest {
			t.Errorf("the cursor of another view: %d %s, %v", code, body, err)
		}
	}
	if seen != 4 {
		t.Errorf("%d pages of 4 groups", seen)
	}
}

// TestResident compares with what the runtime alone holds: DuckDB is in it, too.
func TestResident(t *testing.T) {
	if _, err := os.Stat("/proc/self/statm"); err != nil {
		t.Fatal("this test is for Linux, as Weir is: ", err)
	}
	openEngine(t)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if got := resident(); got < 30<<20 || got == int64(m.Sys-m.HeapReleased) {
		t.Errorf("resident memory %d", got)
	}
}
