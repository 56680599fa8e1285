package appliance

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// token is what a client must show; empty when none is asked for.
//
// Off loopback there is always one: WEIR_TOKEN, or one that --make-token made
// at first start and keeps in the data directory.
func (f *serveFlags) token() (string, error) {
	if t := os.Getenv("WEIR_TOKEN"); t != "" {
		if len(t) < 16 {
			return "", errors.New("WEIR_TOKEN is shorter than 16 characters: use a long random one")
		}
		return t, nil
	}
	if f.MakeToken {
		return keptToken(filepath.Join(f.Data, "token"))
	}
	local, err := loopback(f.Addr)
	if err != nil {
		return "", err
	}
	if !local {
		return "", fmt.Errorf("--addr %s can be reached from other machines: set WEIR_TOKEN, or add --make-token", f.Addr)
	}
	return "", nil
}

// keptToken reads the token kept in a file, or makes one there.
func keptToken(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err == nil {
		if t := strings.TrimSpace(string(b)); len(t) >= 16 {
			return t, nil
		}
		return "", fmt.Errorf("%s holds no token: delete it to make a new one", path)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read token: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("make data directory: %w", err)
	}
	raw := make([]byte, 32)
	rand.Read(raw)
	t := base64.RawURLEncoding.EncodeToString(raw)
	if err := os.WriteFile(path, []byte(t+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("keep token: %w", err)
	}
	return t, nil
}
