// Package iceberg writes views as Apache Iceberg tables, format version 2, in a
// directory: one snapshot an export, which holds the whole view and takes the
// place of the one before.
//
//	DIR/metadata/version-hint.text      the newest version, N
//	             vN.metadata.json       schemas, snapshots: the table
//	             weir-S-list.avro       of snapshot S: its manifest list
//	             weir-S-manifest.avro   and its manifest
//	    data/weir-S.parquet             and its rows
//
// It promises:
//
//   - An export that ends at any point, by a crash or by an error, leaves the table
//     of before or the new one. Everything that vN.metadata.json names is synced
//     before it gets that name, by one rename; what is left of an export that did
//     not get there is removed by the next.
//   - Ids of columns stay. A column may be added; one that has gone or has another
//     type is refused by name, and nothing is written.
//   - Only files with names as above are ever removed, and only when no snapshot
//     that is kept is theirs.
//
// Data files have no statistics in the manifest; those of Parquet are there.
//
// The format is written here, and not by iceberg-go, because that syncs no file,
// knows no vfs.FS, and would bring its own way from Arrow to Parquet.
package iceberg
