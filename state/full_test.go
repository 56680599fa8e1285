package state

import (
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Where the disk has no room for the tables that opening writes, Pebble would
// try again for ever; opening ends, and says why.
func TestOpenOnAFullDisk(t *testing.T) {
	mem := vfs.NewCrashableMem()
	s := mustOpen(t, mem, Options{})
	withViews(t, s, "by_id") // stands in the log alone
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	do(t, s.Close())

	full := errorfs.Wrap(crashed, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasSuffix(op.Path, ".sst") {
			return syscall.ENOSPC
		}
		return nil
	}))
	said := make(chan string, 100) // Pebble is on goroutines of its own
	_, err := Open("data", Options{FS: full, Fatal: func(msg string) { said <- msg }})
	if msg := <-said; err == nil || !strings.Contains(err.Error(), "no space left") || !strings.Contains(msg, "no space left") {
		t.Fatalf("opened with %v; %q", err, msg)
	}
	s = mustOpen(t, crashed.CrashClone(vfs.CrashCloneCfg{}), Options{}) // in another process, with room
	if _, ok := s.Catalog().View("by_id"); !ok {
		t.Error("the view is gone")
	}
	do(t, s.Close())
}
