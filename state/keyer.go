package state

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"weir/state/codec"
	"weir/state/plan"
)

// A Keyer encodes the keys of a view's groups as the store orders them, for those
// who read groups from elsewhere: a checkpoint, a request.
type Keyer struct{ s *shape }

// NewKeyer makes the keyer of a view.
func NewKeyer(p *plan.View) (*Keyer, error) {
	s, err := newShape(0, p)
	if err != nil {
		return nil, err
	}
	return &Keyer{s}, nil
}

// Bind resolves the keyer for key columns in the plan's order and the inside
// form. The appender writes a row's slot in one byte and the stored key behind it:
// bytes that sort as scans do. The columns must outlive it.
func (k *Keyer) Bind(keys []arrow.Array) (codec.Appender, error) {
	s := k.s
	if len(keys) != len(s.order) {
		return nil, fmt.Errorf("a key of %d columns, not %d", len(keys), len(s.order))
	}
	parts := make([]codec.Appender, len(s.order))
	for j, i := range s.order {
		var err error
		if parts[j], err = s.encoders[j].Bind(keys[i]); err != nil {
			return nil, fmt.Errorf("key %s: %w", s.columns[i].Name, err)
		}
	}
	return func(dst []byte, row int) []byte {
		start := len(dst)
		dst = append(dst, 0)
		rest := len(dst)
		for j, p := range parts {
			if dst = p(dst, row); j == 0 && s.timed {
				rest = len(dst)
			}
		}
		dst[start] = slotOf(dst[rest:])
		return dst
	}, nil
}
