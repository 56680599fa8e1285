package appliance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
)

type runCmd struct {
	Files []string `arg:"" name:"file" type:"existingfile" help:"SQL files with CREATE statements. They run again at each start: what is there already is left as it is."`
	serveFlags
	UntilCaughtUp bool `help:"End with exit status 0 when every view has committed what its topics held at the start; until then, say how far it is."`
}

func (runCmd) Help() string {
	return "Statements of the files that are there already are left as they are; a statement that differs from what is there is refused with the difference.\n\n" +
		"Memory: --query-memory is for the query processes. Of the rest of --memory, half is for resident groups, a quarter for evaluating batches, a sixteenth for the cache of groups on disk, another for scans that queries share.\n\n" +
		"Exit status: 0 stopped by a signal or caught up, 1 an error, 2 wrong usage, 70 the disk refused a write."
}

func (c *runCmd) Run(ctx context.Context, s streams, log *slog.Logger) error {
	if c.Data == "" {
		name := strings.TrimSuffix(filepath.Base(c.Files[0]), filepath.Ext(c.Files[0]))
		c.Data = defaultData(name)
	}
	if err := c.outside(); err != nil {
		return err
	}
	cfg := config{serveFlags: c.serveFlags, log: log}
	for _, f := range c.Files {
		b, err := os.ReadFile(f)
		if err != nil {
			return fmt.Errorf("read SQL: %w", err)
		}
		cfg.scripts = append(cfg.scripts, script{f, string(b)})
	}
	return serve(ctx, cfg, s.out, c.UntilCaughtUp)
}

// errCaughtUp ends an appliance that was to run until it had caught up.
var errCaughtUp = errors.New("caught up")

// serve runs an appliance until the context ends.
func serve(ctx context.Context, cfg config, out io.Writer, untilCaughtUp bool) error {
	var err error
	if cfg.token, err = cfg.serveFlags.token(); err != nil {
		return err
	}
	tuneRuntime()
	a, err := openAppliance(ctx, cfg)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Weir listens on %s, data in %s\n", a.link(), cfg.Data)
	var done func(context.Context) error
	if untilCaughtUp {
		done = func(ctx context.Context) error {
			if err := a.waitCaughtUp(ctx, &progress{out: out, pause: 2 * time.Second}); err != nil {
				return err
			}
			return errCaughtUp
		}
	}
	err = a.Run(ctx, done)
	if errors.Is(err, errCaughtUp) {
		err = nil
	}
	return errors.Join(err, a.Close())
}

// link is where a browser goes. With a token, it is the link that logs in: the
// fragment never leaves the browser but to this appliance.
func (a *Appliance) link() string {
	host := a.addr
	for _, any := range []string{"0.0.0.0:", "[::]:"} {
		if port, ok := strings.CutPrefix(host, any); ok {
			host = "localhost:" + port
		}
	}
	link := "http://" + host + "/"
	if a.cfg.token != "" {
		link += "#token=" + a.cfg.token
	}
	return link
}
