package appliance

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/ingest"
	"weir/queryable"
	"weir/state"
	"weir/state/plan"
	"weir/state/sqltype"
)

// backend is the appliance as its readers see it.
type backend struct{ *Appliance }

var _ queryable.Backend = backend{}

// snapshot opens one consistent cut. Close it.
func (b backend) snapshot() (*state.Snapshot, error) {
	sn, err := b.store.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("open snapshot: %w", err)
	}
	return sn, nil
}

func positions(at []state.Position) []queryable.Position {
	out := make([]queryable.Position, 0, len(at))
	for _, p := range at {
		out = append(out, queryable.Position{Topic: p.Topic, Partition: p.Partition, Next: p.Next})
	}
	return out
}

func notFound(kind, name string) error {
	return queryable.Errorf(queryable.NotFound, "there is no %s %s", kind, name)
}

// noGroups says that a view has no groups of its own, or is not there.
func noGroups(cat *state.Catalog, name string) error {
	if q, ok := cat.Query(name); ok {
		return queryable.Errorf(queryable.BadRequest, "%s is a plain view and holds no groups: ask it in SQL (POST /api/v1/sql), or look into the materialized views that it reads", q.Name)
	}
	return notFound("view", name)
}

// Schema gives the key columns of a view.
func (b backend) Schema(name, at string) (queryable.Schema, error) {
	if at != "" {
		p, err := b.openPast(name, at)
		if err != nil {
			if _, plain := b.store.Catalog().Query(name); plain {
				err = noGroups(b.store.Catalog(), name) // nor had it any then
			}
			return queryable.Schema{}, err
		}
		return keySchema(&p.view.Plan), p.close()
	}
	v, ok := b.store.Catalog().View(name)
	if !ok {
		return queryable.Schema{}, noGroups(b.store.Catalog(), name)
	}
	return keySchema(&v.Plan), nil
}

func keySchema(p *plan.View) queryable.Schema {
	s := queryable.Schema{Name: p.Name}
	bucket := timeKey(p)
	for i, k := range p.Keys {
		s.Keys = append(s.Keys, queryable.Key{Field: sqltype.Field{Name: k.Name, Type: k.Type}, Bucket: i == bucket && len(p.Keys) > 1})
	}
	return s
}

// timeKey is the index of the key that comes first within a slot: the first point
// in time among the keys, -1 when there is none.
func timeKey(p *plan.View) int {
	return slices.IndexFunc(p.Keys, func(k plan.Key) bool { return k.Type.Temporal() })
}

// Views lists materialized views, then stored queries.
func (b backend) Views(context.Context) ([]queryable.View, queryable.Answer, error) {
	sn, err := b.snapshot()
	if err != nil {
		return nil, queryable.Answer{}, err
	}
	defer sn.Close()
	cat := sn.Catalog()
	a := queryable.Answer{Epoch: sn.Epoch()}
	vs := make([]queryable.View, 0, len(cat.Views)+len(cat.Queries))
	for i := range cat.Views {
		v := b.describe(sn, &cat.Views[i])
		a.Positions = append(a.Positions, v.Positions...)
		vs = append(vs, v)
	}
	for i := range cat.Queries {
		vs = append(vs, describeQuery(sn, &cat.Queries[i]))
	}
	return vs, a, nil
}

func (b backend) View(_ context.Context, name string) (queryable.View, queryable.Answer, error) {
	sn, err := b.snapshot()
	if err != nil {
		return queryable.View{}, queryable.Answer{}, err
	}
	defer sn.Close()
	a := queryable.Answer{Epoch: sn.Epoch()}
	if v, ok := sn.Catalog().View(name); ok {
		d := b.describe(sn, v)
		a.Positions = d.Positions
		return d, a, nil
	}
	if q, ok := sn.Catalog().Query(name); ok {
		return describeQuery(sn, q), a, nil
	}
	return queryable.View{}, a, notFound("view", name)
}

func (b backend) describe(sn *state.Snapshot, v *state.View) queryable.View {
	st := sn.Stats(v.ID)
	d := queryable.View{
		Name: v.Plan.Name, Kind: "materialized", SQL: v.SQL, Columns: viewColumns(v),
		Groups: &st.Groups, Bytes: st.Bytes, Epoch: sn.Epoch(), Positions: positions(sn.Positions(v.Cursor)),
		State: ingest.Running, Quarantined: 0, Export: b.publisher.status(v),
	}
	src, ok := sn.Catalog().SourceByID(v.Source)
	if !ok {
		return d
	}
	d.Source = src.Name
	counts := sn.RefusedCount(src.ID)
	d.Quarantined = counts.ByView[v.ID] + counts.ByView[0]
	s := b.sourceStatus(src)
	d.Rate = s.Rate
	d.Lag = known(b.pipeline.Lag(v, sn.Positions(v.Cursor)))
	switch {
	case s.State == ingest.Waiting:
		d.State = ingest.Waiting
		if s.Err != nil {
			d.Error = s.Err.Error()
		}
	case v.Cursor != src.Cursor:
		d.State = "backfilling"
	}
	if s.State == ingest.Stopped {
		d.State, d.Error = ingest.Stopped, s.Err.Error()
	}
	if st.Errors > 0 && d.Error == "" {
		d.Error = overflowed(st.Errors)
	}
	return d
}

// overflowed says how many groups of a view hold a sum that overflowed. Those whose
// results fail are others: only who computes them knows of them.
func overflowed(n int64) string {
	if n == 1 {
		return "1 group has a sum beyond its type: SQL that reads it fails, and a scan says which it is"
	}
	return fmt.Sprintf("%d groups have a sum beyond its type: SQL that reads them fails, and a scan says which they are", n)
}

func viewColumns(v *state.View) []queryable.Column {
	var cols []queryable.Column
	for _, r := range v.Plan.Results {
		role := queryable.RoleResult
		if r.Key >= 0 {
			role = queryable.RoleKey
		}
		cols = append(cols, queryable.Column{Field: sqltype.Field{Name: r.Name, Type: r.Type}, Role: role})
	}
	return cols
}

func describeQuery(sn *state.Snapshot, q *state.Query) queryable.View {
	d := queryable.View{Name: q.Name, Kind: "view", SQL: q.SQL, Epoch: sn.Epoch(), State: ingest.Running, Positions: []queryable.Position{}}
	for _, c := range q.Columns {
		d.Columns = append(d.Columns, queryable.Column{Field: c, Role: queryable.RoleResult})
	}
	return d
}

// Sources lists sources and how far each has read.
func (b backend) Sources(context.Context) ([]queryable.Source, queryable.Answer, error) {
	sn, err := b.snapshot()
	if err != nil {
		return nil, queryable.Answer{}, err
	}
	defer sn.Close()
	cat := sn.Catalog()
	a := queryable.Answer{Epoch: sn.Epoch()}
	out := make([]queryable.Source, 0, len(cat.Sources))
	for i := range cat.Sources {
		src := &cat.Sources[i]
		a.Positions = append(a.Positions, positions(sn.Positions(src.Cursor))...)
		s := b.sourceStatus(src)
		s.Show(sn.Positions)
		d := queryable.Source{
			Name: src.Name, SQL: src.SQL, Connector: src.Options["connector"], Topic: src.Options["topic"], Format: formatOf(src),
			Columns: src.Columns, State: s.State, Rate: s.Rate, Partitions: []queryable.Partition{},
			Quarantined: sn.RefusedCount(src.ID).Total, Records: sn.Records(src.Cursor),
		}
		if s.Err != nil {
			d.Error = s.Err.Error()
		}
		for _, p := range s.Partitions {
			d.Partitions = append(d.Partitions, queryable.Partition{Partition: p.Partition, Next: p.Next, End: known(p.End, p.End >= 0), Lag: known(p.Lag, p.Lag >= 0)})
		}
		d.Lag = known(s.Lag())
		out = append(out, d)
	}
	return out, a, nil
}

// known is nil for what is not.
func known(n int64, ok bool) *int64 {
	if !ok {
		return nil
	}
	return &n
}

// backfilling says whether a view still reads old records with a cursor of its own.
func backfilling(cat *state.Catalog, v *state.View) bool {
	src, ok := cat.SourceByID(v.Source)
	return ok && v.Cursor != src.Cursor
}

// backfills are the names among some views of those that do.
func backfills(cat *state.Catalog, vs ...*state.View) (names []string) {
	for _, v := range vs {
		if backfilling(cat, v) {
			names = append(names, v.Plan.Name)
		}
	}
	return names
}

func formatOf(s *state.Source) string {
	if f := s.Options["format"]; f != "" {
		return f
	}
	return "json"
}

// Topology is one node with all slots. Its version would rise if that changed.
func (b backend) Topology() queryable.Topology {
	return queryable.Topology{Version: 1, Slots: state.Slots, Nodes: []queryable.Node{{Address: b.addr, From: 0, To: state.Slots}}}
}

func (b backend) Status() queryable.Status {
	epoch, committed, _ := b.Changed()
	s := queryable.Status{Epoch: epoch, Committed: queryable.Known(committed), Uptime: time.Since(b.began).Seconds(), Memory: resident(), Version: version(), ReadOnly: b.cfg.shown}
	s.State, _ = b.Ready()
	cat := b.store.Catalog()
	for i := range cat.Sources {
		st, _ := b.pipeline.Status(&cat.Sources[i])
		s.Rate += st.Rate
	}
	if b.cfg.shown == "" {
		s.Waiting = b.waiting()
	}
	s.Freshness = float64(b.freshness.p99().Milliseconds())
	return s
}

// resident is the memory of this process, that of DuckDB and Pebble included: the
// number that the system goes by. Where it does not tell, it is the Go runtime's.
func resident() int64 {
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(b)); len(f) > 1 {
			if pages, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				return pages * int64(os.Getpagesize())
			}
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}

// Ready is CATCHING_UP until every view has reached the ends its topic had at
// start, then RUNNING. Both serve.
func (b backend) Ready() (string, bool) {
	switch {
	case !b.open.Load():
		return "RESTORING", false
	case !b.caughtUp.Load():
		return "CATCHING_UP", true
	}
	return "RUNNING", true
}

// Changed gives the newest epoch. What weir open shows is of the time when it was taken.
func (b backend) Changed() (uint64, time.Time, <-chan struct{}) {
	next := b.store.Changed()
	epoch, at := b.committed()
	if b.cfg.shown != "" {
		at = b.cfg.taken.Truncate(time.Millisecond)
	}
	return epoch, at, next
}

// WaitPosition waits until positions are committed.
func (b backend) WaitPosition(ctx context.Context, view string, want []queryable.Position) error {
	for {
		next := b.store.Changed()
		ok, err := b.reached(view, want)
		if ok || err != nil {
			return err
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b backend) reached(view string, want []queryable.Position) (bool, error) {
	sn, err := b.snapshot()
	if err != nil {
		return false, err
	}
	defer sn.Close()
	cat := sn.Catalog()
	views := cat.Views
	if view != "" {
		v, ok := cat.View(view)
		if !ok {
			return false, notFound("view", view)
		}
		views = []state.View{*v}
	}
	for _, w := range want {
		if !slices.ContainsFunc(cat.Sources, func(s state.Source) bool { return s.Options["topic"] == w.Topic }) {
			return false, queryable.Errorf(queryable.BadRequest, "no source reads the topic %q", w.Topic)
		}
	}
	for i := range views {
		src, ok := cat.SourceByID(views[i].Source)
		if !ok {
			continue
		}
		next := map[int32]int64{}
		for _, p := range sn.Positions(views[i].Cursor) {
			next[p.Partition] = p.Next
		}
		for _, w := range want {
			if w.Topic == src.Options["topic"] && next[w.Partition] < w.Next {
				return false, nil
			}
		}
	}
	return true, nil
}

// Quarantine lists refused records.
func (b backend) Quarantine(_ context.Context, r queryable.QuarantineRequest) ([]queryable.Rejected, string, queryable.Answer, error) {
	sn, err := b.snapshot()
	if err != nil {
		return nil, "", queryable.Answer{}, err
	}
	defer sn.Close()
	a := queryable.Answer{Epoch: sn.Epoch()}
	src, ok := sn.Catalog().Source(r.Source)
	if !ok {
		return nil, "", a, notFound("source", r.Source)
	}
	a.Positions = positions(sn.Positions(src.Cursor))
	var after uint64
	if r.After != "" {
		if after, err = strconv.ParseUint(r.After, 10, 64); err != nil {
			return nil, "", a, queryable.Errorf(queryable.BadRequest, "after is not a cursor that this route gave")
		}
	}
	recs, err := sn.Refused(src.ID, after, r.Limit)
	if err != nil {
		return nil, "", a, err
	}
	out := make([]queryable.Rejected, 0, len(recs))
	for _, rec := range recs {
		d := queryable.Rejected{
			Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset, Timestamp: time.UnixMilli(rec.Timestamp).UTC(),
			Column: rec.Column, Reason: rec.Reason, Key: rec.Key, Value: rec.Value,
		}
		if v, ok := sn.Catalog().ViewByID(rec.View); ok {
			d.View = v.Plan.Name
		} else if rec.View != 0 {
			d.View = fmt.Sprintf("(dropped view %d)", rec.View)
		}
		out = append(out, d)
	}
	next := ""
	if len(recs) == r.Limit && len(recs) > 0 {
		next = fmt.Sprint(recs[len(recs)-1].Seq)
	}
	return out, next, a, nil
}
