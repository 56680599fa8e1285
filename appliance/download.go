package appliance

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
)

// sealed reads a file of which size and sha256 are known. Its last bytes are
// given only when both are right, so that who is sent a damaged file sees its
// download break off, and not other values.
type sealed struct {
	io.ReadCloser
	name string
	left int64
	want string // hexadecimal
	sum  hash.Hash
}

func newSealed(f io.ReadCloser, name string, size int64, sha string) *sealed {
	return &sealed{f, name, size, sha, sha256.New()}
}

func (s *sealed) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n, err := s.ReadCloser.Read(p[:min(int64(len(p)), s.left)])
	s.sum.Write(p[:n])
	s.left -= int64(n)
	if s.left > 0 && err == io.EOF {
		return 0, fmt.Errorf("checkpoint file %s is damaged: it is %d bytes too short", s.name, s.left)
	}
	if s.left == 0 && n > 0 {
		if got := hex.EncodeToString(s.sum.Sum(nil)); got != s.want {
			return 0, fmt.Errorf("checkpoint file %s is damaged: its sha256 is %s, not %s", s.name, got, s.want)
		}
	}
	return n, err
}
