//go:build duckdb_arrow

package appliance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestDamagedDownloadBreaksOff(t *testing.T) {
	whole := bytes.Repeat([]byte("weir"), 1000)
	sum := sha256.Sum256(whole)
	flipped := bytes.Clone(whole)
	flipped[7] ^= 1
	for _, c := range []struct {
		name string
		file []byte
		says string
	}{
		{"whole", whole, ""},
		{"a flipped bit", flipped, "sha256"},
		{"cut", whole[:3999], "1 bytes too short"},
	} {
		for _, how := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.DataErrReader, iotest.HalfReader} {
			got, err := io.ReadAll(newSealed(io.NopCloser(how(bytes.NewReader(c.file))), "v.arrow", int64(len(whole)), hex.EncodeToString(sum[:])))
			switch {
			case c.says == "" && (err != nil || !bytes.Equal(got, whole)):
				t.Errorf("%s: %d bytes, %v", c.name, len(got), err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || len(got) >= len(whole)):
				t.Errorf("%s: %d bytes, %v", c.name, len(got), err)
			}
		}
	}
}
