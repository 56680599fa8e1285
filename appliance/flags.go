package appliance

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"weir/checkpoint/objectstore"
)

// Validate refuses what no appliance can run with. Kong calls it.
func (f *serveFlags) Validate() error {
	switch {
	case f.QueryTimeout < 10*time.Millisecond:
		return errors.New("--query-timeout must be at least 10ms")
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
