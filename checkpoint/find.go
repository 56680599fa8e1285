package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// CheckName says whether a savepoint may have the name: 1 to 200 bytes of UTF-8
// without control characters, that mean nothing else where checkpoints are named
// and can stand in a path.
func CheckName(name string) error {
	if name == "" || len(name) > 200 || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("name of a savepoint %q: give 1 to 200 bytes of UTF-8 without control characters", name)
	}
	means := ""
	switch {
	case strings.EqualFold(name, "live"):
		means = "that is the present"
	case strings.EqualFold(name, "newest"), strings.EqualFold(name, "never"):
		means = "--restore means something else by it"
	case strings.Trim(name, "0123456789") == "":
		means = "a number is that of a checkpoint"
	case LikeTime(name):
		means = "that is a point in time"
	case strings.HasPrefix(name, "."), strings.ContainsAny(name, `/\`):
		means = "names stand in paths, so they do not begin with a dot and have no slash"
	default:
		return nil
	}
	return fmt.Errorf("a savepoint cannot be named %q: %s; choose another name", name, means)
}

// LikeTime says whether a text begins as a date does that SQL or RFC 3339 reads:
// with three numbers.
func LikeTime(text string) bool {
	rest := strings.TrimLeft(text, " +-")
	for range 2 {
		next := strings.TrimLeft(rest, "0123456789")
		if len(next) == len(rest) || next == "" || !strings.ContainsRune(`- /\`, rune(next[0])) {
			return false
		}
		rest = next[1:]
	}
	return rest != "" && rest[0] >= '0' && rest[0] <= '9'
}

// VacantName is [CheckName], and fails with [ErrExists] when a savepoint of dir has
// the name.
func VacantName(fsys vfs.FS, dir, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	m, err := findSavepoint(fsys, dir, name)
	if err != nil || m == nil {
		return err
	}
	return &Error{Kind: ErrExists, Path: Path(fsys, dir, m.Checkpoint), What: fmt.Sprintf("it is savepoint %q", name), Do: "give another name"}
}

// FindSavepoint finds a savepoint of dir by its exact name. It fails with
// [ErrMissing] when there is none among those that can be read.
func FindSavepoint(fsys vfs.FS, dir, name string) (*Manifest, error) {
	m, err := findSavepoint(fsys, dir, name)
	if err == nil && m == nil {
		err = absent(fsys, dir, fmt.Sprintf("there is no savepoint %q", name))
	}
	return m, err
}

// findSavepoint gives nil when there is none.
func findSavepoint(fsys vfs.FS, dir, name string) (*Manifest, error) {
	ids, err := numbers(fsys, dir)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Backward(ids) {
		if m, err := readNumber(fsys, dir, id); err == nil && name != "" && m.Savepoint == name {
			return m, nil
		}
	}
	return nil, nil
}

// FindNumber finds checkpoint id of dir. It fails with [ErrMissing] when there is
// none.
func FindNumber(fsys vfs.FS, dir string, id uint64) (*Manifest, error) {
	path := Path(fsys, dir, id)
	if _, err := fsys.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, absent(fsys, dir, fmt.Sprintf("there is no checkpoint %d", id))
	}
	return readNumber(fsys, dir, id)
}

// absent says what there is instead.
func absent(fsys vfs.FS, dir, what string) error {
	list, _ := List(fsys, dir) // what cannot be read is not offered
	do := "there is none that can be read"
	if len(list) > 0 {
		do = "there are: " + Listed(list)
	}
	return &Error{Kind: ErrMissing, Path: dir, What: what, Do: do}
}

// Listed names checkpoints for a message, newest first, and not too many. list is
// as [List] gives it.
func Listed(list []*Manifest) string {
	const most = 12
	var names []string
	for _, m := range slices.Backward(list) {
		if len(names) == most {
			names = append(names, fmt.Sprintf("and %d older", len(list)-most))
			break
		}
		name := strconv.FormatUint(m.Checkpoint, 10)
		if m.Savepoint != "" {
			name += fmt.Sprintf(" (savepoint %q)", m.Savepoint)
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// Taken are those of list that an appliance took of what it held, in the same
// order. The others, which [Transform] and [Merge] wrote, are meant only by their
// number or name: they are of no moment.
func Taken(list []*Manifest) []*Manifest {
	return slices.DeleteFunc(slices.Clone(list), func(m *Manifest) bool { return len(m.Edits) > 0 })
}

// TakenBy is the newest of list that was [Taken] at or before a time; nil when
// there is none. list is as [List] gives it.
func TakenBy(list []*Manifest, at time.Time) *Manifest {
	for _, m := range slices.Backward(Taken(list)) {
		if !m.Created.After(at) {
			return m
		}
	}
	return nil
}

// Newest is the newest of list that was [Taken]; nil when there is none.
func Newest(list []*Manifest) *Manifest {
	if taken := Taken(list); len(taken) > 0 {
		return taken[len(taken)-1]
	}
	return nil
}
