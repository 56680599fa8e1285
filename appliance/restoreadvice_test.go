//go:build duckdb_arrow

package appliance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Who is told to go on from the newest checkpoint is told of a newer one that
// cannot be read.
func TestAdviceNamesWhatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "00000001"), os.DirFS("../checkpoint/testdata/v1/checkpoints/00000001")); err != nil {
		t.Fatal(err)
	}
	r := &recovery{cfg: &config{}, from: shelf{fs: vfs.Default, dir: dir}}
	const whole = "start with --restore newest to go on from checkpoint 1 of 2026-11-29 12:00:00"
	if got := r.advice(); got != whole {
		t.Error(got)
	}
	newer := filepath.Join(dir, "00000002")
	if err := os.Mkdir(newer, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(newer, "manifest.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := r.advice(); !strings.HasPrefix(got, whole+" (not all can be read: ") || !strings.Contains(got, "00000002/manifest.json: damaged") {
		t.Error(got)
	}
}
