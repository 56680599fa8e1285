package appliance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	kafkago "github.com/segmentio/kafka-go"

	"weir/duckext"
	"weir/ingest/kafka"
	"weir/queryable"
	"weir/state"
	"weir/state/plan"
	"weir/state/sqltype"
)

// report is what VERIFY VIEW found. Counts are of rows.
type report struct {
	view              string
	epoch             uint64
	since             string // the checkpoint whose groups it went on from, "" for none
	records, excluded int64  // read from the topic; left out because quarantined
	compared          int64
	hidden            int64 // groups of the view that HAVING hides; their values are not compared
	missing           int64 // in the topic's answer, not in the view
	extra             int64 // the other way round
	different         int64 // in both, with other values
	examples          []string
}

// verify computes a view once more from its topic, up to the positions that one
// snapshot holds, with a DuckDB of its own in one batch, and compares the rows.
// That DuckDB is another process: what the view's SELECT does to it is no harm.
func (b backend) verify(ctx context.Context, name string) (*report, error) {
	sn, err := b.snapshot()
	if err != nil {
		return nil, err
	}
	defer sn.Close()
	v, ok := sn.Catalog().View(name)
	if !ok {
		if q, ok := sn.Catalog().Query(name); ok {
			return nil, queryable.Errorf(queryable.BadRequest, "%s is a plain view, and keeps no state that could be wrong: verify the materialized views that it reads", q.Name)
		}
		return nil, notFound("materialized view", name)
	}
	src, ok := sn.Catalog().SourceByID(v.Source)
	if !ok {
		return nil, fmt.Errorf("view %s has no source", name)
	}
	rep, err := b.verifyView(ctx, sn, v, src)
	if err == nil {
		return rep, nil
	}
	if _, ok := errors.AsType[*queryable.Error](err); ok || ctx.Err() != nil {
		return nil, err
	}
	cannot := func(code queryable.Code, err error) error {
		return queryable.Errorf(code, "view %s cannot be verified: %w", v.Plan.Name, err)
	}
	if dead, ok := errors.AsType[*duckext.CrashError](err); ok {
		return nil, cannot(queryable.Conflict, fmt.Errorf("the process that computes it anew ended: %w", dead))
	}
	if bad, ok := errors.AsType[*duckext.EvalError](err); ok {
		return nil, cannot(queryable.Conflict, fmt.Errorf("DuckDB refuses its SELECT over all records at once: %s", bad.Message))
	}
	if down, ok := errors.AsType[*kafka.ConnectError](err); ok {
		return nil, cannot(queryable.Unavailable, down)
	}
	if bad, ok := errors.AsType[*unverifiable](err); ok {
		return nil, cannot(queryable.Conflict, bad)
	}
	return nil, err
}

// orNull is a text, or nil for none.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// An unverifiable view has no topic, or none that holds what it has counted.
type unverifiable struct{ error }

func (u *unverifiable) Unwrap() error { return u.error }

func (b backend) verifyView(ctx context.Context, sn *state.Snapshot, v *state.View, src *state.Source) (*report, error) {
	log, err := b.logBegins(ctx, src)
	if err != nil {
		return nil, err
	}
	to := sn.Positions(v.Cursor)
	base, err := b.verifyFrom(sn, v, to, log)
	if err != nil {
		return nil, err
	}
	defer base.close()
	refused, err := refusedOffsets(sn, v, base)
	if err != nil {
		return nil, err
	}
	c, err := b.newComparison(ctx)
	if err != nil {
		return nil, err
	}
	defer c.close()
	rep := &report{view: v.Plan.Name, epoch: sn.Epoch(), since: base.name()}

	// The topic's answer.
	cols := plan.Source{Name: src.Name, Columns: src.Columns}.Relation().Columns
	cols = slices.DeleteFunc(cols, func(f sqltype.Field) bool {
		return !slices.ContainsFunc(v.Plan.Inputs, func(in sqltype.Field) bool { return in.Name == f.Name }) && !orders(f.Name)
	})
	if err := c.create(ctx, "records", cols); err != nil {
		return nil, err
	}
	rep.records, rep.excluded, err = b.pipeline.Replay(ctx, src, base.from, to, cols, refused, func(rec arrow.RecordBatch) error {
		rec, err := canonical(&v.Plan, cols, rec)
		if err != nil {
			return err
		}
		defer rec.Release()
		return c.insert(ctx, "records", cols, rec)
	})
	if err != nil {
		return nil, replayError(err)
	}
	results := v.Plan.ResultColumns()
	if base.table == nil {
		err = c.expected(ctx, src.Name, &v.Plan)
	} else {
		err = c.continued(ctx, &v.Plan, base)
	}
	if err != nil {
		return nil, err
	}

	// The view's own.
	if err := c.create(ctx, "actual", results); err != nil {
		return nil, err
	}
	if rep.hidden, err = b.eachResult(ctx, sn, v, func(rec arrow.RecordBatch) error { return c.insert(ctx, "actual", results, rec) }); err != nil {
		return nil, err
	}
	if err := c.compare(ctx, &v.Plan, rep, base.table != nil); err != nil {
		return nil, err
	}
	if rep.missing+rep.extra+rep.different > 0 {
		if err := b.uncompacted(ctx, src); err != nil {
			return nil, &unverifiable{err}
		}
	}
	return rep, nil
}

// replayError sorts what went wrong with reading a topic again: a process that
// ended and a broker that is gone are not the topic's fault.
func replayError(err error) error {
	_, crash := errors.AsType[*duckext.CrashError](err)
	_, down := errors.AsType[*kafka.ConnectError](err)
	if crash || down || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &unverifiable{err}
}

// brokerPatience is how long the first answer of a broker may take.
const brokerPatience = 10 * time.Second

// logBegins are the oldest offsets that a source's topic holds.
func (b backend) logBegins(ctx context.Context, src *state.Source) ([]state.Position, error) {
	soon, cancel := context.WithTimeout(ctx, brokerPatience)
	defer cancel()
	log, err := b.pipeline.Begins(soon, src)
	switch {
	case err == nil || ctx.Err() != nil:
		return log, err
	case soon.Err() != nil:
		return nil, &kafka.ConnectError{Brokers: splitBrokers(cmp.Or(src.Options["brokers"], b.cfg.Brokers)), Err: fmt.Errorf("no answer in %v", brokerPatience)}
	}
	return nil, replayError(err)
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

// eachResult gives the results of a view, batch by batch, and says how many groups
// HAVING hides.
func (b backend) eachResult(ctx context.Context, sn *state.Snapshot, v *state.View, f func(arrow.RecordBatch) error) (hidden int64, err error) {
	in, err := sn.Scan(ctx, state.ScanRequest{View: v.ID, Extra: state.Extra{Error: true}})
	if err != nil {
		return 0, err
	}
	defer in.Release()
	s := &viewScan{ctx: ctx, b: b, v: v}
	if err := s.choose(nil); err != nil {
		return 0, err
	}
	for in.Next() {
		rec, _, err := s.present(in.RecordBatch())
		if err != nil {
			return 0, err
		}
		hidden += in.RecordBatch().NumRows() - rec.NumRows()
		err = f(rec)
		rec.Release()
		if err != nil {
			return 0, err
		}
	}
	return hidden, in.Err()
}

// refusedOffsets are the records behind a base that a view has not counted because
// they stand in the quarantine, by partition.
func refusedOffsets(sn *state.Snapshot, v *state.View, base *verifyBase) (map[int32]map[int64]bool, error) {
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
			if r.View != 0 && r.View != v.ID || base.counted(r.Partition, r.Offset) {
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
	if n.ByView[0]+n.ByView[v.ID]-base.refused(v) > found {
		return nil, &unverifiable{errors.New("the quarantine of its source has dropped its oldest records, so they cannot be left out")}
	}
	return out, nil
}
