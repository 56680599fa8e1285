//go:build duckdb_arrow

package duckext

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// evil is a query process that does not keep to the protocol.
func evil(how string) int {
	control := os.NewFile(controlFD, "control")
	data := os.NewFile(dataFD, "data")
	if kind, _, err := readFrame(control, maxFromParent); err != nil || kind != frameSettings {
		return exitFailed
	}
	_ = writeFrame(control, frameReady, nil)
	if _, _, err := readFrame(control, maxFromParent); err != nil {
		return exitOK
	}
	send := func(kind byte, body string) { _ = writeFrame(control, kind, []byte(body)) }
	names := func() {
		send(frameNames, `{"refs":[{"name":"v","as":"v"}]}`)
		_, _, _ = readFrame(control, maxFromParent)
	}
	switch how {
	case "huge":
		_, _ = control.Write(append(binary.LittleEndian.AppendUint32(nil, math.MaxUint32), frameBatch))
	case "unknown":
		send('?', "")
	case "junk":
		send(frameNames, "{{{")
	case "names":
		send(frameNames, `{"refs":[`+strings.Repeat(`{"name":"v"},`, maxRefs)+`{"name":"v"}]}`)
	case "twice":
		names()
		send(frameNames, `{"refs":[]}`)
	case "flood":
		names()
		for {
			if writeFrame(control, frameBatch, make([]byte, maxFromChild)) != nil {
				return exitOK
			}
		}
	case "lies":
		names()
		send(frameColumns, `[{"name":"a","type":"VARCHAR","as":"VARCHAR"}]`)
		send(frameBatch, string(bytes.Repeat([]byte{0xff}, 800)))
		send(frameEnd, `{"rows":1}`)
	case "type":
		names()
		send(frameColumns, `[{"name":"a","type":"VARCHAR","as":"VARIANT"}]`)
	case "nothing":
		send(frameEnd, `{"rows":1}`)
	case "scans":
		names()
		for range 3 * maxScans {
			_ = writeFrame(data, frameScan, []byte(`{"table":"v_state","columns":[0],"from":0,"to":256}`))
			kind, body, err := readFrame(data, maxFromParent)
			if err != nil || kind == frameFailed {
				send(frameEnd, fmt.Sprintf(`{"code":"failed","message":%q}`, body))
				_, _, _ = readFrame(control, maxFromParent)
				return exitOK
			}
		}
	}
	_, _, _ = readFrame(control, maxFromParent)
	return exitOK
}

func TestEvilProcesses(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"huge", "unknown", "junk", "names", "twice", "flood", "lies", "type", "nothing", "scans"} {
		c, m := shop(100_000)
		p := NewPool(PoolOptions{Command: []string{exe, evilVerb + how}, TempDir: t.TempDir(), Size: 1, MaxBytes: 1 << 20, Memory: 8 << 30, MaxQueries: 1, Timeout: patience}, c)
		for range 2 {
			_, err := p.Query(t.Context(), Request{SQL: "SELECT 1"})
			want := CodeCrashed
			if how == "scans" {
				want = CodeFailed
			}
			if code(err) != want {
				t.Errorf("%s: %v", how, err)
			}
			if c.leases.Load() != 0 || m.open.Load() != 0 {
				t.Errorf("%s: %d leases and %d readers left", how, c.leases.Load(), m.open.Load())
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What a process asks on its data sockets outside of a query is refused.
func TestNoLeaseNoData(t *testing.T) {
	ours, theirs := net.Pipe()
	c := &child{}
	go c.serve(ours)
	defer ours.Close()
	_ = theirs.SetDeadline(time.Now().Add(patience))
	if err := writeFrame(theirs, frameScan, []byte(`{"table":"v_state","columns":[0],"from":0,"to":256}`)); err != nil {
		t.Fatal(err)
	}
	if kind, body, err := readFrame(theirs, 1000); err != nil || kind != frameFailed || string(body) != "the query is over" {
		t.Errorf("%c %s %v", kind, body, err)
	}
	theirs.Close()
}

// A query larger than its memory spills to its directory, or is refused; it is
// not killed.
func TestLargeSortSpills(t *testing.T) {
	c, _ := shop(10)
	p := openPool(t, c, PoolOptions{Size: 1, Memory: 200 << 20})
	_, err := p.Query(t.Context(), Request{SQL: "SELECT count(*) FROM (SELECT range r, hash(range) h FROM range(8000000) ORDER BY h LIMIT 7000000 OFFSET 10)"})
	if err != nil && (code(err) != CodeMemory || !strings.Contains(err.Error(), "emory")) {
		t.Fatal(code(err), err)
	}
	if p.Stats().Died != 0 {
		t.Error("the process died")
	}
}
