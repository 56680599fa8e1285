// Package checkpoint writes the state as files that anybody opens, reads them
// again, and restores them.
//
// A checkpoint is a directory of Arrow IPC files, one a view, and a manifest
// that was written last; docs/format.md is the contract and this package its
// only writer. What it promises:
//
//   - A checkpoint is complete or absent. It is built under a temporary name and
//     renamed once; what a published one holds never changes.
//   - It costs what changed. A view is one file or a base and deltas, whose last
//     row of a key counts; files of an earlier checkpoint are linked, so every
//     directory stands alone. It is based on one only when the state itself says
//     that it went on from there (Manifest.History).
//   - It is one consistent cut: groups, positions and quarantined records are
//     those of one snapshot, which it reads without holding anything that a
//     commit waits for.
//   - Nothing is read that was not verified. Every byte of a file is covered by
//     a CRC32C that is checked before the Arrow library sees the byte, and by a
//     sha256 in the manifest, which covers itself.
//   - What does not fit the types of the file (a HUGEINT beyond 38 digits) puts
//     its group in error there and is still restored exactly.
//
// The types: [Write] takes a [Snapshot] and a [Finalizer] and returns a
// [Manifest]; [Open] gives a [Checkpoint], whose [Table] scans in the form that
// travels inside Weir; [Restore] makes a data directory of one. [Diff] compares two,
// [Transform] and [Merge] make new ones of them, and a bundle is one as a file. [List], [Sweep]
// and [Retain] look after the directory they all live in.
//
// The package knows nothing of SQL (result columns come from the Finalizer),
// of DuckDB, of Kafka, and of how Pebble stores a group.
package checkpoint
