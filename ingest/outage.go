package ingest

import (
	"log/slog"
	"time"
)

// outagePause is the least time between two warnings of a source that are alike, or that
// tell of one outage.
const outagePause = time.Minute

// An outage tells the log when a source begins to wait for its broker or topic, and when
// it reads again. The zero value is a source that reads.
type outage struct {
	away, told bool
	text       string // of the last warning
	at         time.Time
}

// tell is given how a source is doing, again and again.
func (o *outage) tell(log *slog.Logger, now time.Time, source string, s *SourceStatus) {
	switch {
	case s.State == Waiting && s.Err != nil:
		text, recent := s.Err.Error(), !o.at.IsZero() && now.Sub(o.at) < outagePause
		begins := !o.away
		o.away = true
		if text == o.text && (recent || !begins) || recent && !begins {
			return
		}
		o.told, o.text, o.at = true, text, now
		log.Warn("the source waits for its broker or topic", "source", source, "error", s.Err)
	case s.State == Running:
		if o.told {
			log.Info("the source reads again", "source", source)
		}
		o.away, o.told = false, false
	}
}
