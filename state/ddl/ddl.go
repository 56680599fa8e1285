// Package ddl reads the statements that Weir adds around SELECT: sources,
// views, and what is said about them.
//
// It knows the words around a SELECT, never the SELECT itself: that is kept as
// a span of the script, for DuckDB to parse. A statement that is not Weir's is
// a [Query] and goes to DuckDB as it is. Nothing is ignored: an option, a
// clause or a form of another system that Weir does not have is an [*Error]
// with its position, the reason and the nearest thing that works.
package ddl

import "weir/state/sqltype"

// A Span is a piece of a script: script[Start:End]. Start and End count bytes.
type Span struct {
	Script     string
	Start, End int
}

// Text is the piece itself.
func (s Span) Text() string { return s.Script[s.Start:s.End] }

// Errorf is an error at byte i of the piece. Nearest may be empty.
func (s Span) Errorf(i int, nearest, reason string) *Error {
	return newError(s.Script, s.Start+i, reason, nearest)
}

// A Statement is one of the types below.
type Statement interface{ span() Span }

func (s Span) span() Span { return s }

// SpanOf gives a statement's text, without its semicolon.
func SpanOf(s Statement) Span { return s.span() }

// CreateSource is CREATE [OR REPLACE] SOURCE [IF NOT EXISTS] name (columns) WITH (options).
type CreateSource struct {
	Span
	Name        Name
	OrReplace   bool
	IfNotExists bool
	Columns     []sqltype.Field
	Options     Options
}

// CreateMaterializedView is CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name
// [WITH (options)] AS SELECT.
type CreateMaterializedView struct {
	Span
	Name        Name
	OrReplace   bool // of the options; another SELECT would throw the state away
	IfNotExists bool
	Export      *Export // nil when it is not exported
	Select      Span
}

// CreateView is CREATE [OR REPLACE] VIEW [IF NOT EXISTS] name AS SELECT.
type CreateView struct {
	Span
	Name        Name
	OrReplace   bool
	IfNotExists bool
	Select      Span
}

// Explain is EXPLAIN CREATE MATERIALIZED VIEW.
type Explain struct {
	Span
	View CreateMaterializedView
}

// Kind is what a name stands for.
type Kind string

// The kinds of things that have names.
const (
	Source           Kind = "SOURCE"
	View             Kind = "VIEW"
	MaterializedView Kind = "MATERIALIZED VIEW"
)

// Drop is DROP SOURCE | VIEW | MATERIALIZED VIEW [IF EXISTS] name.
type Drop struct {
	Span
	Kind     Kind
	Name     Name
	IfExists bool
}

// Show is SHOW SOURCES | VIEWS | CHECKPOINTS | SAVEPOINTS.
type Show struct {
	Span
	What string // "SOURCES", "VIEWS", "CHECKPOINTS" or "SAVEPOINTS"
}

// Verify is VERIFY VIEW name.
type Verify struct {
	Span
	Name Name
}

// Checkpoint is CHECKPOINT.
type Checkpoint struct{ Span }

// CreateSavepoint is CREATE SAVEPOINT [IF NOT EXISTS] 'name'. The name is a
// string: it compares by its bytes, and may be anything that a line can hold.
type CreateSavepoint struct {
	Span
	Name        Name
	IfNotExists bool
}

// DropSavepoint is DROP SAVEPOINT [IF EXISTS] 'name'.
type DropSavepoint struct {
	Span
	Name     Name
	IfExists bool
}

// Query is any other statement; DuckDB judges it.
type Query struct{ Span }

// A Name is written in a script at byte Offset. Names compare without regard
// to case, as DuckDB's do.
type Name struct {
	Text   string
	Offset int
}

// MetadataColumns are the columns that every Kafka source has besides its own.
func MetadataColumns() []sqltype.Field {
	header := sqltype.Type{ID: sqltype.Struct, Fields: []sqltype.Field{
		{Name: "key", Type: sqltype.Type{ID: sqltype.Varchar}},
		{Name: "value", Type: sqltype.Type{ID: sqltype.Blob}},
	}}
	return []sqltype.Field{
		{Name: "kafka_key", Type: sqltype.Type{ID: sqltype.Blob}},
		{Name: "kafka_topic", Type: sqltype.Type{ID: sqltype.Varchar}},
		{Name: "kafka_partition", Type: sqltype.Type{ID: sqltype.Integer}},
		{Name: "kafka_offset", Type: sqltype.Type{ID: sqltype.BigInt}},
		{Name: "kafka_timestamp", Type: sqltype.Type{ID: sqltype.Timestamp}},
		{Name: "kafka_headers", Type: sqltype.Type{ID: sqltype.List, Elem: &header}},
	}
}
