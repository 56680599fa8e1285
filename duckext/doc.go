// Package duckext is Weir's DuckDB: opening it, running the planner's
// statements over batches, scanning live state from it, and the query process
// in which ad-hoc SQL runs. All of Weir's cgo is here.
//
// There are four users of DuckDB, each with an instance of its own:
//
//   - [Engine] parses and binds the operator's SQL for the planner and runs
//     each view's partial and final statement over Arrow batches ([Program]).
//     It lives in the process that owns Kafka and Pebble, so nothing but the
//     operator's SQL may reach it.
//   - [Guard] runs partial statements in a child process ([GuardWorker]), over
//     batches on which DuckDB may have crashed before.
//   - [Session] attaches tables that stream Arrow ([Table]) and queries them.
//   - [Pool] runs ad-hoc SQL in throw-away child processes ([Worker]), which
//     read state through the parent and can neither open files nor outlive it.
//
// Ad-hoc SQL takes this way:
//
//	Pool.Query -> a free child -> its statement gate (inspect) -> the names it reads
//	Catalog.Lease -> the views' definitions -> declared once, kept warm
//	DuckDB -> weir_scan -> a data socket -> Lease.Scan -> Arrow, projected and filtered
//	result columns -> bare buffers -> Result
//
// What crosses the border to DuckDB is copied. The package's table function
// copies each projected column of a record batch into DuckDB's vectors, and
// results are copied into Arrow arrays on the Go heap. So a caller may allocate
// with any allocator and release when it likes, DuckDB never holds a pointer
// into an Arrow buffer, and results need no Release to be freed. Copying costs
// some 0.2 ns a byte, less than exporting and importing through the C data
// interface does for batches of DuckDB's 2,048 rows. Columns have the types of
// the catalogue, not the types that DuckDB would guess from Arrow.
//
// DuckDB's ArrowScan (RegisterView) must not be used: it ignores projection,
// reads its stream once, and crashes when used after its release.
//
// The package knows no view, no Kafka and no HTTP. It links DuckDB only with the
// build tag duckdb_arrow; without it Open and Worker return an error.
package duckext
