//go:build duckdb_arrow

package appliance

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"weir/appliance/devbroker"
)

// errorViews have groups in error: the sums of a overflow, those of c have no
// logarithm. Both groups go on: the sum of a stays in error.
const errorViews = `CREATE SOURCE t (k VARCHAR, x DECIMAL(38,0), h HUGEINT) WITH (connector = 'kafka', topic = 't', format = 'json');
CREATE MATERIALIZED VIEW sums AS SELECT k, count(*) AS n, sum(x) AS total, avg(x) AS mean, {'n': count(*), 'list': [count(*)]} AS pair FROM t GROUP BY k;
CREATE MATERIALIZED VIEW huge AS SELECT k, count(*) AS n, sum(h) AS sh FROM t GROUP BY k;
CREATE MATERIALIZED VIEW logs AS SELECT k, count(*) AS n, ln(CAST(sum(h) AS DOUBLE)) AS l FROM t WHERE k <> 'a' GROUP BY k;
CREATE MATERIALIZED VIEW shown AS SELECT k, count(*) AS n, sum(x) AS total FROM t GROUP BY k HAVING sum(x) > 100;`

// TestGroupsInErrorShowNothing scans views with groups in error in every way: no
// number of such a group is to be seen, and every answer says that it is in error.
func TestGroupsInErrorShowNothing(t *testing.T) {
	t.Parallel()
	const most = "60000000000000000000000000000000000000"  // 6e37: two are beyond DECIMAL(38)
	const wide = "100000000000000000000000000000000000000" // 1e38: two are beyond HUGEINT, one beyond DECIMAL(38)
	record := func(k, x, h string) *devbroker.Record {
		return &devbroker.Record{Topic: "t", Value: fmt.Appendf(nil, `{"k":%q,"x":%s,"h":%s}`, k, x, h)}
	}
	for _, batches := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d batches", batches), func(t *testing.T) {
			first := []*devbroker.Record{record("a", most, wide), record("a", most, wide), record("b", "1", "1"), record("c", "1", "-1")}
			more := []*devbroker.Record{record("a", "1", "1")}
			b := newBed(t)
			b.topic("t", 1)
			if batches == 1 {
				b.send(append(first[:len(first):len(first)], more...)...)
			}
			b.must(errorViews)
			if batches == 2 {
				b.send(first...)
				b.caughtUp()
				b.send(more...)
			}
			b.caughtUp()
			b.errorGroupsHide()
			for view, want := range map[string]string{"sums": "1 group has a sum beyond its type: ", "logs": ""} {
				v, _, err := backend{b.run.Appliance}.View(t.Context(), view)
				if err != nil || !strings.HasPrefix(v.Error, want) || want == "" && v.Error != "" {
					t.Errorf("status of %s: %q %v", view, v.Error, err)
				}
			}
			path, _ := b.download("/api/v1/views/sums/scan.parquet?min_epoch=" + strconv.FormatUint(b.run.store.Epoch(), 10))
			if got, want := cellsOf(t, "SELECT k, n::VARCHAR, total::VARCHAR, mean::VARCHAR, pair::VARCHAR, (__error IS NOT NULL)::VARCHAR FROM '"+path+"' ORDER BY k"),
				`"a" | null | null | null | null | "true"`+"\n"+`"b" | "1" | "1" | "1.0" | "{'n': 1, 'list': [1]}" | "false"`+"\n"+`"c" | "1" | "1" | "1.0" | "{'n': 1, 'list': [1]}" | "false"`+"\n"; got != want {
				t.Errorf("scan.parquet: %s", got)
			}
			id := b.checkpoint()
			path, _ = b.download(fmt.Sprintf("/api/v1/checkpoints/%d/sums.parquet", id))
			if got := cellsOf(t, "SELECT n::VARCHAR, total::VARCHAR, mean::VARCHAR, __error_at FROM '"+path+"' WHERE __error IS NOT NULL"); got != `null | null | null | "merge"`+"\n" {
				t.Errorf("the checkpoint's file: %s", got)
			}
			b.stop()

			// As weir open shows the checkpoint.
			data := t.TempDir()
			what, taken, err := (&openCmd{From: filepath.Join(b.dir, checkpointsDir)}).unpack(t.Context(), data)
			if err != nil {
				t.Fatal(err)
			}
			cfg := testConfig(data, "")
			cfg.shown, cfg.taken = what, taken
			if b.run, err = launch(cfg); err != nil {
				t.Fatal(err)
			}
			b.errorGroupsHide()
		})
	}
}

// errorGroupsHide checks what scans show of errorViews.
func (b *bed) errorGroupsHide() {
	b.t.Helper()
	for path, want := range map[string][]string{
		"sums/scan":                         {`{"k":"a","n":null,"total":null,"mean":null,"pair":null,"__error":"__sum_x: `, `{"k":"b","n":1,"total":"1","mean":1`},
		"sums/scan?columns=k,total":         {`{"k":"a","total":null,"__error":"__sum_x: `, `{"k":"b","total":"1","__error":null}`},
		"sums/scan?columns=__error,n,k":     {`{"__error":"__sum_x: `, `"n":null,"k":"a"}`, `{"__error":null,"n":1,"k":"b"}`},
		"huge/scan":                         {`{"k":"a","n":null,"sh":null,"__error":"__sum_h: `},
		"logs/scan?columns=n,l":             {`{"n":null,"l":null,"__error":"`, `{"n":1,"l":0`},
		"shown/scan":                        {`{"k":"a","n":null,"total":null,"__error":"__sum_x: `},
		"shown/scan?columns=total&limit=10": {`{"total":null,"__error":"__sum_x: `},
	} {
		code, body, err := b.run.get("/api/v1/views/" + path)
		if err != nil || code != http.StatusOK {
			b.t.Fatal(path, code, body, err)
		}
		for _, w := range want {
			if !strings.Contains(body, w) {
				b.t.Errorf("%s: %s lacks %s", path, body, w)
			}
		}
	}
	// A stale HUGEINT would not even fit.
	for _, path := range []string{"huge/scan.arrow", "huge/scan.arrow?columns=sh"} {
		res := b.ask("GET", "/api/v1/views/"+path)
		if res.StatusCode != http.StatusOK {
			b.t.Fatalf("%s: %d %s", path, res.StatusCode, b.body(res))
		}
		r, err := ipc.NewReader(res.Body)
		if err != nil {
			b.t.Fatal(err)
		}
		failed := 0
		for r.Next() {
			rec := r.RecordBatch()
			why, ok := rec.Column(int(rec.NumCols()) - 1).(*array.String)
			if !ok || rec.ColumnName(int(rec.NumCols())-1) != errorColumn {
				b.t.Fatalf("%s: the last column is %s", path, rec.ColumnName(int(rec.NumCols())-1))
			}
			for i := range why.Len() {
				if why.IsValid(i) {
					failed++
				}
				if sum := rec.Column(int(rec.NumCols()) - 2); sum.IsNull(i) != why.IsValid(i) {
					b.t.Errorf("%s: row %d shows %s with the error %q", path, i, sum.ValueStr(i), why.ValueStr(i))
				}
			}
		}
		if err := r.Err(); err != nil || failed != 1 {
			b.t.Errorf("%s: %d groups in error, %v", path, failed, err)
		}
		r.Release()
		res.Body.Close()
	}
	b.download("/api/v1/views/huge/scan.parquet")
}

// TestVerifyCountsWhatHavingHides: what is not compared is told.
func TestVerifyCountsWhatHavingHides(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("t", 1)
	for i := range 30 {
		b.send(&devbroker.Record{Topic: "t", Value: fmt.Appendf(nil, `{"k":"%d","x":%d}`, i, 94+i)})
	}
	b.must(errorViews)
	b.caughtUp()
	if rep := b.verified("shown"); rep.compared != 23 || rep.hidden != 7 {
		t.Errorf("compared %d, hidden %d", rep.compared, rep.hidden)
	}
	if got := b.rows("VERIFY VIEW shown"); !strings.HasSuffix(got, " | null | 7\n") {
		t.Error(got)
	}
	if rep := b.verified("sums"); rep.compared != 30 || rep.hidden != 0 {
		t.Errorf("without HAVING: compared %d, hidden %d", rep.compared, rep.hidden)
	}
}

// TestUnfitValueNamesItsGroup: no Arrow file holds a HUGEINT of 39 digits, sound as
// it is.
func TestUnfitValueNamesItsGroup(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.topic("t", 1)
	b.must(errorViews + "\nCREATE MATERIALIZED VIEW keyed AS SELECT h, count(*) AS n FROM t GROUP BY h;")
	b.send(&devbroker.Record{Topic: "t", Value: []byte(`{"k":"wide one","h":100000000000000000000000000000000000000}`)})
	b.caughtUp()
	for path, want := range map[string]string{
		"scan.arrow":            "the group k = wide one holds a HUGEINT beyond what Arrow and Parquet files carry: read it as JSON from scan, ",
		"scan.parquet":          "the group k = wide one holds a HUGEINT",
		"scan.arrow?columns=sh": "column sh: a group holds a HUGEINT",
	} {
		code, body, err := b.run.get("/api/v1/views/huge/" + path)
		if err != nil || code != http.StatusBadRequest || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s %v", path, code, body, err)
		}
	}
	for _, path := range []string{"scan.arrow", "scan.parquet"} {
		code, body, err := b.run.get("/api/v1/views/keyed/" + path)
		if err != nil || code != http.StatusBadRequest || !strings.Contains(body, "column h: the group h = 100000000000000000000000000000000000000 holds a HUGEINT") {
			t.Errorf("%s: %d %s %v", path, code, body, err)
		}
	}
	for path, want := range map[string]string{"scan": `"sh":"100000000000000000000000000000000000000"`, "scan.arrow?columns=k,n": "wide one"} {
		code, body, err := b.run.get("/api/v1/views/huge/" + path)
		if err != nil || code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s %v", path, code, body, err)
		}
	}
}

func TestOverflowedIsGrammar(t *testing.T) {
	for n, want := range map[int64]string{1: "1 group has a sum beyond its type: SQL that reads it ", 2: "2 groups have a sum beyond its type: SQL that reads them "} {
		if got := overflowed(n); !strings.HasPrefix(got, want) {
			t.Error(got)
		}
	}
}
