package kafka

import (
	"errors"
	"strings"
	"testing"
)

// What an error says to do can be done: no statement starts a source at an offset.
func TestAdvice(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&OutOfRangeError{Topic: "t", Offset: 3, Earliest: 12080, Latest: 13000}, "drop the views of the source, then the source, and create them again: they count what the topic holds from 12080 on"},
		{&CorruptError{Topic: "t", Offset: 7, Err: errors.New("its checksum is wrong")}, "drop the views of the source, then the source, and create them again WITH (start = "},
	} {
		if text := c.err.Error(); !strings.Contains(text, c.want) || strings.Contains(text, "start the source again") {
			t.Errorf("%T: %s", c.err, text)
		}
	}
}
