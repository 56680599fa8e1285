package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// starts is how often starting is measured; the median is printed.
const starts = 5

// start measures the time from exec to the first answer of SQL, and what a group
// takes on disk.
func start(ctx context.Context, c *config) error {
	b, err := makeBed(ctx, c, "start", manyGroups)
	if err != nil {
		return err
	}
	return errors.Join(b.starts(ctx), b.disk(ctx), b.close())
}

func (b *bed) starts(ctx context.Context) error {
	var listening, keyed, whole []time.Duration
	for range starts {
		if err := b.end(); err != nil {
			return err
		}
		began := time.Now()
		p, err := begin(ctx, b.c, b.args...)
		if err != nil {
			return err
		}
		b.process = p
		listening = append(listening, time.Since(began))
		if err := b.sql(ctx, "SELECT n, total FROM v WHERE user_id = 77", nil); err != nil {
			return err
		}
		keyed = append(keyed, time.Since(began))
		if err := b.sql(ctx, "SELECT sum(n) FROM v", nil); err != nil {
			return err
		}
		whole = append(whole, time.Since(began))
	}
	for name, d := range map[string][]time.Duration{"listening": listening, "first_answer": keyed, "whole_view": whole} {
		slices.Sort(d)
		report("start_"+name, millis(d[len(d)/2]), "ms")
	}
	return nil
}

// disk measures the state as it is after ingest, and as one that was restored
// from a checkpoint, which is compact.
func (b *bed) disk(ctx context.Context) error {
	if err := b.sql(ctx, "CHECKPOINT", nil); err != nil {
		return err
	}
	if err := b.end(); err != nil {
		return err
	}
	all, err := filepath.Glob(filepath.Join(b.data, "checkpoints", "0*"))
	if err != nil || len(all) == 0 {
		return fmt.Errorf("no checkpoint in %s: %w", b.data, err)
	}
	restored := b.data + "-restored"
	defer os.RemoveAll(restored)
	began := time.Now()
	restore := exec.CommandContext(ctx, b.c.weir, "restore", "--from", all[len(all)-1], "--data", restored)
	restore.Stderr = os.Stderr
	if err := restore.Run(); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	report("disk_restore", time.Since(began).Seconds(), "s")
	for name, dir := range map[string]string{
		"disk_after_ingest": filepath.Join(b.data, "state"),
		"disk_compact":      filepath.Join(restored, "state"),
		"disk_checkpoint":   all[len(all)-1],
	} {
		n, err := used(dir)
		if err != nil {
			return err
		}
		report(name, float64(n)/float64(b.groups), "bytes/group")
	}
	b.process, err = begin(ctx, b.c, b.args...)
	return err
}
