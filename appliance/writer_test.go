//go:build duckdb_arrow

package appliance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"weir/appliance/devbroker"
)

// What should become of a record.
type fate int

const (
	counted fate = iota
	broken       // no JSON: quarantined for all views
	unfit        // a view's cast refuses it: quarantined for that view alone
	tombstone
)

// A written record is one that was committed to the log.
type written struct {
	topic     string
	partition int32
	offset    int64
	value     string
	fate      fate
}

// shopSQL are the sources and views of the tests that kill: DECIMAL, DOUBLE,
// VARCHAR and BIGINT keys, and a global view. Every order has a group of its own
// in by_id, so each lost or doubled record shows by itself.
const shopSQL = `
CREATE SOURCE orders (id BIGINT, city VARCHAR, price DECIMAL(12,2), x DOUBLE) WITH (connector = 'kafka', topic = 'orders', format = 'json');
CREATE SOURCE visits (page VARCHAR, ms DOUBLE, who BIGINT, note VARCHAR) WITH (connector = 'kafka', topic = 'visits', format = 'json');
CREATE MATERIALIZED VIEW by_id AS SELECT id, count(*) AS n, max(city) AS city FROM orders GROUP BY id;
CREATE MATERIALIZED VIEW by_city AS SELECT city, count(*) AS n, sum(price) AS revenue, avg(price) AS mean, min(id) AS lo, max(id) AS hi FROM orders GROUP BY city;
CREATE MATERIALIZED VIEW by_price AS SELECT price, count(*) AS n, sum(id) AS ids FROM orders GROUP BY price;
CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(id) AS ids, sum(x) AS xs, bool_or(x > 3) AS big FROM orders;
CREATE MATERIALIZED VIEW by_ms AS SELECT ms, count(*) AS n, sum(who) AS whos, max(page) AS page FROM visits GROUP BY ms;
CREATE MATERIALIZED VIEW strict AS SELECT page, count(*) AS n, sum(CAST(note AS INTEGER)) AS notes FROM visits GROUP BY page;
`

const shopPartitions = 4

// shopRecord makes the n-th record of the shop.
func shopRecord(r *rand.Rand, n int64) (*devbroker.Record, fate) {
	rec := &devbroker.Record{Topic: "orders", Partition: int32(r.IntN(shopPartitions))}
	if r.IntN(3) == 0 {
		rec.Topic = "visits"
	}
	switch r.IntN(60) {
	case 0:
		rec.Value = fmt.Appendf(nil, `{"id":%d,`, n)
		return rec, broken
	case 1:
		rec.Key = []byte("k")
		return rec, tombstone
	}
	if rec.Topic == "orders" {
		cents := r.IntN(30000)
		price := fmt.Sprintf("%d.%02d", cents/100, cents%100)
		if r.IntN(2) == 0 {
			price = `"` + price + `"`
		}
		city := fmt.Sprintf(`"Stadt-%d ß"`, r.IntN(300))
		if r.IntN(20) == 0 {
			city = "null"
		}
		rec.Value = fmt.Appendf(nil, `{"id":%d,"city":%s,"price":%s,"x":%g,"extra":[1,{"a":null}]}`, n, city, price, float64(r.IntN(64))/16)
		return rec, counted
	}
	note, f := fmt.Sprint(r.IntN(100)), counted
	if r.IntN(40) == 0 {
		note, f = "n/a", unfit
	}
	ms := pick(r, "-0.0", "0.0", "1e-3", "0.1", "33.25", "null", fmt.Sprint(float64(r.IntN(4000))/8))
	rec.Value = fmt.Appendf(nil, `{"page":"/p%d","ms":%s,"who":%d,"note":"%s"}`, r.IntN(200), ms, n, note)
	return rec, f
}

// A shopWriter writes records until it is stopped, in plain batches and in
// transactions, of which it aborts some.
type shopWriter struct {
	plain, txn *devbroker.Producer
	r          *rand.Rand
	pace       time.Duration

	mu      sync.Mutex
	log     []written
	next    int64
	aborted int
}

// run writes until ctx ends; it never leaves a batch whose end it doesn't know.
func (w *shopWriter) run(ctx context.Context) error {
	tick := time.NewTicker(w.pace)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := w.batch(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
}

func (w *shopWriter) batch(ctx context.Context) error {
	recs := make([]*devbroker.Record, 1+w.r.IntN(40))
	fates := make([]fate, len(recs))
	for i := range recs {
		w.next++
		recs[i], fates[i] = shopRecord(w.r, w.next)
	}
	way := w.r.IntN(10)
	if way < 6 {
		if err := w.plain.Send(ctx, recs...); err != nil {
			return err
		}
		w.note(recs, fates)
		return nil
	}
	if err := w.txn.Begin(); err != nil {
		return err
	}
	if err := w.txn.Send(ctx, recs...); err != nil {
		return err
	}
	if way == 9 {
		w.mu.Lock()
		w.aborted += len(recs)
		w.mu.Unlock()
		return w.txn.Abort(ctx)
	}
	if err := w.txn.Commit(ctx); err != nil {
		return err
	}
	w.note(recs, fates)
	return nil
}

func (w *shopWriter) note(recs []*devbroker.Record, fates []fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, r := range recs {
		w.log = append(w.log, written{r.Topic, r.Partition, r.Offset, string(r.Value), fates[i]})
	}
}

// records is what was written so far.
func (w *shopWriter) records() []written {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log)
}
