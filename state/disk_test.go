package state

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A log that cannot be written ends the store; Pebble's goroutine, which would
// panic, gets no answer.
func TestLogThatCannotBeWritten(t *testing.T) {
	full := errors.New("no space left on device")
	for name, use := range map[string]func(vfs.FS){
		"write a log": func(fs vfs.FS) {
			f, _ := fs.Create("000004.log", vfs.WriteCategoryUnspecified)
			_, _ = f.Write([]byte("x"))
		},
		"sync a log": func(fs vfs.FS) { f, _ := fs.Create("000004.log", vfs.WriteCategoryUnspecified); _ = f.Sync() },
		"make a log": func(fs vfs.FS) { _, _ = fs.Create("full.log", vfs.WriteCategoryUnspecified) },
		"reuse":      func(fs vfs.FS) { _, _ = fs.ReuseForWrite("000004.log", "000005.log", vfs.WriteCategoryUnspecified) },
	} {
		broken := false
		mem := onWrite(vfs.NewMem(), func() error {
			if broken {
				return full
			}
			return nil
		})
		said, answered := make(chan string, 1), make(chan struct{})
		s := &Store{dead: make(chan struct{}), o: Options{Logger: slog.New(slog.DiscardHandler), Fatal: func(m string) { said <- m }}}
		d := disk{mem, s}
		f, err := d.Create("000003.log", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte("fine")); err != nil {
			t.Fatal(err)
		}
		go func() {
			if name != "make a log" && name != "reuse" {
				f, _ := d.FS.Create("000004.log", vfs.WriteCategoryUnspecified)
				broken = true
				use(only{d, f})
			} else {
				broken = true
				use(d)
			}
			close(answered)
		}()
		select {
		case m := <-said:
			if !strings.Contains(m, full.Error()) {
				t.Errorf("%s: %s", name, m)
			}
		case <-answered:
			t.Errorf("%s: Pebble was answered", name)
		}
	}
}

// only gives one file as a log of the disk.
type only struct {
	disk
	file vfs.File
}

func (o only) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return o.log(o.file, nil) }
