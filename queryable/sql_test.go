package queryable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/google/go-cmp/cmp"

	"weir/checkpoint"
)

func TestSQLForms(t *testing.T) {
	columns := cols("n", "BIGINT", "d", "DECIMAL(12,2)", "s", "VARCHAR", "n", "DOUBLE")
	rows := []string{`[9007199254740993,"-0.05","a,\"b\"","NaN"]`, `[null,null,"",1.5]`}
	f := newFake()
	var asked QueryRequest
	f.query = func(_ context.Context, r QueryRequest) (*Rows, error) {
		asked = r
		return table(columns, nil, record(t, columns, rows[0]), record(t, columns), record(t, columns, rows[1])), nil
	}
	s := serve(t, f)
	const post = `{"sql":"SELECT ?","params":[1,"x"],"max_rows":10}`
	const head = `{"columns":[{"name":"n","type":"BIGINT"},{"name":"d","type":"DECIMAL(12,2)"},{"name":"s","type":"VARCHAR"},{"name":"n","type":"DOUBLE"}],"rows":[`
	r := s.do("POST", "/api/v1/sql", post)
	r.want(t, 200, head+"\n[9007199254740993,\"-0.05\",\"a,\\\"b\\\"\",\"NaN\"],\n[null,null,\"\",1.5]],\"epoch\":7}")
	for name, want := range map[string]string{
		"Weir-Epoch": "7", "Weir-Topology-Version": "3", "Weir-Position": "clicks/0:3,orders/0:10,orders/1:20",
		"Content-Type": "application/json", "Weir-Truncated": "",
	} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if id := r.header.Get("Weir-Query"); id == "" || id != asked.ID {
		t.Errorf("Weir-Query %q, backend saw %q", id, asked.ID)
	}
	if asked.SQL != "SELECT ?" || len(asked.Params) != 2 || string(asked.Params[1]) != `"x"` || asked.MaxRows != 10 {
		t.Errorf("the backend was asked %+v", asked)
	}
	s.do("POST", "/api/v1/sql?numbers=string", post).want(t, 200, head+"\n[\"9007199254740993\",\"-0.05\",\"a,\\\"b\\\"\",\"NaN\"],\n[null,null,\"\",1.5]],\"epoch\":7}")
	s.do("POST", "/api/v1/sql", post, "Accept", "text/html;q=0.9, application/x-ndjson").want(t, 200,
		`{"n":9007199254740993,"d":"-0.05","s":"a,\"b\"","n_1":"NaN"}`+"\n"+`{"n":null,"d":null,"s":"","n_1":1.5}`)
	s.do("POST", "/api/v1/sql", post, "Accept", "text/csv").want(t, 200, "n,d,s,n\n9007199254740993,-0.05,\"a,\"\"b\"\"\",NaN\n,,\"\",1.5")
	r = s.do("POST", "/api/v1/sql", post, "Accept", "application/vnd.apache.arrow.stream")
	rd, err := ipc.NewReader(strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	n := int64(0)
	for rd.Next() {
		n += rd.RecordBatch().NumRows()
	}
	if n != 2 || rd.Err() != nil || rd.Schema().NumFields() != 4 {
		t.Errorf("the arrow stream has %d rows, %v", n, rd.Err())
	}
	s.do("POST", "/api/v1/sql", `{"sql":"x","params":{"a":1}}`)
	if string(asked.Named["a"]) != "1" {
		t.Errorf("named parameters: %v", asked.Named)
	}
}

func TestCSVGuardsFormulas(t *testing.T) {
	columns := cols("s", "VARCHAR", "n", "INTEGER")
	f := newFake()
	f.query = func(context.Context, QueryRequest) (*Rows, error) {
		return table(columns, nil, record(t, columns, `["=1+1",-5]`, `["@x\ny",1]`, `["ok",null]`)), nil
	}
	s := serve(t, f)
	s.do("POST", "/api/v1/sql?spreadsheet=1", `{"sql":"x"}`, "Accept", "text/csv").want(t, 200, "s,n\n\"'=1+1\",-5\n\"'@x\ny\",1\nok,")
	s.do("POST", "/api/v1/sql", `{"sql":"x"}`, "Accept", "text/csv").want(t, 200, "s,n\n=1+1,-5\n\"@x\ny\",1\nok,")
}

func TestSQLRefusals(t *testing.T) {
	f := newFake()
	f.query = func(_ context.Context, r QueryRequest) (*Rows, error) {
		switch r.SQL {
		case "syntax":
			return nil, &Error{Code: BadRequest, Message: "no such column <img>", Position: 9}
		case "busy":
			return nil, Errorf(Busy, "all query processes are at work")
		case "late":
			return nil, fmt.Errorf("query: %w", context.DeadlineExceeded)
		case "row":
			return table(cols("a", "INTEGER"), Errorf(BadRequest, "group Paris: sum overflows BIGINT")), nil
		}
		return nil, errors.New("open /secret/path: no")
	}
	s := serve(t, f)
	s.do("POST", "/api/v1/sql", `{"sql":"syntax"}`).want(t, 400, `{"error":{"code":"bad_request","message":"no such column \u003cimg\u003e","position":9}}`)
	r := s.do("POST", "/api/v1/sql", `{"sql":"busy"}`)
	r.code(t, Busy, "at work")
	if r.header.Get("Retry-After") == "" {
		t.Error("429 without Retry-After")
	}
	s.do("POST", "/api/v1/sql", `{"sql":"late"}`).code(t, Timeout, "time")
	s.do("POST", "/api/v1/sql", `{"sql":"row"}`).code(t, BadRequest, "Paris")
	if r := s.do("POST", "/api/v1/sql", `{"sql":"other"}`); strings.Contains(r.body, "secret") || r.status != 500 {
		t.Errorf("an internal error shows %d %s", r.status, r.body)
	}
	for body, part := range map[string]string{
		`{"sql":1}`: "JSON", `{}`: "sql is missing", `{"sql":"x","sq":1}`: "sq", `{"sql":"x"}{}`: "goes on",
		`{"sql":"x","max_rows":0}`: "max_rows", `{"sql":"x","params":3}`: "params", `nope`: "JSON",
	} {
		s.do("POST", "/api/v1/sql", body).code(t, BadRequest, part)
	}
	s.do("POST", "/api/v1/sql", `{"sql":"x"}`, "Accept", "image/png").code(t, BadAccept, "text/csv")
	s.do("POST", "/api/v1/sql", `{"sql":"x"}`, "Weir-Query", "no spaces").code(t, BadRequest, "Weir-Query")
	s.do("POST", "/api/v1/sql?numbers=float", `{"sql":"x"}`).code(t, BadRequest, "numbers")
	s.do("GET", "/api/v1/sql", "").code(t, BadMethod, "")
	s.get("/api/v1/nothing").code(t, NotFound, "")
}

// bigBatch is a batch of about 1.3 MB of JSON, so that two outgrow what is held back.
func bigBatch(t testing.TB, columns []Column) arrow.RecordBatch {
	row := `["` + strings.Repeat("x", 1300) + `"]`
	rows := make([]string, 1000)
	for i := range rows {
		rows[i] = row
	}
	return record(t, columns, rows...)
}

func TestTruncatedSaysSo(t *testing.T) {
	columns := cols("s", "VARCHAR")
	f := newFake()
	var batches int
	cut, partial := true, []string(nil)
	f.query = func(context.Context, QueryRequest) (*Rows, error) {
		var bs []arrow.RecordBatch
		for range batches {
			bs = append(bs, bigBatch(t, columns))
		}
		rows := table(columns, nil, bs...)
		rows.Truncated = func() bool { return cut }
		rows.Partial = func() []string { return partial }
		rows.Undecoded = func() int64 { return 2 }
		return rows, nil
	}
	s := serve(t, f)
	r := s.do("POST", "/api/v1/sql", `{"sql":"x"}`)
	r.want(t, 200, `{"columns":[{"name":"s","type":"VARCHAR"}],"rows":[],"epoch":7,"truncated":true,"rows_cut":true,"undecoded":2}`)
	if r.header.Get("Weir-Truncated") != "1" || r.header.Get("Weir-Rows-Cut") != "1" || r.header.Get("Weir-Undecoded") != "2" {
		t.Errorf("a short answer has the headers %v", r.header)
	}
	cut, partial = false, []string{"a,b", "ü"}
	r = s.do("POST", "/api/v1/sql", `{"sql":"x"}`)
	r.want(t, 200, `{"columns":[{"name":"s","type":"VARCHAR"}],"rows":[],"epoch":7,"truncated":true,"partial":["a,b","ü"],"undecoded":2}`)
	if r.header.Get("Weir-Truncated") != "1" || r.header.Get("Weir-Rows-Cut") != "" || r.header.Get("Weir-Partial") != "a%2Cb,%C3%BC" {
		t.Errorf("an answer over parts of sources has the headers %v", r.header)
	}
	cut = true
	batches = 3
	r = s.do("POST", "/api/v1/sql", `{"sql":"x"}`)
	if r.err != nil || !strings.HasSuffix(r.body, `],"epoch":7,"truncated":true,"rows_cut":true,"partial":["a,b","ü"],"undecoded":2}`+"\n") || strings.Count(r.body, "\n[") != 3000 {
		t.Errorf("%v, the stream ends in %q", r.err, r.body[max(0, len(r.body)-80):])
	}
	if r.header.Get("Weir-Truncated") != "" || r.trail.Get("Weir-Truncated") != "1" {
		t.Errorf("a long answer has header %q, trailer %q", r.header.Get("Weir-Truncated"), r.trail.Get("Weir-Truncated"))
	}
	if r.header.Get("Weir-Rows-Cut") != "" || r.trail.Get("Weir-Rows-Cut") != "1" || r.header.Get("Weir-Partial") != "" || r.trail.Get("Weir-Partial") != "a%2Cb,%C3%BC" {
		t.Errorf("a long answer has the headers %v, the trailers %v", r.header, r.trail)
	}
	if r.header.Get("Weir-Undecoded") != "" || r.trail.Get("Weir-Undecoded") != "2" {
		t.Errorf("a long answer has header %q, trailer %q", r.header.Get("Weir-Undecoded"), r.trail.Get("Weir-Undecoded"))
	}
}

func TestFailedStreamIsCut(t *testing.T) {
	columns := cols("s", "VARCHAR")
	f := newFake()
	for name, fault := range map[string]func() (arrow.RecordBatch, error){
		"error": func() (arrow.RecordBatch, error) { return nil, errors.New("disk gone") },
		"panic": func() (arrow.RecordBatch, error) { panic("bug") },
	} {
		rd := &reader{freed: make(chan struct{})}
		n := 0
		rd.next = func() (arrow.RecordBatch, error) {
			if n++; n > 2 {
				return fault()
			}
			return bigBatch(t, columns), nil
		}
		f.query = func(context.Context, QueryRequest) (*Rows, error) {
			return &Rows{Columns: columns, Records: rd}, nil
		}
		s := serve(t, f)
		for _, accept := range []string{"application/json", "text/csv", "application/x-ndjson"} {
			n, rd.freed = 0, make(chan struct{})
			r := s.do("POST", "/api/v1/sql", `{"sql":"x"}`, "Accept", accept)
			if r.status != 200 || !errors.Is(r.err, io.ErrUnexpectedEOF) {
				t.Errorf("%s, %s: status %d, reading ended with %v", name, accept, r.status, r.err)
			}
			<-rd.freed
		}
	}
}

func TestCancel(t *testing.T) {
	f := newFake()
	started, ended := make(chan string, 1), make(chan error, 1)
	f.query = func(ctx context.Context, r QueryRequest) (*Rows, error) {
		started <- r.ID
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, ctx.Err()
	}
	s := serve(t, f)

	t.Run("by id", func(t *testing.T) {
		got := make(chan reply, 1)
		go func() { got <- s.do("POST", "/api/v1/sql", `{"sql":"x"}`, "Weir-Query", "my-query_1") }()
		if id := <-started; id != "my-query_1" {
			t.Fatal(id)
		}
		s.do("POST", "/api/v1/sql", `{"sql":"x"}`, "Weir-Query", "my-query_1").code(t, Conflict, "my-query_1")
		s.do("DELETE", "/api/v1/queries/other", "").code(t, NotFound, "other")
		s.do("DELETE", "/api/v1/queries/my-query_1", "").want(t, 204, "")
		r := <-got
		r.code(t, Cancelled, "request")
		if !errors.Is(<-ended, errAsked) || r.header.Get("Weir-Query") != "my-query_1" {
			t.Error("not cancelled by its id")
		}
		s.do("DELETE", "/api/v1/queries/my-query_1", "").code(t, NotFound, "my-query_1")
	})

	t.Run("client leaves", func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			<-started
			leave()
		}()
		if _, err := s.send(ctx, "POST", "/api/v1/sql", `{"sql":"x"}`); err == nil {
			t.Error("an answer came")
		}
		if err := <-ended; !errors.Is(err, errLeft) {
			t.Errorf("the query ended with %v", err)
		}
	})

	t.Run("connection reset", func(t *testing.T) {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST /api/v1/sql HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\n\r\n%s", `{"sql":"x"}`)
		<-started
		if err := c.(*net.TCPConn).SetLinger(0); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if err := <-ended; !errors.Is(err, errLeft) {
			t.Errorf("the query ended with %v", err)
		}
	})

	t.Run("stop", func(t *testing.T) {
		got := make(chan reply, 1)
		go func() { got <- s.do("POST", "/api/v1/sql", `{"sql":"x"}`) }()
		<-started
		s.api.Stop()
		r := <-got
		r.code(t, Unavailable, "stopping")
		<-ended
	})
}

func TestClientLeavesAStream(t *testing.T) {
	columns := cols("s", "VARCHAR")
	f := newFake()
	rd := &reader{freed: make(chan struct{})}
	batch := bigBatch(t, columns)
	rd.next = func() (arrow.RecordBatch, error) { return batch, nil } // without end
	f.scan = func(context.Context, ScanRequest) (*Rows, error) { return &Rows{Columns: columns, Records: rd}, nil }
	s := serve(t, f)
	ctx, leave := context.WithCancel(t.Context())
	res, err := s.send(ctx, "GET", "/api/v1/views/v/scan", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, res.Body, 5<<20); err != nil {
		t.Error(err)
	}
	leave()
	res.Body.Close()
	<-rd.freed
}

// TestHeadFreesTheRows asks for the headers of a stream alone.
func TestHeadFreesTheRows(t *testing.T) {
	columns := cols("s", "VARCHAR")
	f := newFake()
	rd := &reader{freed: make(chan struct{})}
	batch := bigBatch(t, columns)
	rd.next = func() (arrow.RecordBatch, error) { return batch, nil }
	f.scan = func(context.Context, ScanRequest) (*Rows, error) { return &Rows{Columns: columns, Records: rd}, nil }
	s := serve(t, f)
	if r := s.do("HEAD", "/api/v1/views/v/scan", ""); r.status != 200 || r.body != "" {
		t.Errorf("got %v", r)
	}
	<-rd.freed
}

func TestTimes(t *testing.T) {
	columns := cols("s", "VARCHAR")
	f := newFake()
	f.query = func(ctx context.Context, _ QueryRequest) (*Rows, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s := serve(t, f, func(o *Options) { o.QueryTime, o.StreamTime = 10*time.Millisecond, 50*time.Millisecond })
	s.do("POST", "/api/v1/sql", `{"sql":"x"}`).code(t, Timeout, "time")
	rd := &reader{freed: make(chan struct{})}
	batch := bigBatch(t, columns)
	rd.next = func() (arrow.RecordBatch, error) { return batch, nil }
	f.scan = func(context.Context, ScanRequest) (*Rows, error) { return &Rows{Columns: columns, Records: rd}, nil }
	// Where the time is over before the stream has begun, it is given more.
	for span := 50 * time.Millisecond; ; span *= 2 {
		rd.freed = make(chan struct{})
		s = serve(t, f, func(o *Options) { o.StreamTime = span })
		r := s.get("/api/v1/views/v/scan")
		<-rd.freed
		if r.status == Timeout.Status() && span < time.Minute {
			continue
		}
		if r.status != 200 || !errors.Is(r.err, io.ErrUnexpectedEOF) {
			t.Errorf("a stream past its time: status %d, it ends with %v", r.status, r.err)
		}
		return
	}
}

// TestArrowOfEveryType streams a value of every type in the real File form.
func TestArrowOfEveryType(t *testing.T) {
	columns := cols("bool", "BOOLEAN", "huge", "HUGEINT", "uuid", "UUID", "iv", "INTERVAL", "dec", "DECIMAL(12,2)", "s", "TIMESTAMP_S",
		"tz", "TIMESTAMP WITH TIME ZONE", "l", "STRUCT(h HUGEINT, b BOOLEAN)[]", "m", "MAP(VARCHAR, UUID)", "j", "JSON", "a", "INTEGER[2]")
	const row = `[true,"-5","00112233-4455-6677-8899-aabbccddeeff","1 day 00:00:01","1.50","2026-01-01T00:00:00","2026-01-01T00:00:00Z",` +
		`[{"h":"7","b":false}],{"k":"00112233-4455-6677-8899-aabbccddeeff"},"{}",[1,2]]`
	f := newFake()
	f.query = func(_ context.Context, r QueryRequest) (*Rows, error) {
		if r.SQL == "too big" {
			c := cols("huge", "HUGEINT")
			return table(c, nil, record(t, c, `["170141183460469231731687303715884105727"]`)), nil
		}
		return table(columns, nil, record(t, columns, row)), nil
	}
	s := serve(t, f, func(o *Options) { o.File = checkpoint.FileBatch })
	r := s.do("POST", "/api/v1/sql", `{"sql":"x"}`, "Accept", mediaArrow)
	rd, err := ipc.NewReader(strings.NewReader(r.body))
	if err != nil {
		t.Fatal(r.body, err)
	}
	if !rd.Next() || rd.RecordBatch().NumRows() != 1 {
		t.Fatal(rd.Err())
	}
	for i, c := range columns {
		if got, want := rd.Schema().Field(i).Type, c.Type.File(); got.ID() != want.ID() && got.ID() != arrow.EXTENSION {
			t.Errorf("%s came as %s, want %s", c.Name, got, want)
		}
		if rd.RecordBatch().Column(i).IsNull(0) {
			t.Errorf("%s came as NULL", c.Name)
		}
	}
	s.do("POST", "/api/v1/sql", `{"sql":"too big"}`, "Accept", mediaArrow).code(t, BadRequest, "cast it to VARCHAR")
}

func TestQueryLimit(t *testing.T) {
	f := newFake()
	started, release := make(chan struct{}), make(chan struct{})
	columns := cols("a", "INTEGER")
	f.query = func(context.Context, QueryRequest) (*Rows, error) {
		started <- struct{}{}
		<-release
		return table(columns, nil), nil
	}
	s := serve(t, f, func(o *Options) { o.Queries = 1 })
	got := make(chan reply, 1)
	go func() { got <- s.do("POST", "/api/v1/sql", `{"sql":"x"}`) }()
	<-started
	s.do("POST", "/api/v1/sql", `{"sql":"x"}`).code(t, Busy, "again")
	close(release)
	if r := <-got; r.status != 200 {
		t.Error(r)
	}
	go func() { <-started }()
	if r := s.do("POST", "/api/v1/sql", `{"sql":"x"}`); r.status != 200 {
		t.Errorf("the place was not given back: %v", r)
	}
}

func TestAccepted(t *testing.T) {
	var dst []byte
	dst = (&csvLayout{rows: &Rows{Columns: cols("a b", "INTEGER", `c"d`, "VARCHAR", "", "DATE")}}).begin(dst)
	if diff := cmp.Diff("a b,\"c\"\"d\",\"\"\n", string(dst)); diff != "" {
		t.Error(diff)
	}
	if !bytes.Equal(appendString(nil, "a\x00\xff\u2028<"), []byte("\"a\\u0000\ufffd\u2028<\"")) {
		t.Errorf("%q", appendString(nil, "a\x00\xff\u2028<"))
	}
}
