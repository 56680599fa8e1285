package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"weir/checkpoint"
)

type checkpointCompactCmd struct {
	Checkpoints []string `arg:"" name:"checkpoint" help:"Checkpoints in their directories: DIR@42, DIR@name, DIR for the newest."`
}

// Help is shown with --help.
func (checkpointCompactCmd) Help() string {
	return "A view that is kept as a base and deltas becomes one file, which any program opens without knowing of deltas. The checkpoint holds what it held, under the same number. After a crash it is as it was or whole. While an appliance runs on the data directory it is refused: that one makes whole what has many deltas itself.\n\n" +
		"Exit status: 0 whole, 1 an error, 2 wrong usage."
}

func (c *checkpointCompactCmd) Run(ctx context.Context, s streams, log *slog.Logger) error {
	for _, arg := range c.Checkpoints {
		if err := compactOne(ctx, s, arg, log); err != nil {
			return err
		}
	}
	return nil
}

func compactOne(ctx context.Context, s streams, arg string, log *slog.Logger) error {
	f, err := find(ctx, arg)
	if err != nil {
		return err
	}
	defer f.Close()
	if f.temp != nil {
		return errors.New("a bundle is not written to")
	}
	dir, lock, err := writable(ctx, "", f, "compact changes files that it may read, so stop it first", log)
	if err != nil {
		return err
	}
	defer lock.Close()
	if dir.path(f.Manifest.Checkpoint) != f.path {
		return fmt.Errorf("%s is a copy of checkpoint %d outside of a directory of checkpoints: name it %s", f.path, f.Manifest.Checkpoint, dir.fs.PathBase(dir.path(f.Manifest.Checkpoint)))
	}
	m, err := checkpoint.Compact(ctx, dir.fs, dir.dir, f.Manifest.Checkpoint, checkpoint.Options{})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s: %s, %d bytes\n", f.path, plural(len(m.Views), "view"), m.Bytes())
	return nil
}
