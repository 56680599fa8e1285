package appliance

import (
	"errors"
	"fmt"
	"time"

	"weir/checkpoint/objectstore"
)

// Validate refuses what no appliance can run with. Kong calls it.
func (f *serveFlags) Validate() error {
	switch {
	case f.QueryTimeout < 10*time.Millisecond:
		return errors.New("--query-timeout must be at least 10ms")
	case f.Checkpoint < time.Second:
		return errors.New("--checkpoint must be at least 1s")
	}
	if objectstore.IsLocation(f.Checkpoints) {
		if _, err := objectstore.ParseLocation(f.Checkpoints); err != nil {
			return fmt.Errorf("--checkpoints %w", err)
		}
	}
	return nil
}
