package agg

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/state/codec"
)

// logic is And and Or over BOOLEAN.
type logic struct{ Acc }

func (k logic) words() int { return 1 }

func (k logic) bind(p place, col arrow.Array) (Merge, error) {
	get, err := codec.Words(k.Type, col)
	if err != nil {
		return nil, err
	}
	return func(rs *Rows, at []uint32, _ func(int, string)) {
		for i, r := range at {
			if col.IsNull(i) {
				continue
			}
			o := int(r)*rs.Stride + rs.Base
			w, v := &rs.Words[o+p.at], get(i)
			switch {
			case rs.Words[o+p.has]&p.bit == 0:
				*w = v
				rs.Words[o+p.has] |= p.bit
			case k.Rule == And:
				*w &= v
			default:
				*w |= v
			}
		}
	}, nil
}

func (k logic) append(dst []byte, w []uint64, _ *Arena) []byte { return append(dst, byte(w[0])) }

func (k logic) load(src []byte, w []uint64, _ *Arena) ([]byte, error) {
	if len(src) == 0 || src[0] > 1 {
		return nil, codec.ErrCorrupt
	}
	w[0] = uint64(src[0])
	return src[1:], nil
}

func (k logic) show(b array.Builder, src []byte) ([]byte, error) {
	var w [1]uint64
	rest, err := k.load(src, w[:], nil)
	if err == nil && b != nil {
		codec.WordWriter(k.Type)(b, w[0])
	}
	return rest, err
}
