// Package ingest moves records from Kafka into the state of views: it fetches,
// decodes, evaluates each view's partial statement over a batch of records and
// folds what comes out, together with the positions after the batch.
//
//	log -> kafka.Reader -> decode -> batch -> partial, view by view -> state.Fold
//
// The nouns: a [Pipeline] feeds all sources of a store. A feed is one source;
// it runs one lane for each cursor of the source: the shared one, which all
// views follow that have caught up, and one for each view that still reads what
// came before it was created. A batch is up to 65,536 records of one lane.
//
// What it promises:
//
//   - A record at or below a cursor's position has been counted once in every
//     view that follows the cursor, or stands in the quarantine with a reason;
//     a record above it has not been counted at all. Positions, partials and
//     refused records enter the store by one Fold.
//   - A record that cannot be decoded, or that a view's expressions refuse, stops
//     nothing. It is refused for all views, or for that view alone.
//   - Nor does one on which the evaluator crashes stop anything for long. What is
//     being evaluated stands in a small file; when a process has ended over it, the
//     next one evaluates it with [Options].Careful, which turns the crash into a
//     refusal, until some batches were sound; then it goes on as usual.
//   - Nothing is skipped in silence: a log that no longer holds the next offset
//     stops the source with an error that says what to do.
//
// It does not evaluate expressions: an [Evaluator] does, which is DuckDB in the
// appliance. It does not know when a fold becomes durable; the store does.
package ingest
