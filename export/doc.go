// Package export writes views in the formats of others: [Parquet] here, Iceberg
// tables in export/iceberg.
//
// What goes in is a reader of record batches in the file form of state/sqltype,
// from a checkpoint or from live state, with the SQL type of each column. What
// comes out has the same columns, in the same order, under the same names, and
// no value but those that went in. A group in error has its text in the column
// __error; nothing here leaves a row out.
//
// A [Cache] keeps files that were made once for many readers of HTTP.
// [Folder] keeps the newest files of one view in a directory.
//
// Importing this package registers Arrow's canonical extension types (arrow.uuid,
// arrow.json, arrow.bool8, arrow.opaque) for the whole process, because pqarrow
// does: arrays that were read by IPC or from DuckDB then arrive as
// array.ExtensionArray, and a type switch on arrays must look at their storage.
package export
