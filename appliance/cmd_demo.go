package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/appliance/demo"
	"weir/appliance/devbroker"
	"weir/ingest/kafka"
)

type demoCmd struct {
	serveFlags
	Rate int `default:"500" help:"Events a second."`
}

func (demoCmd) Help() string {
	return "Starts a Kafka broker inside this process, fills it with the events of a made-up online shop, and keeps a few views of them. " +
		"--brokers uses a Kafka of yours instead: the topics orders and page_views are made there.\n\n" +
		"Exit status: 0 stopped by a signal, 1 an error, 2 wrong usage, 70 the disk refused a write."
}

// seed makes every demo the same shop.
const seed = 1

func (c *demoCmd) Run(ctx context.Context, s streams, log *slog.Logger) error {
	if c.Data == "" {
		c.Data = defaultData("demo")
	}
	if c.Rate < 1 {
		return errors.New("--rate must be at least 1")
	}
	if err := c.outside(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if c.Brokers == "" {
		b, err := devbroker.Start(devbroker.Options{Dir: filepath.Join(c.Data, brokerDir), Partitions: demo.Partitions, RetentionBytes: 64 << 20})
		if err != nil {
			return fmt.Errorf("start the demo's broker: %w", err)
		}
		defer leave(b)
		c.Brokers = b.Addr()
		fmt.Fprintf(s.out, "The demo's broker speaks Kafka on %s\n", b.Addr())
	}
	brokers := splitBrokers(c.Brokers)
	if err := ensureTopics(ctx, brokers, demo.Partitions, demo.Topics()...); err != nil {
		return fmt.Errorf("create the demo's topics: %w", err)
	}
	producer, err := devbroker.NewProducer(devbroker.ProducerOptions{Brokers: brokers})
	if err != nil {
		return err
	}
	defer producer.Close()
	pace := demo.DefaultPace()
	pace.Rate = float64(c.Rate)
	if err := history(ctx, brokers, &pace); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() {
		if err := shop(ctx, producer, pace); err != nil && ctx.Err() == nil {
			log.Error("the demo's events stopped", "error", err)
		}
	})
	return serve(ctx, config{serveFlags: c.serveFlags, log: log, scripts: []script{{"demo.sql", demo.SQL}}}, s.out, false)
}

// leave closes the broker, but does not wait long: what it has written survives
// the end of the process.
func leave(b *devbroker.Broker) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		b.Close()
	}()
	select {
	case <-closed:
	case <-time.After(time.Second):
	}
}

// shop produces the demo's events. The producer sends in the background; the
// first record that fails ends it.
func shop(ctx context.Context, p *devbroker.Producer, pace demo.Pace) error {
	failed := make(chan error, 1)
	return demo.Run(ctx, seed, pace, func(e demo.Event) error {
		select {
		case err := <-failed:
			return err
		default:
		}
		p.Post(ctx, &devbroker.Record{Topic: e.Topic, Key: e.Key, Value: e.Value, Timestamp: e.Time}, func(err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
		return nil
	})
}

// history leaves the shop's past out when the topics have it from an earlier run.
func history(ctx context.Context, brokers []string, pace *demo.Pace) error {
	c := kafka.Dial(kafka.Options{Brokers: brokers})
	defer c.Close()
	for _, topic := range demo.Topics() {
		t, err := c.Topic(ctx, topic)
		if err != nil {
			return err
		}
		ends, err := c.Offsets(ctx, t, t.Partitions, kafka.Latest)
		if err != nil {
			return err
		}
		for _, end := range ends {
			if end > 0 {
				pace.History, pace.Span = 0, 0
			}
		}
	}
	return nil
}

// ensureTopics creates the topics that are not there, and waits for a broker
// that has only just been started.
func ensureTopics(ctx context.Context, brokers []string, partitions int, topics ...string) error {
	client := &kafkago.Client{Addr: kafkago.TCP(brokers...), Timeout: 10 * time.Second}
	req := &kafkago.CreateTopicsRequest{}
	for _, t := range topics {
		req.Topics = append(req.Topics, kafkago.TopicConfig{Topic: t, NumPartitions: partitions, ReplicationFactor: 1})
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		res, err := client.CreateTopics(ctx, req)
		if err == nil {
			for topic, err := range res.Errors {
				if err != nil && !errors.Is(err, kafkago.TopicAlreadyExists) {
					return fmt.Errorf("topic %s: %w", topic, err)
				}
			}
			return nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return err
		}
	}
}

func splitBrokers(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}
