//go:build realkafka

package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
	"github.com/twmb/franz-go/pkg/kgo"

	"weir/appliance/devbroker"
	"weir/internal/testkit/kafkabroker"
)

// TestRealKafka is what only a real broker does as it does. Its parts run in
// order, on one broker: some of them stop it.
func TestRealKafka(t *testing.T) {
	broker := kafkabroker.Start(t, "--sasl", "--tls", "log.cleaner.backoff.ms=100", "log.initial.task.delay.ms=500", "log.cleaner.threads=1")
	for _, part := range []struct {
		name string
		run  func(*realBed)
	}{
		{"codecs", testRealCodecs},
		{"transactions", testRealTransactions},
		{"open transaction", testRealOpenTransaction},
		{"compacted", testRealCompacted},
		{"out of range", testRealOutOfRange},
		{"topic created later", testRealCreatedLater},
		{"security", testRealSecurity},
		{"recreated", testRealRecreated},
		{"deleted", testRealDeleted},
		{"restarts", testRealRestarts},
	} {
		t.Run(part.name, func(t *testing.T) {
			b := &realBed{bed: bed{T: t, addr: broker.Addr()}, real: broker}
			b.c = b.dial(Options{})
			part.run(b)
		})
	}
}

type realBed struct {
	bed
	real *kafkabroker.Broker
}

// all reads every partition from at (nil: the beginning) to end and gives the
// records as records does, with the number of empty batches among what was read.
func (b *realBed) all(o ReaderOptions, end map[int32]int64) (recs []string, empty int) {
	b.Helper()
	r := b.c.NewReader(o)
	defer r.Close()
	ctx, cancel := context.WithTimeout(b.Context(), b.patience())
	defer cancel()
	at := map[int32]int64{}
	for p, pos := range o.Positions {
		at[p] = pos.Offset
	}
	reached := func() bool {
		for p, e := range end {
			if at[p] < e {
				return false
			}
		}
		return true
	}
	for !reached() {
		f, err := r.Next(ctx)
		if err != nil {
			b.Fatalf("%v at %v of %v: %v", o, at, end, err)
		}
		for raw := f.rest; ; {
			h, ok, err := readHeader(raw)
			if err != nil {
				b.Fatal(err)
			}
			if !ok {
				break
			}
			if h.count == 0 {
				empty++
			}
			raw = raw[h.size:]
		}
		got, err := records(f)
		if err != nil {
			b.Fatal(err)
		}
		recs = append(recs, got...)
		at[f.Partition] = f.Next
		f.Release()
	}
	return recs, empty
}

func (b *realBed) ends(topic string, at At) map[int32]int64 {
	b.Helper()
	info := b.topic(topic)
	ends, err := b.c.Offsets(b.Context(), info, info.Partitions, at)
	if err != nil {
		b.Fatal(err)
	}
	return ends
}

// reference is what franz-go reads of a topic.
func (b *realBed) reference(topic string, end map[int32]int64, opts ...kgo.Opt) (recs []string) {
	b.Helper()
	opts = append(opts, kgo.SeedBrokers(b.addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(b.Context(), b.patience())
	defer cancel()
	// Control records show the position where nothing else is.
	at := map[int32]int64{}
	for {
		done := true
		for p, e := range end {
			done = done && at[p] >= e
		}
		if done {
			return recs
		}
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			b.Fatalf("franz-go: %v at %v of %v", err, at, end)
		}
		fs.EachRecord(func(r *kgo.Record) {
			at[r.Partition] = r.Offset + 1
			if !r.Attrs.IsControl() {
				recs = append(recs, fmt.Sprintf("%d/%d=%s", r.Partition, r.Offset, r.Value))
			}
		})
	}
}

// The same records by each codec of Kafka's own producer and of franz-go.
func testRealCodecs(b *realBed) {
	for _, codec := range []string{"gzip", "snappy", "lz4", "zstd"} {
		topic := "codec-" + codec
		b.real.CreateTopic(topic, 1, nil)
		var lines, want []string
		for i := range 500 {
			line := fmt.Sprintf("%s %d %s", codec, i, strings.Repeat("abc", i%40))
			lines = append(lines, line)
			want = append(want, fmt.Sprintf("0/%d=%s", i, line))
		}
		b.real.Tool(strings.Join(lines, "\n")+"\n", "ConsoleProducer", "--topic", topic, "--compression-codec", codec)
		p := b.producer(devbroker.ProducerOptions{Codec: codec})
		var recs []*devbroker.Record
		for i, line := range lines {
			recs = append(recs, &devbroker.Record{Topic: topic, Value: []byte(line)})
			want = append(want, fmt.Sprintf("0/%d=%s", 500+i, line))
		}
		if err := p.Send(b.Context(), recs...); err != nil {
			b.Fatal(err)
		}
		p.Close()
		for _, size := range []int{1, 5000, 1 << 20} {
			got, _ := b.all(ReaderOptions{Topic: topic, PartitionBytes: size}, map[int32]int64{0: 1000})
			if d := cmp.Diff(want, got); d != "" {
				b.Errorf("%s, %d bytes: %s", codec, size, d)
			}
		}
	}
}

// Transactions of four producers that overlap at random, some of them
// aborted, read from many offsets in answers of many sizes.
func testRealTransactions(b *realBed) {
	for seed := range uint64(2) {
		rng := rand.New(rand.NewPCG(seed, 7))
		topic := fmt.Sprint("txn-", seed)
		b.real.CreateTopic(topic, 1, nil)
		var ps []*devbroker.Producer
		open := make([][]string, 4)
		for i := range 4 {
			p := b.producer(devbroker.ProducerOptions{TransactionID: fmt.Sprint(topic, i)})
			defer p.Close()
			ps = append(ps, p)
		}
		committed, every := map[string]bool{}, map[string]bool{}
		end := func(i int, commit bool) {
			p := ps[i]
			finish := p.Abort
			if commit {
				finish = p.Commit
				for _, s := range open[i] {
					committed[s] = true
				}
			}
			if err := finish(b.Context()); err != nil {
				b.Fatal(err)
			}
			open[i] = nil
		}
		for n := range 120 {
			i := rng.IntN(4)
			if open[i] == nil {
				if err := ps[i].Begin(); err != nil {
					b.Fatal(err)
				}
			} else if rng.IntN(4) == 0 {
				end(i, rng.IntN(2) == 0)
				continue
			}
			rec := &devbroker.Record{Topic: topic, Value: fmt.Append(nil, "p", i, " ", n)}
			if err := ps[i].Send(b.Context(), rec); err != nil {
				b.Fatal(err)
			}
			s := fmt.Sprintf("0/%d=%s", rec.Offset, rec.Value)
			open[i] = append(open[i], s)
			every[s] = true
		}
		for i := range 4 {
			if open[i] != nil {
				end(i, i%2 == 0)
			}
		}
		want := byOffset(committed)
		ends := b.ends(topic, Latest)
		if d := cmp.Diff(want, b.reference(topic, ends, kgo.FetchIsolationLevel(kgo.ReadCommitted()))); d != "" {
			b.Fatal("franz-go and the producers disagree:", d)
		}
		for range 6 {
			from := rng.Int64N(ends[0])
			for _, size := range []int{1, 300, 1000, 1 << 20} {
				got, _ := b.all(ReaderOptions{Topic: topic, PartitionBytes: size, Positions: map[int32]Position{0: {Offset: from}}}, ends)
				if d := cmp.Diff(after(want, from), got); d != "" {
					b.Errorf("seed %d, from %d, %d bytes: %s", seed, from, size, d)
				}
			}
		}
		got, _ := b.all(ReaderOptions{Topic: topic, ReadUncommitted: true}, ends)
		if d := cmp.Diff(byOffset(every), got); d != "" {
			b.Error("uncommitted:", d)
		}
	}
}

func byOffset(set map[string]bool) []string {
	return slices.SortedFunc(maps.Keys(set), func(a, b string) int { return int(offsetOf(a) - offsetOf(b)) })
}

func offsetOf(s string) (o int64) {
	var p int32
	fmt.Sscanf(s, "%d/%d=", &p, &o)
	return o
}

func after(recs []string, from int64) (out []string) {
	for _, s := range recs {
		if offsetOf(s) >= from {
			out = append(out, s)
		}
	}
	return out
}

func testRealOpenTransaction(b *realBed) {
	b.real.CreateTopic("held", 1, nil)
	p := b.producer(devbroker.ProducerOptions{TransactionID: "held"})
	defer p.Close()
	b.send("held", 0, "before")
	if err := p.Begin(); err != nil {
		b.Fatal(err)
	}
	if err := p.Send(b.Context(), &devbroker.Record{Topic: "held", Value: []byte("open")}); err != nil {
		b.Fatal(err)
	}
	b.send("held", 0, "after")
	r := b.read(ReaderOptions{Topic: "held"})
	b.check("held", b.to(r, 1), "0/0=before")
	b.eventually("held to show", func() bool {
		s := r.Status().Partitions[0]
		return !s.HeldSince.IsZero() && s.Lag == 0 && s.HighWatermark == 3 && s.LastStable == 1
	})
	if ends := b.ends("held", LatestStable); ends[0] != 1 {
		b.Errorf("latest stable: %v", ends)
	}
	if err := p.Commit(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.check("released", b.to(r, 4), "0/1=open 0/2=after")
}

func (b *realBed) eventually(what string, ok func() bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), b.patience())
	defer cancel()
	for !ok() {
		if wait(ctx, 50*time.Millisecond) != nil {
			b.Fatal("waited in vain for", what)
		}
	}
}

// Topics that the cleaner has compacted, as idempotent and transactional
// producers leave them: gaps, empty batches, markers without their records.
func testRealCompacted(b *realBed) {
	for _, x := range []struct {
		name  string
		codec string
		txn   bool
	}{{"compact-none", "none", false}, {"compact-lz4", "lz4", false}, {"compact-zstd", "zstd", false}, {"compact-txn", "snappy", true}} {
		b.real.CreateTopic(x.name, 1, map[string]string{
			"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "100", "max.compaction.lag.ms": "200",
		})
		o := devbroker.ProducerOptions{Codec: x.codec}
		for round := range 4 { // a producer each: the cleaner keeps the last batch of each
			if x.txn {
				o.TransactionID = fmt.Sprint(x.name, round)
			}
			p := b.producer(o)
			if x.txn {
				if err := p.Begin(); err != nil {
					b.Fatal(err)
				}
			}
			for batch := range 6 {
				var recs []*devbroker.Record
				for k := range 8 {
					// Later keys of a batch are written again, so that its tail goes.
					key := fmt.Sprint("k", k)
					if k < 2 {
						key = fmt.Sprint("once", round, batch, k)
					}
					recs = append(recs, &devbroker.Record{Topic: x.name, Key: []byte(key), Value: fmt.Append(nil, round, "-", batch, "-", k)})
				}
				if batch == 3 || batch == 5 {
					recs = recs[2:] // a batch of which nothing remains; the producer's last one is kept, empty
				}
				if err := p.Send(b.Context(), recs...); err != nil {
					b.Fatal(err)
				}
			}
			if x.txn {
				finish := p.Commit
				if round == 1 {
					finish = p.Abort
				}
				if err := finish(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			p.Close()
			if wait(b.Context(), 150*time.Millisecond) != nil { // the next record rolls the segment
				b.Fatal(b.Context().Err())
			}
		}
		p := b.producer(devbroker.ProducerOptions{})
		if err := p.Send(b.Context(), &devbroker.Record{Topic: x.name, Key: []byte("roll"), Value: []byte("roll")}); err != nil {
			b.Fatal(err)
		}
		p.Close()
		ends := b.ends(x.name, Latest)
		read := func(from int64, size int) ([]string, int) {
			return b.all(ReaderOptions{Topic: x.name, PartitionBytes: size, Positions: map[int32]Position{0: {Offset: from}}}, ends)
		}
		const written = 4*(4*8+2*6) + 1
		// The cleaner runs when it likes: what was compared counts when all was the same
		// before and after.
		var differ []string
		b.eventually("compaction of "+x.name, func() bool {
			want, empty := read(0, 1<<20)
			if len(want) >= written/2 {
				return false
			}
			differ = nil
			if d := cmp.Diff(b.reference(x.name, ends, kgo.FetchIsolationLevel(kgo.ReadCommitted())), want); d != "" {
				differ = append(differ, "franz-go reads something else: "+d)
			}
			for from := int64(0); from < ends[0]; from += 23 {
				for _, size := range []int{1, 200, 1 << 20} {
					got, _ := read(from, size)
					if d := cmp.Diff(after(want, from), got); d != "" {
						differ = append(differ, fmt.Sprintf("from %d, %d bytes: %s", from, size, d))
					}
				}
			}
			again, still := read(0, 1<<20)
			b.Logf("%s: %d of %d records remain, %d empty batches", x.name, len(want), written, empty)
			return empty > 0 && still == empty && slices.Equal(again, want)
		})
		for _, d := range differ {
			b.Errorf("%s: %s", x.name, d)
		}
	}
}

func testRealOutOfRange(b *realBed) {
	b.real.CreateTopic("range", 1, nil)
	b.send("range", 0, "a", "b", "c", "d")
	b.real.DeleteRecords("range", 0, 2)
	for _, at := range []int64{0, 1, 5, 100} {
		r := b.read(ReaderOptions{Topic: "range", Positions: map[int32]Position{0: {Offset: at}}})
		out, ok := errors.AsType[*OutOfRangeError](b.failure(r))
		if !ok || *out != (OutOfRangeError{Topic: "range", Offset: at, Earliest: 2, Latest: 4}) {
			b.Errorf("at %d: %+v", at, out)
		}
		r.Close()
	}
	b.check("from the first", b.to(b.read(ReaderOptions{Topic: "range"}), 4), "0/2=c 0/3=d")
}

func testRealCreatedLater(b *realBed) {
	r := b.read(ReaderOptions{Topic: "later", Start: Latest})
	b.eventually("the topic to be missed", func() bool { return r.Status().State == StateWaiting })
	b.real.CreateTopic("later", 2, nil)
	b.send("later", 1, "a")
	b.send("later", 0, "b")
	got := b.until(r, func(*Fetched) bool {
		s := r.Status()
		return len(s.Partitions) == 2 && s.Partitions[0].Position == 1 && s.Partitions[1].Position == 1
	})
	if !strings.Contains(got, "1/0=a") || !strings.Contains(got, "0/0=b") {
		b.Error(got)
	}
}

func testRealSecurity(b *realBed) {
	b.real.CreateTopic("secure", 1, nil)
	b.send("secure", 0, "a", "b")
	good, err := scram.Mechanism(scram.SHA512, kafkabroker.User, kafkabroker.Password)
	if err != nil {
		b.Fatal(err)
	}
	bad, err := scram.Mechanism(scram.SHA256, kafkabroker.User, "guessed")
	if err != nil {
		b.Fatal(err)
	}
	pem, err := os.ReadFile(b.real.CAFile())
	if err != nil {
		b.Fatal(err)
	}
	trust := x509.NewCertPool()
	trust.AppendCertsFromPEM(pem)
	for name, o := range map[string]Options{
		"scram": {Brokers: []string{b.real.SASLAddr()}, SASL: good},
		"plain": {Brokers: []string{b.real.SASLAddr()}, SASL: plain.Mechanism{Username: kafkabroker.User, Password: kafkabroker.Password}},
		"tls":   {Brokers: []string{b.real.TLSAddr()}, TLS: &tls.Config{RootCAs: trust}},
	} {
		r := b.dial(o).NewReader(ReaderOptions{Topic: "secure"})
		b.check(name, b.to(r, 2), "0/0=a 0/1=b")
		r.Close()
	}
	for name, x := range map[string]struct {
		o    Options
		auth bool
		want string
	}{
		"password": {Options{Brokers: []string{b.real.SASLAddr()}, SASL: bad}, true, "check the mechanism, the user and the password"},
		"no sasl":  {Options{Brokers: []string{b.real.SASLAddr()}}, false, "may expect TLS, or SASL"},
		"ca":       {Options{Brokers: []string{b.real.TLSAddr()}, TLS: &tls.Config{}}, false, "certificate authority"},
		"no tls":   {Options{Brokers: []string{b.real.TLSAddr()}}, false, "expecting TLS"},
		"port":     {Options{Brokers: []string{"127.0.0.1:1"}}, false, "is the broker running there?"},
	} {
		c := b.dial(x.o)
		_, err := c.Topic(b.Context(), "secure")
		_, isAuth := errors.AsType[*AuthError](err)
		if err == nil || isAuth != x.auth || !strings.Contains(err.Error(), x.want) {
			b.Errorf("%s: %v", name, err)
		}
		r := c.NewReader(ReaderOptions{Topic: "secure"})
		b.eventually(name+" in the status", func() bool {
			s := r.Status()
			return s.State == StateConnecting && s.Err != nil && strings.Contains(s.Err.Error(), x.want)
		})
		r.Close()
	}
}

// A topic is deleted, created again and filled while fetches are in flight. Not
// one record of the new topic may come.
func testRealRecreated(b *realBed) {
	for round := range 6 {
		b.real.CreateTopic("again", 2, nil)
		old := b.topic("again")
		b.send("again", 0, "old", "old", "old")
		var readers []*Reader
		for i := range 2 {
			r := b.read(ReaderOptions{Topic: "again", ID: old.ID, Positions: map[int32]Position{0: {}, 1: {}}, MaxWait: time.Duration(100+400*i) * time.Millisecond})
			b.check("old", b.to(r, 3), "0/0=old 0/1=old 0/2=old")
			readers = append(readers, r)
		}
		b.real.DeleteTopic("again")
		b.real.CreateTopic("again", 2, nil)
		now := b.topic("again")
		for p := range int32(2) {
			b.send("again", p, "new", "new", "new", "new", "new", "new", "new", "new")
		}
		for _, r := range readers {
			if got := b.until(r, func(*Fetched) bool { return false }); strings.Contains(got, "=new") {
				b.Errorf("round %d: %s", round, got)
			}
			if e, ok := errors.AsType[*RecreatedError](r.Status().Err); !ok || e.Old != old.ID || e.New != now.ID {
				b.Errorf("round %d: %v", round, r.Status().Err)
			}
			r.Close()
		}
		b.real.DeleteTopic("again")
		b.eventually("the topic to be gone", func() bool { _, err := b.c.Topic(b.Context(), "again"); return isUnknown(err) })
	}
}

func testRealDeleted(b *realBed) {
	b.real.CreateTopic("gone", 1, nil)
	b.send("gone", 0, "a")
	r := b.read(ReaderOptions{Topic: "gone", DeletedAfter: time.Second})
	b.check("read", b.to(r, 1), "0/0=a")
	b.real.DeleteTopic("gone")
	if e, ok := errors.AsType[*DeletedError](b.failure(r)); !ok {
		b.Error(e)
	}
}

// The broker is stopped and killed while records are written and read. Each
// record that was acknowledged comes once, in its partition's order.
func testRealRestarts(b *realBed) {
	b.real.CreateTopic("load", 2, nil)
	p := b.producer(devbroker.ProducerOptions{Client: []kgo.Opt{kgo.RecordRetries(1 << 30), kgo.MaxBufferedRecords(1000)}})
	defer p.Close()
	r := b.read(ReaderOptions{Topic: "load"})

	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	sent := make(chan int, 1)
	go func() {
		n := 0
		for ctx.Err() == nil {
			p.Post(b.Context(), &devbroker.Record{Topic: "load", Partition: int32(n % 2), Value: fmt.Append(nil, n)}, func(err error) {
				if err != nil {
					b.Error(err)
				}
			})
			n++
			if n%50 == 0 {
				wait(ctx, 5*time.Millisecond)
			}
		}
		sent <- n
	}()
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	var total int // set before end is closed
	end := make(chan struct{})
	read := make(chan int, 1024)
	go func() {
		next := map[int32]int{1: 1}
		seen := 0
		for {
			f, err := r.Next(b.Context())
			if err != nil {
				done <- result{seen, err}
				return
			}
			recs, err := records(f)
			if err != nil {
				done <- result{seen, err}
				return
			}
			for _, s := range recs {
				_, v, _ := strings.Cut(s, "=")
				if v != fmt.Sprint(next[f.Partition]) {
					done <- result{seen, fmt.Errorf("%s where %d comes next", s, next[f.Partition])}
					return
				}
				next[f.Partition] += 2
				seen++
			}
			f.Release()
			select {
			case <-end: // before all else: no record may come after the last
				if seen >= total {
					done <- result{seen, nil}
					return
				}
			default:
			}
			select {
			case read <- seen:
			default:
			}
		}
	}()
	progress := func() {
		b.Helper()
		for len(read) > 0 {
			<-read
		}
		first := <-read
		deadline := time.After(b.patience())
		for {
			select {
			case n := <-read:
				if n > first+500 {
					return
				}
			case res := <-done:
				b.Fatal(res)
			case <-deadline:
				b.Fatalf("nothing is read: %+v", r.Status())
			}
		}
	}
	progress()
	b.real.Stop()
	b.eventually("the outage to show", func() bool { return r.Status().Err != nil })
	b.real.Restart()
	progress()
	b.real.Kill()
	b.real.Restart()
	progress()
	stop()
	total = <-sent
	close(end)
	if err := p.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.send("load", 0, fmt.Sprint(total+total%2)) // so that Next returns once more
	select {
	case res := <-done:
		if res.err != nil || res.n < total {
			b.Errorf("%d of %d: %v", res.n, total, res.err)
		}
	case <-time.After(b.patience()):
		b.Errorf("not all of %d is read: %+v", total, r.Status())
	}
	b.Logf("%d records, errors on the way: %d", total, r.Status().Partitions[0].Errors)
}
