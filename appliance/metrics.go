package appliance

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"weir/ingest"
)

// metrics is the registry that /metrics shows. What the appliance knows is read
// when it is asked for.
func (a *Appliance) metrics() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), newGauges(a), newExportGauges(a.publisher))
	return r
}

// gauges describe the appliance at the moment of a scrape.
type gauges struct {
	a *Appliance

	epoch, freshness, checkpoint    *prometheus.Desc
	committed                       *prometheus.Desc
	points                          *prometheus.Desc
	records, rate, lag, up, refused *prometheus.Desc
	groups, bytes, failed, behind   *prometheus.Desc
	partitionNext, partitionEnd     *prometheus.Desc
}

func newGauges(a *Appliance) *gauges {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("weir_"+name, help, labels, nil)
	}
	return &gauges{
		a:             a,
		epoch:         d("epoch", "The newest committed epoch."),
		freshness:     d("freshness_seconds", "99th percentile of the age of the newest record when its commit became visible."),
		checkpoint:    d("checkpoint_epoch", "The epoch of the newest checkpoint, from before the start, too; 0 for none."),
		committed:     d("committed_bytes_total", "Bytes that commits have written since the start: what --checkpoint-bytes counts."),
		points:        d("point_queries_total", "Queries for one group by its key that were answered without a query process."),
		records:       d("source_records_total", "Records read, in all, by the shared cursor.", "source"),
		rate:          d("source_records_per_second", "Records read a second, lately.", "source"),
		lag:           d("source_lag_records", "Records between what is committed of the shared cursor and the stable ends; absent while these are not known.", "source"),
		up:            d("source_up", "1 when the source runs, 0 when it waits or has stopped; absent while no view reads it.", "source"),
		refused:       d("source_quarantined_total", "Refusals of records, in all: a record counts once for each view that refused it.", "source"),
		groups:        d("view_groups", "Groups of a view.", "view"),
		bytes:         d("view_bytes", "Bytes of keys and values of a view, before compression.", "view"),
		failed:        d("view_groups_in_error", "Groups whose merge failed.", "view"),
		behind:        d("view_lag_records", "Records between what readers see of a view and the stable ends; absent while these are not known.", "view"),
		partitionNext: d("partition_next_offset", "The next offset after what is committed.", "source", "partition"),
		partitionEnd:  d("partition_end_offset", "The stable end; absent while it is not known.", "source", "partition"),
	}
}

// Describe is part of prometheus.Collector.
func (g *gauges) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		g.epoch, g.freshness, g.checkpoint, g.committed, g.points, g.records, g.rate, g.lag, g.up, g.refused,
		g.groups, g.bytes, g.failed, g.behind, g.partitionNext, g.partitionEnd,
	} {
		c <- d
	}
}

// Collect is part of prometheus.Collector.
func (g *gauges) Collect(c chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		c <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	sn, err := g.a.store.Snapshot()
	if err != nil {
		c <- prometheus.NewInvalidMetric(g.epoch, err)
		return
	}
	defer sn.Close()
	gauge(g.epoch, float64(sn.Epoch()))
	counter(g.committed, float64(g.a.store.Written()))
	counter(g.points, float64(g.a.points.Load()))
	gauge(g.freshness, g.a.freshness.p99().Seconds())
	g.a.keeper.mu.Lock()
	gauge(g.checkpoint, float64(g.a.keeper.shown))
	g.a.keeper.mu.Unlock()
	cat := sn.Catalog()
	for i := range cat.Sources {
		src := &cat.Sources[i]
		s, _ := g.a.pipeline.Status(src)
		s.Show(sn.Positions)
		counter(g.records, float64(sn.Records(src.Cursor)), src.Name)
		counter(g.refused, float64(sn.RefusedCount(src.ID).Total), src.Name)
		gauge(g.rate, s.Rate, src.Name)
		up := 0.0
		if s.State == ingest.Running {
			up = 1
		}
		for _, p := range s.Partitions {
			part := strconv.Itoa(int(p.Partition))
			gauge(g.partitionNext, float64(p.Next), src.Name, part)
			if p.End >= 0 {
				gauge(g.partitionEnd, float64(p.End), src.Name, part)
			}
		}
		if s.State != ingest.Idle {
			gauge(g.up, up, src.Name)
		}
		if lag, ok := s.Lag(); ok {
			gauge(g.lag, float64(lag), src.Name)
		}
	}
	for i := range cat.Views {
		v := &cat.Views[i]
		st := sn.Stats(v.ID)
		gauge(g.groups, float64(st.Groups), v.Plan.Name)
		gauge(g.bytes, float64(st.Bytes), v.Plan.Name)
		gauge(g.failed, float64(st.Errors), v.Plan.Name)
		if lag, ok := g.a.pipeline.Lag(v, sn.Positions(v.Cursor)); ok {
			gauge(g.behind, float64(lag), v.Plan.Name)
		}
	}
}
