package state

import (
	"encoding/binary"

	"weir/state/codec"
)

// The stored value of a group:
//
//	┌──────┬────────────────┬───────────────────────────┬──────────────┬────────┐
//	│ form │ epoch: uvarint │ message: uvarint + bytes, │ bits of      │ values │
//	│      │                │ if form has 0x80          │ accumulators │        │
//	└──────┴────────────────┴───────────────────────────┴──────────────┴────────┘
//
// EpochBits is how many bits an epoch has at most.
const EpochBits = 40

const (
	rowForm    = 0x01
	rowInError = 0x80
	unsaid     = "the group is in error, and nobody wrote down why"
)

// appendHeader writes what stands before the accumulators.
func appendHeader(dst []byte, epoch uint64, failed bool, msg string) []byte {
	if !failed {
		return binary.AppendUvarint(append(dst, rowForm), epoch)
	}
	dst = binary.AppendUvarint(append(dst, rowForm|rowInError), epoch)
	dst = binary.AppendUvarint(dst, uint64(len(msg)))
	return append(dst, msg...)
}

// readHeader is its inverse; msg may alias src, and is never empty when failed:
// readers show a group by what is wrong with it.
func readHeader(src []byte) (epoch uint64, failed bool, msg, rest []byte, err error) {
	if len(src) == 0 || src[0]&^rowInError != rowForm {
		return 0, false, nil, nil, codec.ErrCorrupt
	}
	epoch, n := binary.Uvarint(src[1:])
	if n <= 0 || epoch>>EpochBits != 0 {
		return 0, false, nil, nil, codec.ErrCorrupt
	}
	failed, rest = src[0]&rowInError != 0, src[1+n:]
	if failed {
		if msg, rest, err = codec.ReadBytes(rest); len(msg) == 0 {
			msg = []byte(unsaid)
		}
	}
	return epoch, failed, msg, rest, err
}
