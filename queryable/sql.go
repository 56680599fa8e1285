package queryable

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// The media types of answers.
const (
	mediaJSON  = "application/json"
	mediaLines = "application/x-ndjson"
	mediaCSV   = "text/csv"
	mediaArrow = "application/vnd.apache.arrow.stream"
)

// sql is POST /api/v1/sql.
func (a *API) sql(c *fiber.Ctx) error {
	id, err := queryID(c)
	if err != nil {
		return err
	}
	c.Set(headerQuery, id)
	media, err := accepted(c)
	if err != nil {
		return err
	}
	f, err := form(c)
	if err != nil {
		return err
	}
	guarded, err := flag(c, "spreadsheet")
	if err != nil {
		return err
	}
	r := QueryRequest{ID: id, MaxRows: a.o.MaxRows, MaxSize: a.o.MaxSize}
	var bound json.RawMessage
	var maxRows *int64
	if err := ReadBody(c, Members{"sql": &r.SQL, "params": &bound, "max_rows": &maxRows}); err != nil {
		return err
	}
	if strings.TrimSpace(r.SQL) == "" {
		return Errorf(BadRequest, "sql is missing")
	}
	if maxRows != nil {
		if *maxRows < 1 {
			return Errorf(BadRequest, "max_rows is at least 1")
		}
		r.MaxRows = min(r.MaxRows, *maxRows)
	}
	if r.Params, r.Named, err = params(bound); err != nil {
		return err
	}
	k := a.begin(c, a.o.QueryTime, true)
	rows, err := a.query(c, k, r)
	if err != nil {
		defer k.end()
		return k.fault(err)
	}
	src, contentType := a.textOrArrow(rows, media, f, guarded)
	return a.send(c, k, rows, src, contentType, holdBack)
}

func (a *API) query(c *fiber.Ctx, k *call, r QueryRequest) (*Rows, error) {
	if err := a.register(r.ID, k); err != nil {
		return nil, err
	}
	if err := a.await(c, k, ""); err != nil {
		return nil, err
	}
	if err := a.queries.enter(k, "statements"); err != nil {
		return nil, err
	}
	return a.b.Query(k.ctx, r)
}

// textOrArrow chooses how rows are written.
func (a *API) textOrArrow(rows *Rows, media string, f Form, guarded bool) (source, string) {
	switch media {
	case mediaArrow:
		return &arrowSource{rows: rows, file: a.o.File}, media
	case mediaCSV:
		return &textSource{rows: rows, layout: &csvLayout{rows: rows, guarded: guarded}}, media + "; charset=utf-8"
	case mediaLines:
		return &textSource{rows: rows, layout: &lineLayout{rows: rows, form: f}}, media
	}
	return &textSource{rows: rows, layout: &jsonLayout{rows: rows, form: f}}, mediaJSON
}

// register makes a call cancellable by its id until it ends.
func (a *API) register(id string, k *call) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byID[id] != nil {
		return Errorf(Conflict, "a query with the id %s runs already", id)
	}
	a.byID[id] = k
	k.defers(func() {
		a.mu.Lock()
		delete(a.byID, id)
		a.mu.Unlock()
	})
	return nil
}

// cancelQuery is DELETE /api/v1/queries/{id}.
func (a *API) cancelQuery(c *fiber.Ctx) error {
	id, err := param(c, "id")
	if err != nil {
		return err
	}
	a.mu.Lock()
	k := a.byID[id]
	a.mu.Unlock()
	if k == nil {
		return Errorf(NotFound, "no query %s is running", clip(id))
	}
	k.cancel(errAsked)
	return c.SendStatus(fiber.StatusNoContent)
}

// queryID is the client's name of its query, or a new one.
func queryID(c *fiber.Ctx) (string, error) {
	id := strings.Clone(c.Get(headerQuery))
	if id == "" {
		var b [12]byte
		rand.Read(b[:]) // never fails
		return hex.EncodeToString(b[:]), nil
	}
	if len(id) > 64 || strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_") != "" {
		return "", Errorf(BadRequest, "%s is up to 64 letters, digits, - and _", headerQuery)
	}
	return id, nil
}

// params splits the parameters of a statement into those by place and by name.
func params(raw json.RawMessage) (list []json.RawMessage, named map[string]json.RawMessage, err error) {
	switch raw = bytes.TrimSpace(raw); {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil, nil
	case raw[0] == '[':
		err = json.Unmarshal(raw, &list)
	case raw[0] == '{':
		if named, err = byName(raw); err != nil {
			err = Errorf(BadRequest, "params: %s", err)
		}
	default:
		err = Errorf(BadRequest, "params is an array for ?, or an object for $name")
	}
	return list, named, err
}

// accepted is the media type the client likes best of those there are.
func accepted(c *fiber.Ctx) (string, error) {
	header := c.Get(fiber.HeaderAccept)
	if header == "" {
		return mediaJSON, nil
	}
	best, bestQ := "", 0.0
	for one := range strings.SplitSeq(header, ",") {
		media, rest, _ := strings.Cut(one, ";")
		q := 1.0
		for p := range strings.SplitSeq(rest, ";") {
			if v, ok := strings.CutPrefix(strings.TrimSpace(p), "q="); ok {
				n, err := strconv.ParseFloat(v, 64)
				if err != nil {
					return "", Errorf(BadAccept, "the Accept header has a bad q=%s", clip(v))
				}
				q = n
			}
		}
		var found string
		switch media = strings.ToLower(strings.TrimSpace(media)); media {
		case mediaJSON, "*/*", "application/*":
			found = mediaJSON
		case mediaCSV, "text/*":
			found = mediaCSV
		case mediaLines, "application/ndjson", "application/jsonl":
			found = mediaLines
		case mediaArrow:
			found = mediaArrow
		}
		if found != "" && q > bestQ {
			best, bestQ = found, q
		}
	}
	if best == "" {
		return "", Errorf(BadAccept, "accept %s, %s, %s or %s", mediaJSON, mediaLines, mediaCSV, mediaArrow)
	}
	return best, nil
}

// clip shortens what a client sent before it is shown back.
func clip(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}
