// Package objectstore keeps checkpoints in S3-compatible object storage: it is
// the part of vfs.FS that package checkpoint uses, over one bucket.
//
// An object store has no directories, renames or partial files, and the package
// pretends as little as possible:
//
//   - A file appears under its name, whole, when it is synced or closed, or not
//     at all. Until then it is in memory, one part of [Options.Part] bytes at a time.
//   - A directory is a prefix of names. It is there while a file is under it.
//   - Link and Rename are copies that the store makes itself. Rename of a
//     directory is not atomic: the file named [Options.Last] is copied last and
//     removed first, so a directory that has it is whole. package atomicfile
//     knows such file systems ([atomicfile.Direct]) and builds in place instead.
//   - A file that is read is the object that was opened: when it is replaced or
//     removed meanwhile, reading fails.
//
// One program writes under a prefix at a time: it holds a [Lease].
//
// Nothing relies on the order or the freshness of listings. Every request is
// tried again while the store asks for it, cannot be reached or fails on its
// side, until [Options.Retry] has passed; a request that may have been carried
// out although its answer was lost can be repeated without harm. Errors are an
// [*Error], which names bucket and key and says what to do.
package objectstore
