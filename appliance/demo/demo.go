// Package demo is the online shop that `weir demo` watches: a seeded generator
// of orders and page views, and the SQL over them.
//
// The same seed and start make the same bytes. Keys are skewed, the day has a
// rhythm, one event in a hundred is late and one in a thousand is broken, so
// that everything Weir does with such records can be seen. The package produces
// to whatever function it is given and knows neither Kafka nor Weir.
package demo

import (
	_ "embed"
	"time"
)

// SQL is what the demo runs: sources over [Topics], materialized views, views.
//
//go:embed demo.sql
var SQL string

// The topics, and the number of partitions that each of them has.
const (
	Orders     = "orders"
	PageViews  = "page_views"
	Partitions = 4
)

// Topics lists the topics to create.
func Topics() []string { return []string{Orders, PageViews} }

// Event is one record to produce. Key and Value may be kept: their memory is
// not used again.
type Event struct {
	Topic string
	Key   []byte
	Value []byte
	Time  time.Time // the record's timestamp, to the millisecond
}
