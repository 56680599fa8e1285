package appliance

import (
	"errors"
	"time"
)

// Validate refuses what no appliance can run with. Kong calls it.
func (f *serveFlags) Validate() error {
	switch {
	case f.QueryTimeout < 10*time.Millisecond:
		return errors.New("--query-timeout must be at least 10ms")
	case f.Checkpoint < time.Second:
		return errors.New("--checkpoint must be at least 1s")
	}
	return nil
}
