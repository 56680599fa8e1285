// Package kafka reads Kafka topics: exactly the records a consumer should
// see, each once, in offset order, or an error that says why not.
//
// There are few types. A Cluster is a connection to some brokers. A Reader
// reads every partition of one topic, from positions its owner keeps. It hands
// out Fetched values, each a run of record batches of one partition, which
// decode into a Batch of Records, one after the other.
//
// What the package promises:
//
//   - A topic is its id, not its name. Where the broker can (Kafka 3.1 and
//     later) records are fetched by id, so a topic that was deleted and created
//     again never delivers a record of the new one; it stops the Reader with
//     a RecreatedError.
//   - Under read_committed (the default) no record of an aborted or an open
//     transaction is delivered, and markers never are.
//   - Fetched.Next skips what compaction, aborts and markers left out, so a
//     position always reaches the end of the log.
//   - Every batch's CRC-32C is checked before one of its records is seen.
//   - Nothing is skipped: an offset that the log no longer holds stops the
//     Reader with an OutOfRangeError.
//   - Nothing is ever created or written on the broker.
//
// Errors come in two kinds. Those that pass (a broker restarts, a leader moves,
// a password is being rotated) are retried with backoff for ever and shown by
// Reader.Status. Those that need a decision end the Reader: Reader.Next returns
// them, after everything that was read before them.
//
// The package knows no consumer groups: which partitions to read and where
// to begin is the caller's to know. It does not decode keys or values.
//
// Underneath, segmentio/kafka-go's Transport gives connections, TLS and SASL.
// Requests, responses and record batches are encoded and decoded here, because
// kafka-go's own readers deliver aborted records and fail on compacted topics.
//
// To change something: reader.go is the interface and discover.go what
// follows the topic's metadata; fetcher.go is the loop per broker; fetched.go
// and batch.go turn bytes into records; fetch.go, metadata.go and offsets.go are
// the three requests, and wire.go what they share.
package kafka
