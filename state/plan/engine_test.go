package plan

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"weir/state/sqltype"
)

var record = flag.Bool("record", false, "ask the real DuckDB (builds testdata/engine) and record its answers anew")

const recording = "testdata/engine.json.gz"

// question and reply are the protocol of testdata/engine.
type question struct {
	Op, SQL   string
	Relations []relation `json:",omitempty"`
}

type relation struct {
	Name    string
	Columns []column
}

type column struct{ Name, Type string }

type reply struct {
	Text    string     `json:",omitempty"`
	Columns []column   `json:",omitempty"`
	Rows    [][]string `json:",omitempty"`
	Error   string     `json:",omitempty"`
	Offset  int        `json:",omitempty"`
}

// duck is an Engine that answers from a recording, or, with -record, asks
// DuckDB in a process of its own and keeps what it says.
type duck struct {
	mu      sync.Mutex
	answers map[string]reply
	live    *json.Decoder
	in      io.WriteCloser
}

var _ Engine = (*duck)(nil)

// engine is shared by all tests, so that a recording holds the answers of all.
func engine(t *testing.T) *duck {
	t.Helper()
	d, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var shared = sync.OnceValues(func() (*duck, error) {
	d := &duck{answers: map[string]reply{}}
	if *record {
		return d, d.start()
	}
	f, err := os.Open(recording)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return d, json.NewDecoder(z).Decode(&d.answers)
})

func (d *duck) start() error {
	bin := filepath.Join(os.TempDir(), "weir-plan-engine")
	build := exec.Command("go", "build", "-tags", "duckdb_arrow", "-o", bin, "./testdata/engine")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build testdata/engine: %w", err)
	}
	c := exec.Command(bin)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if d.in, err = c.StdinPipe(); err != nil {
		return err
	}
	d.live = json.NewDecoder(bufio.NewReader(out))
	return c.Start()
}

func TestMain(m *testing.M) {
	code := m.Run()
	if *record && code == 0 {
		d, err := shared()
		if err == nil {
			err = d.save()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "record:", err)
			code = 1
		}
	}
	os.Exit(code)
}

func (d *duck) save() (err error) {
	f, err := os.Create(recording)
	if err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(z).Encode(d.answers), z.Close(), f.Close())
}

func (d *duck) ask(q question) (reply, error) {
	key, err := json.Marshal(q)
	if err != nil {
		return reply{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a, ok := d.answers[string(key)]
	if !ok && d.live == nil {
		return a, fmt.Errorf("not recorded, run go test ./state/plan -record: %s", key)
	}
	if !ok {
		if err := json.NewEncoder(d.in).Encode(q); err != nil {
			return a, err
		}
		if err := d.live.Decode(&a); err != nil {
			return a, err
		}
		d.answers[string(key)] = a
	}
	if a.Error != "" {
		return a, &SyntaxError{Message: a.Error, Offset: a.Offset - 1}
	}
	return a, nil
}

func (d *duck) Serialize(_ context.Context, sql string) ([]byte, error) {
	a, err := d.ask(question{Op: "serialize", SQL: sql})
	if err != nil {
		return nil, err
	}
	var e struct {
		Message  string          `json:"error_message"`
		Position json.RawMessage `json:"position"`
	}
	if strings.HasPrefix(a.Text, `{"error":true`) {
		if err := json.Unmarshal([]byte(a.Text), &e); err != nil {
			return nil, err
		}
		s := &SyntaxError{Message: e.Message, Offset: -1}
		fmt.Sscanf(string(e.Position), `"%d"`, &s.Offset)
		return nil, s
	}
	return []byte(a.Text), nil
}

func (d *duck) Deserialize(_ context.Context, tree []byte) (string, error) {
	a, err := d.ask(question{Op: "deserialize", SQL: string(tree)})
	return a.Text, err
}

func (d *duck) Describe(_ context.Context, rels []Relation, sql string) ([]sqltype.Field, error) {
	q := question{Op: "describe", SQL: sql}
	for _, r := range rels {
		rel := relation{Name: r.Name}
		for _, c := range r.Columns {
			rel.Columns = append(rel.Columns, column{c.Name, typeSQL(c.Type)})
		}
		q.Relations = append(q.Relations, rel)
	}
	a, err := d.ask(q)
	if err != nil {
		return nil, err
	}
	var fs []sqltype.Field
	for _, c := range a.Columns {
		t, err := sqltype.Parse(c.Type)
		if strings.HasPrefix(c.Type, "STRUCT(INTEGER") || strings.HasPrefix(c.Type, "STRUCT(VARCHAR") { // of row(...)
			t, err = sqltype.Type{ID: sqltype.Struct, Fields: make([]sqltype.Field, 2)}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
		fs = append(fs, sqltype.Field{Name: c.Name, Type: t})
	}
	return fs, nil
}
