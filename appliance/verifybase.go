package appliance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/checkpoint"
	"weir/ingest/kafka"
	"weir/state"
	"weir/state/agg"
	"weir/state/plan"
)

// A verifyBase is what VERIFY VIEW begins with: nothing, where the log still holds
// the view's first records, else the groups of a checkpoint.
type verifyBase struct {
	from     []state.Position
	table    *checkpoint.Table // nil: nothing
	manifest *checkpoint.Manifest
}

// verifyFrom finds what to begin with: nothing if it can be, else the oldest
// checkpoint of the same view behind which the log holds all records.
func (b backend) verifyFrom(sn *state.Snapshot, v *state.View, to, log []state.Position) (*verifyBase, error) {
	for _, p := range to {
		i := slices.IndexFunc(log, func(l state.Position) bool { return l.Partition == p.Partition })
		if i < 0 || other(log[i], p) {
			return nil, &unverifiable{&kafka.RecreatedError{Topic: p.Topic, Old: p.TopicID, New: idOf(log)}}
		}
	}
	gap := missing(v.First, to, log)
	if gap == nil && v.Edited == "" {
		return &verifyBase{from: v.First}, nil
	}
	for _, m := range b.keeper.list() {
		from, ok := baseOf(m, sn, v)
		if !ok || missing(from, to, log) != nil {
			continue
		}
		c, err := b.keeper.open(m.Checkpoint)
		if err != nil { // it was just removed, or is damaged
			b.log.Warn("a checkpoint cannot be verified from", "checkpoint", m.Checkpoint, "error", err)
			continue
		}
		t, err := c.Table(v.Plan.Name)
		if err != nil {
			b.log.Warn("a checkpoint cannot be verified from", "checkpoint", m.Checkpoint, "error", err)
			continue
		}
		return &verifyBase{from: from, table: t, manifest: m}, nil
	}
	if gap == nil {
		return nil, &unverifiable{errors.New("its groups were edited, and no checkpoint since then is kept: take one, and verify what comes after it")}
	}
	return nil, &unverifiable{fmt.Errorf("%w; no checkpoint is kept from which the log goes on", gap)}
}

// baseOf says where a checkpoint's groups of a view stand, if they are those of
// the same view at an earlier time.
func baseOf(m *checkpoint.Manifest, sn *state.Snapshot, v *state.View) ([]state.Position, bool) {
	cv, ok := m.View(v.Plan.Name)
	if !ok || state.ViewID(cv.ID) != v.ID || cv.CreatedEpoch != v.CreatedEpoch || cv.Fingerprint != v.Plan.Fingerprint || cv.Edited != v.Edited || m.Epoch > sn.Epoch() || cv.Errors > 0 {
		return nil, false
	}
	if !slices.EqualFunc(cv.First, v.First, func(a checkpoint.Position, b state.Position) bool {
		return a.Partition == b.Partition && a.Next == b.Next
	}) {
		return nil, false // of another life, in a directory that both use
	}
	from, err := cv.StatePositions()
	if err != nil {
		return nil, false
	}
	to := sn.Positions(v.Cursor)
	for _, p := range from {
		i := slices.IndexFunc(to, func(q state.Position) bool { return q.Partition == p.Partition })
		if i < 0 || to[i].Next < p.Next || other(to[i], p) {
			return nil, false
		}
	}
	return from, true
}

func idOf(log []state.Position) (id [16]byte) {
	if len(log) > 0 {
		id = log[0].TopicID
	}
	return id
}

// other says that two positions are of different topics of one name.
func other(a, b state.Position) bool {
	return a.TopicID != b.TopicID && a.TopicID != [16]byte{} && b.TopicID != [16]byte{}
}

// missing is the error of the first partition of which the log lacks records
// between two positions; nil if it has all. A partition that from does not name
// was read from its beginning.
func missing(from, to, log []state.Position) error {
	for _, end := range to {
		begin := int64(0)
		if i := slices.IndexFunc(from, func(p state.Position) bool { return p.Partition == end.Partition }); i >= 0 {
			begin = from[i].Next
		}
		i := slices.IndexFunc(log, func(p state.Position) bool { return p.Partition == end.Partition })
		if i >= 0 && begin < end.Next && log[i].Next > begin {
			return fmt.Errorf("topic %s partition %d begins at offset %d now, and the view began at %d", end.Topic, end.Partition, log[i].Next, begin)
		}
	}
	return nil
}

func (vb *verifyBase) close() {
	if vb.table != nil {
		_ = vb.table.Close() // it was only read
	}
}

// name is what the answer calls it.
func (vb *verifyBase) name() string {
	if vb.table == nil {
		return ""
	}
	return fmt.Sprintf("checkpoint %d", vb.manifest.Checkpoint)
}

// counted says whether a record comes before the replay.
func (vb *verifyBase) counted(partition int32, offset int64) bool {
	return vb.table != nil && slices.ContainsFunc(vb.from, func(p state.Position) bool { return p.Partition == partition && offset < p.Next })
}

// refused is how many records the view had not counted then.
func (vb *verifyBase) refused(v *state.View) int64 {
	if vb.table == nil {
		return 0
	}
	for _, q := range vb.manifest.Quarantine.Sources {
		if state.SourceID(q.Source) == v.Source {
			return q.ByView[0] + q.ByView[uint32(v.ID)]
		}
	}
	return 0
}

// continued computes what the view must be from a checkpoint's groups and the
// records behind it: the partials of these, all in one batch, merged with the
// groups by each accumulator's rule, and the view's final statement over that.
func (c *comparison) continued(ctx context.Context, v *plan.View, base *verifyBase) error {
	cols := v.StateColumns()
	if len(cols) == 0 {
		return c.exec(ctx, "CREATE TABLE expected AS WITH "+quoteName(plan.StateRelation)+" AS (SELECT true AS __nothing) SELECT * FROM ("+v.Final+")")
	}
	if err := c.create(ctx, "base", cols); err != nil {
		return err
	}
	if err := base.each(ctx, func(rec arrow.RecordBatch) error { return c.insert(ctx, "base", cols, rec) }); err != nil {
		return err
	}
	merged, err := mergeSQL(v)
	if err != nil {
		return err
	}
	for _, sql := range []string{
		"CREATE VIEW " + quoteName(plan.InputRelation) + " AS SELECT * FROM records ORDER BY kafka_timestamp, kafka_partition, kafka_offset",
		"CREATE TABLE more AS SELECT * FROM base LIMIT 0",
		"INSERT INTO more " + v.Partial,
		"CREATE TABLE " + quoteName(plan.StateRelation) + " AS " + merged,
		"CREATE TABLE expected AS " + v.Final,
	} {
		if err := c.exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// each gives the groups of the base.
func (vb *verifyBase) each(ctx context.Context, f func(arrow.RecordBatch) error) error {
	rd, err := vb.table.Scan(ctx, state.ScanRequest{Extra: state.Extra{Error: true}})
	if err != nil {
		return err
	}
	defer rd.Release()
	for rd.Next() {
		rec := rd.RecordBatch()
		if why, ok := rec.Column(int(rec.NumCols()) - 1).(*array.String); ok && why.NullN() < why.Len() {
			return &unverifiable{fmt.Errorf("groups of %s are in error", vb.name())}
		}
		if err := f(rec); err != nil {
			return err
		}
	}
	return rd.Err()
}

// mergeSQL merges the tables base and more, whose columns are the state's.
func mergeSQL(v *plan.View) (string, error) {
	var list, by []string
	for i, k := range v.Keys {
		list = append(list, quoteName(k.Name))
		by = append(by, fmt.Sprint(i+1))
	}
	for _, a := range v.Accs {
		n := quoteName(a.Name)
		var e string
		switch a.Rule {
		case agg.Add:
			e = "CAST(sum(" + n + ") AS " + a.Type.String() + ")"
		case agg.Min, agg.Max:
			e = string(a.Rule) + "(" + n + ")"
		case agg.And, agg.Or:
			e = "bool_" + string(a.Rule) + "(" + n + ")"
		default:
			return "", &unverifiable{fmt.Errorf("the log no longer holds its first records, and VERIFY VIEW does not know how %s merges", a.Aggregate)}
		}
		list = append(list, e+" AS "+n)
	}
	return "SELECT " + strings.Join(list, ", ") + " FROM (SELECT * FROM base UNION ALL SELECT * FROM more)" + clause(" GROUP BY ", by), nil
}
