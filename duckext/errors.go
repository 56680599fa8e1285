package duckext

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"weir/state/plan"
)

// An EvalError is DuckDB's refusal of a value while a statement ran: a cast
// that failed, an overflow, a domain error. The statement itself is sound. The
// message is never empty.
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
	return strings.EqualFold(e.kind, "FATAL") || strings.EqualFold(e.kind, "INTERNAL")
}

// noReason is what stands for the message of an error that has none, such as one that
// SQL's error function made of an empty text.
const noReason = "DuckDB gives no reason"

// parseError reads the text of an error: JSON, or plain text where an error was made
// outside of DuckDB's reach. A message that itself begins with a brace DuckDB leaves
// behind "Invalid Input Error: ", and it may be a record's: it says nothing of the
// kind.
func parseError(text string) *duckError {
	e := &duckError{message: text, offset: -1}
	kind, rest, ok := strings.Cut(text, " Error: ")
	if ok = ok && len(kind) < 30 && !strings.ContainsAny(kind, "\n\"'{"); ok {
		e.kind, e.message = kind, rest
	}
	var j struct {
		Type     string `json:"exception_type"`
		Message  string `json:"exception_message"`
		Subtype  string `json:"error_subtype"`
		Position string `json:"position"`
	}
	if strings.HasPrefix(e.message, "{") && json.Unmarshal([]byte(e.message), &j) == nil && j.Type != "" {
		e.message, e.subtype = j.Message, j.Subtype
		if n, err := strconv.Atoi(j.Position); err == nil {
			e.offset = n
		}
		if !ok {
			e.kind = j.Type
		}
	}
	if strings.TrimSpace(e.message) == "" {
		e.message = noReason
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

// Memory says that DuckDB had not enough of it.
func (e *EngineError) Memory() bool { return e.Kind == outOfMemory }

// A fault says what an error of evaluating rows tells of them.
type fault uint8

const (
	// unsure: it is the rows' fault if the statement runs over no rows.
	unsure fault = iota
	ofRows
	ofEngine // or of the machine
)

const outOfMemory = "Out of Memory"

// An errorType is one of DuckDB's types of exceptions.
type errorType struct {
	kind string // as DuckDB spells it
	at   fault  // when it comes while a sound statement runs
}

// errorTypes are those of DuckDB 1.5, by their numbers in its C interface. A kind
// that is not here is unsure.
var errorTypes = [...]errorType{
	0:  {"Invalid", unsure}, // an exception of C++ or of a library
	1:  {"Out of Range", ofRows},
	2:  {"Conversion", ofRows},
	3:  {"Unknown Type", unsure},
	4:  {"Decimal", ofRows},
	5:  {"Mismatch Type", ofRows},
	6:  {"Divide by Zero", ofRows},
	7:  {"Object Size", ofRows},
	8:  {"Invalid type", ofRows},
	9:  {"Serialization", unsure},
	10: {"TransactionContext", ofEngine},
	11: {"Not implemented", ofRows}, // an unknown time zone, say
	12: {"Expression", ofRows},
	13: {"Catalog", unsure}, // what a statement names may be gone, or a value named it
	14: {"Parser", unsure},
	15: {"Planner", unsure},
	16: {"Scheduler", ofEngine},
	17: {"Executor", unsure},
	18: {"Constraint", ofRows},
	19: {"Index", unsure},
	20: {"Stat", unsure},
	21: {"Connection", ofEngine},
	22: {"Syntax", ofRows}, // of a LIKE pattern: statements have "Parser"
	23: {"Settings", ofEngine},
	24: {"Binder", unsure},
	25: {"Network", ofEngine},
	26: {"Optimizer", unsure},
	27: {"NullPointer", unsure},
	28: {"IO", ofEngine},
	29: {"INTERRUPT", ofEngine},
	30: {"FATAL", ofEngine},
	31: {"INTERNAL", ofEngine},
	32: {"Invalid Input", ofRows},
	33: {outOfMemory, ofEngine},
	34: {"Permission", ofEngine},
	35: {"Parameter Not Resolved", unsure},
	36: {"Parameter Not Allowed", unsure},
	37: {"Dependency", unsure},
	38: {"HTTP", ofEngine},
	39: {"Missing Extension", ofEngine},
	40: {"Extension Autoloading", ofEngine},
	41: {"Sequence", ofRows},
	42: {"Invalid Configuration", ofEngine},
}

// typed gives an error the kind that DuckDB has a number for. The text of an error
// may be a record's, its number is not.
func (e *duckError) typed(number int) *duckError {
	if number >= 0 && number < len(errorTypes) {
		e.kind = errorTypes[number].kind
	}
	return e
}

// at says whose fault an error of evaluating rows is.
func (e *duckError) at() fault {
	for _, t := range errorTypes {
		if strings.EqualFold(t.kind, e.kind) {
			return t.at
		}
	}
	return unsure
}

// eval turns an error of running a sound statement into an EvalError or an
// EngineError.
func eval(err error) error { return evalOver(err, nil) }

// evalOver is eval for a statement over rows. sound says whether it runs over none;
// nil is that this cannot be tried.
func evalOver(err error, sound func() bool) error {
	e, ok := errors.AsType[*duckError](err)
	if !ok {
		return err
	}
	if at := e.at(); at == ofRows || at == unsure && sound != nil && sound() {
		return &EvalError{Kind: e.kind, Message: e.message}
	}
	return &EngineError{Kind: e.kind, Message: e.message, Fatal: e.fatal()}
}
