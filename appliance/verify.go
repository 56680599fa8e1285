package appliance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	kafkago "github.com/segmentio/kafka-go"

	"weir/duckext"
	"weir/queryable"
	"weir/state"
	"weir/state/agg"
	"weir/state/codec"
	"weir/state/plan"
	"weir/state/sqltype"
)

// report is what VERIFY VIEW found. Counts are of rows.
type report struct {
	view              string
	epoch             uint64
	records, excluded int64 // read from the topic; left out because quarantined
	compared          int64
	missing           int64 // in the topic's answer, not in the view
	extra             int64 // the other way round
	different         int64 // in both, with other values
	examples          []string
}

// verify computes a view once more from its topic, up to the positions that one
// snapshot holds, with a DuckDB of its own in one batch, and compares the rows.
func (b backend) verify(ctx context.Context, name string) (*report, error) {
	sn, err := b.snapshot()
	if err != nil {
		return nil, err
	}
	defer sn.Close()
	v, ok := sn.Catalog().View(name)
	if !ok {
		return nil, notFound("materialized view", name)
	}
	src, ok := sn.Catalog().SourceByID(v.Source)
	if !ok {
		return nil, fmt.Errorf("view %s has no source", name)
	}
	refused, err := refusedOffsets(sn, v)
	if err != nil {
		return nil, err
	}
	tmp := filepath.Join(b.cfg.Data, "tmp", "verify")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return nil, fmt.Errorf("make directory for spilling: %w", err)
	}
	eng, err := duckext.Open(duckext.Options{Threads: 1, MemoryLimit: bytesText(int64(b.cfg.Memory) / 4), TempDir: tmp})
	if err != nil {
		return nil, err
	}
	defer eng.Close()
	c := &comparison{eng: eng}
	rep := &report{view: v.Plan.Name, epoch: sn.Epoch()}

	// The topic's answer.
	cols := plan.Source{Name: src.Name, Columns: src.Columns}.Relation().Columns
	cols = slices.DeleteFunc(cols, func(f sqltype.Field) bool {
		return !slices.ContainsFunc(v.Plan.Inputs, func(in sqltype.Field) bool { return in.Name == f.Name }) && !orders(f.Name)
	})
	if err := c.create(ctx, "records", cols); err != nil {
		return nil, err
	}
	rep.records, rep.excluded, err = b.pipeline.Replay(ctx, src, v.First, sn.Positions(v.Cursor), cols, refused, func(rec arrow.RecordBatch) error {
		rec, err := canonical(&v.Plan, cols, rec)
		if err != nil {
			return err
		}
		defer rec.Release()
		return c.insert(ctx, "records", cols, rec)
	})
	if err != nil {
		return nil, queryable.Errorf(queryable.Conflict, "view %s cannot be verified: %w", v.Plan.Name, err)
	}
	results := v.Plan.ResultColumns()
	if err := c.expected(ctx, src.Name, &v.Plan, results); err != nil {
		return nil, err
	}

	// The view's own.
	if err := c.create(ctx, "actual", results); err != nil {
		return nil, err
	}
	if err := b.eachResult(ctx, sn, v, func(rec arrow.RecordBatch) error { return c.insert(ctx, "actual", results, rec) }); err != nil {
		return nil, err
	}
	if err := c.compare(ctx, &v.Plan, rep); err != nil {
		return nil, err
	}
	if rep.missing+rep.extra+rep.different > 0 {
		if err := b.uncompacted(ctx, src); err != nil {
			return nil, queryable.Errorf(queryable.Conflict, "view %s cannot be verified: %w", v.Plan.Name, err)
		}
	}
	return rep, nil
}

// uncompacted is an error when a source's topic is one of which the broker takes
// records that views have counted.
func (b backend) uncompacted(ctx context.Context, src *state.Source) error {
	brokers := cmp.Or(src.Options["brokers"], b.cfg.Brokers)
	topic := src.Options["topic"]
	c := &kafkago.Client{Addr: kafkago.TCP(splitBrokers(brokers)...), Timeout: 10 * time.Second}
	res, err := c.DescribeConfigs(ctx, &kafkago.DescribeConfigsRequest{Resources: []kafkago.DescribeConfigRequestResource{
		{ResourceType: kafkago.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{"cleanup.policy"}},
	}})
	if err != nil {
		return fmt.Errorf("ask whether topic %s is compacted: %w", topic, err)
	}
	for _, r := range res.Resources {
		for _, e := range r.ConfigEntries {
			if e.ConfigName == "cleanup.policy" && strings.Contains(e.ConfigValue, "compact") {
				return fmt.Errorf("all partitions of topic %s are compacted, so records that it has counted may be gone", topic)
			}
		}
	}
	return nil
}

// orders says whether a column gives records their order.
func orders(name string) bool {
	return name == "kafka_timestamp" || name == "kafka_partition" || name == "kafka_offset"
}

// eachResult gives the results of a view, batch by batch.
func (b backend) eachResult(ctx context.Context, sn *state.Snapshot, v *state.View, f func(arrow.RecordBatch) error) error {
	in, err := sn.Scan(ctx, state.ScanRequest{View: v.ID, Extra: state.Extra{Error: true}})
	if err != nil {
		return err
	}
	defer in.Release()
	s := &viewScan{ctx: ctx, b: b, v: v}
	if err := s.choose(nil); err != nil {
		return err
	}
	for in.Next() {
		rec, _, err := s.present(in.RecordBatch())
		if err != nil {
			return err
		}
		err = f(rec)
		rec.Release()
		if err != nil {
			return err
		}
	}
	return in.Err()
}

// refusedOffsets are the records that a view has not counted because they stand
// in the quarantine, by partition.
func refusedOffsets(sn *state.Snapshot, v *state.View) (map[int32]map[int64]bool, error) {
	out := map[int32]map[int64]bool{}
	var after uint64
	var found int64
	for {
		recs, err := sn.Refused(v.Source, after, 1000)
		if err != nil {
			return nil, err
		}
		for _, r := range recs {
			after = r.Seq
			if r.View != 0 && r.View != v.ID {
				continue
			}
			found++
			if out[r.Partition] == nil {
				out[r.Partition] = map[int64]bool{}
			}
			out[r.Partition][r.Offset] = true
		}
		if len(recs) < 1000 {
			break
		}
	}
	n := sn.RefusedCount(v.Source)
	if n.ByView[0]+n.ByView[v.ID] > found {
		return nil, queryable.Errorf(queryable.Conflict, "view %s cannot be verified: the quarantine of its source has dropped its oldest records, so they cannot be left out", v.Plan.Name)
	}
	return out, nil
}

// comparison is a DuckDB with the tables records, expected and actual.
type comparison struct{ eng *duckext.Engine }

func countColumn() []sqltype.Field {
	return []sqltype.Field{{Name: "Count", Type: sqltype.Type{ID: sqltype.BigInt}}}
}

func quoteName(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// run runs a statement that needs no input.
func (c *comparison) run(ctx context.Context, sql string, out []sqltype.Field) (arrow.RecordBatch, error) {
	p, err := c.eng.Prepare(ctx, sql, plan.Relation{Name: "__nothing"}, out)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sql, err)
	}
	defer p.Close()
	empty := array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 0)
	defer empty.Release()
	return p.Run(ctx, empty)
}

func (c *comparison) exec(ctx context.Context, sql string) error {
	rec, err := c.run(ctx, sql, countColumn())
	if err == nil {
		rec.Release()
	}
	return err
}

// create makes an empty table. DuckDB takes its types from a relation, for their
// text is not always SQL: a field of a STRUCT may be called like a keyword.
func (c *comparison) create(ctx context.Context, table string, cols []sqltype.Field) error {
	p, err := c.eng.Prepare(ctx, "CREATE TABLE "+table+" AS SELECT * FROM __rows", plan.Relation{Name: "__rows", Columns: cols}, countColumn())
	if err != nil {
		return err
	}
	defer p.Close()
	fields := make([]arrow.Field, len(cols))
	for i, f := range cols {
		fields[i] = f.Type.InsideField(f.Name)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	nothing := b.NewRecordBatch()
	defer nothing.Release()
	out, err := p.Run(ctx, nothing)
	if err == nil {
		out.Release()
	}
	return err
}

// insert appends a batch whose first columns are those of the table.
func (c *comparison) insert(ctx context.Context, table string, cols []sqltype.Field, rec arrow.RecordBatch) error {
	p, err := c.eng.Prepare(ctx, "INSERT INTO "+table+" SELECT * FROM __rows", plan.Relation{Name: "__rows", Columns: cols}, countColumn())
	if err != nil {
		return err
	}
	defer p.Close()
	part := array.NewRecordBatch(arrow.NewSchema(rec.Schema().Fields()[:len(cols)], nil), rec.Columns()[:len(cols)], rec.NumRows())
	defer part.Release()
	out, err := p.Run(ctx, part)
	if err == nil {
		out.Release()
	}
	return err
}

// expected runs the user's own SELECT over the records, in their order. The
// source's name is a view of them.
func (c *comparison) expected(ctx context.Context, source string, v *plan.View, results []sqltype.Field) error {
	if err := c.exec(ctx, "CREATE VIEW "+quoteName(source)+" AS SELECT * FROM records ORDER BY kafka_timestamp, kafka_partition, kafka_offset"); err != nil {
		return err
	}
	if err := c.exec(ctx, "CREATE TABLE expected AS "+v.Select); err != nil {
		if bad, ok := errors.AsType[*duckext.EvalError](err); ok {
			return queryable.Errorf(queryable.Conflict, "view %s cannot be verified: DuckDB refuses its SELECT over all records at once: %s", v.Name, bad.Message)
		}
		return err
	}
	return nil
}

// canonical gives the columns that are keys of a view as expressions over a key
// see them: 0.0 for -0.0, 1 month for 30 days. Keys that are computed are left
// as they are, and so is a column that is read as something else than a key, too:
// WHERE, arguments and other keys see each record's own form.
func canonical(v *plan.View, cols []sqltype.Field, rec arrow.RecordBatch) (arrow.RecordBatch, error) {
	arrays := slices.Clone(rec.Columns())
	for n, k := range v.Keys {
		if codec.KeyExact(k.Type) || readElsewhere(v, n, k.Expr) {
			continue
		}
		e := strings.TrimPrefix(k.Expr, plan.InputRelation+".")
		i := slices.IndexFunc(cols, func(c sqltype.Field) bool {
			return strings.EqualFold(e, c.Name) || strings.EqualFold(e, quoteName(c.Name))
		})
		if i < 0 {
			continue
		}
		a, err := canonicalColumn(k.Type, arrays[i])
		if err != nil {
			return nil, fmt.Errorf("canonical form of key %s: %w", k.Name, err)
		}
		defer a.Release()
		arrays[i] = a
	}
	return array.NewRecordBatch(rec.Schema(), arrays, rec.NumRows()), nil
}

// readElsewhere says whether a view reads the column of its n-th key as something
// else, too: in another key, in an aggregate, or in WHERE. (The key's own
// expression in the partial statement may name it several times.)
func readElsewhere(v *plan.View, n int, column string) bool {
	names := regexp.MustCompile(regexp.QuoteMeta(column) + `(?:[^\pL\pN_]|$)`)
	for i, k := range v.Keys {
		if i != n && names.MatchString(k.Expr) {
			return true
		}
	}
	for _, a := range v.Accs {
		if names.MatchString(a.Partial) {
			return true
		}
	}
	_, where, _ := strings.Cut(v.Partial, " FROM "+plan.InputRelation+" WHERE ")
	return names.MatchString(where)
}

func canonicalColumn(t sqltype.Type, a arrow.Array) (arrow.Array, error) {
	b := array.NewBuilder(memory.DefaultAllocator, t.Inside())
	defer b.Release()
	decode := codec.NewKeyDecoder(t)
	var key []byte
	for i := range a.Len() {
		var err error
		if key, err = codec.AppendKey(key[:0], t, a, i); err != nil {
			return nil, err
		}
		if _, err := decode(b, key); err != nil {
			return nil, err
		}
	}
	return b.NewArray(), nil
}

// compare joins the two answers. Rows are matched by the key columns that SELECT
// names, and where these do not tell rows apart, by the order of their other
// columns.
func (c *comparison) compare(ctx context.Context, v *plan.View, rep *report) error {
	slack, err := c.slack(ctx, v)
	if err != nil {
		return err
	}
	var match, same, order, show []string
	for _, r := range v.Results {
		n := quoteName(r.Name)
		if r.Key >= 0 {
			match = append(match, n)
			show = append(show, fmt.Sprintf("%s || coalesce(CAST(coalesce(e.%s, a.%s) AS VARCHAR), 'NULL')", sqlText(r.Name+" = "), n, n))
		} else {
			order = append(order, n)
		}
		same = append(same, equal(r.Type, "e."+n, "a."+n, slack))
	}
	number := "row_number() OVER (" + clause("PARTITION BY ", match) + clause(" ORDER BY ", order) + ")"
	on := []string{"e.__n = a.__n"}
	for _, m := range match {
		on = append(on, "e."+m+" IS NOT DISTINCT FROM a."+m)
	}
	if len(show) == 0 {
		show = []string{"'the only row'"}
	}
	joined := fmt.Sprintf("FROM (SELECT *, %s AS __n FROM expected) AS e FULL OUTER JOIN (SELECT *, %s AS __n FROM actual) AS a ON %s",
		number, number, strings.Join(on, " AND "))
	equalAll := "(" + strings.Join(same, " AND ") + ")"
	big := sqltype.Type{ID: sqltype.BigInt}
	rec, err := c.run(ctx, fmt.Sprintf("SELECT count(*) FILTER (WHERE e.__n IS NOT NULL AND a.__n IS NOT NULL) AS compared, count(*) FILTER (WHERE a.__n IS NULL) AS missing, count(*) FILTER (WHERE e.__n IS NULL) AS extra, count(*) FILTER (WHERE e.__n IS NOT NULL AND a.__n IS NOT NULL AND NOT %s) AS different %s", equalAll, joined),
		[]sqltype.Field{{Name: "compared", Type: big}, {Name: "missing", Type: big}, {Name: "extra", Type: big}, {Name: "different", Type: big}})
	if err != nil {
		return err
	}
	defer rec.Release()
	at := func(i int) int64 { return rec.Column(i).(*array.Int64).Value(0) }
	rep.compared, rep.missing, rep.extra, rep.different = at(0), at(1), at(2), at(3)
	if rep.missing+rep.extra+rep.different == 0 {
		return nil
	}
	ex, err := c.run(ctx, fmt.Sprintf("SELECT CASE WHEN a.__n IS NULL THEN 'missing: ' WHEN e.__n IS NULL THEN 'extra: ' ELSE 'different: ' END || %s AS example %s WHERE a.__n IS NULL OR e.__n IS NULL OR NOT %s LIMIT 10",
		strings.Join(show, " || ', ' || "), joined, equalAll), []sqltype.Field{{Name: "example", Type: sqltype.Type{ID: sqltype.Varchar}}})
	if err != nil {
		return err
	}
	defer ex.Release()
	for i := range int(ex.NumRows()) {
		rep.examples = append(rep.examples, ex.Column(0).(*array.String).Value(i))
	}
	return nil
}

func clause(word string, items []string) string {
	if len(items) == 0 {
		return ""
	}
	return word + strings.Join(items, ", ")
}

func sqlText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// ulp is one unit in the last place of a DOUBLE, relative to its value.
const ulp = "2.3e-16"

// equal compares two values. Floats may differ by one unit in the last place,
// and by what the order of additions explains where there are float sums.
func equal(t sqltype.Type, e, a, slack string) string {
	is := e + " IS NOT DISTINCT FROM " + a
	if t.ID != sqltype.Double && t.ID != sqltype.Float {
		return "(" + is + ")"
	}
	eps := ulp
	if t.ID == sqltype.Float {
		eps = "1.2e-7"
	}
	// Without isfinite every number would be near infinity.
	return fmt.Sprintf("(%s OR coalesce(isfinite(%s) AND isfinite(%s) AND abs(%s - %s) <= abs(%s) * %s + %s, false))", is, e, a, e, a, e, eps, slack)
}

// slack makes the table of how far the float sums of a group may be from
// DuckDB's, whatever order each adds in: n times the machine's epsilon times the
// sum of magnitudes. It returns the expression for a row of the comparison, 0
// where no float is summed.
func (c *comparison) slack(ctx context.Context, v *plan.View) (string, error) {
	var sums []string
	for _, a := range v.Accs {
		if a.Type.ID == sqltype.Double && a.Rule == agg.Add {
			sums = append(sums, "coalesce(abs("+a.Partial+"), 0)")
		}
	}
	if len(sums) == 0 {
		return "0", nil
	}
	var keys, names, on, by []string
	named := true
	for i, k := range v.Keys {
		n := fmt.Sprintf("k%d", i)
		by = append(by, strconv.Itoa(i+1))
		keys, names = append(keys, k.Expr+" AS "+n), append(names, n)
		if k.Result < 0 {
			named = false
		} else {
			on = append(on, "s."+n+" IS NOT DISTINCT FROM e."+quoteName(v.Results[k.Result].Name))
		}
	}
	each := "SELECT " + strings.Join(append(keys, strings.Join(sums, " + ")+" AS x"), ", ") + " FROM records AS " + plan.InputRelation +
		" GROUP BY " + strings.Join(append(by, "kafka_partition", "kafka_offset"), ", ")
	sql := "CREATE TABLE slack AS SELECT " + strings.Join(append(names, "4e-16 * count(*) * sum(x) AS bound"), ", ") + " FROM (" + each + ")" + clause(" GROUP BY ", names)
	if err := c.exec(ctx, sql); err != nil {
		return "", err
	}
	if !named || len(on) == 0 {
		return "coalesce((SELECT max(bound) FILTER (WHERE isfinite(bound)) FROM slack), 0)", nil
	}
	return "coalesce((SELECT max(s.bound) FILTER (WHERE isfinite(s.bound)) FROM slack AS s WHERE " + strings.Join(on, " AND ") + "), 0)", nil
}
