package main

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"weir/appliance/devbroker"
)

// ingest measures catching up on a log, from start to the last durable commit.
func ingest(ctx context.Context, c *config) error {
	b, err := devbroker.Start(devbroker.Options{Dir: filepath.Join(c.dir, "broker"), RetentionBytes: 8 << 30})
	if err != nil {
		return err
	}
	defer b.Close()
	if err := fill(ctx, b, "events", c.events); err != nil {
		return err
	}
	for _, s := range []struct{ name, views string }{
		{"one_view_1k_groups", fewGroups},
		{"four_views", fewGroups + `
CREATE MATERIALIZED VIEW w AS SELECT country, status, count(*) AS n, max(price) AS top FROM events GROUP BY country, status;
CREATE MATERIALIZED VIEW x AS SELECT time_bucket(INTERVAL '1 minute', ts) AS minute, count(*) AS n, sum(price) AS total FROM events GROUP BY ALL;
CREATE MATERIALIZED VIEW y AS SELECT count(*) AS n, sum(amount) AS total, min(ts) AS first, max(ts) AS last FROM events;`},
		{"one_view_1m_groups", manyGroups},
	} {
		if !c.wants("ingest_" + s.name) {
			continue
		}
		if err := catchUp(ctx, c, b, s.name, s.views); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// shops is how many there are.
const shops = 1000

const source = `CREATE SOURCE events (event_id BIGINT, user_id BIGINT, shop VARCHAR, country VARCHAR, amount BIGINT, price DECIMAL(12,2), status VARCHAR, ts TIMESTAMP)
WITH (connector = 'kafka', topic = 'events', format = 'json');
`

func catchUp(ctx context.Context, c *config, b *devbroker.Broker, name, views string) error {
	sql := filepath.Join(c.dir, name+".sql")
	if err := os.WriteFile(sql, []byte(source+views), 0o600); err != nil {
		return err
	}
	data := filepath.Join(c.dir, name)
	cmd := exec.CommandContext(ctx, c.weir, "run", sql, "--brokers", b.Addr(), "--data", data, "--addr", "127.0.0.1:0", "--until-caught-up")
	cmd.Stderr = os.Stderr
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return err
	}
	wall := time.Since(began)
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	report("ingest_"+name+"_rate", float64(c.events)/cpu.Seconds(), "events/cpu-second")
	report("ingest_"+name+"_wall_rate", float64(c.events)/wall.Seconds(), "events/s")
	report("ingest_"+name+"_memory", float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)/1024, "MiB")
	disk, err := used(filepath.Join(data, "state"))
	if err != nil {
		return err
	}
	report("ingest_"+name+"_disk", float64(disk)/(1<<20), "MiB")
	return os.RemoveAll(data)
}

// used is the size of all files of a directory.
func used(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		i, err := d.Info()
		if err == nil {
			n += i.Size()
		}
		return err
	})
	return n, err
}

// fill writes n events of about 200 bytes into four partitions.
func fill(ctx context.Context, b *devbroker.Broker, topic string, n int) error {
	if err := b.CreateTopic(ctx, topic, partitions, nil); err != nil {
		return err
	}
	p, err := devbroker.NewProducer(devbroker.ProducerOptions{Brokers: []string{b.Addr()}, Manual: true, Client: []kgo.Opt{kgo.ProducerLinger(20 * time.Millisecond), kgo.ProducerBatchMaxBytes(1 << 20)}})
	if err != nil {
		return err
	}
	defer p.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	failed := make(chan error, 1)
	for i := range n {
		p.Post(ctx, &devbroker.Record{Topic: topic, Partition: int32(i % partitions), Value: event(rng, i, start)}, func(err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	if err := p.Flush(ctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func event(rng *rand.Rand, i int, start time.Time) []byte {
	b := make([]byte, 0, 224)
	b = append(b, `{"event_id":`...)
	b = strconv.AppendInt(b, int64(i)+1_000_000_000, 10)
	b = append(b, `,"user_id":`...)
	b = strconv.AppendInt(b, rng.Int64N(1_000_000), 10)
	b = append(b, `,"shop":"shop-`...)
	b = strconv.AppendInt(b, rng.Int64N(shops), 10)
	b = append(b, `","country":"`...)
	b = append(b, [...]string{"NL", "DE", "FR", "IT", "ES", "PL", "SE", "DK"}[rng.IntN(8)]...)
	b = append(b, `","amount":`...)
	b = strconv.AppendInt(b, rng.Int64N(10_000), 10)
	b = append(b, `,"price":`...)
	b = strconv.AppendInt(b, rng.Int64N(shops), 10)
	b = append(b, '.')
	b = strconv.AppendInt(b, 10+rng.Int64N(90), 10)
	b = append(b, `,"status":"`...)
	b = append(b, [...]string{"new", "paid", "sent"}[rng.IntN(3)]...)
	b = append(b, `","ts":"`...)
	b = start.Add(time.Duration(i)*20*time.Millisecond).AppendFormat(b, "2006-01-02T15:04:05.000Z")
	b = append(b, `","note":"`...)
	const note = "left at the door, ring twice"
	b = append(b, note...)
	return append(b, `"}`...)
}
