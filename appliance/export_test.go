//go:build duckdb_arrow

package appliance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	_ "github.com/duckdb/duckdb-go/v2" // reads the files
	"github.com/google/go-cmp/cmp"

	"weir/appliance/devbroker"
)

const exportSchema = `
CREATE SOURCE t (k VARCHAR, id UUID, x BIGINT, d DECIMAL(12,2), f DOUBLE, "at" TIMESTAMP, tags VARCHAR[], m MAP(VARCHAR, INTEGER))
WITH (connector = 'kafka', topic = 't', format = 'json');
CREATE MATERIALIZED VIEW "größe" AS
SELECT k, id, count(*) AS n, sum(x) AS s, sum(d) AS "sum of d", avg(f) AS a, max("at") AS last, min(tags) AS tags, m,
       date_trunc('hour', "at") AS hour
FROM t GROUP BY k, id, m, date_trunc('hour', "at") HAVING sum(x) <> 5;
CREATE MATERIALIZED VIEW fails AS SELECT k, ln(sum(x)) AS l FROM t GROUP BY k;
CREATE MATERIALIZED VIEW nothing AS SELECT k, count(*) AS n FROM t WHERE false GROUP BY k;`

// exportColumns are those of the view that SQL names.
const exportColumns = `k, id, n, s, "sum of d", a, last, tags, m, hour`

func exportBed(t *testing.T) *bed {
	t.Helper()
	b := newBed(t)
	b.topic("t", 2)
	b.must(exportSchema)
	b.sendExport(0, 500)
	return b
}

func (b *bed) sendExport(from, to int) {
	b.t.Helper()
	var recs []*devbroker.Record
	for i := from; i < to; i++ {
		recs = append(recs, &devbroker.Record{Topic: "t", Partition: int32(i % 2), Value: fmt.Appendf(nil,
			`{"k":"k%d ü","id":"00000000-0000-0000-0000-0000000000%02d","x":%d,"d":%d.25,"f":%d.5,"at":"2026-11-29T%02d:00:00.000001","tags":["a",null,"%d"],"m":{"x":%d}}`,
			i%50, i%40, i%7, i, i, i%24, i%3, i%5)})
	}
	b.send(recs...)
	b.caughtUp()
}

// cellsOf asks DuckDB, which is no part of the appliance, about files, and gives
// the answer in the form of bed.rows.
func cellsOf(t *testing.T, query string) string {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(t.Context(), "SET TimeZone = 'UTC'"); err != nil {
		t.Fatal(err)
	}
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for rows.Next() {
		cells := make([]*string, len(names))
		into := make([]any, len(names))
		for i := range cells {
			into[i] = &cells[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		for i, c := range cells {
			if i > 0 {
				out.WriteString(" | ")
			}
			text, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(text)
		}
		out.WriteByte('\n')
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// texts makes every column of a list VARCHAR.
func texts(columns string) string {
	parts := strings.Split(columns, ", ")
	for i, c := range parts {
		parts[i] = c + "::VARCHAR AS " + c
	}
	return strings.Join(parts, ", ")
}

// ask sends a request for a file, and closes its answer's body at the end.
func (b *bed) ask(method, path string, headers ...string) *http.Response {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, "http://"+b.run.addr+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { res.Body.Close() })
	return res
}

func (b *bed) body(res *http.Response) []byte {
	b.t.Helper()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return data
}

// download is a file as a whole, in a file.
func (b *bed) download(path string, headers ...string) (name, etag string) {
	b.t.Helper()
	res := b.ask("GET", path, headers...)
	data := b.body(res)
	if res.StatusCode != 200 || int64(len(data)) != res.ContentLength {
		b.t.Fatalf("%s: %d, %d bytes of %d: %.300s", path, res.StatusCode, len(data), res.ContentLength, data)
	}
	name = filepath.Join(b.t.TempDir(), "file.parquet")
	if err := os.WriteFile(name, data, 0o644); err != nil {
		b.t.Fatal(err)
	}
	return name, res.Header.Get("ETag")
}

// ranged reads a file by ranges, as DuckDB's httpfs does: HEAD, then GETs that
// send no condition and compare the ETag.
type ranged struct {
	b      *bed
	path   string
	size   int64
	etag   string
	ranges atomic.Int32
}

func (b *bed) ranged(path string) *ranged {
	b.t.Helper()
	res := b.ask("HEAD", path)
	if res.StatusCode != 200 || res.Header.Get("Accept-Ranges") != "bytes" {
		b.t.Fatalf("HEAD %s: %d %v", path, res.StatusCode, res.Header)
	}
	return &ranged{b: b, path: path, size: res.ContentLength, etag: res.Header.Get("ETag")}
}

func (r *ranged) ReadAt(p []byte, off int64) (int, error) {
	r.ranges.Add(1)
	res := r.b.ask("GET", r.path, "Range", fmt.Sprintf("bytes=%d-%d", off, off+int64(len(p))-1))
	if res.StatusCode != 206 || res.Header.Get("ETag") != r.etag {
		return 0, fmt.Errorf("status %d, ETag %s, not %s", res.StatusCode, res.Header.Get("ETag"), r.etag)
	}
	return io.ReadFull(res.Body, p)
}

func (r *ranged) Seek(off int64, whence int) (int64, error) {
	if off == 0 && whence == io.SeekEnd {
		return r.size, nil
	}
	return 0, errors.ErrUnsupported
}

// rows reads the whole file by ranges.
func (r *ranged) rows() int64 {
	r.b.t.Helper()
	f, err := file.NewParquetReader(r)
	if err != nil {
		r.b.t.Fatal(err)
	}
	defer f.Close()
	ar, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		r.b.t.Fatal(err)
	}
	table, err := ar.ReadTable(context.Background())
	if err != nil {
		r.b.t.Fatal(err)
	}
	defer table.Release()
	return table.NumRows()
}

func TestScanParquet(t *testing.T) {
	b := exportBed(t)
	path, _ := b.download("/api/v1/views/gr%C3%B6%C3%9Fe/scan.parquet")
	query := func(from string) string {
		return fmt.Sprintf("SELECT %s FROM %s ORDER BY ALL", texts(exportColumns), from)
	}
	want := b.rows(query(`"größe"`))
	if n := strings.Count(want, "\n"); n < 100 {
		t.Fatalf("only %d rows: %s", n, want)
	}
	if d := cmp.Diff(want, cellsOf(t, query("'"+path+"'"))); d != "" {
		t.Errorf("SQL and the file differ (-sql +file):\n%.2000s", d)
	}
	if got := cellsOf(t, "SELECT count(*)::VARCHAR, count(__error)::VARCHAR FROM '"+path+"'"); !strings.HasSuffix(got, `"0"`+"\n") {
		t.Errorf("rows and errors: %s", got)
	}

	// A group in error is there, and says so.
	path, _ = b.download("/api/v1/views/fails/scan.parquet")
	got := cellsOf(t, "SELECT count(*)::VARCHAR, count(l)::VARCHAR, count(__error)::VARCHAR, count(*) FILTER (l IS NULL AND __error IS NULL)::VARCHAR FROM '"+path+"'")
	if want := `"50" | "50" | "0" | "0"` + "\n"; got != want {
		t.Errorf("before a group fails: %s", got)
	}
	b.send(&devbroker.Record{Topic: "t", Value: []byte(`{"k":"zero","x":0}`)})
	b.caughtUp()
	path, _ = b.download("/api/v1/views/fails/scan.parquet?min_epoch=" + strconv.FormatUint(b.run.store.Epoch(), 10))
	if got := cellsOf(t, "SELECT k, l::VARCHAR, __error LIKE '%logarithm of zero%' AS e FROM '"+path+"' WHERE __error IS NOT NULL"); !strings.HasPrefix(got, `"zero" | null | "true"`) {
		t.Errorf("the group in error: %s", got)
	}

	told := cellsOf(t, "SELECT decode(value) FROM parquet_kv_metadata('"+path+"') WHERE decode(key) = 'weir.columns'")
	for column, role := range map[string]string{"k": "key", "l": "result", "__error": "system"} {
		if !regexp.MustCompile(`"` + column + `","sql_type":"[A-Z]+","role":"` + role + `"`).MatchString(strings.ReplaceAll(told, `\`, "")) {
			t.Errorf("%s is no %s: %s", column, role, told)
		}
	}

	// A view without groups has its columns.
	path, _ = b.download("/api/v1/views/nothing/scan.parquet")
	if got := cellsOf(t, "SELECT count(n)::VARCHAR, count(*)::VARCHAR FROM '"+path+"'"); got != `"0" | "0"`+"\n" {
		t.Error(got)
	}
}

// TestScanParquetIsOfOneEpoch reads a file by ranges while the view goes on, and
// after it has gone.
func TestScanParquetIsOfOneEpoch(t *testing.T) {
	b := exportBed(t)
	const path = "/api/v1/views/gr%C3%B6%C3%9Fe/scan.parquet"
	old := b.ranged(path)
	whole, _ := b.download(path, "If-Match", old.etag)
	epoch := b.ask("HEAD", path, "If-Match", old.etag).Header.Get("Weir-Epoch")
	rows := old.rows()
	b.sendExport(500, 1500)
	if n := old.rows(); n != rows || old.ranges.Load() < 4 {
		t.Errorf("%d rows after commits, not %d; %d ranges", n, rows, old.ranges.Load())
	}

	// Who begins now, and asks for what is committed, gets another file; the old
	// one stays for who names it.
	now := b.ask("HEAD", path+"?min_epoch="+strconv.FormatUint(b.run.store.Epoch(), 10))
	if now.StatusCode != 200 || now.Header.Get("ETag") == old.etag || now.Header.Get("Weir-Epoch") == epoch {
		t.Fatalf("%d %v", now.StatusCode, now.Header)
	}
	if _, err := old.ReadAt(make([]byte, 4), 0); err == nil || !strings.Contains(err.Error(), "not "+old.etag) {
		t.Errorf("a range without a condition is of the old file: %v", err)
	}
	want, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range [][]string{{path, "If-Match", old.etag}, {path, "If-Range", old.etag}, {path + "?epoch=" + epoch}} {
		res := b.ask("GET", how[0], append(slices.Clone(how[1:]), "Range", "bytes=100-199")...)
		if got := b.body(res); res.StatusCode != 206 || string(got) != string(want[100:200]) || res.Header.Get("Weir-Epoch") != epoch {
			t.Errorf("%v: %d, epoch %s", how, res.StatusCode, res.Header.Get("Weir-Epoch"))
		}
	}

	// When it has gone, it has gone.
	b.run.exports.expire(time.Now().Add(2 * exportIdle))
	for status, how := range map[int][]string{412: {path, "If-Match", old.etag}, 410: {path + "?epoch=" + epoch}} {
		res := b.ask("GET", how[0], append(slices.Clone(how[1:]), "Range", "bytes=100-199")...)
		if got := b.body(res); res.StatusCode != status || !strings.Contains(string(got), "again from its beginning") {
			t.Errorf("%v: %d %s", how, res.StatusCode, got)
		}
	}
	res := b.ask("GET", path, "If-Range", old.etag, "Range", "bytes=100-199")
	if got := b.body(res); res.StatusCode != 200 || int64(len(got)) != res.ContentLength || string(got[:4]) != "PAR1" {
		t.Errorf("If-Range of a file that has gone: %d, %d bytes", res.StatusCode, len(got))
	}
	if got := string(b.body(b.ask("GET", "/api/v1/views/nope/scan.parquet"))); !strings.Contains(got, "not_found") {
		t.Error(got)
	}
}

func TestCheckpointParquet(t *testing.T) {
	b := exportBed(t)
	first := b.checkpoint()
	query := func(from, where string) string {
		return fmt.Sprintf("SELECT %s FROM %s %s ORDER BY ALL", texts(exportColumns), from, where)
	}
	want := b.rows(query(`"größe"`, ""))
	b.sendExport(500, 900) // the checkpoint stays what it was
	dir := fmt.Sprintf("/api/v1/checkpoints/%d/", first)
	path, etag := b.download(dir + "gr%C3%B6%C3%9Fe.parquet")
	if d := cmp.Diff(want, cellsOf(t, query("'"+path+"'", "WHERE __visible AND __error IS NULL"))); d != "" {
		t.Errorf("SQL and the file differ (-sql +file):\n%.2000s", d)
	}
	if got := cellsOf(t, "SELECT count(*)::VARCHAR FROM '"+path+"' WHERE NOT __visible"); got == "\"0\"\n" {
		t.Error("no group that HAVING hides")
	}
	if got := cellsOf(t, "SELECT decode(value) FROM parquet_kv_metadata('"+path+"') WHERE decode(key) = 'weir.checkpoint'"); got != fmt.Sprintf("\"%d\"\n", first) {
		t.Errorf("weir.checkpoint is %s", got)
	}
	r := b.ranged(dir + "gr%C3%B6%C3%9Fe.parquet")
	if r.etag != etag || r.rows() == 0 || r.ranges.Load() < 2 {
		t.Errorf("ETag %s, %d ranges", r.etag, r.ranges.Load())
	}
	for name, size := range map[string]int64{"fails.parquet": 0, "nothing.parquet": 0, "fails.arrow": 0, "gr%C3%B6%C3%9Fe.arrow": 0} {
		whole := b.ask("GET", dir+name)
		size = whole.ContentLength
		data := b.body(whole)
		res := b.ask("GET", dir+name, "Range", "bytes=-10", "If-Range", whole.Header.Get("ETag"))
		if got := b.body(res); res.StatusCode != 206 || string(got) != string(data[size-10:]) {
			t.Errorf("%s: %d %q", name, res.StatusCode, got)
		}
	}
	made := func() (n int) {
		es, err := os.ReadDir(filepath.Join(b.dir, exportsDir))
		if err != nil {
			t.Fatal(err)
		}
		return len(es)
	}
	if n := made(); n != 3 { // an Arrow file is not made
		t.Errorf("%d files were made", n)
	}
	for range keepCheckpoints {
		b.checkpoint()
	}
	b.run.exports.sweep()
	if n := made(); n != 0 {
		t.Errorf("%d files of a checkpoint that is gone", n)
	}
	if res := b.ask("GET", dir+"fails.parquet"); res.StatusCode != 404 {
		t.Errorf("a checkpoint that is gone: %d", res.StatusCode)
	}
}

// checkpoint takes one and gives its number.
func (b *bed) checkpoint() uint64 {
	b.t.Helper()
	m, err := b.run.keeper.take(b.t.Context(), "", 0)
	if err != nil {
		b.t.Fatal(err)
	}
	return m.Checkpoint
}

func TestCheckpointExportParquet(t *testing.T) {
	b := exportBed(t)
	b.send(&devbroker.Record{Topic: "t", Value: []byte(`{"k":"zero","x":0}`)})
	b.caughtUp()
	n := b.checkpoint()
	dir := filepath.Join(b.dir, checkpointsDir, fmt.Sprintf("%08d", n))
	query := func(from string) string {
		return fmt.Sprintf("SELECT %s FROM %s ORDER BY ALL", texts(exportColumns), from)
	}
	path := filepath.Join(t.TempDir(), "out.parquet")
	weirs(t, "checkpoint", "export", dir, "--view", "größe", "--format", "parquet", "-o", path)
	if d := cmp.Diff(b.rows(query(`"größe"`)), cellsOf(t, query("'"+path+"'"))); d != "" {
		t.Errorf("SQL and the file differ (-sql +file):\n%.2000s", d)
	}

	// All columns are what HTTP gives, byte by byte.
	weirs(t, "checkpoint", "export", dir, "--view", "größe", "--format", "parquet", "--all-columns", "-o", path)
	served, _ := b.download(fmt.Sprintf("/api/v1/checkpoints/%d/gr%%C3%%B6%%C3%%9Fe.parquet", n))
	var files [2]string
	for i, p := range []string{path, served} {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		files[i] = string(data)
	}
	if files[0] != files[1] {
		t.Error("the command line and HTTP give two files")
	}

	// A group in error ends it, and leaves what was there.
	refusedWith(t, "logarithm of zero", "checkpoint", "export", dir, "--view", "fails", "--format", "parquet", "-o", path)
	if data, err := os.ReadFile(path); err != nil || string(data) != files[0] {
		t.Errorf("what stood there has gone: %v", err)
	}
	weirs(t, "checkpoint", "export", dir, "--view", "fails", "--format", "parquet", "--all-columns", "-o", path)
	if got := cellsOf(t, "SELECT k, l::VARCHAR, __error_at FROM '"+path+"' WHERE __error IS NOT NULL"); got != `"zero" | null | "result"`+"\n" {
		t.Errorf("the group in error: %s", got)
	}
}

// TestCheckpointExportIceberg reads the data file that the table names; the
// table's own metadata is read by other programs in export/iceberg/pytest.
func TestCheckpointExportIceberg(t *testing.T) {
	b := exportBed(t)
	table := filepath.Join(t.TempDir(), "table")
	query := func(from string) string {
		return fmt.Sprintf("SELECT %s FROM %s ORDER BY ALL", texts(exportColumns), from)
	}
	for i, to := range []int{600, 700} {
		b.sendExport(to-100, to)
		n := b.checkpoint()
		dir := filepath.Join(b.dir, checkpointsDir, fmt.Sprintf("%08d", n))
		out := weirs(t, "checkpoint", "export", dir, "--view", "größe", "--format", "iceberg", "-o", table, "--keep", "1")
		if !strings.Contains(out, fmt.Sprintf("v%d.metadata.json", i+1)) {
			t.Errorf("it says %q", out)
		}
		files, err := filepath.Glob(filepath.Join(table, "data", "*.parquet"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%v, %v", files, err)
		}
		if d := cmp.Diff(b.rows(query(`"größe"`)), cellsOf(t, query("'"+files[0]+"'"))); d != "" {
			t.Errorf("SQL and the table differ (-sql +table):\n%.2000s", d)
		}
		text, err := os.ReadFile(filepath.Join(table, "metadata", fmt.Sprintf("v%d.metadata.json", i+1)))
		if err != nil {
			t.Fatal(err)
		}
		m, err := b.run.keeper.open(n)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			fmt.Sprintf(`"weir.epoch": "%d"`, m.Manifest.Epoch), fmt.Sprintf(`"weir.checkpoint": "%d"`, n), `"weir.positions": "t/0:`,
		} {
			if !strings.Contains(string(text), want) {
				t.Errorf("the snapshot does not say %s", want)
			}
		}
	}
	dir := filepath.Join(b.dir, checkpointsDir, "00000002")
	refusedWith(t, "is of view größe, not nothing", "checkpoint", "export", dir, "--view", "nothing", "--format", "iceberg", "-o", table)
	if code, _, errs := weir("checkpoint", "export", dir, "--view", "nothing", "--format", "iceberg"); code != 2 || !strings.Contains(errs, "needs -o DIR") {
		t.Errorf("without a directory: %d %s", code, errs)
	}
}

// TestDeltasAreServedWhole has a view in a checkpoint that is a base and a delta:
// its files over HTTP are one each, and what SQL shows.
func TestDeltasAreServedWhole(t *testing.T) {
	b := newBed(t)
	b.topic("t", 1)
	b.must(`CREATE SOURCE t (k BIGINT, id UUID) WITH (connector = 'kafka', topic = 't', format = 'json');
CREATE MATERIALIZED VIEW big AS SELECT k, count(*) AS n, min([id]) AS ids FROM t GROUP BY k;`)
	send := func(from, to int) {
		var recs []*devbroker.Record
		for i := from; i < to; i++ {
			recs = append(recs, &devbroker.Record{Topic: "t", Value: fmt.Appendf(nil, `{"k":%d,"id":"00000000-0000-0000-0000-%012d"}`, i, i)})
		}
		b.send(recs...)
		b.caughtUp()
	}
	send(0, 12_000)
	b.checkpoint()
	send(11_900, 12_050)
	n := b.checkpoint()
	c, err := b.run.keeper.open(n)
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := c.Manifest.View("big"); !ok || v.Whole() {
		t.Fatal("the view is whole")
	}
	want := b.rows("SELECT count(*)::VARCHAR, sum(k)::VARCHAR, sum(n)::VARCHAR, max(ids)::VARCHAR FROM big")
	dir := fmt.Sprintf("/api/v1/checkpoints/%d/big", n)
	path, _ := b.download(dir + ".parquet")
	if got := cellsOf(t, "SELECT count(*)::VARCHAR, sum(k)::VARCHAR, sum(n)::VARCHAR, max(ids)::VARCHAR FROM '"+path+"'"); got != want {
		t.Errorf("Parquet has %s, not %s", got, want)
	}
	res := b.ask("GET", dir+".arrow", "Range", "bytes=0-7")
	if got := b.body(res); res.StatusCode != 206 || string(got) != "ARROW1\x00\x00" {
		t.Errorf("%d %q", res.StatusCode, got)
	}
	r, err := ipc.NewFileReader(bytes.NewReader(b.body(b.ask("GET", dir+".arrow"))))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	keys := map[int64]bool{}
	for i := range r.NumRecords() {
		rec, err := r.RecordBatch(i)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range rec.Column(0).(*array.Int64).Int64Values() {
			keys[k] = true
		}
	}
	if len(keys) != 12_050 {
		t.Errorf("the Arrow file has %d groups", len(keys))
	}
}

// TestBeyond38Digits has a value that neither Arrow files nor Parquet carry: it
// is an error, or a group in error, and never another number.
func TestBeyond38Digits(t *testing.T) {
	b := newBed(t)
	b.topic("t", 1)
	b.must(`CREATE SOURCE t (k VARCHAR, u UHUGEINT) WITH (connector = 'kafka', topic = 't', format = 'json');
CREATE MATERIALIZED VIEW v AS SELECT k, max(u) AS u FROM t GROUP BY k;`)
	b.send(&devbroker.Record{Topic: "t", Value: []byte(`{"k":"fits","u":99999999999999999999999999999999999999}`)},
		&devbroker.Record{Topic: "t", Value: []byte(`{"k":"beyond","u":340282366920938463463374607431768211455}`)})
	b.caughtUp()
	res := b.ask("GET", "/api/v1/views/v/scan.parquet")
	if got := string(b.body(res)); res.StatusCode != 400 || !strings.Contains(got, "column u") || !strings.Contains(got, "cast it to VARCHAR") {
		t.Errorf("live: %d %s", res.StatusCode, got)
	}
	path, _ := b.download(fmt.Sprintf("/api/v1/checkpoints/%d/v.parquet", b.checkpoint()))
	got := cellsOf(t, "SELECT k, u::VARCHAR, __error_at, (__error IS NOT NULL)::VARCHAR, (__exact IS NOT NULL)::VARCHAR FROM '"+path+"' ORDER BY k")
	if want := `"beyond" | null | "file" | "true" | "true"` + "\n" + `"fits" | "99999999999999999999999999999999999999" | null | "false" | "false"` + "\n"; got != want {
		t.Errorf("checkpoint: %s", got)
	}
}

// TestManyReadersOfOneView has readers of ranges begin at any time while the view
// goes on. Each holds to the file that it began with, and reads all of it or
// learns that it has gone.
func TestManyReadersOfOneView(t *testing.T) {
	b := exportBed(t)
	const path = "/api/v1/views/gr%C3%B6%C3%9Fe/scan.parquet"
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for done := false; ; {
				select {
				case <-stop:
					if done {
						return
					}
				default:
				}
				epoch := b.run.store.Epoch()
				res, err := http.Head("http://" + b.run.addr + path + "?min_epoch=" + strconv.FormatUint(epoch, 10))
				if err != nil || res.StatusCode != 200 {
					t.Errorf("HEAD: %v, %v", res, err)
					return
				}
				etag, size := res.Header.Get("ETag"), res.ContentLength
				if got, err := strconv.ParseUint(res.Header.Get("Weir-Epoch"), 10, 64); err != nil || got < epoch {
					t.Errorf("epoch %d is not %d", got, epoch)
				}
				var whole []byte
				for at := int64(0); at < size; at += size/5 + 1 {
					req, err := http.NewRequest("GET", "http://"+b.run.addr+path, nil)
					if err != nil {
						t.Error(err)
						return
					}
					req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", at, at+size/5))
					req.Header.Set("If-Match", etag)
					res, err := http.DefaultClient.Do(req)
					if err != nil {
						t.Error(err)
						return
					}
					part, err := io.ReadAll(res.Body)
					if err := errors.Join(err, res.Body.Close()); err != nil {
						t.Error(err)
						return
					}
					if res.StatusCode == 412 { // four younger ones were made
						whole = nil
						break
					}
					if res.StatusCode != 206 {
						t.Errorf("%d %s", res.StatusCode, part)
						return
					}
					whole = append(whole, part...)
				}
				if whole == nil {
					continue
				}
				if sum := sha256.Sum256(whole); etag != fmt.Sprintf(`"%x"`, sum[:16]) {
					t.Error("a reader has parts of two files")
					return
				}
				done = true
			}
		})
	}
	for i := range 15 {
		b.sendExport(500+20*i, 520+20*i)
	}
	close(stop)
	wg.Wait() // each has read a whole file at least once
}
