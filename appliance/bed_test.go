//go:build duckdb_arrow

package appliance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/appliance/devbroker"
	"weir/queryable"
	"weir/queryable/client"
)

// testConfig is an appliance that tests run: any free port, commits often,
// checkpoints only when asked.
func testConfig(dir, brokers string, scripts ...script) config {
	return config{
		serveFlags: serveFlags{
			Addr: "127.0.0.1:0", Data: dir, Brokers: brokers, Checkpoint: time.Hour,
			QueryTimeout: patience, QueryMemory: 1e9, Memory: 2e9,
		},
		scripts: scripts, interval: 20 * time.Millisecond, log: slog.New(slog.DiscardHandler),
	}
}

// running is an appliance under test and how to stop it.
type running struct {
	*Appliance
	client *client.Client
	cancel context.CancelFunc
	ended  chan error
}

func launch(cfg config) (*running, error) {
	ctx, cancel := context.WithCancel(context.Background())
	a, err := openAppliance(ctx, cfg)
	if err != nil {
		cancel()
		return nil, err
	}
	r := &running{Appliance: a, cancel: cancel, ended: make(chan error, 1)}
	if r.client, err = client.New(a.addr, ""); err != nil {
		cancel()
		return nil, errors.Join(err, a.Close())
	}
	go func() { r.ended <- a.Run(ctx, nil) }()
	return r, nil
}

// stop ends the appliance as SIGTERM does.
func (r *running) stop() error {
	r.cancel()
	return errors.Join(<-r.ended, r.Close())
}

// caughtUp waits until every view has what its topics hold now.
func (r *running) caughtUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return r.waitCaughtUp(ctx, nil)
}

// get asks over HTTP and returns the status and the body.
func (r *running) get(path string) (int, string, error) {
	res, err := http.Get("http://" + r.addr + path)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// refused is the whole quarantine of a source.
func (r *running) refused(ctx context.Context, source string) ([]queryable.Rejected, error) {
	var all []queryable.Rejected
	after := ""
	for {
		recs, next, _, err := backend{r.Appliance}.Quarantine(ctx, queryable.QuarantineRequest{Source: source, After: after, Limit: 1000})
		if err != nil {
			return nil, err
		}
		all = append(all, recs...)
		if next == "" {
			return all, nil
		}
		after = next
	}
}

// bed is a broker and an appliance on a data directory.
type bed struct {
	t      testing.TB
	dir    string
	broker *devbroker.Broker
	plain  *devbroker.Producer
	run    *running // nil when stopped
	config func(*config)
}

func newBed(t testing.TB) *bed {
	t.Helper()
	b := &bed{t: t, dir: t.TempDir()}
	var err error
	if b.broker, err = devbroker.Start(devbroker.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.broker.Close() })
	b.plain = b.producer("")
	t.Cleanup(func() {
		if b.run != nil {
			if err := b.run.stop(); err != nil {
				t.Error("stop:", err)
			}
		}
	})
	return b
}

// away closes the broker. Its port refuses until the test ends: no broker of another
// test may appear there.
func (b *bed) away() {
	b.t.Helper()
	at, err := netip.ParseAddrPort(b.broker.Addr())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.broker.Close(); err != nil {
		b.t.Fatal(err)
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = syscall.Close(fd) })
	reuse := func(on int) error { return syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, on) }
	// Connections of the broker still end there; nobody else is to share it.
	if err := errors.Join(reuse(1), syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}), reuse(0)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) producer(txn string) *devbroker.Producer {
	b.t.Helper()
	p, err := devbroker.NewProducer(devbroker.ProducerOptions{Brokers: []string{b.broker.Addr()}, Manual: true, TransactionID: txn})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(p.Close)
	return p
}

func (b *bed) topic(name string, partitions int) {
	b.t.Helper()
	if err := b.broker.CreateTopic(b.t.Context(), name, partitions, nil); err != nil {
		b.t.Fatal(err)
	}
}

// start starts the appliance; an error is of its start.
func (b *bed) start(scripts ...script) error {
	cfg := testConfig(b.dir, b.broker.Addr(), scripts...)
	if b.config != nil {
		b.config(&cfg)
	}
	r, err := launch(cfg)
	if err == nil {
		b.run = r
	}
	return err
}

func (b *bed) stop() {
	b.t.Helper()
	r := b.run
	b.run = nil
	if err := r.stop(); err != nil {
		b.t.Fatal("stop:", err)
	}
}

// must starts the appliance on some statements.
func (b *bed) must(sql string) {
	b.t.Helper()
	if err := b.start(script{"test.sql", sql}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) send(recs ...*devbroker.Record) {
	b.t.Helper()
	if err := b.plain.Send(b.t.Context(), recs...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) caughtUp() {
	b.t.Helper()
	if err := b.run.caughtUp(b.t.Context()); err != nil {
		b.t.Fatal("catch up:", err)
	}
}

// query asks over HTTP, when everything produced so far is committed.
func (b *bed) query(sql string) *client.Result {
	b.t.Helper()
	res, err := b.run.client.Query(b.t.Context(), sql)
	if err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
	return res
}

// rows are the rows of an answer as JSON, a line each.
func (b *bed) rows(sql string) string {
	b.t.Helper()
	return rowsText(b.query(sql))
}

func rowsText(r *client.Result) string {
	var out strings.Builder
	for _, row := range r.Rows {
		for i, v := range row {
			if i > 0 {
				out.WriteString(" | ")
			}
			out.Write(v)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// verified fails the test unless VERIFY VIEW finds no difference.
func (b *bed) verified(view string) *report {
	b.t.Helper()
	rep, err := backend{b.run.Appliance}.verify(b.t.Context(), view)
	if err != nil {
		b.t.Fatalf("verify %s: %v", view, err)
	}
	if rep.missing+rep.extra+rep.different != 0 {
		b.t.Errorf("view %s: compared %d, missing %d, extra %d, different %d:\n%s",
			view, rep.compared, rep.missing, rep.extra, rep.different, strings.Join(rep.examples, "\n"))
	}
	return rep
}

// refusalText is a client's error for a script.
func refusalText(err error) string {
	if e, ok := errors.AsType[*client.Error](err); ok {
		at := ""
		if e.Position >= 0 {
			at = fmt.Sprintf(", byte %d", e.Position)
		}
		return fmt.Sprintf("error (%s%s): %s\n", cmp.Or(e.Code, "?"), at, e.Message)
	}
	return "error: " + err.Error() + "\n"
}
