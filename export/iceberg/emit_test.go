package iceberg

import (
	"flag"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/state/sqltype"
)

var emit = flag.String("emit", "", "directory to write tables into, for other readers to be tested on")

var sampleTime = time.Date(2026, 11, 29, 18, 0, 0, 0, time.UTC)

// emitted writes the tables that pytest/ reads: one of every type, one that grew
// a column and had rows replaced three times, an empty one.
func emitted(t testing.TB, fsys vfs.FS, dir string) {
	t.Helper()
	columns, rows := sampleRows(t)
	if _, err := Export(t.Context(), fsys, fsys.PathJoin(dir, "types"), columns, rows, Options{View: "types", Now: sampleTime}); err != nil {
		t.Fatal(err)
	}
	k := sqltype.Field{Name: "k", Type: sqltype.MustParse("VARCHAR")}
	n := sqltype.Field{Name: "n", Type: sqltype.MustParse("BIGINT")}
	d := sqltype.Field{Name: "d", Type: sqltype.MustParse("DECIMAL(38,2)")}
	for i, e := range []struct {
		columns []sqltype.Field
		rows    [][]string
	}{
		{[]sqltype.Field{k, n}, [][]string{{`"a"`, "1"}, {`"b"`, "2"}}},
		{[]sqltype.Field{k, n}, [][]string{{`"a"`, "10"}, {`"c"`, "3"}, {"", "4"}}},
		{[]sqltype.Field{k, d, n}, [][]string{{`"a"`, `"1.50"`, "11"}, {`"c"`, "", "3"}}},
	} {
		_, err := Export(t.Context(), fsys, fsys.PathJoin(dir, "grows"), e.columns, rowsOf(t, e.columns, e.rows...), Options{
			View: "grows", Now: sampleTime.Add(time.Duration(i) * time.Hour),
			Properties: map[string]string{"weir.epoch": strconv.Itoa(10 * (i + 1)), "weir.positions": "orders/0:" + strconv.Itoa(i)},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Export(t.Context(), fsys, fsys.PathJoin(dir, "empty"), []sqltype.Field{k, n}, rowsOf(t, []sqltype.Field{k, n}), Options{View: "empty"}); err != nil {
		t.Fatal(err)
	}
}

func TestEmit(t *testing.T) {
	dir := *emit
	if dir == "" {
		dir = t.TempDir()
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	emitted(t, vfs.Default, dir)
}
