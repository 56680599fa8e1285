package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"weir/appliance/devbroker"
)

func TestReadsFromPositions(t *testing.T) {
	bubble(t, func(b *bed) {
		info := b.create("t", 2)
		b.send("t", 0, "a", "b", "c")
		b.send("t", 1, "d", "e")
		r := b.read(ReaderOptions{ID: info.ID, Positions: map[int32]Position{0: {Offset: 1}, 1: {Offset: 1}}})
		seen := 0
		got := b.until(r, func(*Fetched) bool { seen++; return seen == 2 })
		if got != "0/1=b 0/2=c 1/1=e" && got != "1/1=e 0/1=b 0/2=c" {
			b.Error(got)
		}
		s := r.Status()
		if s.State != StateReading || s.Err != nil || s.TopicID != info.ID {
			b.Errorf("%+v", s)
		}
		want := PartitionStatus{Partition: 0, Position: 3, Fetched: 3, LastStable: 3, HighWatermark: 3}
		if d := cmp.Diff(want, s.Partitions[0]); d != "" {
			b.Error(d)
		}
	})
}

// Every record is delivered once, whatever the sizes of batches and answers.
func TestReadsEverythingOnce(t *testing.T) {
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			bubble(t, func(b *bed) {
				const n = 3000
				b.create("t", 3)
				p := b.producer(devbroker.ProducerOptions{Codec: codec, Client: []kgo.Opt{kgo.MaxBufferedRecords(500)}})
				for i := range n {
					p.Post(b.Context(), &devbroker.Record{Topic: "t", Partition: int32(i % 3), Key: fmt.Append(nil, i), Value: fmt.Appendf(nil, `{"n":%d,"pad":"%s"}`, i, strings.Repeat("x", i%200))}, nil)
				}
				if err := p.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
				p.Close()
				for _, size := range []int{1, 3000, 1 << 20} {
					r := b.read(ReaderOptions{PartitionBytes: size, BufferBytes: 64 << 10})
					seen := map[string]int{}
					ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
					defer cancel()
					for len(seen) < n {
						f, err := r.Next(ctx)
						if err != nil {
							b.Fatalf("%v after %d records", err, len(seen))
						}
						recs, err := records(f)
						if err != nil {
							b.Fatal(err)
						}
						for _, s := range recs {
							seen[s]++
						}
						f.Release()
					}
					for s, times := range seen {
						if times != 1 {
							b.Fatalf("%d times: %s", times, s)
						}
					}
					for i := range n {
						s := fmt.Sprintf(`%d/%d={"n":%d,"pad":"%s"}`, i%3, i/3, i, strings.Repeat("x", i%200))
						if seen[s] != 1 {
							b.Fatalf("not read: %s", s)
						}
					}
					r.Close()
				}
			})
		})
	}
}

func TestKeysValuesHeadersTimes(t *testing.T) {
	bubble(t, func(b *bed) {
		b.create("t", 1)
		p := b.producer(devbroker.ProducerOptions{})
		defer p.Close()
		at := time.UnixMilli(1234567890123)
		for _, rec := range []*devbroker.Record{
			{Key: nil, Value: nil},
			{Key: []byte{}, Value: []byte{}},
			{Key: []byte("k"), Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "", Value: []byte{}}}},
		} {
			rec.Topic, rec.Timestamp = "t", at
			if err := p.Send(b.Context(), rec); err != nil {
				b.Fatal(err)
			}
		}
		r := b.read(ReaderOptions{})
		var got []string
		for len(got) < 3 {
			f, err := r.Next(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			for {
				batch, err := f.Batch()
				if err != nil {
					break
				}
				for _, rec := range batch.Records {
					var s strings.Builder
					s.WriteString(fmt.Sprintf("%d %#v %#v", rec.Timestamp-at.UnixMilli(), rec.Key, rec.Value))
					for k, v := range rec.Headers() {
						s.WriteString(fmt.Sprintf(" %q:%#v", k, v))
					}
					got = append(got, fmt.Sprint(s.String(), " ", rec.HeaderCount()))
				}
			}
			f.Release()
		}
		want := []string{
			"0 []byte(nil) []byte(nil) 0",
			"0 []byte{} []byte{} 0",
			`0 []byte{0x6b} []byte{0x76} "a":[]byte{0x31} "a":[]byte(nil) "":[]byte{} 3`,
		}
		if d := cmp.Diff(want, got); d != "" {
			b.Error(d)
		}
	})
}

// Compaction leaves gaps, empty batches and answers of nothing else.
func TestGapsAndEmptyBatches(t *testing.T) {
	for _, x := range []struct {
		name    string
		batches [][]byte
		want    string
		end     int64
	}{
		{"trailing gap", [][]byte{data(0, 5, 0, 1).encode(), data(5, 5, 4).encode(), data(10, 1, 0).encode()}, "0/0=v0 0/1=v1 0/9=v9 0/10=v10", 11},
		{"empty in the middle", [][]byte{data(0, 2, 0, 1).encode(), data(2, 2).encode(), data(4, 2).encode(), data(6, 2, 0, 1).encode()}, "0/0=v0 0/1=v1 0/6=v6 0/7=v7", 8},
		{"empty at the end", [][]byte{data(0, 1, 0).encode(), data(1, 100).encode(), data(101, 3).encode()}, "0/0=v0", 104},
		{"offsets missing between batches", [][]byte{data(3, 1, 0).encode(), data(90, 1, 0).encode()}, "0/3=v3 0/90=v90", 91},
		{"empty marker", [][]byte{data(0, 1, 0).encode(), rawBatch{base: 1, span: 1, attributes: attrControl | attrTransactional, producer: 4}.encode(), data(2, 1, 0).encode()}, "0/0=v0 0/2=v2", 3},
	} {
		for _, limit := range []int{1, 2, 100} {
			for _, cut := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/%v", x.name, limit, cut), func(t *testing.T) {
					bubble(t, func(b *bed) {
						b.create("t", 1)
						b.serve(x.batches, limit, cut)
						b.check("read", b.to(b.read(ReaderOptions{}), x.end), x.want)
						// From inside a batch, and from inside a gap.
						for at := range x.end {
							want := []string{}
							for s := range strings.FieldsSeq(x.want) {
								var p, o int64
								fmt.Sscanf(s, "%d/%d", &p, &o)
								if o >= at {
									want = append(want, s)
								}
							}
							r := b.read(ReaderOptions{Positions: map[int32]Position{0: {Offset: at}}})
							b.check(fmt.Sprint("from ", at), b.to(r, x.end), strings.Join(want, " "))
							r.Close()
						}
					})
				})
			}
		}
	}
}

// What is read committed, uncommitted, and where the position ends.
func TestTransactions(t *testing.T) {
	bubble(t, func(b *bed) {
		b.create("t", 1)
		for i, commit := range []bool{true, false, true, false} {
			p := b.producer(devbroker.ProducerOptions{TransactionID: fmt.Sprint(i)})
			if err := p.Begin(); err != nil {
				b.Fatal(err)
			}
			for j := range 2 {
				if err := p.Send(b.Context(), &devbroker.Record{Topic: "t", Value: fmt.Appendf(nil, "%d%d", i, j)}); err != nil {
					b.Fatal(err)
				}
			}
			end := p.Abort
			if commit {
				end = p.Commit
			}
			if err := end(b.Context()); err != nil {
				b.Fatal(err)
			}
			p.Close()
		}
		r := b.read(ReaderOptions{})
		b.check("committed", b.to(r, 12), "0/0=00 0/1=01 0/6=20 0/7=21")
		if s := r.Status().Partitions[0]; s.Lag != 0 || s.Position != 12 {
			b.Errorf("not caught up at the end: %+v", s)
		}
		b.check("uncommitted", b.to(b.read(ReaderOptions{ReadUncommitted: true}), 12), "0/0=00 0/1=01 0/3=10 0/4=11 0/6=20 0/7=21 0/9=30 0/10=31")
		for at, want := range map[int64]string{3: "0/6=20 0/7=21", 4: "0/6=20 0/7=21", 7: "0/7=21", 8: "", 10: ""} {
			b.check(fmt.Sprint("committed from ", at), b.to(b.read(ReaderOptions{Positions: map[int32]Position{0: {Offset: at}}}), 12), want)
		}
	})
}

// An open transaction holds back what comes after it, and that can be seen.
func TestHeldAtOpenTransaction(t *testing.T) {
	bubble(t, func(b *bed) {
		b.create("t", 1)
		p := b.producer(devbroker.ProducerOptions{TransactionID: "x"})
		defer p.Close()
		b.send("t", 0, "before")
		if err := p.Begin(); err != nil {
			b.Fatal(err)
		}
		if err := p.Send(b.Context(), &devbroker.Record{Topic: "t", Value: []byte("open")}); err != nil {
			b.Fatal(err)
		}
		b.send("t", 0, "after")
		r := b.read(ReaderOptions{})
		b.check("held", b.to(r, 1), "0/0=before")
		held := time.Now()
		b.pass(3 * time.Second)
		s := r.Status().Partitions[0]
		if s.HeldSince.IsZero() || s.HeldSince.Sub(held).Abs() > time.Second || s.Lag != 0 || s.HighWatermark != 3 || s.LastStable != 1 {
			b.Errorf("%+v", s)
		}
		if err := p.Commit(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.check("released", b.to(r, 4), "0/1=open 0/2=after")
		if s := r.Status().Partitions[0]; !s.HeldSince.IsZero() {
			b.Errorf("still held: %+v", s)
		}
	})
}

func TestOffsetOutOfRange(t *testing.T) {
	for _, version := range []*kversion.Versions{kversion.Stable(), kversion.V2_7_0()} {
		bubble(t, func(b *bed) {
			info := b.create("t", 1)
			b.send("t", 0, "a", "b", "c", "d")
			if err := b.broker.Cluster().DeleteRecords("t", 0, 2); err != nil {
				b.Fatal(err)
			}
			for _, at := range []int64{0, 1, 5, 100} {
				r := b.read(ReaderOptions{ID: info.ID, Positions: map[int32]Position{0: {Offset: at}}})
				err := b.failure(r)
				out, is := errors.AsType[*OutOfRangeError](err)
				if !is || *out != (OutOfRangeError{Topic: "t", Offset: at, Earliest: 2, Latest: 4}) {
					b.Errorf("at %d: %v", at, err)
				}
				if s := r.Status(); s.State != StateStopped || s.Err != err {
					b.Errorf("at %d: %+v", at, s)
				}
				r.Close()
			}
			// The ends themselves are in range.
			first := b.read(ReaderOptions{ID: info.ID, Positions: map[int32]Position{0: {Offset: 2}}})
			last := b.read(ReaderOptions{ID: info.ID, Positions: map[int32]Position{0: {Offset: 4}}})
			b.check("first", b.to(first, 4), "0/2=c 0/3=d")
			b.pass(5 * time.Second)
			b.send("t", 0, "e")
			b.check("last", b.to(last, 5), "0/4=e")
		}, kfake.MaxVersions(version))
	}
}

// A topic that is deleted and created again, while a fetch waits, delivers
// nothing of the new one, even where the broker can only fetch by name.
func TestRecreatedTopic(t *testing.T) {
	for name, version := range map[string]*kversion.Versions{"id": kversion.Stable(), "name": kversion.V3_0_0()} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bed) {
				for i := range 10 {
					info := b.create("t", 1)
					b.send("t", 0, "old", "old", "old")
					r := b.read(ReaderOptions{})
					b.check("old", b.to(r, 3), "0/0=old 0/1=old 0/2=old")
					if i%2 == 0 {
						synctest.Wait() // a fetch is waiting
					}
					if err := b.broker.DeleteTopic("t"); err != nil {
						b.Fatal(err)
					}
					now := b.create("t", 1)
					b.send("t", 0, "new", "new", "new", "new", "new", "new")
					got := b.until(r, func(*Fetched) bool { return false })
					if strings.Contains(got, "=new") {
						b.Error("records of the new topic:", got)
					}
					err := r.Status().Err
					re, ok := errors.AsType[*RecreatedError](err)
					if !ok || re.Old != info.ID || re.New != now.ID || re.Topic != "t" {
						b.Errorf("%v", err)
					}
					r.Close()

					// The same at the next start, from the stored id.
					r = b.read(ReaderOptions{ID: info.ID, Positions: map[int32]Position{0: {Offset: 3}}})
					if _, ok := errors.AsType[*RecreatedError](b.failure(r)); !ok {
						b.Error("a stored id that is not the topic's is accepted")
					}
					r.Close()
					if err := b.broker.DeleteTopic("t"); err != nil {
						b.Fatal(err)
					}
				}
			}, kfake.MaxVersions(version))
		})
	}
}

// Brokers before 2.8 have no topic ids: a leader epoch that fell and a topic
// that was away are the signs.
func TestRecreatedWithoutIDs(t *testing.T) {
	bubble(t, func(b *bed) {
		if info := b.create("t", 1); info.ID != (TopicID{}) {
			b.Fatal("the broker has ids")
		}
		b.send("t", 0, "a", "b")
		r := b.read(ReaderOptions{Positions: map[int32]Position{0: {Offset: 1, LeaderEpoch: 3}}})
		if _, ok := errors.AsType[*RecreatedError](b.failure(r)); !ok {
			b.Error("a leader epoch that fell is accepted")
		}
		r = b.read(ReaderOptions{Positions: map[int32]Position{0: {Offset: 1}}})
		b.check("read", b.to(r, 2), "0/1=b")
		if err := b.broker.DeleteTopic("t"); err != nil {
			b.Fatal(err)
		}
		b.pass(2 * time.Second)
		b.create("t", 1)
		b.send("t", 0, "x", "y", "z")
		if _, ok := errors.AsType[*RecreatedError](b.failure(r)); !ok {
			b.Error("a topic that was away is accepted")
		}
	}, kfake.MaxVersions(kversion.V2_7_0()))
}

func TestDeletedTopic(t *testing.T) {
	bubble(t, func(b *bed) {
		info := b.create("t", 1)
		b.send("t", 0, "a")
		r := b.read(ReaderOptions{})
		b.check("read", b.to(r, 1), "0/0=a")
		if err := b.broker.DeleteTopic("t"); err != nil {
			b.Fatal(err)
		}
		gone := time.Now()
		err := b.failure(r)
		if d, ok := errors.AsType[*DeletedError](err); !ok || d.ID != info.ID || d.Topic != "t" {
			b.Errorf("%v", err)
		}
		if took := time.Since(gone); took < 5*time.Second || took > 10*time.Second {
			b.Errorf("after %v", took)
		}
	})
}

func TestTopicCreatedLater(t *testing.T) {
	for _, start := range []At{Earliest, Latest} {
		bubble(t, func(b *bed) {
			r := b.read(ReaderOptions{Start: start})
			b.pass(time.Minute)
			s := r.Status()
			if _, ok := errors.AsType[*UnknownTopicError](s.Err); !ok || s.State != StateWaiting {
				b.Errorf("%+v", s)
			}
			b.create("t", 1)
			b.send("t", 0, "a", "b")
			began := time.Now()
			b.check("read", b.to(r, 2), "0/0=a 0/1=b")
			if took := time.Since(began); took > 3*time.Second {
				b.Errorf("found after %v", took)
			}
			if s := r.Status(); s.State != StateReading || s.Err != nil {
				b.Errorf("%+v", s)
			}
		})
	}
}

// New partitions are read from their beginning, also when the others are not.
func TestPartitionGrowth(t *testing.T) {
	bubble(t, func(b *bed) {
		b.create("t", 1)
		b.send("t", 0, "skipped")
		r := b.read(ReaderOptions{Start: Latest})
		b.check("latest", b.until(r, func(f *Fetched) bool { return f.From == 1 && f.Next == 1 }), "")
		b.grow("t", 3)
		b.send("t", 2, "a", "b")
		b.send("t", 0, "c")
		ends := map[int32]int64{}
		got := b.until(r, func(f *Fetched) bool { ends[f.Partition] = f.Next; return ends[0] == 2 && ends[2] == 2 })
		for _, want := range []string{"2/0=a", "2/1=b", "0/1=c"} {
			if !strings.Contains(got, want) {
				b.Errorf("%s is not in %s", want, got)
			}
		}
		r.Close()

		// Grown while nobody looked: what has no position is new.
		b.grow("t", 4)
		b.send("t", 3, "d")
		r = b.read(ReaderOptions{Start: Latest, Positions: map[int32]Position{0: {Offset: 2}, 1: {}, 2: {Offset: 2}}})
		b.check("after a restart", b.until(r, func(f *Fetched) bool { return f.Next > f.From }), "3/0=d")
	})
}

func (b *bed) grow(topic string, partitions int32) {
	b.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.broker.Addr()), kgo.Dialer(b.net.DialContext))
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	req := kmsg.NewPtrCreatePartitionsRequest()
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = topic, partitions
	req.Topics = append(req.Topics, t)
	res, err := req.RequestWith(b.Context(), cl)
	if err != nil || res.Topics[0].ErrorCode != 0 {
		b.Fatal(res, err)
	}
}

// A start without a position is told before any record, so that it can be stored.
func TestStartIsAnnounced(t *testing.T) {
	bubble(t, func(b *bed) {
		b.create("t", 1)
		p := b.producer(devbroker.ProducerOptions{})
		defer p.Close()
		for i := range 5 {
			if err := p.Send(b.Context(), &devbroker.Record{Topic: "t", Timestamp: time.UnixMilli(int64(1000 * i)), Value: []byte("v")}); err != nil {
				b.Fatal(err)
			}
		}
		for at, want := range map[At]int64{0: 0, Earliest: 0, Latest: 5, LatestStable: 5, 1500: 2, 2000: 2, 9000: 5} {
			r := b.read(ReaderOptions{Start: at})
			f, err := r.Next(b.Context())
			if err != nil || f.From != want || f.Next != want || f.Topic != "t" {
				b.Errorf("start %d: %+v, %v", at, f, err)
			}
			r.Close()
		}
	})
}

// Older brokers are read by name; what is too old is refused and says so.
func TestOldBrokers(t *testing.T) {
	for _, x := range []struct {
		version *kversion.Versions
		fetch   int16 // 0: refused
	}{
		{kversion.V2_2_0(), 0},
		{kversion.V2_3_0(), 11},
		{kversion.V2_7_0(), 11},
		{kversion.V2_8_0(), 11},
		{kversion.V3_0_0(), 11},
		{kversion.V3_1_0(), 13},
		{kversion.V3_5_0(), 15},
		{kversion.Stable(), 18},
	} {
		bubble(t, func(b *bed) {
			if err := b.broker.CreateTopic(b.Context(), "t", 1, nil); err != nil {
				b.Fatal(err)
			}
			b.send("t", 0, "a", "b")
			var asked atomic.Int32 // the version of the first fetch; the broker is on a goroutine of its own
			b.broker.Cluster().ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
				b.broker.Cluster().KeepControl()
				asked.CompareAndSwap(0, int32(r.GetVersion()))
				return nil, nil, false
			})
			r := b.read(ReaderOptions{})
			if x.fetch == 0 {
				err := b.failure(r)
				if u, ok := errors.AsType[*UnsupportedError](err); !ok || len(u.Brokers) == 0 || !strings.Contains(err.Error(), "Kafka 2.3") {
					b.Errorf("%v", err)
				}
				return
			}
			b.check("read", b.to(r, 2), "0/0=a 0/1=b")
			r.Close()
			if got := asked.Load(); got != int32(x.fetch) {
				b.Errorf("fetch version %d, want %d", got, x.fetch)
			}
		}, kfake.MaxVersions(x.version))
	}
}

// A batch that is wrong stops the Reader at its offset, after all before it.
func TestCorruptData(t *testing.T) {
	good := data(0, 2, 0, 1).encode()
	flip := func(raw []byte, at int) []byte {
		raw = bytes.Clone(raw)
		raw[at] ^= 0x10
		return raw
	}
	resummed := func(raw []byte) []byte { sum(raw); return raw }
	next := data(2, 3, 0, 1, 2).encode()
	codec5 := bytes.Clone(next)
	codec5[22] = 5
	sum(codec5)
	for name, bad := range map[string][]byte{
		"checksum":                 flip(next, len(next)-2),
		"checksum field":           flip(next, 18),
		"record length":            resummed(flip(next, batchHeader)),
		"codec 5":                  codec5,
		"record before the batch":  data(2, 3, -1, 1).encode(),
		"record after the batch":   data(2, 3, 0, 3).encode(),
		"records not ascending":    data(2, 3, 1, 1).encode(),
		"more records than counts": rawBatch{base: 2, span: 3, count: -1}.with(0, nil, nil, nil).with(1, nil, nil, nil).encode(),
		"bad gzip":                 rawBatch{base: 2, span: 3, attributes: 1, count: 3, body: []byte("not gzip, not at all")}.encode(),
		"bad snappy":               rawBatch{base: 2, span: 3, attributes: 2, count: 3, body: []byte("\xff\xff\xff\xff\x0f")}.encode(),
		"bad xerial":               rawBatch{base: 2, span: 3, attributes: 2, count: 3, body: []byte(xerial + "\x00\x00\x00\x01\x00\x00\x00\x01\x7f\xff\xff\xff")}.encode(),
		"bad lz4":                  rawBatch{base: 2, span: 3, attributes: 3, count: 3, body: []byte("nor lz4")}.encode(),
		"bad zstd":                 rawBatch{base: 2, span: 3, attributes: 4, count: 3, body: []byte("nor zstd")}.encode(),
		"codec 7":                  rawBatch{base: 2, span: 3, attributes: 7, count: 3, body: []byte("nor that")}.encode(),
		"bad headers":              rawBatch{base: 2, span: 3}.with(0, nil, nil, []byte{4, 2, 'a', 1}).encode(),
		"bad marker":               rawBatch{base: 2, span: 3, attributes: attrControl | attrTransactional}.with(0, []byte{0}, nil, nil).encode(),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bed) {
				b.create("t", 1)
				b.serve([][]byte{good, bad, data(5, 1, 0).encode()}, 100, false)
				r := b.read(ReaderOptions{})
				var err error
				var got []string
				for err == nil {
					var f *Fetched
					if f, err = r.Next(b.Context()); err == nil {
						var recs []string
						recs, err = records(f)
						got = append(got, recs...)
						if again, same := f.Batch(); err != nil && (again != nil || same != err) {
							b.Errorf("a second try gives %v, %v", again, same)
						}
						f.Release()
					}
				}
				b.check("read", strings.Join(got, " "), "0/0=v0 0/1=v1")
				c, ok := errors.AsType[*CorruptError](err)
				if !ok || c.Offset != 2 || c.Topic != "t" || c.Partition != 0 {
					b.Errorf("%v", err)
				}
			})
		})
	}
}

// What can't be walked is found when it is fetched.
func TestCorruptFraming(t *testing.T) {
	good := data(0, 2, 0, 1).encode()
	short := data(2, 3, 0).encode()
	short[11] = 7 // bytes of the batch
	format := data(2, 3, 0).encode()
	format[16] = 1
	count := data(2, 3, 0).encode()
	count[60] = 19
	for name, x := range map[string]struct {
		bad  []byte
		want string
	}{
		"count":       {count, "corrupt data at offset 2: batch of 19 records for offsets 2 to 4"},
		"length":      {short, "corrupt data at offset 2: batch of 7 bytes"},
		"format":      {format, "offset 2, record format 1"},
		"overlapping": {data(1, 3, 0).encode(), "corrupt data at offset 2: batch at offset 1 after one that ends at 1"},
	} {
		bubble(t, func(b *bed) {
			b.create("t", 1)
			b.broker.Cluster().ControlKey(int16(kmsg.Fetch), func(kr kmsg.Request) (kmsg.Response, error, bool) {
				b.broker.Cluster().KeepControl()
				req := kr.(*kmsg.FetchRequest)
				res := req.ResponseKind().(*kmsg.FetchResponse)
				tt := kmsg.NewFetchResponseTopic()
				tt.TopicID = req.Topics[0].TopicID
				p := kmsg.NewFetchResponseTopicPartition()
				p.HighWatermark, p.LastStableOffset = 5, 5
				p.RecordBatches = append(bytes.Clone(good), x.bad...)
				tt.Partitions = append(tt.Partitions, p)
				res.Topics = append(res.Topics, tt)
				return res, nil, true
			})
			got := b.until(b.read(ReaderOptions{}), func(*Fetched) bool { return false })
			if !strings.HasPrefix(got, "0/0=v0 0/1=v1 error: ") || !strings.Contains(got, x.want) {
				b.Errorf("%s: %s", name, got)
			}
		})
	}
}

// The memory held stays within the budget, and reading goes on after Release.
func TestBudget(t *testing.T) {
	bubble(t, func(b *bed) {
		b.create("t", 1)
		p := b.producer(devbroker.ProducerOptions{})
		defer p.Close()
		for range 100 {
			if err := p.Send(b.Context(), &devbroker.Record{Topic: "t", Value: make([]byte, 10_000)}); err != nil {
				b.Fatal(err)
			}
		}
		const budget = 200_000
		r := b.read(ReaderOptions{BufferBytes: budget, PartitionBytes: 50_000})
		var held []*Fetched
		end := int64(0)
		for {
			b.pass(10 * time.Second) // all that can be fetched is
			if n := r.Status().Buffered; n > budget {
				b.Fatalf("%d bytes are held", n)
			}
			ctx, cancel := context.WithTimeout(b.Context(), time.Second)
			f, err := r.Next(ctx)
			cancel()
			if err != nil {
				break
			}
			held = append(held, f)
			end = f.Next
		}
		if end == 0 || end == 100 {
			b.Fatalf("read to %d while nothing is released", end)
		}
		for _, f := range held {
			f.Release()
			f.Release()
			if _, err := f.Batch(); err == nil {
				b.Error("a batch after Release")
			}
		}
		b.to(r, 100)
		if n := r.Status().Buffered; n != 0 {
			b.Errorf("%d bytes are held after all is released", n)
		}
	})
}

// One record larger than what is asked for still comes, also when partitions
// before it have records.
func TestLargeRecord(t *testing.T) {
	bubble(t, func(b *bed) {
		b.create("t", 3)
		p := b.producer(devbroker.ProducerOptions{})
		defer p.Close()
		for i := range int32(3) {
			for range 3 {
				if err := p.Send(b.Context(), &devbroker.Record{Topic: "t", Partition: i, Value: make([]byte, 500_000)}); err != nil {
					b.Fatal(err)
				}
			}
		}
		r := b.read(ReaderOptions{PartitionBytes: 1000})
		ends := map[int32]int64{}
		b.until(r, func(f *Fetched) bool { ends[f.Partition] = f.Next; return ends[0] == 3 && ends[1] == 3 && ends[2] == 3 })
		r.Close()
		r = b.read(ReaderOptions{MaxResponse: 100_000})
		if e, ok := errors.AsType[*TooLargeError](b.failure(r)); !ok || e.Topic != "t" || e.Limit != 100_000 {
			b.Error(e)
		}
	})
}
