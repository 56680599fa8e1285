package queryable

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/gofiber/fiber/v2"
)

const (
	maxKeys   = 1000   // of one POST
	maxGroups = 10_000 // of one answer
)

// askedKey is the key that a query string names: what is no parameter. A name that
// comes twice is refused, whichever it is.
func askedKey(c *fiber.Ctx, parameters ...string) (map[string]json.RawMessage, error) {
	key := make(map[string]json.RawMessage)
	var seen []string
	for name, value := range c.Context().QueryArgs().All() {
		n := string(name)
		if slices.Contains(seen, n) {
			return nil, Errorf(BadRequest, "%s is given twice", clip(n))
		}
		seen = append(seen, n)
		if !slices.Contains(parameters, n) {
			key[n] = json.RawMessage(string(value))
		}
	}
	return key, nil
}

// lookup is GET /api/v1/views/{view}/lookup: the query string names the key.
func (a *API) lookup(c *fiber.Ctx) error {
	key, err := askedKey(c, "accumulators", "numbers", "min_epoch", "min_position", "timeout", "at")
	if err != nil {
		return err
	}
	accumulators, err := flag(c, "accumulators")
	if err != nil {
		return err
	}
	r := LookupRequest{Accumulators: accumulators}
	if c.Context().QueryArgs().Has("at") {
		if r.At = query(c, "at"); r.At == "" {
			return errNoMoment
		}
	}
	return a.find(c, []map[string]json.RawMessage{key}, true, r, answerOne)
}

var errNoMoment = Errorf(BadRequest, "at is empty: give a checkpoint's number, a savepoint's name or a time such as 2026-01-31T12:00:00Z")

// lookupMany is POST /api/v1/views/{view}/lookup.
func (a *API) lookupMany(c *fiber.Ctx) error {
	var r LookupRequest
	var given []json.RawMessage
	var at json.RawMessage
	err := ReadBody(c, Members{"keys": &given, "accumulators": &r.Accumulators, "at": &at})
	if err != nil {
		return err
	}
	if r.At, err = moment(at); err != nil {
		return err
	}
	if len(given) == 0 || len(given) > maxKeys {
		return Errorf(BadRequest, "keys is an array of 1 to %d objects", maxKeys)
	}
	keys := make([]map[string]json.RawMessage, len(given))
	for i, raw := range given {
		if keys[i], err = byName(raw); err != nil {
			return Errorf(BadRequest, "keys, element %d: %s", i+1, err)
		}
	}
	return a.find(c, keys, false, r, answerMany)
}

// moment is the member "at" of a body: a text, or a checkpoint's number as such.
// It is "" when there is none, or null.
func moment(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	if n, err := strconv.ParseUint(string(raw), 10, 64); err == nil {
		return strconv.FormatUint(n, 10), nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", Errorf(BadRequest, "at is a checkpoint's number, a savepoint's name or a time such as \"2026-01-31T12:00:00Z\"; %s is none", clip(string(raw)))
	}
	if s == "" {
		return "", errNoMoment
	}
	return s, nil
}

// find looks keys up and hands the groups to answer. Values are texts when bare,
// JSON when not. r says what else is asked.
func (a *API) find(c *fiber.Ctx, keys []map[string]json.RawMessage, bare bool, r LookupRequest,
	answer func(dst []byte, l *found) ([]byte, error),
) error {
	view, err := param(c, "view")
	if err != nil {
		return err
	}
	f, err := form(c)
	if err != nil {
		return err
	}
	k := a.begin(c, a.o.ReadTime, waits(c))
	defer k.end()
	if err := a.await(c, k, view); err != nil {
		return k.fault(err)
	}
	schema, err := a.b.Schema(view, r.At)
	if err != nil {
		return k.fault(err)
	}
	if bare && r.At != "" && slices.ContainsFunc(schema.Keys, func(k Key) bool { return k.Name == "at" }) {
		return Errorf(BadRequest, "at is a key column of %s, too: use POST with {\"keys\": [...], \"at\": ...}", schema.Name)
	}
	batch, whole, err := keyBatch(schema, keys, bare)
	if err != nil {
		return err
	}
	defer batch.Release()
	r.View, r.Keys, r.Limit = view, batch, maxGroups
	groups, err := a.b.Lookup(k.ctx, r)
	if err != nil {
		return k.fault(err)
	}
	defer groups.Batch.Release()
	sayBackfilling(c, groups.Backfilling)
	a.answerHeaders(c, groups.Answer)
	l := &found{Groups: groups, asked: batch, schema: schema, whole: whole, form: f}
	if err := l.bind(); err != nil {
		return err
	}
	out, err := answer(nil, l)
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, mediaJSON)
	return c.Send(out)
}

// keyBatch makes typed keys of what a client wrote. whole is whether every key
// column is given, so that a key is one group.
func keyBatch(s Schema, keys []map[string]json.RawMessage, bare bool) (b arrow.RecordBatch, whole bool, err error) {
	for _, key := range keys {
		if err := onlyColumns(s, key); err != nil {
			return nil, false, err
		}
	}
	var given []Key
	for _, k := range s.Keys {
		_, ok := keys[0][k.Name]
		if ok {
			given = append(given, k)
		} else if !k.Bucket {
			return nil, false, Errorf(BadRequest, "key column %s of %s is missing; its key is %s", k.Name, s.Name, keyNames(s))
		}
	}
	fields := make([]arrow.Field, len(given))
	for i, k := range given {
		fields[i] = k.Type.InsideField(k.Name)
	}
	rb := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer rb.Release()
	for _, key := range keys {
		if len(key) != len(given) {
			return nil, false, errOddKey
		}
		for i, k := range given {
			v, ok := key[k.Name]
			if !ok {
				return nil, false, errOddKey
			}
			if err = AppendValue(rb.Field(i), k.Type, string(v), !bare); err != nil {
				return nil, false, Errorf(BadRequest, "key column %s: %s", k.Name, err)
			}
		}
	}
	if len(given) == 0 {
		return array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, int64(len(keys))), len(s.Keys) == 0, nil
	}
	return rb.NewRecordBatch(), len(given) == len(s.Keys), nil
}

// onlyColumns refuses a key that names what is no key column, in its very spelling.
func onlyColumns(s Schema, key map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(key)) {
		if !slices.ContainsFunc(s.Keys, func(k Key) bool { return k.Name == name }) {
			return Errorf(BadRequest, "%s has no key column %s; its key is %s", s.Name, clip(name), keyNames(s))
		}
	}
	return nil
}

var errOddKey = Errorf(BadRequest, "every key must name the same columns, as the first does")

func keyNames(s Schema) string {
	if len(s.Keys) == 0 {
		return "empty: it has one row"
	}
	names := make([]string, len(s.Keys))
	for i, k := range s.Keys {
		names[i] = k.Name + " " + k.Type.String()
	}
	return strings.Join(names, ", ")
}

// found is the outcome of a look-up, ready to be written.
type found struct {
	*Groups
	asked  arrow.RecordBatch
	schema Schema
	whole  bool
	form   Form

	keyNames, valueNames [][]byte
	keyCells, valueCells []cell
	askedNames           [][]byte
	askedCells           []cell
}

func (l *found) bind() error {
	n := int(l.Batch.NumRows())
	if len(l.Wanted) != n || l.Errors != nil && len(l.Errors) != n || int(l.Batch.NumCols()) != len(l.Columns) {
		return Errorf(Internal, "a look-up's answer does not fit itself")
	}
	for i, col := range l.Columns {
		cell, err := jsonCell(col.Type, l.Batch.Column(i), l.form)
		if err != nil {
			return err
		}
		name := append(appendString(nil, col.Name), ':')
		if col.Role == RoleKey {
			l.keyNames, l.keyCells = append(l.keyNames, name), append(l.keyCells, cell)
		} else {
			l.valueNames, l.valueCells = append(l.valueNames, name), append(l.valueCells, cell)
		}
	}
	return l.bindAsked()
}

// bindAsked binds the keys that were asked for.
func (l *found) bindAsked() error {
	for i, f := range l.asked.Schema().Fields() {
		for _, k := range l.schema.Keys {
			if k.Name != f.Name {
				continue
			}
			cell, err := jsonCell(k.Type, l.asked.Column(i), l.form)
			if err != nil {
				return err
			}
			l.askedNames = append(l.askedNames, append(appendString(nil, k.Name), ':'))
			l.askedCells = append(l.askedCells, cell)
		}
	}
	return nil
}

// group appends "key":{…},"value":{…}, or "error" in place of the value.
func (l *found) group(dst []byte, i int) []byte {
	dst = append(dst, `"key":`...)
	dst = appendObject(dst, l.keyNames, l.keyCells, i)
	if e := l.fault(i); e != "" {
		dst = append(dst, `,"error":`...)
		return appendString(dst, e)
	}
	dst = append(dst, `,"value":`...)
	return appendObject(dst, l.valueNames, l.valueCells, i)
}

func (l *found) fault(i int) string {
	if l.Errors == nil {
		return ""
	}
	return l.Errors[i]
}

func (l *found) tail(dst []byte) []byte {
	dst = l.appendTo(dst)
	if l.More {
		dst = append(dst, `,"truncated":true`...)
	}
	return append(dst, "}\n"...)
}

// answerOne is {"key":…,"value":…,"epoch":…} for a whole key, 404 when it is
// absent; without the bucket it is {"groups":[…],"epoch":…}.
func answerOne(dst []byte, l *found) ([]byte, error) {
	if len(l.Wanted) == 0 {
		var buf [128]byte
		key := appendObject(buf[:0], l.askedNames, l.askedCells, 0)
		return nil, Errorf(NotFound, "%s has no group %s", l.schema.Name, key)
	}
	if !l.whole {
		return answerMany(dst, l)
	}
	if e := l.fault(0); e != "" {
		return nil, Errorf(GroupFailed, "%s", e)
	}
	dst = append(dst, '{')
	dst = append(l.group(dst, 0), ',')
	return l.tail(dst), nil
}

// answerMany is {"groups":[…],"epoch":…} in the order of the keys. A key that
// has no group stands there with a value of null.
func answerMany(dst []byte, l *found) ([]byte, error) {
	dst = append(dst, `{"groups":[`...)
	at, first := 0, true
	open := func() {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, "\n{"...)
	}
	for want := range int(l.asked.NumRows()) {
		if at == len(l.Wanted) && l.More {
			break // what is not listed was not looked at
		}
		if at == len(l.Wanted) || l.Wanted[at] != want {
			open()
			dst = append(dst, `"key":`...)
			dst = appendObject(dst, l.askedNames, l.askedCells, want)
			dst = append(dst, `,"value":null}`...)
			continue
		}
		for ; at < len(l.Wanted) && l.Wanted[at] == want; at++ {
			open()
			dst = append(l.group(dst, at), '}')
		}
	}
	dst = append(dst, "],"...)
	return l.tail(dst), nil
}
