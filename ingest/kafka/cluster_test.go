package kafka

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/appliance/devbroker"
)

func TestUnknownTopic(t *testing.T) {
	bubble(t, func(b *bed) {
		_, err := b.c.Topic(b.Context(), "ordrs")
		if u, ok := errors.AsType[*UnknownTopicError](err); !ok || u.Topic != "ordrs" || !strings.Contains(err.Error(), `topic "ordrs" does not exist on `+b.addr) {
			b.Errorf("%v", err)
		}
		if b.broker.Cluster().TopicInfo("ordrs") != nil {
			b.Error("asking for a topic has created it")
		}
	}, kfake.AllowAutoTopicCreation())
}

func TestOffsets(t *testing.T) {
	bubble(t, func(b *bed) {
		info := b.create("t", 3)
		for i := range 4 {
			b.send("t", 1, fmt.Sprint(i))
			b.pass(time.Second)
		}
		if err := b.broker.Cluster().DeleteRecords("t", 1, 1); err != nil {
			b.Fatal(err)
		}
		p := b.producer(devbroker.ProducerOptions{TransactionID: "x"})
		defer p.Close()
		if err := p.Begin(); err != nil {
			b.Fatal(err)
		}
		if err := p.Send(b.Context(), &devbroker.Record{Topic: "t", Partition: 1, Value: []byte("open")}); err != nil {
			b.Fatal(err)
		}
		now := time.Now().UnixMilli()
		for at, want := range map[At]int64{Earliest: 1, Latest: 5, LatestStable: 4, At(now - 2500): 2, At(now + 1000): 5, 1: 1} {
			got, err := b.c.Offsets(b.Context(), info, []int32{0, 1}, at)
			if err != nil || got[1] != want || got[0] != 0 || len(got) != 2 {
				b.Errorf("at %d: %v, %v, want %d", at, got, err, want)
			}
		}
		if _, err := b.c.Offsets(b.Context(), info, []int32{7}, Earliest); err == nil {
			b.Error("a partition that is not there has offsets")
		}
		if err := b.broker.DeleteTopic("t"); err != nil {
			b.Fatal(err)
		}
		b.create("t", 3)
		if _, err := b.c.Offsets(b.Context(), info, []int32{0}, Latest); !stops(err) {
			b.Errorf("offsets of another topic: %v", err)
		}
	})
}

// Each failure to connect says what it is, from a request and in the status.
func TestConnectErrors(t *testing.T) {
	server, trust := certificate(t)
	scramOf := func(password string) Options {
		m, err := scram.Mechanism(scram.SHA512, "u", password)
		if err != nil {
			t.Fatal(err)
		}
		return Options{TLS: trust, SASL: m}
	}
	b := &bed{T: t}
	broker, err := devbroker.Start(devbroker.Options{TLS: server, Kafka: []kfake.Opt{
		kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "u", "pw"), kfake.Superuser("PLAIN", "u", "pw"), kfake.SeedTopics(1, "t"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { broker.Close() })
	b.broker, b.addr = broker, broker.Addr()
	const unused = "127.0.0.1:1" // nobody may listen there but root, and nobody does

	for name, o := range map[string]Options{
		"scram": scramOf("pw"),
		"plain": {TLS: trust, SASL: plain.Mechanism{Username: "u", Password: "pw"}},
		// The first broker of the list being down does not matter.
		"two": {Brokers: []string{unused, b.addr}, TLS: trust, SASL: scramOf("pw").SASL},
	} {
		if info, err := b.dial(o).Topic(t.Context(), "t"); err != nil || len(info.Partitions) != 1 || info.ID == (TopicID{}) {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
	}
	for name, x := range map[string]struct {
		o    Options
		want string
	}{
		"password":  {scramOf("guessed"), ""},
		"authority": {Options{TLS: &tls.Config{}}, "certificate authority"},
		"no TLS":    {Options{}, "may expect TLS, or SASL"},
		"refused":   {Options{Brokers: []string{unused}}, "is the broker running there?"},
	} {
		c := b.dial(x.o)
		_, err := c.Topic(t.Context(), "t")
		_, connect := errors.AsType[*ConnectError](err)
		_, auth := errors.AsType[*AuthError](err)
		if !connect && !auth || !strings.Contains(err.Error(), x.want) || !strings.Contains(err.Error(), c.brokers[0]) {
			t.Errorf("%s: %v", name, err)
		}
		// A routed request finds out the same cause.
		_, err = c.fetch(t.Context(), &fetchRequest{topic: "t", limit: 1 << 20, alloc: heap})
		_, connect = errors.AsType[*ConnectError](err)
		_, auth = errors.AsType[*AuthError](err)
		if !connect && !auth || !strings.Contains(err.Error(), x.want) || errors.Is(err, errNoBrokers) {
			t.Errorf("%s, fetch: %v", name, err)
		}
	}
}

// certificate gives a server's and its clients' TLS for 127.0.0.1.
func certificate(t *testing.T) (server, client *tls.Config) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, &tls.Config{RootCAs: pool}
}

// A refused read is shown and tried again: rights are given from outside.
func TestTopicDenied(t *testing.T) {
	bubble(t, func(b *bed) {
		b.create("t", 1)
		b.send("t", 0, "a")
		h := b.broker.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed, Count: 5})
		r := b.read(ReaderOptions{})
		if err := h.Wait(b.Context(), 1); err != nil {
			b.Fatal(err)
		}
		b.pass(10 * time.Millisecond)
		if e, ok := errors.AsType[*AuthError](r.Status().Err); !ok || e.Topic != "t" {
			b.Errorf("%v", r.Status().Err)
		}
		b.check("allowed again", b.to(r, 1), "0/0=a")
		if s := r.Status(); s.Err != nil || s.Partitions[0].Errors != 5 {
			b.Errorf("%+v", s)
		}
	})
}

// What passes is retried, with pauses, and every record still comes once.
func TestTransientErrors(t *testing.T) {
	for _, code := range []*kerr.Error{
		kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable, kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch,
		kerr.UnknownTopicID, kerr.InconsistentTopicID, kerr.KafkaStorageError, kerr.OffsetNotAvailable, kerr.OffsetOutOfRange, kerr.UnknownServerError,
	} {
		bubble(t, func(b *bed) {
			b.create("t", 1)
			b.send("t", 0, "a", "b", "c")
			h := b.broker.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: code, Count: 4})
			began := time.Now()
			r := b.read(ReaderOptions{})
			b.check(code.Message, b.to(r, 3), "0/0=a 0/1=b 0/2=c")
			if took := time.Since(began); h.Hits() != 4 || took < 150*time.Millisecond || took > 10*time.Second {
				b.Errorf("%s: %d errors in %v", code.Message, h.Hits(), took)
			}
		})
	}
}

// The broker goes away and comes back; nothing is lost or repeated.
func TestBrokerRestart(t *testing.T) {
	dir := t.TempDir()
	bubble(t, func(b *bed) {
		b.create("t", 1)
		b.send("t", 0, "a", "b")
		r := b.read(ReaderOptions{})
		b.check("before", b.to(r, 2), "0/0=a 0/1=b")
		if err := b.broker.Close(); err != nil {
			b.Fatal(err)
		}
		b.pass(time.Minute)
		s := r.Status()
		if _, ok := errors.AsType[*ConnectError](s.Err); !ok || s.Partitions[0].Errors < 10 || s.Partitions[0].Errors > 100 {
			b.Errorf("after a minute's outage: %v, %d errors", s.Err, s.Partitions[0].Errors)
		}
		broker, err := devbroker.Start(devbroker.Options{Addr: b.addr, Listen: b.net.Listen, Kafka: []kfake.Opt{kfake.DataDir(dir)}})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { broker.Close() })
		b.broker = broker
		b.send("t", 0, "c")
		b.check("after", b.to(r, 3), "0/2=c")
	}, kfake.DataDir(dir))
}

// Leaders move between brokers while records are written and read.
func TestLeaderMoves(t *testing.T) {
	net := new(kfake.VirtualNetwork)
	bubbleOn(t, net, func(b *bed) {
		b.create("t", 4)
		r := b.read(ReaderOptions{})
		ends := map[int32]int64{}
		n := int64(0)
		for round := range 20 {
			for p := range int32(4) {
				b.send("t", p, fmt.Sprint(round))
			}
			n++
			b.broker.Cluster().ShufflePartitionLeaders()
			got := b.until(r, func(f *Fetched) bool {
				ends[f.Partition] = f.Next
				return ends[0] == n && ends[1] == n && ends[2] == n && ends[3] == n
			})
			if len(strings.Fields(got)) != 4 || strings.Contains(got, "error") {
				b.Fatalf("round %d: %s", round, got)
			}
		}
	}, kfake.NumBrokers(3), kfake.Ports(9092, 9093, 9094), kfake.ListenFn(net.Listen))
}

// Cancel and Close return at once, whatever the broker does, and leave nothing
// behind: the bubble would not end.
func TestCancelAndClose(t *testing.T) {
	bubble(t, func(b *bed) {
		b.create("t", 1)
		b.broker.Cluster().ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
			b.broker.Cluster().KeepControl()
			return nil, nil, true // never answers
		})
		r := b.read(ReaderOptions{MaxWait: time.Hour})
		if _, err := r.Next(b.Context()); err != nil { // where it begins
			b.Fatal(err)
		}
		b.pass(time.Second)
		ctx, cancel := context.WithTimeout(b.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			b.Errorf("Next: %v after %v", err, time.Since(began))
		}
		began = time.Now()
		r.Close()
		b.c.Close()
		if took := time.Since(began); took != 0 {
			b.Errorf("Close takes %v", took)
		}
		if _, err := r.Next(b.Context()); !errors.Is(err, ErrClosed) {
			b.Errorf("Next after Close: %v", err)
		}
		if _, err := b.c.Topic(b.Context(), "t"); err == nil {
			b.Error("a closed cluster answers")
		}
		if s := r.Status(); s.State != StateStopped {
			b.Errorf("%+v", s)
		}
	})
}

// A broker that accepts and says nothing is given up after a while.
func TestSilentBroker(t *testing.T) {
	bubble(t, func(b *bed) {
		l, err := b.net.Listen("tcp", "127.0.0.1:9999")
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
		c := b.dial(Options{Brokers: []string{"127.0.0.1:9999"}})
		began := time.Now()
		_, err = c.Topic(b.Context(), "t")
		if took := time.Since(began); err == nil || took > 20*time.Second {
			b.Errorf("%v after %v", err, took)
		}
	})
}

func TestNoBrokers(t *testing.T) {
	c := Dial(Options{})
	defer c.Close()
	if _, err := c.Topic(t.Context(), "t"); err == nil || !strings.Contains(err.Error(), "no broker is given") {
		t.Error(err)
	}
}

func TestDialDefaultPort(t *testing.T) {
	c := Dial(Options{Brokers: []string{" kafka ", "kafka:1", "::1", "[::1]:2"}})
	defer c.Close()
	if got := strings.Join(c.brokers, " "); got != "kafka:9092 kafka:1 [::1]:9092 [::1]:2" {
		t.Error(got)
	}
}

// A broker that has fallen behind tells an older id for a moment. That stops
// nothing; a second of it does.
func TestStaleTopicID(t *testing.T) {
	bubble(t, func(b *bed) {
		info := b.create("t", 1)
		b.send("t", 0, "a")
		r := b.read(ReaderOptions{ID: info.ID, Positions: map[int32]Position{0: {}}})
		b.check("before", b.to(r, 1), "0/0=a")
		stale := kmsg.NewMetadataResponseTopic()
		stale.Topic, stale.TopicID = new("t"), TopicID{9}
		stale.Partitions = append(stale.Partitions, kmsg.NewMetadataResponseTopicPartition())
		var lies atomic.Int32 // the broker is on a goroutine of its own
		lies.Store(3)
		b.broker.Cluster().ControlKey(int16(kmsg.Metadata), func(kr kmsg.Request) (kmsg.Response, error, bool) {
			b.broker.Cluster().KeepControl()
			req := kr.(*kmsg.MetadataRequest)
			if len(req.Topics) == 0 || lies.Load() == 0 {
				return nil, nil, false
			}
			lies.Add(-1)
			res := req.ResponseKind().(*kmsg.MetadataResponse)
			broker := kmsg.NewMetadataResponseBroker()
			broker.Host, broker.Port = "localhost", 9092
			res.Brokers = append(res.Brokers, broker)
			res.Topics = append(res.Topics, stale)
			return res, nil, true
		})
		b.pass(5 * time.Second)
		if s := r.Status(); lies.Load() != 0 || s.State != StateReading || s.Err != nil {
			b.Errorf("%d lies left, %+v", lies.Load(), s)
		}
		b.send("t", 0, "b")
		b.check("after", b.to(r, 2), "0/1=b")
		lies.Store(1 << 30)
		if e, ok := errors.AsType[*RecreatedError](b.failure(r)); !ok || e.New != (TopicID{9}) {
			b.Error(e)
		}
	})
}
