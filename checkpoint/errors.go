package checkpoint

import (
	"errors"
	"fmt"
)

// What can be wrong with a checkpoint. Every [Error] is one of them.
var (
	// ErrDamaged: bytes are not those that were written. Nothing was read from them.
	ErrDamaged = errors.New("damaged")
	// ErrMissing: no checkpoint, an unfinished one, or one without one of its files.
	ErrMissing = errors.New("missing")
	// ErrNewer: written by a newer version of the format.
	ErrNewer = errors.New("format is newer")
	// ErrMismatch: whole, but not what was asked for.
	ErrMismatch = errors.New("does not fit")
	// ErrNotEmpty: the directory to restore into holds something.
	ErrNotEmpty = errors.New("not empty")
	// ErrExists: a savepoint has that name already.
	ErrExists = errors.New("already exists")
)

// An Error names the file, what is wrong with it, and what to do.
type Error struct {
	Kind error // one of the errors above
	Path string
	What string
	Do   string
	Err  error // the cause, if there is one
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %v: %s", e.Path, e.Kind, e.What)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Do != "" {
		s += "; " + e.Do
	}
	return s
}

// Unwrap gives the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

const otherCheckpoint = "use an older checkpoint, or a copy of this one"

func damaged(path, format string, args ...any) error {
	return &Error{Kind: ErrDamaged, Path: path, What: fmt.Sprintf(format, args...), Do: otherCheckpoint}
}
