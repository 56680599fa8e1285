package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/duckext"
	"weir/queryable"
	"weir/state"
	"weir/state/ddl"
	"weir/state/plan"
	"weir/state/sqltype"
)

// duckKeywords are DuckDB's keywords; true says that one is unreserved.
func duckKeywords(ctx context.Context, e *duckext.Engine) (map[string]bool, error) {
	out := []sqltype.Field{text("word"), text("category")}
	p, err := e.Prepare(ctx, "SELECT keyword_name AS word, keyword_category AS category FROM duckdb_keywords()", plan.Relation{Name: "__nothing"}, out)
	if err != nil {
		return nil, fmt.Errorf("read DuckDB's keywords: %w", err)
	}
	defer p.Close()
	nothing := array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 0)
	defer nothing.Release()
	rec, err := p.Run(ctx, nothing)
	if err != nil {
		return nil, fmt.Errorf("read DuckDB's keywords: %w", err)
	}
	defer rec.Release()
	words := map[string]bool{}
	for i := range int(rec.NumRows()) {
		w, category := rec.Column(0).(*array.String).Value(i), rec.Column(1).(*array.String).Value(i)
		_, twice := words[w]
		words[w] = category == "unreserved" && !twice
	}
	return words, nil
}

// maxPointRow is the most bytes of a row that is answered here: what may come
// near the limits of an answer is for the query process, which has them.
const maxPointRow = 1 << 20

// point answers a query for one group by its whole key from the state, without a
// query process: a process costs ten times what the answer does. It answers only
// where the process would give the same bytes. The rest is nil, and the process's:
// what is not of that form for certain, what has other types than those of which
// equality is equality of keys, and a group whose results fail.
func (b backend) point(ctx context.Context, r queryable.QueryRequest) *queryable.Rows {
	p, ok := ddl.PointQuery(r.SQL, b.keywords)
	if !ok || b.processOnly.Load() {
		return nil
	}
	sn, err := b.snapshot()
	if err != nil {
		return nil
	}
	defer sn.Close()
	v, ok := sn.Catalog().View(p.View)
	if !ok {
		return nil
	}
	cols, ok := pointColumns(&v.Plan, p.Columns)
	if !ok {
		return nil
	}
	keys, ok := pointKeys(&v.Plan, p.Keys, r)
	if !ok {
		return nil
	}
	defer keys.Release()
	rec, err := b.pointRow(ctx, sn, v, keys, cols)
	if err != nil {
		return nil
	}
	defer rec.Release()
	rows := &queryable.Rows{Columns: make([]queryable.Column, len(cols))}
	for i, c := range cols {
		rows.Columns[i] = queryable.Column{Field: c.Field}
	}
	var recs []arrow.RecordBatch
	if rec.NumRows() > 0 && !p.Empty {
		recs = append(recs, rec)
	}
	if rows.Records, err = array.NewRecordReader(rec.Schema(), recs); err != nil {
		return nil
	}
	b.leased.note(sn)
	rows.Answer = queryable.Answer{Epoch: sn.Epoch(), Positions: b.leased.positions(sn.Epoch())}
	rows.Backfilling = backfills(sn.Catalog(), v)
	b.points.Add(1)
	return rows
}

// pointColumn is a result of a view under the name that the query gives it.
type pointColumn struct {
	sqltype.Field
	result int
}

// pointColumns finds the columns of a query. A name in other letters than the
// view's is DuckDB's to resolve, and so is one that comes twice.
func pointColumns(v *plan.View, named []ddl.PointColumn) ([]pointColumn, bool) {
	var cols []pointColumn
	if named == nil {
		for i, r := range v.Results {
			cols = append(cols, pointColumn{sqltype.Field{Name: r.Name, Type: r.Type}, i})
		}
		return cols, true
	}
	for _, n := range named {
		is := func(name string) func(plan.Result) bool {
			return func(r plan.Result) bool { return strings.EqualFold(r.Name, name) }
		}
		i := slices.IndexFunc(v.Results, is(n.Name))
		if i < 0 || v.Results[i].Name != n.Name || n.As != n.Name && slices.ContainsFunc(v.Results, is(n.As)) {
			return nil, false
		}
		if slices.ContainsFunc(cols, func(c pointColumn) bool { return strings.EqualFold(c.Name, n.As) }) {
			return nil, false
		}
		cols = append(cols, pointColumn{sqltype.Field{Name: n.As, Type: v.Results[i].Type}, i})
	}
	return cols, true
}

// pointKeys makes the wanted key: a row with the view's key columns, each of which
// the query must give once.
func pointKeys(v *plan.View, given []ddl.PointKey, r queryable.QueryRequest) (arrow.RecordBatch, bool) {
	if len(given) != len(v.Keys) || len(given) == 0 {
		return nil, false
	}
	params, used := pointParams(r), 0
	fields, cols := make([]arrow.Field, len(v.Keys)), make([]arrow.Array, len(v.Keys))
	defer func() {
		for _, c := range cols {
			if c != nil {
				c.Release()
			}
		}
	}()
	for i, k := range v.Keys {
		if k.Result < 0 { // SQL has no name for it
			return nil, false
		}
		at := slices.IndexFunc(given, func(g ddl.PointKey) bool { return strings.EqualFold(g.Name, v.Results[k.Result].Name) })
		if at < 0 { // with as many given as there are keys, one given twice leaves another out
			return nil, false
		}
		g, ok := given[at], true
		if g.Kind == ddl.PointParam {
			used++
			if g, ok = pointParam(params[g.Value]); !ok {
				return nil, false
			}
		}
		fields[i] = k.Type.InsideField(k.Name)
		if cols[i], ok = pointValue(k.Type, g); !ok {
			return nil, false
		}
	}
	if used != len(params) { // one too many, or one used twice
		return nil, false
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, 1), true
}

// pointParams are a request's parameters by name; those of a list are "1", "2", ….
func pointParams(r queryable.QueryRequest) map[string]json.RawMessage {
	if len(r.Named) == 0 && len(r.Params) == 0 {
		return nil
	}
	m := map[string]json.RawMessage{}
	for i, p := range r.Params {
		m[strconv.Itoa(i+1)] = p
	}
	maps.Copy(m, r.Named)
	return m
}

var plainInteger = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,17})$`)

// pointParam reads a parameter that is a string or an integer.
func pointParam(raw json.RawMessage) (ddl.PointKey, bool) {
	raw = bytes.TrimSpace(raw)
	if plainInteger.Match(raw) {
		return ddl.PointKey{Kind: ddl.PointInteger, Value: string(raw)}, true
	}
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil || strings.IndexByte(s, 0) >= 0 {
		return ddl.PointKey{}, false
	}
	return ddl.PointKey{Kind: ddl.PointString, Value: s}, true
}

// integerRanges are the key types that an integer is compared with as it is.
var integerRanges = map[sqltype.ID][2]int64{
	sqltype.TinyInt: {math.MinInt8, math.MaxInt8}, sqltype.SmallInt: {math.MinInt16, math.MaxInt16},
	sqltype.Integer: {math.MinInt32, math.MaxInt32}, sqltype.BigInt: {math.MinInt64, math.MaxInt64},
	sqltype.UTinyInt: {0, math.MaxUint8}, sqltype.USmallInt: {0, math.MaxUint16},
	sqltype.UInteger: {0, math.MaxUint32}, sqltype.UBigInt: {0, math.MaxInt64},
}

// pointValue makes a key's value: a string of a VARCHAR, or an integer that the
// key's type holds.
func pointValue(t sqltype.Type, k ddl.PointKey) (arrow.Array, bool) {
	b := array.NewBuilder(memory.DefaultAllocator, t.Inside())
	defer b.Release()
	if t.ID == sqltype.Varchar && k.Kind == ddl.PointString {
		b.(*array.StringBuilder).Append(k.Value)
		return b.NewArray(), true
	}
	within, ok := integerRanges[t.ID]
	if !ok || k.Kind != ddl.PointInteger {
		return nil, false
	}
	n, err := strconv.ParseInt(k.Value, 10, 64)
	if err != nil || n < within[0] || n > within[1] {
		return nil, false
	}
	switch b := b.(type) {
	case *array.Int8Builder:
		b.Append(int8(n))
	case *array.Int16Builder:
		b.Append(int16(n))
	case *array.Int32Builder:
		b.Append(int32(n))
	case *array.Int64Builder:
		b.Append(n)
	case *array.Uint8Builder:
		b.Append(uint8(n))
	case *array.Uint16Builder:
		b.Append(uint16(n))
	case *array.Uint32Builder:
		b.Append(uint32(n))
	case *array.Uint64Builder:
		b.Append(uint64(n))
	default:
		return nil, false
	}
	return b.NewArray(), true
}

// pointRow is the wanted group as the query's columns: one row, or none where
// there is no such group or HAVING hides it. What is not plain is an error.
func (b backend) pointRow(ctx context.Context, sn *state.Snapshot, v *state.View, keys arrow.RecordBatch, cols []pointColumn) (arrow.RecordBatch, error) {
	var found []arrow.RecordBatch
	defer func() {
		for _, f := range found {
			f.Release()
		}
	}()
	n, err := b.find(ctx, sn, v, keys, 0, 1, &found)
	if err != nil {
		return nil, err
	}
	fields := make([]arrow.Field, len(cols))
	for i, c := range cols {
		fields[i] = c.Type.InsideField(c.Name)
	}
	schema := arrow.NewSchema(fields, nil)
	empty := func() (arrow.RecordBatch, error) {
		bld := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		defer bld.Release()
		return bld.NewRecordBatch(), nil
	}
	if n == 0 {
		return empty()
	}
	row := found[0]
	stored := len(v.Plan.Keys) + len(v.Plan.Accs)
	if row.Column(stored).IsValid(0) { // the group is in error
		return nil, errNotPlain
	}
	value := func(result int) arrow.Array {
		if r := v.Plan.Results[result]; r.Key >= 0 {
			return row.Column(r.Key)
		} else if r.Acc >= 0 {
			return row.Column(len(v.Plan.Keys) + r.Acc)
		}
		return nil
	}
	if v.Plan.Visible != "" || slices.ContainsFunc(cols, func(c pointColumn) bool { return value(c.result) == nil }) {
		plain := array.NewRecordBatch(arrow.NewSchema(row.Schema().Fields()[:stored], nil), row.Columns()[:stored], 1)
		defer plain.Release()
		all, fs, err := b.finals.results(ctx, v, plain)
		if err != nil {
			return nil, err
		}
		defer fs.Release()
		switch {
		case fs.Errors != nil && fs.Errors[0] != "":
			return nil, errNotPlain
		case fs.Visible != nil && !isTrue(fs.Visible, 0):
			return empty()
		}
		value = func(result int) arrow.Array { return all[result] }
	}
	out := make([]arrow.Array, len(cols))
	var size uint64
	for i, c := range cols {
		if out[i] = value(c.result); out[i].IsNull(0) { // what lies under a NULL differs
			out[i] = array.MakeArrayOfNull(memory.DefaultAllocator, fields[i].Type, 1)
			defer out[i].Release()
		}
		size += out[i].Data().SizeInBytes()
	}
	if size > maxPointRow {
		return nil, errNotPlain
	}
	return array.NewRecordBatch(schema, out, 1), nil
}

// errNotPlain leaves an answer to the query process.
var errNotPlain = errors.New("the answer is not plain")
