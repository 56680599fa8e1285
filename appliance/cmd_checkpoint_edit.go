package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/checkpoint"
	"weir/duckext"
	"weir/state/plan"
)

type checkpointTransformCmd struct {
	Checkpoint string   `arg:"" help:"The checkpoint to begin with: a directory, DIR, DIR@42, DIR@name or FILE.weir."`
	SQL        []string `name:"sql" sep:"none" help:"UPDATE, DELETE or INSERT over the views as tables; may be given several times." placeholder:"STATEMENT"`
	Select     []string `name:"select" sep:"none" help:"The whole new state of a view; may be given several times." placeholder:"VIEW=SELECT…"`
	Name       string   `required:"" help:"Name of the savepoint that is written."`
	Into       string   `help:"Directory of checkpoints (s3://… too), or data directory, to write it to (default: where the checkpoint is)." placeholder:"DIR"`
	Memory     size     `default:"1GB" help:"Memory of DuckDB; beyond it, it spills to the directory for temporary files."`
}

// Help is shown with --help.
func (checkpointTransformCmd) Help() string {
	return "A view is a table of its state: the key columns, and the accumulators under the names of the checkpoint's file (weir checkpoint show lists them), then __epoch, and __error of groups whose sums overflowed. Results are computed anew. Statements run in the order given, then each --select. " +
		"Refused are rows that no records could have made: keys that are there twice, NULL or negative counts, other columns or types. The checkpoint is not changed; the savepoint's manifest says what was done to which one, and weir restore restores it.\n\n" +
		"Examples:\n  weir checkpoint transform data/shop@42 --name no-tests --sql \"DELETE FROM revenue_by_city WHERE city = 'Test'\"\n" +
		"  weir checkpoint transform data/shop --name upper --select 'revenue_by_city=SELECT upper(city) AS city, sum(orders)::BIGINT AS orders, … GROUP BY 1'\n\n" +
		"Exit status: 0 written, 1 an error or nothing would change (nothing is written, unless it says so), 2 wrong usage."
}

// Validate is called by kong.
func (c *checkpointTransformCmd) Validate() error {
	if len(c.SQL)+len(c.Select) == 0 {
		return errors.New("say what to change: --sql or --select")
	}
	for _, sql := range c.SQL {
		if strings.TrimSpace(sql) == "" {
			return errors.New("--sql is empty: give a statement")
		}
	}
	for _, arg := range c.Select {
		if view, sel, ok := strings.Cut(arg, "="); !ok || strings.TrimSpace(view) == "" || strings.TrimSpace(sel) == "" {
			return fmt.Errorf("--select %s: the form is VIEW=SELECT…", arg)
		}
	}
	return nil
}

func (c *checkpointTransformCmd) Run(ctx context.Context, s streams, log *slog.Logger) (err error) {
	f, err := find(ctx, c.Checkpoint)
	if err != nil {
		return err
	}
	defer f.Close()
	into, lock, err := writable(ctx, c.Into, f, orStop, log)
	if err != nil {
		return err
	}
	defer lock.Close()
	// A statement may run for long, and a bad name makes it all for nothing.
	if err := checkpoint.VacantName(into.fs, into.dir, c.Name); err != nil {
		return err
	}
	tmp, err := makeTemp(os.TempDir(), "weir-transform-")
	if err != nil {
		return fmt.Errorf("make a directory to spill to: %w", err)
	}
	defer tmp.Close()
	e, err := newEditor(f.Checkpoint, duckext.Options{MemoryLimit: bytesText(int64(c.Memory)), TempDir: tmp.path})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	sql := append([]string{}, c.SQL...)
	for _, stmt := range c.SQL {
		rows, err := e.change(ctx, stmt)
		if err != nil {
			return pointed(stmt, f.named(err))
		}
		noun := "rows"
		if rows == 1 {
			noun = "row"
		}
		fmt.Fprintf(s.out, "%d %s: %s\n", rows, noun, shown(stmt))
	}
	for _, arg := range c.Select {
		view, sel, _ := strings.Cut(arg, "=")
		if err := e.replace(ctx, strings.TrimSpace(view), sel); err != nil {
			return pointed(sel, f.named(err))
		}
		sql = append(sql, arg)
	}
	fin, done, err := offlineFinals(int64(c.Memory), log)
	if err != nil {
		return err
	}
	defer done()
	m, err := checkpoint.Transform(ctx, f.Checkpoint, into.fs, into.dir, e.states(), fin,
		checkpoint.TransformOptions{Options: checkpoint.Options{Savepoint: c.Name, Writer: version(), Engine: duckext.Version()}, SQL: sql})
	if err != nil {
		return f.named(err)
	}
	wrote(s, m, into)
	return nil
}

// pointed shows where in a statement an error is.
func pointed(sql string, err error) error {
	if e, ok := errors.AsType[*plan.SyntaxError](err); ok && e.Offset >= 0 && e.Offset <= len(sql) {
		line := sql[:e.Offset]
		return fmt.Errorf("%w\nat: %s⟨here⟩%s", err, line, sql[e.Offset:])
	}
	return fmt.Errorf("%s: %w", sql, err)
}

// wrote says what was written.
func wrote(s streams, m *checkpoint.Manifest, into shelf) {
	for _, v := range m.Edits[len(m.Edits)-1].Views {
		fmt.Fprintf(s.out, "view %s: groups %v became %d; added %d, removed %d, changed %d\n", shown(v.View), v.Before, v.After, v.Added, v.Removed, v.Changed)
	}
	fmt.Fprintf(s.out, "wrote savepoint %s: %s\n", shown(m.Savepoint), into.path(m.Checkpoint))
}

// orStop is what to do about an appliance that runs where a savepoint would go.
const orStop = "give another --into, or stop it first"

// writable is the directory of checkpoints to write to, locked until lock is closed.
// An appliance that runs there numbers its own, and takes what is half written for
// what a crash left; do says what to do then.
func writable(ctx context.Context, into string, f *found, do string, log *slog.Logger) (dir shelf, lock placeLock, err error) {
	switch {
	case into != "":
		if dir, err = shelfAt(ctx, into); err != nil {
			return dir, nil, err
		}
	case f.temp != nil:
		return dir, nil, errors.New("a bundle is not written to: give --into DIR")
	default:
		dir = shelf{f.fs, f.dir}
	}
	if err := outside(dir.fs, dir.dir); err != nil {
		return dir, nil, err
	}
	if dir.fs == vfs.Default && !isDir(dir.dir) { // nobody is there, and a refusal is to leave nothing
		return dir, noLock{}, nil
	}
	lock, err = lockCheckpoints(dir.fs, dir.dir, locker{}, log)
	if errors.Is(err, errInUse) {
		err = fmt.Errorf("%w: %s", err, do)
	}
	return dir, lock, err
}

// offlineFinals is what computes results without an appliance.
func offlineFinals(memory int64, log *slog.Logger) (finalizer, func(), error) {
	eng, err := duckext.Open(duckext.Options{Threads: 1, MemoryLimit: bytesText(memory)})
	if err != nil {
		return finalizer{}, nil, err
	}
	guard, err := newGuard(memory, log)
	if err != nil {
		return finalizer{}, nil, errors.Join(err, eng.Close())
	}
	return finalizer{eng, guard}, func() { _ = errors.Join(guard.Close(), eng.Close()) }, nil
}

type checkpointMergeCmd struct {
	Checkpoints []string `arg:"" name:"checkpoint" help:"Two checkpoints or more."`
	Into        string   `required:"" help:"Directory of checkpoints to write to (s3://… too), or a data directory." placeholder:"DIR"`
	Name        string   `required:"" help:"Name of the savepoint that is written."`
	Memory      size     `default:"1GB" help:"Memory of the DuckDB that computes results."`
}

// Help is shown with --help.
func (checkpointMergeCmd) Help() string {
	return "Makes what one appliance would hold that had read all their topics: groups of one key become one, by the merge rule of each accumulator; a sum that overflows puts its group in error; results are computed anew; positions are united. " +
		"All must have the same views, compared by fingerprint. A partition (by its topic's id) that two have read is refused, since its records would count twice, unless one goes on exactly where the other ended.\n\n" +
		"What was merged of several topics can be queried, opened and exported; no appliance can go on from it, since a source reads one topic.\n\n" +
		namingHelp + "\n\nExit status: 0 written, 1 an error (nothing is written, unless it says so), 2 wrong usage."
}

// Validate is called by kong.
func (c *checkpointMergeCmd) Validate() error {
	if len(c.Checkpoints) < 2 {
		return errors.New("merge takes two checkpoints or more")
	}
	return nil
}

func (c *checkpointMergeCmd) Run(ctx context.Context, s streams, log *slog.Logger) error {
	if err := checkpoint.CheckName(c.Name); err != nil {
		return err
	}
	var from []*checkpoint.Checkpoint
	var all []*found
	for _, arg := range c.Checkpoints {
		f, err := find(ctx, arg)
		if err != nil {
			return err
		}
		defer f.Close()
		from, all = append(from, f.Checkpoint), append(all, f)
	}
	into, lock, err := writable(ctx, c.Into, nil, orStop, log)
	if err != nil {
		return err
	}
	defer lock.Close()
	fin, done, err := offlineFinals(int64(c.Memory), log)
	if err != nil {
		return err
	}
	defer done()
	m, err := checkpoint.Merge(ctx, from, into.fs, into.dir, fin, checkpoint.Options{Savepoint: c.Name, Writer: version(), Engine: duckext.Version()})
	if err != nil {
		for _, f := range all {
			err = f.named(err)
		}
		return err
	}
	wrote(s, m, into)
	if err := m.Resumable(); err != nil {
		fmt.Fprintf(s.out, "no appliance can go on from it: %v\n", err)
	}
	return nil
}
