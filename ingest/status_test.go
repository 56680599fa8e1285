package ingest

import (
	"errors"
	"testing"

	"weir/ingest/kafka"
)

// TestCurrent says which trouble of a reader leaves the ends of its topic unknown.
func TestCurrent(t *testing.T) {
	down, denied, settling := &kafka.ConnectError{Err: errors.New("no")}, &kafka.AuthError{Err: errors.New("no")}, errors.New("[5] leader not available")
	good, bad := kafka.PartitionStatus{LastStable: 7}, kafka.PartitionStatus{Partition: 1, LastStable: 7, Err: down}
	for name, c := range map[string]struct {
		r    kafka.Status
		want bool
	}{
		"reading":           {kafka.Status{State: kafka.StateReading}, true},
		"connecting":        {kafka.Status{State: kafka.StateConnecting}, false},
		"waiting":           {kafka.Status{State: kafka.StateWaiting}, false},
		"stopped":           {kafka.Status{State: kafka.StateStopped, Err: settling}, false},
		"closed":            {kafka.Status{State: kafka.StateStopped, Err: kafka.ErrClosed}, true},
		"no broker":         {kafka.Status{State: kafka.StateReading, Err: down}, false},
		"no rights":         {kafka.Status{State: kafka.StateReading, Err: denied}, false},
		"settling":          {kafka.Status{State: kafka.StateReading, Err: settling}, true},
		"one leader gone":   {kafka.Status{State: kafka.StateReading, Err: down, Partitions: []kafka.PartitionStatus{good, bad}}, true},
		"all, and a leader": {kafka.Status{State: kafka.StateReading, Err: &kafka.ConnectError{Err: errors.New("no")}, Partitions: []kafka.PartitionStatus{good, bad}}, false},
	} {
		if got := current(c.r); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if end(good) != 7 || end(bad) != -1 {
		t.Errorf("ends %d and %d", end(good), end(bad))
	}
}
