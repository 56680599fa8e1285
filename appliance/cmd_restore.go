package appliance

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"weir/checkpoint"
	"weir/state"
)

type restoreCmd struct {
	From string `required:"" type:"path" help:"The checkpoint's directory, for example DATA/checkpoints/00000042."`
	Data string `required:"" type:"path" help:"The new data directory; it must hold no state."`
}

func (restoreCmd) Help() string {
	return "Verifies every file of the checkpoint, then makes a data directory of it. The appliance that runs on it reads its topics from the recorded positions.\n\n" +
		"Exit status: 0 restored, 1 an error (nothing was written), 2 wrong usage."
}

func (c *restoreCmd) Run(ctx context.Context, out io.Writer) error {
	m, err := checkpoint.Restore(ctx, c.From, filepath.Join(c.Data, stateDir), state.Options{})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "restored checkpoint %d (epoch %d, %d views) into %s\n", m.Checkpoint, m.Epoch, len(m.Views), c.Data)
	return nil
}
