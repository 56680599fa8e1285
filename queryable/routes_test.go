package queryable

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

func TestRoutes(t *testing.T) {
	f := newFake()
	s := serve(t, f)
	const view = `{"name":"revenue by/city","kind":"materialized","sql":"CREATE …","source":"orders","columns":[{"name":"city","type":"VARCHAR"}],` +
		`"groups":2,"bytes":99,"epoch":7,"positions":[{"topic":"orders","partition":0,"next":10}],"lag":null,"rate":0,"state":"running","quarantined":0}`
	const empty = `{"name":"empty","kind":"","sql":"","source":"","columns":[],"groups":null,"bytes":0,"epoch":0,"positions":[],"lag":null,"rate":0,"state":"","quarantined":0}`
	s.get("/healthz").want(t, 200, `{"ok":true}`)
	s.get("/readyz").want(t, 200, `{"ready":true,"state":"RUNNING"}`)
	s.get("/api/v1/views").want(t, 200, `{"views":[`+view+`,`+empty+`]}`)
	s.get("/api/v1/views/revenue%20by%2Fcity").want(t, 200, view)
	s.get("/api/v1/views/gone").code(t, NotFound, "gone")
	s.get("/api/v1/sources").want(t, 200, `{"sources":[{"name":"orders","sql":"","connector":"kafka","topic":"orders","format":"json","columns":[],"state":"running",`+
		`"rate":0,"lag":null,"partitions":[{"partition":0,"next":10,"end":12,"lag":2},{"partition":1,"next":3,"end":null,"lag":null}],"quarantined":0,"records":30}]}`)
	s.get("/api/v1/sources/orders/quarantine?limit=5").want(t, 200, `{"records":[{"topic":"","partition":1,"offset":5,"timestamp":"2026-11-29T18:00:00Z",`+
		`"reason":"\u003cimg onerror=x\u003e","key":null,"value":"AHs="}],"next":"c1"}`)
	s.get("/api/v1/sources/orders/quarantine?limit=1001").code(t, BadRequest, "limit")
	s.get("/api/v1/sources/x/quarantine").code(t, NotFound, "x")
	s.get("/api/v1/checkpoints").want(t, 200, `{"checkpoints":[{"id":42,"epoch":6,"created":"2026-11-29T18:00:00Z","bytes":11,"views":["v"]}]}`)
	s.do("POST", "/api/v1/checkpoints", `{"savepoint":"before"}`).want(t, 201, `{"id":43,"savepoint":"before","epoch":7,"created":"2026-11-29T18:00:00Z","bytes":0,"views":[]}`)
	s.do("POST", "/api/v1/checkpoints", "").want(t, 201, `{"id":43,"epoch":7,"created":"2026-11-29T18:00:00Z","bytes":0,"views":[]}`)
	s.get("/api/v1/checkpoints/42").want(t, 200, `{"version":1}`)
	s.get("/api/v1/checkpoints/..%2F42").code(t, NotFound, "")
	r := s.get("/api/v1/checkpoints/42/v.arrow")
	r.want(t, 200, "ARROW1 data")
	if r.header.Get("Content-Length") != "11" {
		t.Error("a file without its length")
	}
	s.get("/api/v1/checkpoints/42/w.arrow").code(t, NotFound, "w")
	s.get("/api/v1/checkpoints/42/v.arrow.arrow").want(t, 200, "ARROW1 data") // of view v.arrow
	s.get("/api/v1/checkpoints/42/v.arrow.parquet").want(t, 200, "PAR1 0123456789")
	s.get("/api/v1/checkpoints/42/v.json").code(t, NotFound, "{view}.parquet, not v.json")
	s.get("/api/v1/checkpoints/42/.arrow").code(t, NotFound, "not .arrow")
	s.get("/api/v1/topology").want(t, 200, `{"version":3,"slots":256,"nodes":[{"address":"http://127.0.0.1:8080","from":0,"to":256}]}`)
	s.get("/api/v1/status").want(t, 200, `{"epoch":7,"state":"RUNNING","committed":"2026-11-29T18:00:00Z","uptime_s":1.5,"memory":0,"rate":0,"freshness_ms":0,"version":"test"}`)

	for _, path := range []string{"/api/v1/views", "/api/v1/sources", "/api/v1/checkpoints", "/api/v1/topology", "/api/v1/status"} {
		if h := s.get(path).header; h.Get("Weir-Epoch") != "7" || h.Get("Weir-Topology-Version") != "3" {
			t.Errorf("%s: epoch %q, topology %q", path, h.Get("Weir-Epoch"), h.Get("Weir-Topology-Version"))
		}
	}
	m := s.get("/metrics")
	if !strings.Contains(m.body, `weir_http_requests_total{method="GET",route="/api/v1/views/:view",status="404"} 1`) ||
		!strings.HasPrefix(m.header.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Errorf("%s\n%s", m.header.Get("Content-Type"), m.body)
	}
	f.ready = false
	s.get("/readyz").want(t, 503, `{"ready":false,"state":"RESTORING"}`)
}

func keyed(columns []Column) []Column {
	columns[0].Role, columns[1].Role = RoleKey, RoleKey
	return columns
}

func TestLookup(t *testing.T) {
	f := newFake()
	f.schema = Schema{Name: "v", Keys: []Key{
		{Field: cols("city", "VARCHAR")[0].Field},
		{Field: cols("hour", "TIMESTAMP")[0].Field, Bucket: true},
	}}
	columns := keyed(cols("city", "VARCHAR", "hour", "TIMESTAMP", "orders", "BIGINT"))
	var asked []string
	f.lookup = func(_ context.Context, r LookupRequest) (*Groups, error) {
		asked = nil
		g := &Groups{Answer: fakeAnswer, Columns: columns}
		if r.Accumulators {
			g.Columns = append(columns[:3:3], Column{cols("__count", "BIGINT")[0].Field, RoleAccumulator})
		}
		var rows []string
		for i := range int(r.Keys.NumRows()) {
			key, _ := r.Keys.MarshalJSON()
			asked = []string{string(key)}
			city, _ := json.Marshal(r.Keys.Column(0).ValueStr(i))
			fault := ""
			switch r.Keys.Column(0).ValueStr(i) {
			case "nowhere":
				continue
			case "broken":
				fault = "sum(amount) overflows"
			}
			for hour := range 3 - int(r.Keys.NumCols()) { // two buckets for a key without one
				row := fmt.Sprintf(`[%s,"2026-11-29T1%d:00:00",5]`, city, hour)
				if r.Accumulators {
					row = row[:len(row)-1] + ",9]"
				}
				rows = append(rows, row)
				g.Wanted = append(g.Wanted, i)
				g.Errors = append(g.Errors, fault)
			}
		}
		g.Batch = record(t, g.Columns, rows...)
		return g, nil
	}
	s := serve(t, f)
	const at = "/api/v1/views/v/lookup"
	const hour = "&hour=2026-11-29T10:00:00"
	const paris = `{"key":{"city":"Paris","hour":"2026-11-29T10:00:00"},"value":{"orders":5}`
	r := s.get(at + "?city=Paris" + hour)
	r.want(t, 200, paris+`,"epoch":7}`)
	if r.header.Get("Weir-Position") != "clicks/0:3,orders/0:10,orders/1:20" {
		t.Errorf("position %q", r.header.Get("Weir-Position"))
	}
	if want := `[{"city":"Paris","hour":"2026-11-29T10:00:00"}` + "\n]"; len(asked) != 1 || asked[0] != want {
		t.Errorf("the backend was asked %q", asked)
	}
	s.get(at+"?accumulators=1&numbers=string&city=Paris"+hour).want(t, 200,
		`{"key":{"city":"Paris","hour":"2026-11-29T10:00:00"},"value":{"orders":"5","__count":"9"},"epoch":7}`)
	s.get(at+"?city=Paris").want(t, 200, `{"groups":[`+"\n"+paris+"},\n"+strings.Replace(paris, "T10", "T11", 1)+`}],"epoch":7}`)
	s.get(at+"?city=nowhere"+hour).code(t, NotFound, `{"city":"nowhere","hour":"2026-11-29T10:00:00"}`)
	s.get(at+"?city=nowhere").code(t, NotFound, `{"city":"nowhere"}`)
	s.get(at+"?city=broken"+hour).code(t, GroupFailed, "overflows")
	s.get(at).code(t, BadRequest, "city")
	s.get(at+"?city=a&city=b").code(t, BadRequest, "twice")
	s.get(at+"?city=a&town=b").code(t, BadRequest, "town")
	s.get(at+"?cty=Paris").code(t, BadRequest, "no key column cty; its key is city VARCHAR")
	s.get(at+"?City=Paris"+hour).code(t, BadRequest, "no key column City; its key is city VARCHAR")
	s.get(at+"?city=a&hour=noon").code(t, BadRequest, "hour")
	s.get("/api/v1/views/w/lookup?city=a").code(t, NotFound, "w")

	const h = `,"hour":"2026-11-29T10:00:00"`
	s.do("POST", at, `{"keys":[{"city":"Paris"`+h+`},{"city":"nowhere"`+h+`},{"city":"broken"`+h+`}]}`).want(t, 200, `{"groups":[`+
		"\n"+paris+"},\n"+`{"key":{"city":"nowhere","hour":"2026-11-29T10:00:00"},"value":null},`+
		"\n"+`{"key":{"city":"broken","hour":"2026-11-29T10:00:00"},"error":"sum(amount) overflows"}],"epoch":7}`)
	s.do("POST", at, `{"keys":[{"city":null}]}`).want(t, 200, `{"groups":[`+
		"\n"+strings.Replace(paris, "Paris", "(null)", 1)+"},\n"+strings.NewReplacer("T10", "T11", "Paris", "(null)").Replace(paris)+`}],"epoch":7}`)
	if asked[0] != `[{"city":null}`+"\n]" {
		t.Errorf("the backend was asked %q", asked)
	}
	s.do("POST", at, `{"keys":[]}`).code(t, BadRequest, "keys")
	s.do("POST", at, `{"keys":[{"city":"a"},{"city":"a"`+h+`}]}`).code(t, BadRequest, "same columns")
	s.do("POST", at, `{"keys":[{"city":5}]}`).code(t, BadRequest, "VARCHAR")
}

func TestLookupOfTheOnlyRow(t *testing.T) {
	f := newFake()
	f.schema = Schema{Name: "total"}
	columns := cols("n", "BIGINT")
	f.lookup = func(_ context.Context, r LookupRequest) (*Groups, error) {
		if r.Keys.NumRows() != 1 || r.Keys.NumCols() != 0 {
			t.Errorf("asked for %v", r.Keys)
		}
		return &Groups{Answer: Answer{Epoch: 7}, Columns: columns, Batch: record(t, columns, "[0]"), Wanted: []int{0}}, nil
	}
	s := serve(t, f)
	s.get("/api/v1/views/total/lookup").want(t, 200, `{"key":{},"value":{"n":0},"epoch":7}`)
	s.get("/api/v1/views/total/lookup?x=1").code(t, BadRequest, "one row")
}

func TestScan(t *testing.T) {
	columns := cols("city", "VARCHAR", "b", "BOOLEAN")
	f := newFake()
	var asked ScanRequest
	f.scan = func(_ context.Context, r ScanRequest) (*Rows, error) {
		asked = r
		rows := table(columns, nil, record(t, columns, `["a",true]`, `["b",null]`))
		rows.Next = func() string { return "cursor-2" }
		return rows, nil
	}
	s := serve(t, f)
	r := s.get("/api/v1/views/my%20view/scan?slot=3-7&columns=city,b&limit=2&after=cursor-1")
	r.want(t, 200, `{"city":"a","b":true}`+"\n"+`{"city":"b","b":null}`)
	want := ScanRequest{View: "my view", Columns: []string{"city", "b"}, FromSlot: 3, ToSlot: 8, Limit: 2, After: "cursor-1"}
	if fmt.Sprint(asked) != fmt.Sprint(want) || r.header.Get("Weir-Next") != "cursor-2" {
		t.Errorf("asked %+v, next %q", asked, r.header.Get("Weir-Next"))
	}
	s.get("/api/v1/views/v/scan")
	if asked.FromSlot != 0 || asked.ToSlot != 256 || asked.Columns != nil || asked.Limit != 0 {
		t.Errorf("asked %+v", asked)
	}
	for _, q := range []string{"slot=256", "slot=5-3", "slot=x", "limit=0", "limit=10001", "numbers=x", "min_epoch=x", "timeout=0", "timeout=1000"} {
		s.get("/api/v1/views/v/scan?"+q).code(t, BadRequest, strings.Split(q, "=")[0])
	}
}

func TestScanArrow(t *testing.T) {
	columns := cols("city", "VARCHAR", "n", "BIGINT")
	f := newFake()
	batches := 2
	f.scan = func(context.Context, ScanRequest) (*Rows, error) {
		var bs []arrow.RecordBatch
		for range batches {
			bs = append(bs, record(t, columns, `["a",1]`, `["b",null]`))
		}
		return table(columns, nil, bs...), nil
	}
	s := serve(t, f)
	for ; batches >= 0; batches-- {
		r := s.get("/api/v1/views/v/scan.arrow")
		rd, err := ipc.NewReader(strings.NewReader(r.body))
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		for rd.Next() {
			rows += int(rd.RecordBatch().NumRows())
		}
		if rd.Err() != nil || rows != 2*batches || rd.Schema().Field(1).Name != "n" {
			t.Errorf("%d rows of %d batches, %v", rows, batches, rd.Err())
		}
	}
}

func TestWaits(t *testing.T) {
	f := newFake()
	clock := &askedClock{fake: f, asked: make(chan struct{}, 100)}
	s := serve(t, clock)
	if r := s.get("/api/v1/views?min_epoch=7"); r.status != 200 {
		t.Errorf("an epoch that is there: %v", r)
	}
	s.get("/api/v1/views?min_epoch=8&timeout=10ms").code(t, Timeout, "newest epoch is 7")
	s.get("/api/v1/views?min_position=orders/0:5,a.b/12:6")
	if fmt.Sprint(f.waited) != "[{orders 0 5} {a.b 12 6}]" {
		t.Errorf("waited for %v", f.waited)
	}
	s.get("/api/v1/views?min_position=orders/0:500&timeout=0.01").code(t, Timeout, "orders/0:500")
	for _, p := range []string{"orders", "orders/0", "orders/x:1", "/0:1", "orders/0:-1", "orders/0:1,"} {
		s.get("/api/v1/views?min_position="+p).code(t, BadRequest, "min_position")
	}
	got := make(chan reply, 1)
	for len(clock.asked) > 0 {
		<-clock.asked
	}
	go func() { got <- s.get("/api/v1/views?min_epoch=9") }()
	for range 2 {
		<-clock.asked // it waits for an epoch that is not there
		f.commit()
	}
	if r := <-got; r.status != 200 {
		t.Errorf("after the commit: %v", r)
	}
}

// askedClock tells when it was asked for the epoch.
type askedClock struct {
	*fake
	asked chan struct{}
}

func (c *askedClock) Changed() (uint64, time.Time, <-chan struct{}) {
	defer func() { c.asked <- struct{}{} }()
	return c.fake.Changed()
}

func TestEvents(t *testing.T) {
	f := newFake()
	s := serve(t, f, func(o *Options) { o.Pace, o.Heartbeat, o.Streams = time.Millisecond, 20*time.Millisecond, 1 })
	res, err := s.send(t.Context(), "GET", "/api/v1/events", "")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Error(got)
	}
	in := bufio.NewScanner(res.Body)
	line := func() string {
		if !in.Scan() {
			t.Fatalf("the stream ended: %v", in.Err())
		}
		return in.Text()
	}
	event := func(epoch int) {
		t.Helper()
		for _, want := range []string{"event: epoch", fmt.Sprintf("id: %d", epoch), fmt.Sprintf(`data: {"epoch":%d,"committed":"2026-11-29T18:00:00Z"}`, epoch), ""} {
			got := line()
			for got == ": " { // a heartbeat and the line after it
				line()
				got = line()
			}
			if got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
	}
	if got := line() + line(); got != ": ok" {
		t.Fatalf("the stream begins with %q", got)
	}
	event(7)
	f.commit()
	event(8)
	if got := line(); got != ": " {
		t.Errorf("no heartbeat but %q", got)
	}
	line()
	s.get("/api/v1/events").code(t, Busy, "event streams")
	f.commit()
	event(9)
	s.api.Stop()
	for in.Scan() {
	}
	if in.Err() != nil {
		t.Errorf("at stop the stream ended with %v", in.Err())
	}
}

// TestManyAtOnce has each of 1,000 clients get its own answer, at the same
// time: nothing of a request may leak into another through reused memory.
func TestManyAtOnce(t *testing.T) {
	f := newFake()
	columns := cols("sql", "VARCHAR", "param", "VARCHAR")
	f.query = func(ctx context.Context, r QueryRequest) (*Rows, error) {
		sql, _ := json.Marshal(r.SQL)
		return table(columns, nil, record(t, columns, fmt.Sprintf("[%s,%s]", sql, r.Params[0]))), nil
	}
	f.schema = Schema{Name: "v", Keys: []Key{{Field: cols("k", "VARCHAR")[0].Field}}}
	keyColumns := cols("k", "VARCHAR")
	keyColumns[0].Role = RoleKey
	f.lookup = func(_ context.Context, r LookupRequest) (*Groups, error) {
		r.Keys.Retain()
		return &Groups{Answer: fakeAnswer, Columns: keyColumns, Batch: r.Keys, Wanted: []int{0}}, nil
	}
	s := serve(t, f, func(o *Options) { o.Queries = 1000 })
	s.hc.Transport.(*http.Transport).MaxConnsPerHost = 200
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			id := fmt.Sprintf("id-%d", i)
			r := s.do("POST", "/api/v1/sql", fmt.Sprintf(`{"sql":"SELECT %d","params":["%s"]}`, i, id), "Weir-Query", id)
			if want := fmt.Sprintf("\n[\"SELECT %d\",\"%s\"]", i, id); !strings.Contains(r.body, want) || r.header.Get("Weir-Query") != id {
				t.Errorf("%s got %s %d %s", id, r.header.Get("Weir-Query"), r.status, r.body)
			}
			s.get("/api/v1/views/v/lookup?k="+id).want(t, 200, `{"key":{"k":"`+id+`"},"value":{},"epoch":7}`)
		})
	}
	wg.Wait()
	s.api.mu.Lock()
	defer s.api.mu.Unlock()
	if len(s.api.byID) != 0 || len(s.api.queries) != 0 {
		t.Errorf("%d queries and %d places are left", len(s.api.byID), len(s.api.queries))
	}
}

func BenchmarkLookup(b *testing.B) {
	schema := Schema{Name: "v", Keys: []Key{{Field: cols("k", "VARCHAR")[0].Field}}}
	columns := cols("k", "VARCHAR", "n", "BIGINT")
	columns[0].Role = RoleKey
	batch := record(b, columns, `["x",5]`)
	key := []map[string]json.RawMessage{{"k": json.RawMessage("x")}}
	for b.Loop() {
		keys, whole, err := keyBatch(schema, key, true)
		if err != nil {
			b.Fatal(err)
		}
		l := &found{Groups: &Groups{Columns: columns, Batch: batch, Wanted: []int{0}}, asked: keys, schema: schema, whole: whole}
		if err := l.bind(); err != nil {
			b.Fatal(err)
		}
		if _, err := answerOne(nil, l); err != nil {
			b.Fatal(err)
		}
		keys.Release()
	}
}

// TestUnknownParameters asks each route for what it does not know.
func TestUnknownParameters(t *testing.T) {
	s := serve(t, newFake())
	for path, takes := range map[string]string{
		"/api/v1/views": "min_epoch, min_position, timeout", "/api/v1/views/x": "timeout", "/api/v1/views/x/scan": "slot, columns, limit, after, numbers, min_epoch", "/api/v1/views/x/scan.arrow": "after",
		"/api/v1/sources": "timeout", "/api/v1/sources/x/quarantine": "limit, after", "/api/v1/checkpoints": "timeout", "/api/v1/checkpoints/42": "none", "/api/v1/checkpoints/42/v.arrow": "none",
		"/api/v1/topology": "none", "/api/v1/status": "none", "/api/v1/events": "none", "/api/v1/views/x/scan.parquet": "epoch, min_epoch", "/api/v1/checkpoints/42/v.parquet": "none",
	} {
		s.get(path+"?limt=5").code(t, BadRequest, "there is no parameter limt here: this route takes ")
		s.get(path+"?limt=5").code(t, BadRequest, takes)
	}
	s.do("POST", "/api/v1/sql?number=string", `{"sql":"x"}`).code(t, BadRequest, "there is no parameter number here: this route takes numbers, spreadsheet, min_epoch")
	s.do("POST", "/api/v1/views/x/lookup?accumulators=1", `{"keys":[]}`).code(t, BadRequest, "no parameter accumulators")
	s.do("POST", "/api/v1/checkpoints?name=x", "").code(t, BadRequest, "no parameter name")
	s.do("DELETE", "/api/v1/queries/x?now=1", "").code(t, BadRequest, "no parameter now")
	s.get("/api/v1/views?timeout=1&timeout=2").code(t, BadRequest, "timeout is given twice")
	if r := s.get("/api/v1/views?min_epoch=1&timeout=1"); r.status != 200 {
		t.Errorf("parameters that are known: %d %s", r.status, r.body)
	}
}
