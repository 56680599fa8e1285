package ingest

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestOutageIsToldOnce: a source that loses its broker warns once, however often it is
// looked at, and says once that it is back; one that goes and comes does not fill the log.
func TestOutageIsToldOnce(t *testing.T) {
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	var o outage
	down, other := errors.New("no broker"), errors.New("no topic")
	const lost, lostTopic, back = `level=WARN msg="the source waits for its broker or topic" source=s error="no broker"`,
		`level=WARN msg="the source waits for its broker or topic" source=s error="no topic"`, `level=INFO msg="the source reads again" source=s`
	for i, step := range []struct {
		second int
		state  string
		err    error
		want   []string
	}{
		{0, Waiting, nil, nil}, // not begun
		{0, Running, nil, nil},
		{1, Waiting, down, []string{lost}},
		{2, Waiting, down, nil},
		{500, Waiting, down, nil},
		{501, Waiting, nil, nil}, // its lanes change
		{502, Running, nil, []string{back}},
		{503, Running, nil, nil},
		{504, Waiting, down, []string{lost}},
		{505, Waiting, other, nil}, // soon after
		{565, Waiting, other, []string{lostTopic}},
		{566, Running, nil, []string{back}},
		{567, Waiting, other, nil}, // said less than a minute ago
		{568, Running, nil, nil},
		{569, Waiting, down, []string{lost}},
		{570, Stopped, down, nil},
		{571, Running, nil, []string{back}},
	} {
		out.Reset()
		o.tell(log, time.Unix(1000+int64(step.second), 0), "s", &SourceStatus{State: step.state, Err: step.err})
		if got := strings.Split(out.String(), "\n"); !slices.Equal(got, append(slices.Clone(step.want), "")) {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}
