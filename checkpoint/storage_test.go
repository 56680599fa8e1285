package checkpoint

import (
	"os"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/minio/minio-go/v7"

	"weir/checkpoint/objectstore"
	"weir/checkpoint/objectstore/fakes3"
)

// minio-go rests after its one try, too.
func TestMain(m *testing.M) {
	minio.DefaultRetryUnit = 0
	os.Exit(m.Run())
}

// onEvery runs a test on every kind of storage.
func onEvery(t *testing.T, test func(*testing.T, vfs.FS)) {
	t.Run("memory", func(t *testing.T) { test(t, vfs.NewMem()) })
	t.Run("disk", func(t *testing.T) {
		t.Chdir(t.TempDir())
		test(t, vfs.Default)
	})
	t.Run("object storage", func(t *testing.T) { test(t, inBucket(t, fakes3.Start(t))) })
}

// inBucket writes parts that are small enough for files to have several.
func inBucket(t *testing.T, s *fakes3.Server) vfs.FS {
	return s.FS(t, time.Minute, objectstore.Options{Last: ManifestName, Part: 50_000})
}
