package duckext

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"weir/state/plan"
)

// An EvalError is DuckDB's refusal of a value while a statement ran: a cast
// that failed, an overflow, a domain error. The statement itself is sound.
type EvalError struct {
	Kind    string // DuckDB's class, such as "Conversion" or "Out of Range"
	Message string // DuckDB's text without the class
}

func (e *EvalError) Error() string { return e.Message }

// duckError is an error as DuckDB reports it with errors_as_json.
type duckError struct {
	kind    string
	message string
	subtype string
	offset  int // byte in the statement, -1 when not known
}

func (e *duckError) Error() string { return e.message }

// fatal says that the instance must not be used again: DuckDB has invalidated
// it, or an assertion of its own has failed.
func (e *duckError) fatal() bool {
	return e.kind == "FATAL" || e.kind == "INTERNAL" || e.kind == "Fatal" || e.kind == "Internal"
}

// parseError reads the text of an error. DuckDB gives JSON, at times behind a
// prefix, and plain text where an error was made outside of its reach.
func parseError(text string) *duckError {
	e := &duckError{message: text, offset: -1}
	if i := strings.IndexByte(text, '{'); i >= 0 && (i == 0 || strings.HasSuffix(text[:i], "Error: ")) {
		var j struct {
			Type     string `json:"exception_type"`
			Message  string `json:"exception_message"`
			Subtype  string `json:"error_subtype"`
			Position string `json:"position"`
		}
		if json.Unmarshal([]byte(text[i:]), &j) == nil && j.Message != "" {
			e.kind, e.message, e.subtype = j.Type, j.Message, j.Subtype
			if n, err := strconv.Atoi(j.Position); err == nil {
				e.offset = n
			}
			return e
		}
	}
	if kind, rest, ok := strings.Cut(text, " Error: "); ok && len(kind) < 30 && !strings.ContainsAny(kind, "\n\"'") {
		e.kind, e.message = kind, rest
	}
	return e
}

// syntax turns an error of parsing or binding sql into the planner's.
func syntax(sql string, err error) error {
	if e, ok := errors.AsType[*duckError](err); ok {
		return &plan.SyntaxError{Message: e.message, Offset: byteOffset(sql, e.offset, e.subtype)}
	}
	return err
}

// byteOffset makes DuckDB's position one in bytes: its parser counts
// characters, its binder bytes.
func byteOffset(sql string, offset int, subtype string) int {
	if subtype != "SYNTAX_ERROR" || offset < 0 {
		return min(offset, len(sql))
	}
	for i := range sql {
		if offset == 0 {
			return i
		}
		offset--
	}
	return len(sql)
}

// An EngineError is a failure of DuckDB itself, not of a value: out of memory,
// or an assertion. Records are not at fault.
type EngineError struct {
	Kind    string
	Message string
	// Fatal says that the instance answers nothing more: close the Engine and open
	// another.
	Fatal bool
}

func (e *EngineError) Error() string { return "duckdb: " + e.Message }

// valueErrors are the classes of errors that a value causes.
var valueErrors = map[string]bool{
	"Conversion": true, "Out of Range": true, "Invalid Input": true, "Mismatch Type": true, "Decimal": true, "Divide by Zero": true,
	"Invalid type": true, "Constraint": true, "Not implemented": true, "Parameter Not Allowed": true, "Sequence": true, "Expression": true,
}

// eval turns an error of running a sound statement into an EvalError or an
// EngineError.
func eval(err error) error {
	e, ok := errors.AsType[*duckError](err)
	switch {
	case !ok:
		return err
	case valueErrors[e.kind]:
		return &EvalError{Kind: e.kind, Message: e.message}
	}
	return &EngineError{Kind: e.kind, Message: e.message, Fatal: e.fatal()}
}
