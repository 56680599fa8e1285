//go:build duckdb_arrow

package appliance

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	kafkago "github.com/segmentio/kafka-go"

	"weir/appliance/devbroker"
	"weir/ingest"
	"weir/queryable"
)

// TestScripts runs testdata/scripts/*.test: sessions of a user with an appliance
// and a broker. Their commands are:
//
//	topic NAME [partitions=N] [compacted]
//	                                create a topic
//	topic NAME grow=N               give it more partitions, N in all
//	topic NAME delete               delete it
//	compact                         have the broker compact what is compacted
//	start                           start the appliance; the input is its SQL file
//	stop                            stop it
//	produce TOPIC [partition=N] [txn=commit|abort]
//	                                a record a line: JSON, or one of
//	                                @tombstone, @empty, @text ..., @hex ..., @key KEY VALUE
//	sql [wait=false] [wait=VIEW] [unsorted] [hide=(columns)]
//	                                a statement; the answer has a line for the columns
//	                                and one for each row, sorted, as JSON
//	get                             ask for a path over HTTP; epochs are left out
//	quarantine SOURCE               what stands in it
//	state SOURCE STATE              wait until the source is in that state
//	restore id=N                    stop, restore a checkpoint into a new directory, start there
//
// A statement waits until every view has all that was produced, or the named one
// has what was produced last, or for nothing.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, filepath.Join("testdata", "scripts"), func(t *testing.T, path string) {
		t.Parallel()
		s := &session{bed: newBed(t), sent: map[string]map[int32]int64{}}
		datadriven.RunTest(t, path, s.command)
	})
}

type session struct {
	*bed
	file string                     // SQL that the appliance starts with
	sent map[string]map[int32]int64 // by topic and partition: the offset behind the last record
}

func (s *session) command(t *testing.T, d *datadriven.TestData) string {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	arg := func(name, otherwise string) string {
		for _, a := range d.CmdArgs {
			if a.Key == name {
				return strings.Join(a.Vals, " ")
			}
		}
		return otherwise
	}
	word := func(i int) string {
		if i >= len(d.CmdArgs) {
			d.Fatalf(t, "%s needs more words", d.Cmd)
		}
		return d.CmdArgs[i].Key
	}
	if s.run == nil && !slices.Contains([]string{"topic", "compact", "produce", "start"}, d.Cmd) {
		return "the appliance does not run\n"
	}
	switch d.Cmd {
	case "topic":
		if d.HasArg("delete") {
			return says(s.broker.DeleteTopic(word(0)))
		}
		n, err := strconv.Atoi(arg("partitions", arg("grow", "1")))
		if err != nil {
			d.Fatalf(t, "partitions: %v", err)
		}
		if d.HasArg("grow") {
			return says(s.grow(ctx, word(0), n))
		}
		var configs map[string]string
		if d.HasArg("compacted") {
			configs = map[string]string{"cleanup.policy": "compact"}
		}
		return says(s.broker.CreateTopic(ctx, word(0), n, configs))
	case "compact":
		s.broker.Cluster().Compact()
		return ""
	case "start":
		s.file = d.Input
		return says(s.begin())
	case "stop":
		s.stop()
		return ""
	case "produce":
		return says(s.produce(ctx, word(0), arg("partition", "0"), arg("txn", ""), d.Input))
	case "sql":
		if err := s.wait(ctx, arg("wait", "true")); err != nil {
			return says(err)
		}
		return s.sql(ctx, d.Input, !d.HasArg("unsorted"), strings.FieldsFunc(arg("hide", ""), func(r rune) bool { return r == ',' || r == ' ' }))
	case "get":
		if err := s.run.caughtUp(ctx); err != nil {
			return says(err)
		}
		code, body, err := s.run.get(strings.TrimSpace(d.Input))
		if err != nil {
			return says(err)
		}
		return fmt.Sprintf("%d %s\n", code, epochs.ReplaceAllString(strings.TrimSpace(body), ""))
	case "quarantine":
		if err := s.run.caughtUp(ctx); err != nil {
			return says(err)
		}
		return s.quarantine(ctx, word(0))
	case "state":
		return topicIDs.ReplaceAllString(says(s.awaitState(ctx, word(0), word(1))), "$1 ID")
	case "restore":
		id, err := strconv.Atoi(arg("id", "1"))
		if err != nil {
			d.Fatalf(t, "id: %v", err)
		}
		return says(s.restore(id))
	}
	d.Fatalf(t, "no command %q", d.Cmd)
	return ""
}

// What differs from run to run in answers. An id may begin and end with '-'.
var (
	topicIDs = regexp.MustCompile(`\b(id|became) [\w-]{22}`)
	epochs   = regexp.MustCompile(`,?"(epoch":\d+|created":"[^"]*")`)
)

func says(err error) string {
	if err != nil {
		return strings.TrimRight(err.Error(), "\n") + "\n"
	}
	return ""
}

func (s *session) begin() error {
	if s.file == "" {
		return s.start()
	}
	return s.start(script{"views.sql", s.file})
}

func (s *session) produce(ctx context.Context, topic, partition, txn, input string) error {
	p, err := strconv.Atoi(partition)
	if err != nil {
		return err
	}
	var recs []*devbroker.Record
	for line := range strings.Lines(input) {
		r, err := record(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return err
		}
		r.Topic, r.Partition = topic, int32(p)
		recs = append(recs, r)
	}
	name := ""
	if txn != "" {
		name = "script-" + topic
	}
	w := s.producer(name) // a topic may be another than a moment ago
	defer w.Close()
	if txn == "" {
		err := w.Send(ctx, recs...)
		if err == nil {
			s.sent[topic] = map[int32]int64{int32(p): recs[len(recs)-1].Offset + 1}
		}
		return err
	}
	if err := w.Begin(); err != nil {
		return err
	}
	if err := w.Send(ctx, recs...); err != nil {
		return err
	}
	if txn == "abort" {
		return w.Abort(ctx)
	}
	return w.Commit(ctx)
}

func (s *session) grow(ctx context.Context, topic string, n int) error {
	c := &kafkago.Client{Addr: kafkago.TCP(s.broker.Addr())}
	res, err := c.CreatePartitions(ctx, &kafkago.CreatePartitionsRequest{Topics: []kafkago.TopicPartitionsConfig{{Name: topic, Count: int32(n)}}})
	if err != nil {
		return err
	}
	return res.Errors[topic]
}

// record reads a line of produce.
func record(line string) (*devbroker.Record, error) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "@tombstone":
		return &devbroker.Record{Key: []byte("k")}, nil
	case "@empty":
		return &devbroker.Record{Value: []byte{}}, nil
	case "@text":
		return &devbroker.Record{Value: []byte(rest)}, nil
	case "@hex":
		b, err := hex.DecodeString(strings.ReplaceAll(rest, " ", ""))
		return &devbroker.Record{Value: b}, err
	case "@key":
		key, value, _ := strings.Cut(rest, " ")
		return &devbroker.Record{Key: []byte(key), Value: []byte(value)}, nil
	case "@at": // milliseconds since 1970
		ms, value, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseInt(ms, 10, 64)
		return &devbroker.Record{Timestamp: time.UnixMilli(n), Value: []byte(value)}, err
	}
	return &devbroker.Record{Value: []byte(line)}, nil
}

func (s *session) wait(ctx context.Context, what string) error {
	switch what {
	case "false":
		return nil
	case "true":
		return s.run.caughtUp(ctx)
	}
	var at []queryable.Position
	for topic, next := range s.sent {
		for p, n := range next {
			at = append(at, queryable.Position{Topic: topic, Partition: p, Next: n})
		}
	}
	return backend{s.run.Appliance}.WaitPosition(ctx, what, at)
}

func (s *session) sql(ctx context.Context, sql string, sorted bool, hide []string) string {
	res, err := s.run.client.Query(ctx, sql)
	if err != nil {
		return refusalText(err)
	}
	var head []string
	var keep []int
	for i, c := range res.Columns {
		if !slices.Contains(hide, c.Name) {
			keep = append(keep, i)
			head = append(head, c.Name+" "+c.Type)
		}
	}
	var lines []string
	for _, row := range res.Rows {
		var cells []string
		for _, i := range keep {
			cells = append(cells, string(row[i]))
		}
		lines = append(lines, strings.Join(cells, " | "))
	}
	if sorted {
		slices.Sort(lines)
	}
	return strings.Join(append([]string{strings.Join(head, ", ")}, lines...), "\n") + "\n"
}

func (s *session) quarantine(ctx context.Context, source string) string {
	recs, err := s.run.refused(ctx, source)
	if err != nil {
		return says(err)
	}
	slices.SortFunc(recs, func(a, b queryable.Rejected) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.View, b.View))
	})
	var out strings.Builder
	for _, r := range recs {
		value := "no value"
		if r.Value != nil {
			value = strconv.Quote(string(r.Value))
		}
		fmt.Fprintf(&out, "%s/%d@%d view=%q column=%q %s\n  %s\n", r.Topic, r.Partition, r.Offset, r.View, r.Column, value, strings.ReplaceAll(r.Reason, "\n", "\n  "))
	}
	return out.String()
}

func (s *session) awaitState(ctx context.Context, source, want string) error {
	src, ok := s.run.store.Catalog().Source(source)
	if !ok {
		return errors.New("no such source")
	}
	for {
		st, _ := s.run.pipeline.Status(src)
		if st.State == want {
			if want == ingest.Stopped {
				return st.Err
			}
			return nil
		}
		select {
		case <-s.run.store.Changed():
		case <-time.After(20 * time.Millisecond): // a source's state has no event
		case <-ctx.Done():
			return fmt.Errorf("the source is %s, not %s: %w", st.State, want, st.Err)
		}
	}
}

func (s *session) restore(id int) error {
	s.stop()
	from := filepath.Join(s.dir, checkpointsDir, fmt.Sprintf("%08d", id))
	fresh := s.t.TempDir()
	var out, errs strings.Builder
	if code := run([]string{"restore", "--from", from, "--data", fresh}, streams{nil, &out, &errs}); code != exitOK {
		return fmt.Errorf("exit %d: %s", code, errs.String())
	}
	s.dir = fresh
	return s.begin()
}
