package ingest

import (
	"context"
	"errors"
	"time"

	"weir/ingest/kafka"
	"weir/state"
	"weir/state/ddl"
)

// retry is the time between attempts to find out where a cursor begins.
const retry = time.Second

// open begins to read a lane's topic. A cursor that has no position yet gets
// one in every partition first, in one commit: were some of them stored and
// then the process killed, the others would be taken for new partitions and be
// read from their beginning, whatever the option start says.
func (l *lane) open(ctx context.Context) (*kafka.Reader, error) {
	c, err := l.p.Cluster(l.source)
	if err != nil {
		return nil, err
	}
	topic := l.source.Options["topic"]
	if len(l.at) == 0 {
		if err := l.begin(ctx, c, topic); err != nil {
			return nil, err
		}
	}
	// A topic that was not there when begin looked is read from its beginning.
	o := kafka.ReaderOptions{Topic: topic, Positions: map[int32]kafka.Position{}, Start: kafka.Earliest}
	for _, at := range l.at {
		o.ID = at.TopicID
		o.Positions[at.Partition] = kafka.Position{Offset: at.Next, LeaderEpoch: at.LeaderEpoch}
	}
	r := c.NewReader(o)
	l.from.Store(r)
	l.opened(r)
	return r, nil
}

// begin stores where a new cursor begins. It waits for brokers that do not
// answer, and leaves a topic that does not exist to the reader.
func (l *lane) begin(ctx context.Context, c *kafka.Cluster, topic string) error {
	start, err := startOf(l.source.Options["start"])
	if err != nil {
		return err
	}
	for {
		at, err := positions(ctx, c, topic, start)
		if err == nil {
			if err := l.p.o.Store.Start(l.cursor, at); err != nil {
				return err
			}
			for _, p := range at {
				l.at[p.Partition] = p
			}
			l.stats.set(at)
			return nil
		}
		if _, ok := errors.AsType[*kafka.UnknownTopicError](err); ok {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.trouble(err)
		t := time.NewTimer(retry)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
	}
}

// positions looks a place up in all partitions of a topic.
func positions(ctx context.Context, c *kafka.Cluster, topic string, start kafka.At) ([]state.Position, error) {
	t, err := c.Topic(ctx, topic)
	if err != nil {
		return nil, err
	}
	offsets, err := c.Offsets(ctx, t, t.Partitions, start)
	if err != nil {
		return nil, err
	}
	var at []state.Position
	for _, p := range t.Partitions {
		at = append(at, state.Position{Topic: topic, TopicID: t.ID, Partition: p, Next: offsets[p], LeaderEpoch: -1})
	}
	return at, nil
}

// startOf reads the option start.
func startOf(s string) (kafka.At, error) {
	if s == "" {
		s = ddl.Options{}.Get("start")
	}
	start, err := ddl.ParseStart(s)
	switch {
	case err != nil:
		return 0, err
	case start.Latest:
		return kafka.LatestStable, nil
	case !start.Time.IsZero():
		return kafka.At(start.Time.UnixMilli()), nil
	}
	return kafka.Earliest, nil
}

// Begins are the oldest offsets that a source's topic holds now, as Ends are its
// ends.
func (p *Pipeline) Begins(ctx context.Context, src *state.Source) ([]state.Position, error) {
	c, err := p.Cluster(src)
	if err != nil {
		return nil, err
	}
	return positions(ctx, c, src.Options["topic"], kafka.Earliest)
}

// Ends are the stable ends of a source's topic as they stand now, one for each
// partition, of the topic that has its name now.
func (p *Pipeline) Ends(ctx context.Context, src *state.Source) ([]state.Position, error) {
	c, err := p.Cluster(src)
	if err != nil {
		return nil, err
	}
	return positions(ctx, c, src.Options["topic"], kafka.LatestStable)
}
