// Package decode turns the values of Kafka records into Arrow columns.
//
// It builds the columns that views read and no others, in the inside form of
// package sqltype, in memory of the allocator it is given. A record that does
// not decode is refused with the column and the reason and leaves nothing
// behind. The package knows neither Kafka nor SQL: positions, the kafka_ columns
// and what becomes of refused records are the pipeline's.
//
// # JSON
//
// A document is one object of RFC 8259 text in UTF-8. Refused are: NaN and other
// additions to JSON, a byte order mark, text behind the document, bytes that are
// not UTF-8, malformed escapes, and nesting of more than 64 levels. This goes for
// all of it. Beyond that, only what a wanted column receives can refuse a record.
//
//   - A key belongs to the column of the very same name; else to the one that
//     it equals up to the case of A to Z. An exact key beats others in any
//     order. Several inexact ones, or an exact one twice, are refused. The same
//     goes for the fields of a STRUCT; keys that no column claims may repeat.
//   - A key that is missing and a null are both NULL. A JSON column holds the
//     text null when null is present, so that the two can be told apart there.
//   - \u escapes of half a surrogate pair are no character: refused in a text
//     that is decoded and in a JSON column, where DuckDB would refuse them.
//
// # Types
//
// Numbers never pass through a float on their way to an exact type. A string
// that holds a JSON number is read as that number.
//
//   - Integers: whole numbers in any spelling (12, 12.0, 1.2e1). Anything behind
//     the point refuses.
//   - DECIMAL: exact; more digits behind the point than the type has are rounded
//     half away from zero, as DuckDB's CAST from text does.
//   - FLOAT, DOUBLE: correctly rounded; what would become infinite is refused.
//     The strings nan, inf and infinity (in any case, with a sign) are those.
//   - BOOLEAN: true and false, also as strings in any case.
//   - VARCHAR: the text of a string; of anything else the bytes received.
//   - JSON: the bytes received.
//   - BLOB: base64, padded or not, in the standard or the URL alphabet.
//   - UUID: 32 hexadecimal digits, with hyphens at 8-4-4-4-12 or without.
//   - DATE: YYYY-MM-DD. Years have four to six digits.
//   - TIME: HH:MM[:SS[.fraction]] without a zone.
//   - TIMESTAMP of all kinds: a date, or a date and a time with T or a space
//     between them; a zone behind it (Z, +HH, +HHMM, +HH:MM) shifts it to UTC, and
//     without one it is UTC. Digits finer than the type are cut off, never rounded
//     up. Infinity is refused. So are numbers, because they don't tell their unit.
//   - INTERVAL: ISO 8601 (P1DT2H) or DuckDB's text (1 day 02:00:00), its time part
//     within 292 years.
//   - LIST and ARRAY: arrays; STRUCT: objects; MAP: objects whose keys are read as
//     strings. A key of a MAP that comes twice is refused.
package decode

// Reasons to refuse a value that is no document. The pipeline skips and counts
// tombstones (a null value); an empty value is a refused record.
const (
	ReasonTombstone = "no value (tombstone)"
	ReasonEmpty     = "empty value"
)

// Error says why a record is refused.
type Error struct {
	Column string // the column, down to the part of it: items[2].qty; "" is the whole document
	Reason string // for people; shows the beginning of the value

	full bool // not a refusal: ErrFull on its way up
}

func (e *Error) Error() string {
	if e.Column == "" {
		return e.Reason
	}
	return "column " + e.Column + ": " + e.Reason
}
