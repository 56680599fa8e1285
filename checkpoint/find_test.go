package checkpoint

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A number is given once, in whatever order those go that had the greatest.
func TestNumbersAreGivenOnce(t *testing.T) {
	for _, gone := range [][]uint64{{2, 1}, {3, 2, 1}, {1, 3, 2}, {3, 1, 2}, {2, 3, 1}} {
		f, fsys := newFake(), vfs.NewMem()
		f.add(rng(t), revenue(), 5, 50, false)
		given := uint64(0)
		for range len(gone) {
			given = write(t, fsys, f).Checkpoint
		}
		for _, id := range gone {
			if err := Remove(fsys, dir, id); err != nil {
				t.Fatal(err)
			}
		}
		if m := write(t, fsys, f); m.Checkpoint != given+1 {
			t.Errorf("after %v went, %d is given again", gone, m.Checkpoint)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"before-launch": "", "no city 3": "", "größer": "", "v1.2": "", "2026": "a number", "2026-01": "", "2026-q1": "", "1.5": "", "@": "", "lively": "",
		"": "1 to 200 bytes", "a\x00b": "1 to 200 bytes", "\xff": "1 to 200 bytes", strings.Repeat("x", 201): "1 to 200 bytes",
		"live": "the present", "LIVE": "the present", "newest": "--restore", "Never": "--restore",
		"1": "a number", "0042": "a number",
		"2026-01-31T12:00:00Z": "point in time", "2026-01-31": "point in time", "2026-1-3": "point in time", "2026-01-31 12:00:00": "point in time",
		"2026-02-01T00:00": "point in time", "2026/01/31": "point in time", "2026 01 31": "point in time", " 2026-01-31": "point in time", "-44-03-15": "point in time",
		"a/b": "no slash", `a\b`: "no slash", "..": "a dot", ".hidden": "a dot",
	} {
		switch err := CheckName(name); {
		case want == "" && err != nil:
			t.Error(err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, not %q", name, err, want)
		}
	}
}

// What is not there is named, and what there is.
func TestFind(t *testing.T) {
	f, fsys := newFake(), vfs.NewMem()
	f.add(rng(t), revenue(), 5, 50, false)
	missing := func(err error, want string) {
		t.Helper()
		if !errors.Is(err, ErrMissing) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, not %q", err, want)
		}
	}
	_, err := FindNumber(fsys, dir, 1)
	missing(err, "there is no checkpoint 1; there is none that can be read")
	write(t, fsys, f)
	if _, err := Write(t.Context(), fsys, dir, f, &finals{}, Options{Savepoint: "a b"}); err != nil {
		t.Fatal(err)
	}
	_, err = FindNumber(fsys, dir, 99)
	missing(err, `there is no checkpoint 99; there are: 2 (savepoint "a b"), 1`)
	_, err = FindSavepoint(fsys, dir, "A b")
	missing(err, `there is no savepoint "A b"; there are: 2 (savepoint "a b"), 1`)
	if m, err := FindNumber(fsys, dir, 2); err != nil || m.Savepoint != "a b" {
		t.Error(m, err)
	}
	if err := VacantName(fsys, dir, "a b"); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if err := VacantName(fsys, dir, "A b"); err != nil {
		t.Error(err)
	}
}

// The newest is what was taken, not what was made of it.
func TestNewestWasTaken(t *testing.T) {
	at := clock()
	of := func(id uint64, edits int) *Manifest {
		return &Manifest{Checkpoint: id, Created: at.Add(time.Duration(id) * time.Hour), Edits: make([]Edit, edits)}
	}
	list := []*Manifest{of(1, 0), of(2, 1), of(3, 0), of(4, 2)}
	for hour, want := range []uint64{0, 1, 1, 3, 3, 3} {
		var got uint64
		if m := TakenBy(list, at.Add(time.Duration(hour)*time.Hour)); m != nil {
			got = m.Checkpoint
		}
		if got != want {
			t.Errorf("by hour %d it is %d, not %d", hour, got, want)
		}
	}
	if m := Newest(list); m.Checkpoint != 3 {
		t.Errorf("the newest is %d", m.Checkpoint)
	}
	if m := Newest([]*Manifest{of(1, 1)}); m != nil {
		t.Errorf("the newest is %d, which is an edit", m.Checkpoint)
	}
	if m := TakenBy(list, time.Time{}); m != nil {
		t.Errorf("the year 1 has %d", m.Checkpoint)
	}
}
