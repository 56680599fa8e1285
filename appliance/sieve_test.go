//go:build duckdb_arrow

package appliance

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/appliance/devbroker"
	"weir/queryable"
)

var denseFlag = flag.Int("dense", 1000, "records of TestSieve, of which many are refused")

// refusingSQL refuses records in every place of a view.
const refusingSQL = `
CREATE SOURCE r (s VARCHAR, x DOUBLE, n BIGINT, d VARCHAR, ok BOOLEAN) WITH (connector = 'kafka', topic = 'r', format = 'json');
CREATE MATERIALIZED VIEW keyed AS SELECT CAST(s AS INTEGER) AS k, count(*) AS n FROM r GROUP BY k;
CREATE MATERIALIZED VIEW summed AS SELECT ok, sum(CAST(s AS DECIMAL(6,2))) AS s, count(*) AS n FROM r GROUP BY ok;
CREATE MATERIALIZED VIEW filtered AS SELECT sum(n) FILTER (WHERE CAST(s AS INTEGER) > 3) AS f, min(ln(x)) FILTER (WHERE ok) AS l FROM r;
CREATE MATERIALIZED VIEW conditioned AS SELECT n % 3 AS k, max(CAST(d AS DATE)) AS d FROM r WHERE CAST(s AS INTEGER) % 2 = 0 GROUP BY k;
CREATE MATERIALIZED VIEW guarded AS SELECT date_trunc('month', CAST(d AS DATE)) AS m, max(sqrt(x)) AS a FROM r WHERE ok GROUP BY m;
CREATE MATERIALIZED VIEW several AS SELECT CAST(s AS TINYINT) AS k, min(ln(x)) AS l, max(CAST(d AS DATE)) AS d, bool_or(CAST(s AS BOOLEAN)) AS b FROM r GROUP BY k;
CREATE MATERIALIZED VIEW strange AS SELECT "ok", max(concat('sum(', d, '")')) AS c, count(CAST(s AS INTEGER) IS NULL) AS n FROM r GROUP BY ok;
CREATE MATERIALIZED VIEW overflows AS SELECT n * 9000000000000000 AS k, count(*) AS c FROM r GROUP BY k;
`

// TestSieve feeds the same records to an appliance that finds refused ones by
// halving alone and to one with the sieve, and wants the same quarantine in the
// same order, and the same groups.
func TestSieve(t *testing.T) {
	r := rand.New(rand.NewPCG(*seedFlag, 11))
	b := newBed(t)
	b.topic("r", 1)
	for i := range *denseFlag {
		bad := func(good, wrong string) string {
			if r.IntN(3) == 0 {
				return wrong
			}
			return good
		}
		doc := fmt.Sprintf(`{"s":%s,"x":%s,"n":%d,"d":%s,"ok":%s}`, bad(fmt.Sprintf(`"%d"`, r.IntN(150)), pick(r, `"abc"`, `"1x"`, `null`, `"true"`, `"99999999999"`)),
			bad("2.5", pick(r, "0", "-1", "null")), r.IntN(2000), bad(`"2026-03-04"`, pick(r, `"x"`, `"2026-13-01"`, "null")), pick(r, "true", "false", "null"))
		b.send(&devbroker.Record{Topic: "r", Timestamp: time.UnixMilli(int64(i)), Value: []byte(doc)})
	}
	var seen [2][]queryable.Rejected
	var groups [2]string
	var took [2]time.Duration
	for i, halving := range []bool{true, false} {
		b.dir = t.TempDir()
		b.config = func(c *config) { c.halving = halving }
		began := time.Now()
		b.must(refusingSQL)
		b.caughtUp()
		took[i] = time.Since(began)
		var err error
		if seen[i], err = b.run.refused(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(refusingSQL) {
			if name, ok := strings.CutPrefix(line, "CREATE MATERIALIZED VIEW "); ok {
				name, _, _ = strings.Cut(name, " ")
				groups[i] += name + "\n" + b.rows("SELECT * FROM "+name+" ORDER BY ALL")
			}
		}
		b.stop()
	}
	byView := func(rs []queryable.Rejected) map[string][]queryable.Rejected {
		m := map[string][]queryable.Rejected{}
		for _, r := range rs {
			m[r.View] = append(m[r.View], r)
		}
		return m
	}
	if diff := cmp.Diff(byView(seen[0]), byView(seen[1])); diff != "" {
		t.Errorf("quarantine (-halving +sieve):\n%s", diff)
	}
	if diff := cmp.Diff(groups[0], groups[1]); diff != "" {
		t.Errorf("groups (-halving +sieve):\n%s", diff)
	}
	if len(byView(seen[1])) < 7 {
		t.Errorf("only %d views refused records", len(byView(seen[1])))
	}
	t.Logf("%d records, %d refused: halving %v, sieve %v", *denseFlag, len(seen[1]), took[0], took[1])
}
