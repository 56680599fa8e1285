package queryable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Code is the stable name of a kind of error. Clients decide by it.
type Code string

// The codes and their statuses.
const (
	BadRequest  Code = "bad_request"  // 400: the request or its SQL is wrong
	Unauthed    Code = "unauthorized" // 401: no token, or the wrong one
	Forbidden   Code = "forbidden"    // 403: asked by another site's page, or not allowed in SQL
	NotFound    Code = "not_found"    // 404
	BadMethod   Code = "bad_method"   // 405
	BadAccept   Code = "bad_accept"   // 406: no form that Accept names is spoken
	SlowRequest Code = "slow_request" // 408: the request's own bytes came too slowly
	Conflict    Code = "conflict"     // 409: it exists, or is in use
	Gone        Code = "gone"         // 410: a file of an epoch that is not kept any more
	Changed     Code = "changed"      // 412: the file that If-Match names is another one now
	TooLarge    Code = "too_large"    // 413
	BadType     Code = "bad_type"     // 415: not JSON, or compressed
	BadRange    Code = "bad_range"    // 416: no byte of the range is in the file
	WrongHost   Code = "wrong_host"   // 421
	GroupFailed Code = "group_error"  // 422: the group exists and has no value, because computing it failed
	Busy        Code = "busy"         // 429 with Retry-After
	HeaderLarge Code = "header_large" // 431
	Cancelled   Code = "cancelled"    // 499
	Internal    Code = "internal"     // 500
	Unavailable Code = "unavailable"  // 503: not yet, or not any more
	Timeout     Code = "timeout"      // 504
)

var statuses = map[Code]int{
	BadRequest: 400, Unauthed: 401, Forbidden: 403, NotFound: 404, BadMethod: 405, BadAccept: 406, SlowRequest: 408, Conflict: 409, Gone: 410, Changed: 412, TooLarge: 413,
	BadType: 415, BadRange: 416, WrongHost: 421, GroupFailed: 422, Busy: 429, HeaderLarge: 431, Cancelled: 499, Internal: 500,
	Unavailable: 503, Timeout: 504,
}

// Status is the HTTP status of the code.
func (c Code) Status() int {
	if s, ok := statuses[c]; ok {
		return s
	}
	return 500
}

// Error is a fault that the client sees as it is: Message names no path and no
// one else's SQL.
type Error struct {
	Code     Code
	Message  string
	Position int   // byte in the SQL that was sent, -1 when there is none
	Cause    error // for the log alone
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Errorf makes an [*Error] without a position. A %w among the arguments becomes
// its cause, and its text part of the message.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Position: -1, Cause: errors.Unwrap(err)}
}

// AsError turns any error into one to show. What is not an [*Error] is a
// context's end or is internal, its text kept from the client.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: Timeout, Message: "the time for this request is over", Position: -1, Cause: err}
	case errors.Is(err, context.Canceled):
		return &Error{Code: Cancelled, Message: "the request was cancelled", Position: -1, Cause: err}
	}
	return &Error{Code: Internal, Message: "internal error; the log has more", Position: -1, Cause: err}
}

// MarshalJSON is the body of every error: {"error":{"code","message","position"?}}.
func (e *Error) MarshalJSON() ([]byte, error) {
	type inner struct {
		Code     Code   `json:"code"`
		Message  string `json:"message"`
		Position *int   `json:"position,omitempty"`
	}
	in := inner{Code: e.Code, Message: e.Message}
	if e.Position >= 0 {
		in.Position = &e.Position
	}
	return json.Marshal(struct {
		Error inner `json:"error"`
	}{in})
}
