package appliance

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"weir/checkpoint/objectstore"
)

// Validate refuses what no appliance can run with. Kong calls it.
func (f *serveFlags) Validate() error {
	if err := longEnough("--query-timeout", f.QueryTimeout); err != nil {
		return err
	}
	switch {
	case f.Checkpoint < time.Second:
		return errors.New("--checkpoint-interval must be at least 1s")
	case f.CheckpointRecords < 0:
		return errors.New("--checkpoint-records must be at least 0")
	case f.CheckpointKeep < 1:
		return errors.New("--checkpoint-keep must be at least 1")
	case f.CheckpointKeepFor < 0:
		return errors.New("--checkpoint-keep-for must be at least 0s")
	}
	if strings.Contains(f.ExportDir, "://") {
		return errors.New("--export-dir is a directory of this machine: views are not exported to object storage")
	}
	if objectstore.IsLocation(f.Checkpoints) {
		if _, err := objectstore.ParseLocation(f.Checkpoints); err != nil {
			return fmt.Errorf("--checkpoints %w", err)
		}
	}
	return nil
}

// Validate refuses what no query can run with. Kong calls it.
func (c *openCmd) Validate() error { return longEnough("--query-timeout", c.QueryTimeout) }

// Validate is called by kong.
func (c *checkpointQueryCmd) Validate() error { return longEnough("--timeout", c.Timeout) }

func longEnough(flag string, d time.Duration) error {
	if d < 10*time.Millisecond {
		return fmt.Errorf("%s must be at least 10ms", flag)
	}
	return nil
}

// decodePath reads a path, which kong would take for the working directory when it
// is empty.
func decodePath(ctx *kong.DecodeContext, target reflect.Value) error {
	var path string
	if err := ctx.Scan.PopValueInto("path", &path); err != nil {
		return err
	}
	if path == "" {
		return errors.New("is empty: leave it out, or give a path (. is the working directory)")
	}
	target.SetString(kong.ExpandPath(path))
	return nil
}

// notEmpty refuses flags and arguments that are given and are empty, as an unset
// variable of a shell leaves them: they would mean what is meant without them, all
// views, say. A token may be empty, and so may a statement: standard input is read then.
func notEmpty(kctx *kong.Context) error {
	for _, p := range kctx.Path {
		var v *kong.Value
		name := ""
		switch {
		case p.Flag != nil:
			v, name = p.Flag.Value, "--"+p.Flag.Name
		case p.Positional != nil:
			v, name = p.Positional, "<"+p.Positional.Name+">"
		}
		if v == nil || v.Name == "token" || name == "<sql>" {
			continue
		}
		empty := v.Target.Kind() == reflect.String && v.Target.Len() == 0
		if list, ok := v.Target.Interface().([]string); ok {
			empty = len(list) == 0
			for _, one := range list {
				empty = empty || strings.TrimSpace(one) == ""
			}
		}
		if empty {
			return fmt.Errorf("%s is empty: leave it out, or give a value", name)
		}
	}
	return nil
}
