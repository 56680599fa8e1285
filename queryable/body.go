package queryable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"
)

// Members are what the body of a POST may hold: by the exact name, where the value
// goes. What the body leaves out stays as it is.
type Members map[string]any

// ReadBody decodes a JSON body strictly: one object and nothing behind it, known
// names only, in their own letters and each once, and characters only, for
// encoding/json would put others in place of what is none. It takes the raw body;
// compressed ones were refused in front.
func ReadBody(c *fiber.Ctx, into Members) error {
	raw := c.Request().Body()
	if at := notText(raw); at >= 0 {
		return Errorf(BadRequest, "the body is not UTF-8, or holds half a surrogate pair, at byte %d", at)
	}
	given, err := members(raw)
	if err != nil {
		return Errorf(BadRequest, "the body is not the JSON it should be: %s", err)
	}
	for _, m := range given {
		to, ok := into[m.name]
		if !ok {
			return Errorf(BadRequest, "the body has a member %q, which is not known here: it takes %s", clip(m.name), strings.Join(slices.Sorted(maps.Keys(into)), ", "))
		}
		err := json.Unmarshal(m.value, to)
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return Errorf(BadRequest, "the body is not the JSON it should be: %s can't be of type %s", m.name, wrong.Value)
		}
		if err != nil {
			return Errorf(BadRequest, "the body is not the JSON it should be: %s: %s", m.name, err)
		}
	}
	return nil
}

// A member is one of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

var errNoObject = errors.New("it is no object")

// members are those of an object, in their order. A text that is not one whole
// object, or that has a name twice, is an error: no reader could say which is meant.
func members(raw []byte) ([]member, error) {
	var whole json.RawMessage
	if err := json.Unmarshal(raw, &whole); err != nil {
		if strings.HasSuffix(err.Error(), "after top-level value") {
			return nil, errors.New("it goes on after its end")
		}
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(whole))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errNoObject
	}
	var all []member
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: t.(string)} // the text is valid, so nothing else can come
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		if seen[m.name] {
			return nil, fmt.Errorf("%q is given twice", clip(m.name))
		}
		seen[m.name] = true
		all = append(all, m)
	}
	return all, nil
}

// byName are an object's members as a map.
func byName(raw []byte) (map[string]json.RawMessage, error) {
	all, err := members(raw)
	if err != nil {
		return nil, err
	}
	m := make(map[string]json.RawMessage, len(all))
	for _, one := range all {
		m[one.name] = one.value
	}
	return m, nil
}

// notText finds the first byte of a JSON text that begins no character: invalid
// UTF-8, or the escape of half a surrogate pair. It is -1 when there is none.
func notText(b []byte) int {
	for i := 0; i < len(b); {
		if b[i] != '\\' {
			r, n := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && n <= 1 {
				return i
			}
			i += n
			continue
		}
		first, ok := escaped(b[i:])
		if !ok || !utf16.IsSurrogate(first) {
			i += 2 // what is escaped is no backslash of its own
			continue
		}
		second, _ := escaped(b[i+6:])
		if utf16.DecodeRune(first, second) == utf8.RuneError {
			return i
		}
		i += 12
	}
	return -1
}

// escaped reads \uXXXX at the beginning of b.
func escaped(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n), err == nil
}
