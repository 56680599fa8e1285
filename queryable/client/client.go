// Package client asks a running Weir over HTTP. The command line uses it; it
// knows the HTTP surface (docs/http.md) and nothing else of Weir.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
)

// Client asks one appliance. It is safe for concurrent use.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// New makes a client of the appliance at an address: host:port, :port or a URL.
// The token may be "" where the appliance needs none.
func New(addr, token string) (*Client, error) {
	if !strings.Contains(addr, "://") {
		if strings.HasPrefix(addr, ":") {
			addr = "127.0.0.1" + addr
		}
		addr = "http://" + addr
	}
	u, err := url.Parse(addr)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is no address: use host:port or http://host:port", addr)
	}
	return &Client{base: u.Scheme + "://" + u.Host, token: token, http: &http.Client{}}, nil
}

// Error is what the appliance said instead of an answer.
type Error struct {
	Status   int    // of HTTP
	Code     string // such as bad_request, see docs/http.md
	Message  string
	Position int // byte in the SQL, -1 when there is none
}

func (e *Error) Error() string { return e.Message }

// Column is a column of a result. Type is DuckDB's name of its type.
type Column struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// Result is the whole answer to a statement.
type Result struct {
	Columns   []Column            `json:"columns"`
	Rows      [][]json.RawMessage `json:"rows"` // in the forms of docs/http.md, all digits kept
	Epoch     uint64              `json:"epoch"`
	Truncated bool                `json:"truncated"` // it is not the whole answer: RowsCut, Partial or both
	RowsCut   bool                `json:"rows_cut"`  // rows are missing because of a cap
	// Partial are the sources that the answer was made of the newest records of only.
	Partial []string `json:"partial"`
	// Undecoded is how many of the newest records of sources could not be decoded
	// and so are not among the rows.
	Undecoded int64 `json:"undecoded"`
	// Checkpoints are those that the answer was read from; none when it is of the
	// present alone.
	Checkpoints []Checkpoint `json:"checkpoints"`
	// Backfilling are the views among what was read that still read old records,
	// and so are not whole.
	Backfilling []string `json:"backfilling"`
}

// Checkpoint names a checkpoint. Savepoint is its name, "" when it has none.
type Checkpoint struct {
	ID        uint64 `json:"id"`
	Epoch     uint64 `json:"epoch"`
	Savepoint string `json:"savepoint"`
}

// Query runs one statement. The error of a refusal is an [*Error].
func (c *Client) Query(ctx context.Context, sql string, params ...any) (*Result, error) {
	res, err := c.post(ctx, sql, params, "application/json")
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var r Result
	if err := json.NewDecoder(res.Body).Decode(&r); err != nil {
		return nil, cut(ctx, err)
	}
	return &r, nil
}

// Copy runs one statement and writes its answer, in the media type that accept
// names, to w as it comes. truncated says that a cap cut the rows. After an
// error w holds a part of the answer, if anything.
func (c *Client) Copy(ctx context.Context, w io.Writer, accept, sql string, params ...any) (p Partial, err error) {
	res, err := c.post(ctx, sql, params, accept)
	if err != nil {
		return p, err
	}
	defer res.Body.Close()
	in := &source{r: res.Body}
	if _, err := io.Copy(w, in); err != nil {
		if in.err != nil {
			err = cut(ctx, in.err)
		}
		return p, err
	}
	for _, h := range []http.Header{res.Header, res.Trailer} {
		p.Truncated = p.Truncated || h.Get("Weir-Truncated") == "1"
		p.RowsCut = p.RowsCut || h.Get("Weir-Rows-Cut") == "1"
		p.Partial = append(p.Partial, named(h.Get("Weir-Partial"))...)
		if n, err := strconv.ParseInt(h.Get("Weir-Undecoded"), 10, 64); err == nil {
			p.Undecoded = n
		}
	}
	p.Backfilling = named(res.Header.Get("Weir-Backfilling"))
	return p, nil
}

// named reads the names in a header.
func named(header string) (names []string) {
	if header == "" {
		return nil
	}
	for name := range strings.SplitSeq(header, ",") {
		if plain, err := url.PathUnescape(name); err == nil {
			name = plain
		}
		names = append(names, name)
	}
	return names
}

// Partial says why an answer is not the whole one; zero when it is.
type Partial struct {
	Truncated   bool     // RowsCut, Partial or both
	RowsCut     bool     // cut at a limit
	Partial     []string // as in [Result]
	Undecoded   int64    // as in [Result]; the answer is all there is nevertheless
	Backfilling []string // as in [Result]
}

// source remembers whether it was reading that failed.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

func cut(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("the answer ended early, what came of it is not whole: %w", err)
}

func (c *Client) post(ctx context.Context, sql string, params []any, accept string) (*http.Response, error) {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"sql": sql, "params": params})
	if err != nil {
		return nil, fmt.Errorf("parameters of the statement: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/api/v1/sql", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", accept)
	return c.do(req)
}

// do sends a request and turns a refusal into its error.
func (c *Client) do(req *http.Request) (*http.Response, error) {
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreached(req.Context(), err)
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	return nil, refusal(res)
}

// maxError bounds the text of an error that is read.
const maxError = 1 << 20

func refusal(res *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(res.Body, maxError))
	if err != nil {
		return fmt.Errorf("the appliance answered %s, and then: %w", res.Status, err)
	}
	var body struct {
		Error struct {
			Code     string `json:"code"`
			Message  string `json:"message"`
			Position *int   `json:"position"`
		} `json:"error"`
	}
	if err := json.Unmarshal(data, &body); err != nil || body.Error.Message == "" {
		return &Error{Status: res.StatusCode, Code: "unknown", Message: "the server answered " + res.Status + "; is it Weir?", Position: -1}
	}
	e := &Error{Status: res.StatusCode, Code: body.Error.Code, Message: body.Error.Message, Position: -1}
	if body.Error.Position != nil {
		e.Position = *body.Error.Position
	}
	return e
}

// unreached says what to do when there was no answer at all.
func (c *Client) unreached(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("nothing listens at %s: start weir, or name its address with --addr", c.base)
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Errorf("no host is known at %s: %w", c.base, err)
	}
	return fmt.Errorf("ask %s: %w", c.base, err)
}
