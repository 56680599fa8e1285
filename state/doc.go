// Package state keeps the groups of materialized views on Pebble, together
// with the positions of the log that they stand at.
//
// It promises that after any crash the groups of a view are exactly what the
// records below its stored positions give: groups, positions, refused records,
// counters and the catalogue change in one synced batch, a commit, or not at
// all. Commits are numbered by an epoch, and a reader sees an epoch only after
// it is durable. Readers hold a snapshot and never wait for the fold.
//
//	Fold ──> resident groups ──Commit──> one Pebble batch ──> Snapshot, Scan
//
// The words: a group is one key of a view; a partial is what one batch of
// records adds to a group; to fold is to merge partials into groups; a cursor
// owns positions in the log and the views that follow them; a slot is one of
// 256 hash ranges of the keys of a view.
//
// The package knows nothing of SQL, of Kafka or of DuckDB: it merges Arrow
// columns by the rules of package agg. docs/state.md draws the bytes.
//
// Read in this order: types.go, store.go, fold.go, table.go, commit.go,
// catalog.go, snapshot.go, scan.go.
package state
