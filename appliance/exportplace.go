package appliance

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/checkpoint/objectstore"
	"weir/export/iceberg"
	"weir/internal/atomicfile"
	"weir/state/ddl"
	"weir/state/sqltype"
)

// exportLock lies in the directory of all exports; its appliance holds a lock on it.
const exportLock = "weir-lock"

// exported is the directory of exports, absolute. Nothing of the appliance's own lies
// in it, and it in nothing of that: what SQL names below it is a directory there.
func (c *config) exported() (string, error) {
	dir, err := filepath.Abs(cmp.Or(c.ExportDir, filepath.Join(c.Data, exportedDir)))
	if err != nil {
		return "", err
	}
	own := []string{c.Data}
	if c.Checkpoints != "" && !objectstore.IsLocation(c.Checkpoints) {
		own = append(own, c.Checkpoints)
	}
	for _, o := range own {
		if within(o, dir) {
			return "", fmt.Errorf("--export-dir %s holds %s, which is the appliance's own: give another directory", dir, o)
		}
	}
	own = own[1:]
	for _, part := range parts() {
		own = append(own, filepath.Join(c.Data, part))
	}
	for _, o := range own {
		if within(dir, o) {
			return "", fmt.Errorf("--export-dir %s lies in %s, which is the appliance's own: give another directory", dir, o)
		}
	}
	return dir, nil
}

// within says whether a path is that of a directory or beneath it. Links are
// followed as far as there is something.
func within(path, dir string) bool {
	rel, err := filepath.Rel(unlinked(dir), unlinked(path))
	return err == nil && filepath.IsLocal(rel)
}

// unlinked is a path without links; what is not there yet has none.
func unlinked(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	for rest := ""; ; {
		if r, err := filepath.EvalSymlinks(abs); err == nil {
			return filepath.Join(r, rest)
		}
		up := filepath.Dir(abs)
		if up == abs {
			return filepath.Join(abs, rest)
		}
		rest = filepath.Join(filepath.Base(abs), rest)
		abs = up
	}
}

// path is the directory that a statement names.
func (p *publisher) path(to string) string { return filepath.Join(p.dir, filepath.FromSlash(to)) }

// place is path, if it is below the directory of exports whatever links there are.
// Who may write SQL may not choose where on this machine it writes: ddl lets
// through names below that directory only, and here no link leads out of it.
func (p *publisher) place(to string) (string, error) {
	if !filepath.IsLocal(filepath.FromSlash(to)) {
		return "", fmt.Errorf("%s is not below the directory of exports", to)
	}
	if first, _, _ := strings.Cut(to, "/"); strings.EqualFold(first, exportLock) {
		return "", fmt.Errorf("%s is the lock of the directory of exports", first)
	}
	dir := p.dir
	for name := range strings.SplitSeq(to, "/") {
		dir = filepath.Join(dir, name)
		if err := plainDir(dir); err != nil {
			return "", err
		}
	}
	for _, sub := range []string{"data", "metadata", "epochs"} { // of both formats
		if err := plainDir(filepath.Join(dir, sub)); err != nil {
			return "", err
		}
	}
	for _, sub := range []string{"", "metadata"} {
		if err := plainFile(filepath.Join(dir, sub, exportLock)); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// plainDir refuses what is there and is no directory itself.
func plainDir(dir string) error {
	return refuseOther(dir, fs.FileMode.IsDir, "directory")
}

// plainFile refuses what is there and is no file itself: to lock a file empties it.
func plainFile(name string) error {
	return refuseOther(name, fs.FileMode.IsRegular, "file")
}

func refuseOther(path string, is func(fs.FileMode) bool, what string) error {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at what is exported: %w", err)
	case st.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a symbolic link: below --export-dir none is followed", path)
	case !is(st.Mode()):
		return fmt.Errorf("%s is no %s", path, what)
	}
	return nil
}

// open is place, with the directory of exports there and locked until close.
func (p *publisher) open(to string) (string, error) {
	if p.lock == nil {
		if err := p.make(p.dir); err != nil {
			return "", err
		}
		// The lock goes by the path.
		name := filepath.Join(unlinked(p.dir), exportLock)
		if err := plainFile(name); err != nil {
			return "", err
		}
		lock, err := vfs.Default.Lock(name)
		if err != nil {
			return "", fmt.Errorf("lock %s, which another appliance may export to: give each --export-dir of its own: %w", p.dir, err)
		}
		p.lock = lock
	}
	dir, err := p.place(to)
	if err != nil {
		return "", err
	}
	return dir, p.make(dir)
}

// make makes a directory and those above it, durably.
func (p *publisher) make(dir string) error {
	var missing []string
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := p.fs.Stat(d); err == nil || d == filepath.Dir(d) {
			break
		}
		missing = append(missing, d)
	}
	if err := p.fs.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the directory of exports: %w", err)
	}
	for _, d := range missing {
		if err := atomicfile.SyncDir(p.fs, filepath.Dir(d)); err != nil {
			return err
		}
	}
	return nil
}

// check refuses a statement whose export can't go where it is to go. No other view
// changes meanwhile.
func (p *publisher) check(s *ddl.CreateMaterializedView) error {
	e := s.Export
	if e == nil {
		return nil
	}
	at := ddl.Name{Text: s.Name.Text, Offset: e.With.Start}
	cat := p.store.Catalog()
	for i := range cat.Views {
		o := exportOf(cat.Views[i].SQL)
		if o != nil && !strings.EqualFold(cat.Views[i].Plan.Name, s.Name.Text) && overlap(o.To, e.To) {
			return conflict(s.Span, at, fmt.Sprintf("view %s is exported to %s: two exports share no directory, and none lies in another", cat.Views[i].Plan.Name, p.path(o.To)), "add export_to = '...', or another one")
		}
	}
	if _, err := p.newest(e, s.Name.Text); err != nil {
		return s.Errorf(at.Offset-s.Start, "add export_to = '...', or another one", "the view cannot be exported: "+err.Error())
	}
	return nil
}

// fits refuses a statement whose view has columns that cannot be exported, or not to
// the table that is there.
func (p *publisher) fits(s *ddl.CreateMaterializedView, columns []sqltype.Field) error {
	if s.Export == nil || s.Export.Format != ddl.Iceberg {
		return nil
	}
	if err := iceberg.Check(p.fs, p.path(s.Export.To), s.Name.Text, columns); err != nil {
		return s.Errorf(s.Export.With.Start-s.Start, "choose another export_to, or other columns; Parquet takes all types", "the view cannot be exported: "+err.Error())
	}
	return nil
}

// overlap says whether one directory is the other or lies in it, on file systems
// that know no case, too.
func overlap(a, b string) bool {
	a, b = strings.ToLower(a)+"/", strings.ToLower(b)+"/"
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}
