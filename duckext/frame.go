package duckext

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"weir/state/sqltype"
)

// Frames between the parent and a query process: a length, a kind, a body. On
// the control socket the parent sends
//
//	C settings, Q query, L lease, I interrupt
//
// and the process
//
//	R ready, N names, H columns, B bytes of the result, E end.
//
// On each data socket the process asks (S open a scan and read, M read more, X
// close a scan) and the parent answers each S and M with D (data) or F (failed).
const (
	frameSettings  = 'C'
	frameQuery     = 'Q'
	frameLease     = 'L'
	frameInterrupt = 'I'
	frameReady     = 'R'
	frameNames     = 'N'
	frameColumns   = 'H'
	frameBatch     = 'B'
	frameEnd       = 'E'
	frameScan      = 'S'
	frameMore      = 'M'
	frameClose     = 'X'
	frameData      = 'D'
	frameFailed    = 'F'
)

const (
	maxFromChild  = 8 << 20   // of a frame that a query process sends
	maxFromParent = 256 << 20 // of a frame that the parent sends
)

func writeFrame(w io.Writer, kind byte, body []byte) error {
	b := make([]byte, 5, 5+len(body))
	binary.LittleEndian.PutUint32(b, uint32(len(body)))
	b[4] = kind
	_, err := w.Write(append(b, body...))
	return err
}

func writeJSON(w io.Writer, kind byte, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeFrame(w, kind, b)
}

// readFrame reads a frame of at most limit bytes.
func readFrame(r io.Reader, limit int) (kind byte, body []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if int64(n) > int64(limit) {
		return 0, nil, fmt.Errorf("a frame of %d bytes is larger than the limit of %d", n, limit)
	}
	body = make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return head[4], body, nil
}

type settingsMsg struct {
	Threads      int    `json:"threads"`
	MemoryLimit  string `json:"memory_limit"`
	TempDir      string `json:"temp_dir,omitempty"` // of a Guard's process
	AddressSpace int64  `json:"address_space"`      // bytes, 0: no limit
	Sockets      int    `json:"sockets"`
	NoGate       bool   `json:"no_gate,omitempty"` // tests of the sandbox behind the gate
}

type queryMsg struct {
	SQL      string          `json:"sql"`
	Params   json.RawMessage `json:"params,omitempty"`
	MaxRows  int64           `json:"max_rows"`
	MaxBytes int64           `json:"max_bytes"`
}

type namesMsg struct {
	Refs []Ref `json:"refs"`
}

// leaseMsg carries each ViewDef as its JSON text, by which a process knows a
// view again, and its number of rows, which changes all the time, beside it.
type leaseMsg struct {
	Refused bool              `json:"refused,omitempty"`
	Views   []json.RawMessage `json:"views"`
	Rows    []int64           `json:"rows"`
}

type columnMsg struct {
	Name string       `json:"name"`
	Type string       `json:"type"` // DuckDB's
	As   sqltype.Type `json:"as"`   // how it travels: the same, or VARCHAR
}

type endMsg struct {
	Rows      int64  `json:"rows"`
	Truncated bool   `json:"truncated,omitempty"`
	Code      string `json:"code,omitempty"`
	Message   string `json:"message,omitempty"`
	Offset    int    `json:"offset"`
	Retire    bool   `json:"retire,omitempty"` // the process must not be used again
}

type scanMsg struct {
	Table   string      `json:"table"`
	Columns []int       `json:"columns"`
	From    int         `json:"from"`
	To      int         `json:"to"`
	Filters []filterMsg `json:"filters,omitempty"`
}

// filterMsg carries arrays as encodeArray writes them.
type filterMsg struct {
	Column int    `json:"column"`
	In     []byte `json:"in,omitempty"`
	Min    []byte `json:"min,omitempty"`
	Max    []byte `json:"max,omitempty"`
}
