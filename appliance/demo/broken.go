package demo

import (
	"bytes"
	"strconv"
)

// spoil makes an event that can't be decoded out of one that can, in one of the
// ways that producers really have. The answer may be empty but not nil: a nil
// value would be a tombstone, which is no fault.
func (g *Generator) spoil(topic string, value []byte) []byte {
	when := "viewed_at"
	if topic == Orders {
		when = "placed_at"
	}
	switch g.rnd.IntN(6) {
	case 0: // cut off
		return value[: len(value)/2 : len(value)/2]
	case 1: // a log line that went to the wrong topic
		return strconv.AppendInt([]byte("WARN retry queue is full, pending="), int64(g.rnd.IntN(500)), 10)
	case 2: // a word for a time
		i := bytes.Index(value, []byte(when)) + len(when) + 3
		return append(bytes.Clone(value[:i]), `yesterday"}`...)
	case 3: // Latin-1
		i := bytes.Index(value, []byte(`"country":"`)) + len(`"country":"`)
		v := bytes.Clone(value)
		v[i] = 0xE9
		return v
	case 4:
		return []byte{}
	}
	// A word for a number.
	name := `"ms":`
	if topic == Orders {
		name = `"amount":`
	}
	i := bytes.Index(value, []byte(name)) + len(name)
	end := i + bytes.IndexByte(value[i:], ',')
	return append(append(bytes.Clone(value[:i]), `"n/a"`...), value[end:]...)
}
