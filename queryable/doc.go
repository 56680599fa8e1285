// Package queryable serves a running appliance's state over HTTP.
//
// It promises the routes, forms, headers and errors of docs/http.md: any SQL,
// look-ups by key, scans, positions, checkpoints and the stream of epochs. What
// it serves comes from a [Backend], which the appliance implements; the package
// knows nothing of Kafka, Pebble or DuckDB, and touches no expression.
//
// The nouns: an [API] is a set of handlers that [API.Mount] puts on a router. An
// [Answer] says of which epoch and positions an answer is. Rows travel from the
// backend as Arrow record batches in Inside form (see state/sqltype) and are
// encoded here, a cell at a time, as JSON, CSV or an Arrow stream.
//
// Invariants:
//
//   - A status of 200 is sent only after the first batch could be read; a fault
//     after that cuts the stream without its final chunk, so that no reader
//     takes a part for the whole.
//   - Whatever a handler hands to the backend ends with the request: its context
//     is cancelled within 100 ms of the client's leaving, and at [API.Stop].
//   - No string of a request outlives its handler: fasthttp reuses the memory.
//
// Who may call at all (host, origin, token) is decided by package web in front.
package queryable
