package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/checkpoint"
	"weir/ingest"
	"weir/queryable"
	"weir/state"
	"weir/state/ddl"
)

type bundleCmd struct {
	From   string `required:"" help:"The checkpoint: a directory, DIR, DIR@42 or DIR@name." placeholder:"CHECKPOINT"`
	Output string `short:"o" required:"" type:"path" help:"The file to write; it must not exist. Its name ends in .weir." placeholder:"FILE.weir"`
}

// Help is shown with --help.
func (bundleCmd) Help() string {
	return "Writes one file to hand over: the SQL, the schemas, the state of every view, the refused records and the positions. It is a ZIP archive of the checkpoint's files; unzip gives the checkpoint's directory. weir open shows it, weir restore --from FILE.weir resumes it elsewhere, weir checkpoint query asks it.\n\n" +
		"Exit status: 0 written, 1 an error (nothing was written, unless it says so), 2 wrong usage."
}

// Validate is called by kong.
func (c *bundleCmd) Validate() error {
	if !strings.HasSuffix(c.Output, checkpoint.BundleSuffix) {
		return errors.New("--output must end in .weir")
	}
	return nil
}

func (c *bundleCmd) Run(ctx context.Context, s streams) error {
	f, err := find(ctx, c.From)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := outside(vfs.Default, filepath.Dir(c.Output)); err != nil {
		return err
	}
	if err := f.WriteBundle(c.Output); err != nil {
		return f.named(err)
	}
	info, err := os.Stat(c.Output)
	if err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	fmt.Fprintf(s.out, "wrote %s: checkpoint %d, %d views, %d bytes\n", c.Output, f.Manifest.Checkpoint, len(f.Manifest.Views), info.Size())
	for _, v := range unfinishedViews(f.Manifest) {
		fmt.Fprintln(s.out, notWhole(v))
	}
	return nil
}

type openCmd struct {
	From         string        `arg:"" name:"file" help:"A bundle (FILE.weir), or any other checkpoint."`
	Addr         string        `default:"127.0.0.1:8080" help:"Address to listen on. Off loopback a token is needed (WEIR_TOKEN)."`
	QueryTimeout time.Duration `default:"30s" help:"Time after which a query is stopped."`
	QueryMemory  size          `default:"512MB" help:"Memory of all query processes together."`
	Memory       size          `default:"2GB" help:"Memory of all."`
}

// Help is shown with --help.
func (openCmd) Help() string {
	return "Shows the views of a checkpoint in the console and over HTTP, without Kafka and read only: nothing is counted, created or dropped. The checkpoint is not changed; what is made of it for the time being goes when weir open ends.\n\n" +
		namingHelp + "\n\nExit status: 0 stopped by a signal, 1 an error, 2 wrong usage, 70 the disk refused a write while it ran."
}

func (c *openCmd) Run(ctx context.Context, s streams, log *slog.Logger) (err error) {
	tmp, err := makeTemp(os.TempDir(), "weir-open-")
	if err != nil {
		return fmt.Errorf("make a directory for the views: %w", err)
	}
	defer func() { err = errors.Join(err, tmp.Close()) }()
	what, taken, err := c.unpack(ctx, tmp.path)
	if err != nil {
		return err
	}
	cfg := config{
		serveFlags: serveFlags{Addr: c.Addr, Data: tmp.path, QueryTimeout: c.QueryTimeout, QueryMemory: c.QueryMemory, Memory: c.Memory, Checkpoint: time.Hour},
		shown:      what, taken: taken, log: log,
		fatal: func(string) { // the log has said it
			_ = tmp.Close()
			os.Exit(exitDisk)
		},
	}
	fmt.Fprintf(s.out, "read only: %s; no topic is read\n", what)
	return serve(ctx, cfg, s.out, false)
}

// unpack makes a state of the checkpoint, and says which one it is and when it was
// taken.
func (c *openCmd) unpack(ctx context.Context, data string) (what string, taken time.Time, err error) {
	f, err := find(ctx, c.From)
	if err != nil {
		return "", taken, err
	}
	defer f.Close()
	m, err := restoreInto(ctx, f.fs, f.path, filepath.Join(data, stateDir), state.Options{}, checkpoint.Choice{Unresumable: true})
	if err != nil {
		return "", taken, f.named(err)
	}
	name := ""
	if m.Savepoint != "" {
		name = fmt.Sprintf(" (savepoint %q)", m.Savepoint)
	}
	return fmt.Sprintf("checkpoint %d%s of %s in %s", m.Checkpoint, name, m.Created.Format(time.DateTime), c.From), m.Created, nil
}

// readOnly says why nothing can be changed, nil where it can.
func (a *Appliance) readOnly() error {
	if a.cfg.shown == "" {
		return nil
	}
	return &queryable.Error{Code: queryable.Forbidden, Message: a.shows(), Position: -1}
}

func (a *Appliance) shows() string {
	return "this is read only: weir open shows " + a.cfg.shown + ", and reads no topic; weir restore makes an appliance of it"
}

// sourceStatus is how far a source has read. Where nothing is read it says why.
func (a *Appliance) sourceStatus(src *state.Source) ingest.SourceStatus {
	s, _ := a.pipeline.Status(src)
	if a.cfg.shown != "" {
		s.State, s.Err = ingest.Stopped, errors.New(a.shows())
	}
	return s
}

// allowed refuses statements that change something, or ask a topic, where nothing
// can be changed.
func (a *Appliance) allowed(stmt ddl.Statement) error {
	switch stmt.(type) {
	case *ddl.Query, *ddl.Show, *ddl.Explain:
		return nil
	}
	return a.readOnly()
}
