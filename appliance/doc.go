// Package appliance is Weir as one process: it wires the other packages, starts
// and stops them in order, and is the command line.
//
//	Kafka -> ingest -> state (Pebble) -> snapshots -> duckext -> queryable -> web
//	                      |                               ^
//	                      +--> checkpoint (Arrow files) --+
//
// Five things hold, whatever happens:
//
//  1. Positions and the groups they stand for move in one commit.
//  2. One coordinator commits, for all views and cursors, in numbered epochs.
//  3. A reader sees exactly one epoch, and ingest never waits for it.
//  4. A published checkpoint never changes and names its positions.
//  5. Nothing is dropped without a counter and a place to look.
//
// To read the code, begin with appliance.go (what there is and in which order it
// starts), then ingest/lane.go, state/doc.go, duckext/doc.go, backend.go and
// queryable/doc.go.
package appliance
