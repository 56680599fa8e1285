// Package codec writes values as bytes, in two forms.
//
// The key form sorts: comparing two encodings as bytes compares the values as
// DuckDB does in ORDER BY ... ASC NULLS LAST, and two encodings are the same
// exactly when GROUP BY puts the values into one group. So it is canonical:
// -0.0 becomes 0.0, every NaN the same one (above infinity), 30 days one month
// and 24 hours one day, also inside lists, structs, arrays and maps. A value
// encodes to no prefix of another, so columns may follow one another.
//
// The value form is compact and exact: what is read is what was written, bit
// for bit. It does not sort.
//
// Both read and write Arrow in the inside form of package sqltype. Bytes that
// nobody wrote are an error ([ErrCorrupt]), never a panic and never an
// allocation larger than the input. docs/state.md draws the bytes.
//
// Between Arrow and bytes stand three shapes of a scalar, which the merge
// kernels use too: a word (up to 8 bytes), a wide word (16 bytes) and bytes.
package codec
