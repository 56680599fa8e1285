package appliance

import "github.com/prometheus/client_golang/prometheus"

// exportGauges describe the exports of views at the moment of a scrape.
type exportGauges struct {
	p                   *publisher
	done, failed, epoch *prometheus.Desc
}

func newExportGauges(p *publisher) *exportGauges {
	d := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("weir_view_export"+name, help, []string{"view"}, nil)
	}
	return &exportGauges{
		p:      p,
		done:   d("s_total", "Exports of a view after checkpoints, since the start."),
		failed: d("_failures_total", "Exports of a view that failed, since the start."),
		epoch:  d("_epoch", "The epoch of the newest export of a view, 0 for none."),
	}
}

// Describe is part of prometheus.Collector.
func (g *exportGauges) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.done, g.failed, g.epoch} {
		c <- d
	}
}

// Collect is part of prometheus.Collector.
func (g *exportGauges) Collect(c chan<- prometheus.Metric) {
	cat := g.p.store.Catalog()
	g.p.mu.Lock()
	defer g.p.mu.Unlock()
	for i := range cat.Views {
		e := g.p.of(&cat.Views[i])
		if e.spec == nil || g.p.off {
			continue
		}
		c <- prometheus.MustNewConstMetric(g.done, prometheus.CounterValue, float64(e.done), e.view)
		c <- prometheus.MustNewConstMetric(g.failed, prometheus.CounterValue, float64(e.failed), e.view)
		c <- prometheus.MustNewConstMetric(g.epoch, prometheus.GaugeValue, float64(e.status.Epoch), e.view)
	}
}
